//! The checking mode: with `CORESHARD_CHECK=1` in the environment, misuse with undefined behaviour is detected and
//! reported.
//!
//! It costs a lock and a look-up per call. Without it, a call costs one more load.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char, c_void};
use std::io::Write as _;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU8};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coreshard::{PerProcess, ProcessGeneration};

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

#[inline(always)]
pub(crate) fn is_on() -> bool {
    MODE.load(Relaxed) != OFF && is_asked_for()
}

#[cold]
fn is_asked_for() -> bool {
    if MODE.load(Relaxed) == UNKNOWN {
        let asked = std::env::var_os("CORESHARD_CHECK").is_some_and(|value| value == "1");
        MODE.store(if asked { ON } else { OFF }, Relaxed);
    }
    MODE.load(Relaxed) == ON
}

/// Receives the message about a misuse. If it returns, the call continues.
pub type CsCheckHandler = Option<unsafe extern "C" fn(found: *const c_char)>;

static HANDLER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Sets a function that receives what the checking mode finds, instead of a line on standard error and `abort`. Returns
/// the previous one; null for none.
#[unsafe(no_mangle)]
pub extern "C" fn cs_set_check_handler(handler: CsCheckHandler) -> CsCheckHandler {
    let handler = handler.map_or(std::ptr::null_mut(), |handler| handler as *mut c_void);
    let before = HANDLER.swap(handler, AcqRel);
    // SAFETY: null, or from above.
    unsafe { std::mem::transmute::<*mut c_void, CsCheckHandler>(before) }
}

pub(crate) fn found(sentence: &str) {
    let handler = HANDLER.load(Acquire);
    // SAFETY: null, or from `cs_set_check_handler`.
    match unsafe { std::mem::transmute::<*mut c_void, CsCheckHandler>(handler) } {
        Some(handler) => {
            let sentence = CString::new(sentence.replace('\0', " ")).unwrap_or_default();
            // SAFETY: as the header says.
            unsafe { handler(sentence.as_ptr()) };
        }
        None => {
            let _ = writeln!(std::io::stderr(), "coreshard: check: {sentence}");
            std::process::abort();
        }
    }
}

/// The state of the mode. A forked process starts with an empty one.
#[derive(Default)]
struct Known {
    /// Queued works, by address.
    queued: BTreeMap<usize, Queued>,
    alive: BTreeSet<usize>,
    /// Destroyed queues, which are kept so that their addresses are not reused.
    destroyed: BTreeMap<usize, CString>,
}

/// A queued work, and the queue that it was last queued on.
pub(crate) struct Queued {
    pub(crate) queue: usize,
    pub(crate) queue_name: CString,
    /// Returns the function of the work at an address, if it is pending.
    pub(crate) pending: fn(usize) -> Option<CString>,
}

thread_local! {
    /// Whether this thread holds the lock: memory that it frees then belongs to the mode.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

struct Guard(MutexGuard<'static, Known>);

impl Drop for Guard {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}

impl Deref for Guard {
    type Target = Known;
    fn deref(&self) -> &Known {
        &self.0
    }
}

impl DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Known {
        &mut self.0
    }
}

fn known() -> Guard {
    static KNOWN: PerProcess<Mutex<Known>> = PerProcess::new();
    let guard = KNOWN.here().lock().unwrap_or_else(PoisonError::into_inner);
    IS_INSIDE.set(true);
    Guard(guard)
}

fn text(name: &CStr) -> String {
    format!("{:?}", name.to_string_lossy())
}

/// Records that the work at an address is about to be queued.
pub(crate) fn queue(work: usize, on: Queued) {
    known().queued.insert(work, on);
}

/// Checks memory that is about to be freed, or where a work is set up again.
pub(crate) fn look(address: usize, bytes: usize, what: &str) {
    let mut known = known();
    let inside: Vec<usize> =
        known.queued.range(address..address.saturating_add(bytes)).map(|(&at, _)| at).collect();
    let mut sentences = Vec::new();
    for at in inside {
        let Some(queued) = known.queued.remove(&at) else { continue };
        if let Some(function) = (queued.pending)(at) {
            sentences.push(format!(
                "the work at {at:#x} (function {}) is {what} while it is queued on workqueue {}: cancel it first with cs_cancel_work_sync",
                text(&function),
                text(&queued.queue_name)
            ));
        }
    }
    drop(known);
    sentences.iter().for_each(|sentence| found(sentence));
}

/// Announces that memory is about to be freed: the checking mode detects queued works in it. The library that
/// `install.sh` calls `libcoreshard_check.so` calls it for every `free` of a program that it is preloaded to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_check_free(memory: *const c_void, bytes: usize) {
    if is_on() && !IS_INSIDE.get() {
        look(memory.addr(), bytes, "freed");
    }
}

/// Records a queue created at this address.
pub(crate) fn made(queue: usize) {
    known().alive.insert(queue);
}

pub(crate) fn is_alive(queue: usize) {
    let known = known();
    if queue == 0 || known.alive.contains(&queue) {
        return;
    }
    let name = known.destroyed.get(&queue).cloned();
    drop(known);
    match name {
        Some(name) => {
            found(&format!("workqueue {} is used after it was destroyed", text(&name)));
        }
        // It may belong to the parent process.
        None if ProcessGeneration::current().is_forked() => {}
        None => found(&format!("there is no workqueue at {queue:#x}")),
    }
}

pub(crate) fn destroyed_inside(name: &CStr) {
    found(&format!(
        "workqueue {} is destroyed inside one of its own works, which it would wait for: destroy it elsewhere",
        text(name)
    ));
}

/// Records a destroyed queue, which this mode does not free.
pub(crate) fn destroyed(queue: usize, name: CString) {
    let mut known = known();
    let late = known.queued.iter().filter(|(_, queued)| queued.queue == queue);
    let late: Vec<_> = late.map(|(&at, queued)| (at, queued.pending)).collect();
    let is_first = known.alive.remove(&queue);
    known.destroyed.insert(queue, name.clone());
    drop(known);
    if !is_first {
        found(&format!(
            "workqueue {} is destroyed by two threads at once: destroy it in one of them",
            text(&name)
        ));
    }
    for (at, pending) in late {
        if let Some(function) = pending(at) {
            found(&format!(
                "workqueue {} is destroyed while the work at {at:#x} (function {}) is delayed on it: cancel it first with cs_cancel_work_sync",
                text(&name),
                text(&function)
            ));
        }
    }
}
