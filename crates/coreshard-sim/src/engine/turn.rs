//! How simulated code reaches its simulation's state, and suspends itself.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::state::{Pause, SimState, current};

/// Suspends the running virtual thread; the engine resumes it later.
pub(super) fn suspend(sim: NonNull<SimState>, pause: Pause) {
    // SAFETY: the simulation lives while simulated code runs, and no reference into it is held here: the
    // engine changes it meanwhile. The suspender belongs to the running coroutine.
    unsafe {
        let on_stack = 0_u8;
        (*sim.as_ptr()).needs.stack = (&raw const on_stack).addr();
        (*sim.as_ptr()).pause = pause;
        let suspender = (*sim.as_ptr()).suspender;
        (*suspender).suspend(());
    }
}

/// Returns when it is the running CPU's turn.
#[inline]
pub(super) fn in_turn(sim: NonNull<SimState>) {
    with(sim, SimState::wait_for_loaded);
    turn(sim);
}

#[inline]
fn turn(sim: NonNull<SimState>) {
    // SAFETY: as in `suspend`; the reference ends before it is called.
    let (now, horizon) = unsafe { (sim.as_ref().now, sim.as_ref().horizon) };
    if now >= horizon {
        suspend(sim, Pause::NotNext);
    }
}

/// Returns when it is the running CPU's turn to access a word.
#[inline]
pub(super) fn in_turn_for(mut sim: NonNull<SimState>, address: usize) {
    // SAFETY: as in `in_turn`.
    unsafe { sim.as_mut() }.needs.word = address;
    turn(sim);
}

/// Calls `act` with the simulation's state. `act` does not suspend, and runs no simulated code.
#[inline]
pub(super) fn with<R>(mut sim: NonNull<SimState>, act: impl FnOnce(&mut SimState) -> R) -> R {
    // SAFETY: one thread runs a simulation, and simulated code is suspended while the engine
    // runs, so this is the only reference, for as long as `act` lasts.
    act(unsafe { sim.as_mut() })
}

/// The simulation whose code runs on this host thread.
///
/// # Panics
/// Where there is none; `what` says what was tried.
pub(crate) fn expect_sim(what: &str) -> NonNull<SimState> {
    current().unwrap_or_else(|| panic!("{what} on the simulated machine, outside a simulation"))
}
