//! The process of a simulated program.

use std::cell::{Cell, RefCell};
use std::sync::Weak;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use coreshard_platform::{ForkHook, Host, Platform};
use coreshard_sim::Sim;
use coreshard_topology::Topology;

thread_local! {
    // All virtual threads of a simulation run on one host thread, which runs no other.
    static TOPOLOGY: RefCell<Option<Topology>> = const { RefCell::new(None) };
    static GENERATION: Cell<u32> = const { Cell::new(0) };
    /// The read-side sections of virtual threads, as this machine counts them, and its name of this thread.
    static SECTIONS: Cell<(u32, *const ())> = const { Cell::new((0, std::ptr::null())) };
    static HOOKS: RefCell<Vec<Weak<dyn ForkHook>>> = const { RefCell::new(Vec::new()) };
}

/// The number of simulations.
static SIMULATIONS: AtomicU32 = AtomicU32::new(0);

/// Fork counts, which a simulated process does not have, are smaller.
const FIRST_GENERATION: u32 = 1 << 20;
/// A generation shares a word with flags.
const GENERATIONS: u32 = 1 << 26;

/// The process of the calling simulation.
#[derive(Debug)]
pub(crate) struct SimulatedProcess;

impl SimulatedProcess {
    /// Prepares the simulation's host thread, which runs no other simulation.
    pub(crate) fn prepare(topology: Topology) {
        let number = SIMULATIONS.fetch_add(1, Relaxed) % GENERATIONS;
        GENERATION.set(FIRST_GENERATION + number);
        TOPOLOGY.set(Some(topology));
    }

    /// Ends the process after the simulation. Queued items have no workers any more, as in a forked child: objects that
    /// a test kept from the simulation detect this and do not block.
    pub(crate) fn end() {
        // Virtual threads that were abandoned never leave their sections.
        let (sections, thread) = SECTIONS.replace((0, std::ptr::null()));
        (0..sections).for_each(|_| Host::end_reading(thread));
        let hooks = HOOKS.take();
        hooks.iter().filter_map(Weak::upgrade).for_each(|hook| {
            hook.forked();
            // Dropping the last reference here could block.
            std::mem::forget(hook);
        });
    }

    /// Returns the machine of the calling simulation.
    pub(crate) fn topology() -> Option<Topology> {
        let here = || TOPOLOGY.with_borrow(Clone::clone).expect("prepared before the simulation");
        Sim::is_running().then(here)
    }

    /// Returns a number that distinguishes simulations from one another and from real processes.
    pub(crate) fn generation() -> Option<u32> {
        Sim::is_running().then(|| GENERATION.get())
    }

    /// Begins a read-side section of this machine in the simulation.
    pub(super) fn section_begins(thread: *const ()) {
        SECTIONS.set((SECTIONS.get().0 + 1, thread));
    }

    /// Ends the innermost section.
    pub(super) fn section_ends() {
        let (sections, thread) = SECTIONS.get();
        SECTIONS.set((sections - 1, thread));
    }

    /// See [`Platform::on_fork`].
    pub(super) fn on_end(hook: Weak<dyn ForkHook>) {
        HOOKS.with_borrow_mut(|hooks| hooks.push(hook));
    }
}
