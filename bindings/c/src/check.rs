//! The checking mode: misuse that would be undefined is found, and named, where the environment has
//! `CORESHARD_CHECK=1`.
//!
//! It costs a lock and a look-up a call. Without it, a call costs one load more.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char, c_void};
use std::io::Write as _;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU8};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coreshard::{PerProcess, ProcessGeneration};

use crate::queue::CsWorkqueue;
use crate::work::{CsWork, label_of, works};

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

/// Told what was found, as a sentence; if it comes back, the call goes on.
pub type CsCheckHandler = Option<unsafe extern "C" fn(found: *const c_char)>;

static HANDLER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Has a function told what the checking mode finds, instead of a line on standard error and `abort`. Returns the one
/// before; null for none.
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

/// What the mode knows; a process that was forked from another one begins anew.
#[derive(Default)]
struct Known {
    /// Works that were queued, by their address, and the queue each was queued on last: its address, and its name.
    queued: BTreeMap<usize, (usize, CString)>,
    alive: BTreeSet<usize>,
    /// Queues that were destroyed: they stay, so that nothing else has their address.
    destroyed: BTreeMap<usize, CString>,
}

thread_local! {
    /// This thread has the lock: what it frees meanwhile is the mode's own.
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

fn name_of(queue: &CsWorkqueue) -> CString {
    CString::new(queue.queue.name()).unwrap_or_default()
}

fn text(name: &CStr) -> String {
    format!("{:?}", name.to_string_lossy())
}

/// A work is about to be queued.
pub(crate) fn queue(queue: &CsWorkqueue, work: *mut CsWork) {
    let on = (std::ptr::from_ref(queue).addr(), name_of(queue));
    known().queued.insert(work.expose_provenance(), on);
}

/// A work is about to be set up.
pub(crate) fn init(work: *mut CsWork) {
    look(work.addr(), size_of::<CsWork>(), "set up anew");
}

/// The function of a work that was queued, if it is pending.
fn pending(at: usize) -> Option<String> {
    let work = std::ptr::with_exposed_provenance_mut::<CsWork>(at);
    let place = NonNull::new(work.cast())?;
    // SAFETY: it was queued, and its memory is not freed yet, as far as this mode was told.
    unsafe { works().is_pending(place) }.then(|| text(&label_of(work)))
}

/// A stretch of memory is about to be freed.
fn look(address: usize, bytes: usize, what: &str) {
    let mut known = known();
    let inside: Vec<usize> =
        known.queued.range(address..address.saturating_add(bytes)).map(|(&at, _)| at).collect();
    let mut sentences = Vec::new();
    for at in inside {
        let (_, queue) = known.queued.remove(&at).unwrap_or_default();
        if let Some(function) = pending(at) {
            sentences.push(format!(
                "the work at {at:#x} (function {function}) is {what} while it is queued on workqueue {}; cancel it \
                 before, with cs_cancel_work_sync",
                text(&queue)
            ));
        }
    }
    drop(known);
    sentences.iter().for_each(|sentence| found(sentence));
}

/// Says that memory is about to be freed: in the checking mode, a work in it that is queued is found. The library that
/// `install.sh` calls `libcoreshard_check.so` calls it for every `free` of a program that it is preloaded to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_check_free(memory: *const c_void, bytes: usize) {
    if is_on() && !IS_INSIDE.get() {
        look(memory.addr(), bytes, "freed");
    }
}

pub(crate) fn made(queue: &CsWorkqueue) {
    known().alive.insert(std::ptr::from_ref(queue).addr());
}

pub(crate) fn is_alive(queue: *mut CsWorkqueue) {
    let known = known();
    if queue.is_null() || known.alive.contains(&queue.addr()) {
        return;
    }
    let name = known.destroyed.get(&queue.addr()).cloned();
    drop(known);
    if name.is_none() && ProcessGeneration::current().is_forked() {
        // It may be of the process before.
        return;
    }
    match name {
        Some(name) => {
            found(&format!("workqueue {} is used after it was destroyed", text(&name)));
        }
        None => found(&format!("there is no workqueue at {:#x}", queue.addr())),
    }
}

pub(crate) fn destroyed_inside(queue: *mut CsWorkqueue) {
    // SAFETY: it was found alive.
    let name = name_of(unsafe { &*queue });
    found(&format!(
        "workqueue {} is destroyed inside one of its own works, which it would wait for; destroy it elsewhere",
        text(&name)
    ));
}

/// True if it may be freed: in the checking mode it never is.
pub(crate) fn destroyed(queue: *mut CsWorkqueue) -> bool {
    // SAFETY: it was found alive.
    let name = name_of(unsafe { &*queue });
    let mut known = known();
    let late: Vec<usize> =
        known.queued.iter().filter(|(_, (on, _))| *on == queue.addr()).map(|(&at, _)| at).collect();
    let is_first = known.alive.remove(&queue.addr());
    known.destroyed.insert(queue.addr(), name.clone());
    drop(known);
    if !is_first {
        found(&format!(
            "workqueue {} is destroyed by two threads at once; let one of them do it",
            text(&name)
        ));
    }
    for at in late {
        if let Some(function) = pending(at) {
            found(&format!(
                "workqueue {} is destroyed while the work at {at:#x} (function {function}) waits for its time; cancel it \
                 before, with cs_cancel_work_sync",
                text(&name)
            ));
        }
    }
    false
}
