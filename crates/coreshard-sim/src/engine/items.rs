//! Work items, as a runtime tells of them: how many wait, which one a thread is inside of, which panicked unheard.

use super::fault_injector::FaultInjector;
use super::state::{Pause, SimState, current};
use super::turn::{suspend, with};
use crate::space::in_host;

pub(crate) fn item_is_queued() {
    if let Some(sim) = current() {
        with(sim, |sim| sim.items.queued += 1);
    }
}

pub(crate) fn take_unheard_panics() -> Vec<String> {
    current().map_or_else(Vec::new, |sim| with(sim, |sim| std::mem::take(&mut sim.items.panics)))
}

pub(crate) fn queued_items() -> u64 {
    current().map_or(0, |sim| with(sim, |sim| sim.items.queued))
}

pub(crate) fn item_is_taken() {
    if let Some(sim) = current() {
        with(sim, |sim| sim.items.queued = sim.items.queued.saturating_sub(1));
    }
}

pub(crate) fn item_panicked(queue: &str, panic: &str) {
    if let Some(sim) = current() {
        with(sim, |sim| {
            in_host(|| sim.items.panics.push(format!("an item of {queue:?}: {panic}")))
        });
    }
}

/// The running thread is about to run the item of the function `name`, unless that is void.
pub(crate) fn item_begins(name: &'static str, is_void: impl Fn() -> bool) {
    let Some(sim) = current() else { return };
    switch_point();
    while !is_void() && with(sim, |sim| sim.is_held_by_hand()) {
        with(sim, |sim| sim.wait_for_hand());
        suspend(sim, Pause::Waits);
    }
    let is_void = is_void();
    with(sim, |sim| {
        if !is_void {
            sim.items.queued = sim.items.queued.saturating_sub(1);
            sim.items.begun += 1;
            sim.hand_gives_item();
        }
        in_host(|| sim.threads[sim.thread].items.push(name));
        if let Some(pulse) = &sim.pulse {
            pulse.turn(sim.thread, Some(name));
        }
    });
}

pub(crate) fn item_is_over() {
    let Some(sim) = current() else { return };
    with(sim, |sim| sim.threads[sim.thread].items.pop());
    switch_point();
}

/// A place where another thread may go on, whatever is asked for.
pub(crate) fn switch_point() {
    let Some(sim) = current() else { return };
    with(sim, |sim| {
        let stall = sim.injector.as_mut().and_then(FaultInjector::stall_at_point);
        sim.now += stall.unwrap_or(0);
    });
    suspend(sim, Pause::NotNext);
}

impl SimState {
    /// Each thread that is inside items, with the innermost one's function.
    pub(super) fn item_of(&self, thread: usize) -> Option<&'static str> {
        self.threads[thread].items.last().copied()
    }
}
