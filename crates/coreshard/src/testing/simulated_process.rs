//! The process that a simulated program takes itself for: its machine, and its runtime.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Weak;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use coreshard_platform::{ForkHook, Platform};
use coreshard_sim::Sim;
use coreshard_topology::Topology;

use crate::process::Process;

thread_local! {
    // All virtual threads of a simulation are on one host thread, which runs no other.
    static TOPOLOGY: RefCell<Option<Topology>> = const { RefCell::new(None) };
    static PROCESS: Cell<Option<&'static Process>> = const { Cell::new(None) };
    static GENERATION: Cell<u32> = const { Cell::new(0) };
    static HOOKS: RefCell<Vec<Weak<dyn ForkHook>>> = const { RefCell::new(Vec::new()) };
}

/// Simulations so far.
static SIMULATIONS: AtomicU32 = AtomicU32::new(0);

/// Counts of forks, of which a simulated process has none, are below.
const FIRST_GENERATION: u32 = 1 << 20;
/// A generation shares a word with some flags.
const GENERATIONS: u32 = 1 << 26;

/// How long what ends in the background may take, of virtual time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Of the simulation that the caller is inside of.
pub(crate) struct SimulatedProcess {
    _of_this_thread: PhantomData<*const ()>,
}

impl SimulatedProcess {
    pub(crate) fn here() -> Option<Self> {
        Sim::is_running().then_some(Self { _of_this_thread: PhantomData })
    }

    /// On the simulation's host thread, before it begins. The thread runs no other simulation.
    pub(super) fn prepare(topology: Topology) {
        let number = SIMULATIONS.fetch_add(1, Relaxed) % GENERATIONS;
        GENERATION.set(FIRST_GENERATION + number);
        TOPOLOGY.set(Some(topology));
    }

    /// After the simulation's end. Nobody is there any more who would run what is queued, as in the child of a fork:
    /// what a test has kept of the simulation finds itself there, and waits for nobody.
    pub(super) fn end() {
        let hooks = HOOKS.take();
        hooks.iter().filter_map(Weak::upgrade).for_each(|hook| {
            hook.forked();
            // The last of one would else go here, on whatever it waits for.
            std::mem::forget(hook);
        });
    }

    /// See [`Platform::on_fork`].
    #[expect(clippy::unused_self, reason = "who has it is inside of a simulation")]
    pub(super) fn on_end(&self, hook: Weak<dyn ForkHook>) {
        HOOKS.with_borrow_mut(|hooks| hooks.push(hook));
    }

    /// Tells simulations apart from one another and from real processes.
    pub(super) fn generation() -> Option<u32> {
        Sim::is_running().then(|| GENERATION.get())
    }

    #[expect(clippy::unused_self, reason = "who has it is inside of a simulation")]
    pub(crate) fn topology(&self) -> Topology {
        TOPOLOGY.with_borrow(|topology| topology.clone().expect("prepared before the simulation"))
    }

    pub(crate) fn get_or_make<E>(
        &self,
        make: impl FnOnce() -> Result<Process, E>,
    ) -> Result<&'static Process, E> {
        if let Some(process) = PROCESS.get() {
            return Ok(process);
        }
        // Another virtual thread may have made one meanwhile.
        self.make(make).map(|made| made.unwrap_or_else(|first| first))
    }

    /// `Err` of one that is there.
    ///
    /// Never freed: programs have `&'static` references to it. It is small once its queues are gone.
    #[expect(clippy::unused_self, reason = "as above")]
    pub(crate) fn make<E>(
        &self,
        make: impl FnOnce() -> Result<Process, E>,
    ) -> Result<Result<&'static Process, &'static Process>, E> {
        if let Some(process) = PROCESS.get() {
            return Ok(Err(process));
        }
        let process = make()?;
        if let Some(first) = PROCESS.get() {
            return Ok(Err(first));
        }
        let process: &'static Process = Box::leak(Box::new(process));
        PROCESS.set(Some(process));
        Ok(Ok(process))
    }

    /// Delayed items of the process's runtime, and futures that sleep.
    #[expect(clippy::unused_self, reason = "as above")]
    pub(super) fn delayed(&self) -> usize {
        PROCESS.get().map_or(0, |process| process.runtime.delayed_items())
    }

    /// At the program's end: what it has left behind, in words.
    #[expect(clippy::unused_self, reason = "as above")]
    pub(super) fn left_behind(&self) -> Option<String> {
        let process = PROCESS.get()?;
        // The queue for joins keeps its workers, as in a real process.
        if process.join_queue.get().is_some() {
            return None;
        }
        let deadline = Sim::now() + PATIENCE;
        loop {
            // What waits for its time keeps its queue, and a program may end before that.
            if process.runtime.delayed_items() > 0 {
                return None;
            }
            let stats = process.runtime.stats();
            if stats.pools.is_empty() {
                return None;
            }
            if Sim::now() >= deadline {
                let names: Vec<String> =
                    stats.queues.iter().map(|queue| format!("{:?}", queue.name)).collect();
                let names = names.join(", ");
                return Some(format!(
                    "queues are left at the test's end, and so are their workers: {names}. Something holds a handle \
                     to them: a static, a cycle of references, an item that holds the queue that it waits in?"
                ));
            }
            Sim::sleep(PATIENCE / 100);
        }
    }
}
