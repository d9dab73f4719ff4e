//! Fork handlers of this process, and the number of forks between the first process and this one.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// One more than the number of forks; 0 until the first query, which starts the count. Written before the
/// child has a second thread.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Calls `register` unless it was already called for this flag.
///
/// Does not use `Once`: a child forked while another thread is inside one would wait for it forever. Handlers
/// may therefore be registered twice, and do nothing the second time.
pub(super) fn register_once(is_registered: &AtomicBool, register: impl FnOnce()) {
    if !is_registered.load(Relaxed) {
        register();
        is_registered.store(true, Relaxed);
    }
}

/// Registers a handler that runs in the child, on its only thread, after the handlers registered before.
pub(super) fn in_child(child: extern "C" fn()) {
    register(None, None, child);
}

/// Registers handlers on the forking thread: `prepare` runs before the fork, `parent` and `child` after it,
/// each in its process.
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
    // ENOMEM is the only error; a program that short of memory soon fails elsewhere.
    assert_eq!(rc, 0, "pthread_atfork is out of memory");
}

/// Returns `None` before the first query; see [`hear_of_forks`].
#[inline(always)]
pub(super) fn known() -> Option<u32> {
    GENERATION.load(Relaxed).checked_sub(1)
}

pub(super) fn current() -> u32 {
    hear_of_forks();
    GENERATION.load(Relaxed) - 1
}

/// Starts counting forks. If two threads do so at once, the child counts twice, which is harmless. So is a
/// fork between the registration and the store: no thread knows a generation yet.
pub(super) fn hear_of_forks() {
    if GENERATION.load(Relaxed) == 0 {
        in_child(forked);
        GENERATION.store(1, Relaxed);
    }
}

/// Runs in the child of a fork, on its only thread.
extern "C" fn forked() {
    GENERATION.fetch_add(1, Relaxed);
}
