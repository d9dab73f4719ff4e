//! Handlers of this process's forks, around each of them or in the child alone; and the number of forks between the first
//! process and this one.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// One more than the number of forks; 0 until the first question, from when on they are counted. Written before the child has
/// a second thread.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Calls `register` unless it was called for this flag before.
///
/// No `Once`: a child that is forked while another thread is in one would wait for it for ever. So handlers may be registered
/// twice, and do nothing the second time.
pub(super) fn register_once(is_registered: &AtomicBool, register: impl FnOnce()) {
    if !is_registered.load(Relaxed) {
        register();
        is_registered.store(true, Relaxed);
    }
}

/// In the forked process, on its only thread, after what was registered before.
pub(super) fn in_child(child: extern "C" fn()) {
    register(None, None, child);
}

/// On the forking thread: `prepare` before the fork, `parent` and `child` after it, each in its process.
pub(super) fn around(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    register(Some(prepare), Some(parent), child);
}

fn register(
    prepare: Option<extern "C" fn()>,
    parent: Option<extern "C" fn()>,
    child: extern "C" fn(),
) {
    let handler = |function: extern "C" fn()| function as unsafe extern "C" fn();
    // SAFETY: the handlers are functions of this program, which live as long as it does.
    let rc = unsafe {
        libc::pthread_atfork(prepare.map(handler), parent.map(handler), Some(handler(child)))
    };
    // ENOMEM is its only error; a program that is that short ends soon, as it does elsewhere.
    assert_eq!(rc, 0, "pthread_atfork has no memory");
}

/// `None` before the first question: see [`hear_of_forks`].
#[inline(always)]
pub(super) fn known() -> Option<u32> {
    GENERATION.load(Relaxed).checked_sub(1)
}

pub(super) fn current() -> u32 {
    hear_of_forks();
    GENERATION.load(Relaxed) - 1
}

/// Counts forks from here on. Two threads that are here at a time have the child count twice, and a fork in between finds no
/// thread that knows a generation yet.
pub(super) fn hear_of_forks() {
    if GENERATION.load(Relaxed) == 0 {
        in_child(forked);
        GENERATION.store(1, Relaxed);
    }
}

/// In the child of a fork, on its only thread.
extern "C" fn forked() {
    GENERATION.fetch_add(1, Relaxed);
}
