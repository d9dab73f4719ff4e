//! How simulated code reaches its simulation's state, and suspends itself.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::core::{Core, Pause, current};

/// Suspends the running virtual thread; the engine resumes it later.
pub(super) fn suspend(core: NonNull<Core>, pause: Pause) {
    // SAFETY: the core lives while simulated code runs, and no reference into it is held here: the
    // engine changes it meanwhile. The suspender belongs to the running coroutine.
    unsafe {
        (*core.as_ptr()).pause = pause;
        let suspender = (*core.as_ptr()).suspender;
        (*suspender).suspend(());
    }
}

/// Returns when it is the running CPU's turn.
#[inline]
pub(super) fn in_turn(core: NonNull<Core>) {
    // SAFETY: as in `suspend`; the reference ends before it is called.
    let (now, horizon) = unsafe { (core.as_ref().now, core.as_ref().horizon) };
    if now >= horizon {
        suspend(core, Pause::NotNext);
    }
}

/// Calls `act` with the core. `act` does not suspend, and runs no simulated code.
#[inline]
pub(super) fn with<R>(mut core: NonNull<Core>, act: impl FnOnce(&mut Core) -> R) -> R {
    // SAFETY: one thread runs a simulation, and simulated code is suspended while the engine
    // runs, so this is the only reference, for as long as `act` lasts.
    act(unsafe { core.as_mut() })
}

/// The simulation whose code runs on this host thread.
///
/// # Panics
/// Where there is none; `what` says what was tried.
pub(crate) fn expect_core(what: &str) -> NonNull<Core> {
    current().unwrap_or_else(|| panic!("{what} on the simulated machine, outside a simulation"))
}
