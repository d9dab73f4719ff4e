//! The process that a simulated program takes itself for.

use std::cell::{Cell, RefCell};
use std::sync::Weak;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use coreshard_platform::{ForkHook, Host, Platform};
use coreshard_sim::Sim;
use coreshard_topology::Topology;

thread_local! {
    // All virtual threads of a simulation are on one host thread, which runs no other.
    static TOPOLOGY: RefCell<Option<Topology>> = const { RefCell::new(None) };
    static GENERATION: Cell<u32> = const { Cell::new(0) };
    /// Read-side sections that virtual threads are inside of, as this machine counts them; and its name of this thread.
    static SECTIONS: Cell<(u32, *const ())> = const { Cell::new((0, std::ptr::null())) };
    static HOOKS: RefCell<Vec<Weak<dyn ForkHook>>> = const { RefCell::new(Vec::new()) };
}

/// Simulations so far.
static SIMULATIONS: AtomicU32 = AtomicU32::new(0);

/// Counts of forks, of which a simulated process has none, are below.
const FIRST_GENERATION: u32 = 1 << 20;
/// A generation shares a word with some flags.
const GENERATIONS: u32 = 1 << 26;

/// Of the simulation that the caller is inside of.
#[derive(Debug)]
pub(crate) struct SimulatedProcess;

impl SimulatedProcess {
    /// On the simulation's host thread, before it begins. The thread runs no other simulation.
    pub(crate) fn prepare(topology: Topology) {
        let number = SIMULATIONS.fetch_add(1, Relaxed) % GENERATIONS;
        GENERATION.set(FIRST_GENERATION + number);
        TOPOLOGY.set(Some(topology));
    }

    /// After the simulation's end. Nobody is there any more who would run what is queued, as in the child of a fork:
    /// what a test has kept of the simulation finds itself there, and waits for nobody.
    pub(crate) fn end() {
        // Virtual threads that were given up are inside of theirs for ever.
        let (sections, thread) = SECTIONS.replace((0, std::ptr::null()));
        (0..sections).for_each(|_| Host::end_reading(thread));
        let hooks = HOOKS.take();
        hooks.iter().filter_map(Weak::upgrade).for_each(|hook| {
            hook.forked();
            // The last of one would else go here, on whatever it waits for.
            std::mem::forget(hook);
        });
    }

    /// The machine of the simulation that the caller is inside of.
    pub(crate) fn topology() -> Option<Topology> {
        let here = || TOPOLOGY.with_borrow(Clone::clone).expect("prepared before the simulation");
        Sim::is_running().then(here)
    }

    /// Tells simulations apart from one another and from real processes.
    pub(crate) fn generation() -> Option<u32> {
        Sim::is_running().then(|| GENERATION.get())
    }

    /// A read-side section of this machine's begins in the simulation.
    pub(super) fn section_begins(thread: *const ()) {
        SECTIONS.set((SECTIONS.get().0 + 1, thread));
    }

    /// The innermost one ends.
    pub(super) fn section_ends() {
        let (sections, thread) = SECTIONS.get();
        SECTIONS.set((sections - 1, thread));
    }

    /// See [`Platform::on_fork`].
    pub(super) fn on_end(hook: Weak<dyn ForkHook>) {
        HOOKS.with_borrow_mut(|hooks| hooks.push(hook));
    }
}
