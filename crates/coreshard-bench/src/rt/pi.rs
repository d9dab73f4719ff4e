//! `bench rt pi`: how many priority inversions are resolved per second.
//!
//! **Method**, that of pi_stress (rt-tests): groups of three tasks on one CPU. The low-priority task takes a
//! lock with priority inheritance, and the high-priority task waits for it. The medium-priority task runs
//! until the inversion is resolved, and would run forever without inheritance. Here each round's tasks are
//! begun on the executor, so that each round also goes through the index. All groups are released together,
//! and the time is that from the release to the last group's end.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use coreshard_platform::{AtomicInt, Platform, RealTime};
use coreshard_results::{PiResults, SeedSpreads};
use coreshard_rt::{CpuMask, Executor, InheritMutex, Priority};
use coreshard_topology::CpuSet;

use super::durations::{durations, recorder};
use super::executor::{self, ExecutorSettings, executor};
use crate::crew::Crew;
use crate::error::BenchError;
use crate::machine::BenchMachine;

/// A benchmark of inversions.
#[derive(Clone, Debug)]
pub struct PiBench {
    /// The priority of the high task (the others' are one and two below), variant and memory.
    pub executor: ExecutorSettings,
    /// The number of groups, one on each of the first CPUs; by default as many as there are CPUs.
    pub groups: Option<NonZeroUsize>,
    /// Inversions of each group.
    pub rounds: NonZeroU64,
}

/// A word that a thread waits for.
struct Flag<P: Platform>(P::AtomicU32);

impl<P: Platform> Flag<P> {
    fn new() -> Self {
        Self(P::AtomicU32::new(0))
    }

    fn raise(&self) {
        self.0.store(1, Release);
        P::wake_all(&raw const self.0);
    }

    fn is_raised(&self) -> bool {
        self.0.load(Acquire) != 0
    }

    fn wait(&self) {
        while !self.is_raised() {
            P::wait(&self.0, 0, None);
        }
    }
}

struct Round<P: RealTime> {
    lock: InheritMutex<P, ()>,
    /// Set once the low task has the lock.
    is_held: Flag<P>,
    /// Set before the high task requests the lock. It preempts the low task on the same CPU, so the low task
    /// continues when the high one waits.
    is_wanted: Flag<P>,
    is_resolved: Flag<P>,
}

struct Group<P: RealTime> {
    executor: Arc<Executor<P>>,
    /// High, medium, low.
    priorities: [Priority; 3],
    cpu: CpuMask,
}

impl<P: RealTime> Group<P> {
    /// The low task: begins the others, which wait; takes the lock, lets the others continue, and holds the
    /// lock until the high task waits for it. Returns the high task's wait in nanoseconds.
    fn round(&self) -> Result<u64, BenchError> {
        let round = Arc::new(Round::<P> {
            lock: InheritMutex::new(()),
            is_held: Flag::new(),
            is_wanted: Flag::new(),
            is_resolved: Flag::new(),
        });
        let [high, medium, low] = self.priorities;
        let (ours, executor, cpu) = (Arc::clone(&round), Arc::clone(&self.executor), self.cpu);
        let begun = self.executor.spawn_in(low, cpu, None, move || {
            let theirs = Arc::clone(&ours);
            let hogs = move || {
                theirs.is_held.wait();
                while !theirs.is_resolved.is_raised() {
                    P::spin_hint();
                }
            };
            let medium = executor.spawn_in(medium, cpu, None, hogs)?;
            let theirs = Arc::clone(&ours);
            let waits = move || {
                theirs.is_held.wait();
                theirs.is_wanted.raise();
                let asked = P::now();
                let had = theirs.lock.lock();
                let waited_ns = P::now().ns_since(asked);
                drop(had);
                theirs.is_resolved.raise();
                waited_ns
            };
            let high = executor.spawn_in(high, cpu, None, waits)?;
            {
                let _held = ours.lock.lock();
                ours.is_held.raise();
                // Otherwise the lock might be free again before it is requested, without an inversion.
                ours.is_wanted.wait();
            }
            Ok::<_, BenchError>((medium, high))
        })?;
        let (medium, high) = begun.join().map_err(BenchError::task)??;
        let waited_ns = high.join().map_err(BenchError::task)?;
        medium.join().map_err(BenchError::task)?;
        Ok(waited_ns)
    }
}

impl PiBench {
    /// Runs the benchmark.
    ///
    /// # Errors
    /// If the priority leaves no room for two below it, or if the executor, including priorities, cannot be
    /// started. Without priorities the medium task would not be preempted, and nothing would be resolved.
    pub fn run<P: RealTime>(&self, machine: &BenchMachine) -> Result<PiResults, BenchError> {
        let high = self.executor.priority;
        let [medium, low] = [1, 2].map(|below| Priority::new(high.get().saturating_sub(below)));
        let priorities = [high, medium?, low?];
        let settings = ExecutorSettings { allow_degraded: false, ..self.executor };
        let (executor, notes) = executor::<P>(machine, settings, &priorities)?;
        let executor = Arc::new(executor);
        let groups = self.groups.map_or(machine.usable.len(), NonZeroUsize::get);
        let rounds = self.rounds.get();
        let mut crew = Crew::<P, Result<_, BenchError>>::new(groups);
        for (number, cpu) in machine.usable.iter().cycle().take(groups).enumerate() {
            let mask = executor.index().mask(&CpuSet::from_iter([cpu]))?;
            let group = Group { executor: Arc::clone(&executor), priorities, cpu: mask };
            crew.spawn_on(cpu, format!("group-{number}"), move || {
                let mut waited = recorder();
                for _ in 0..rounds {
                    waited.saturating_record(group.round()?);
                }
                Ok(waited)
            })?;
        }
        let ran = crew.run();
        executor::released::<P, _>(&executor);
        let mut waits = recorder();
        for waited in ran.results {
            waits.add(&waited?).expect("the histogram is resizable");
        }
        Ok(PiResults {
            machine: machine.name.clone(),
            platform: machine.platform.clone(),
            variant: self.executor.variant.to_string(),
            groups,
            rounds_per_group: rounds,
            waits: durations(&waits),
            inversions_per_sec: (groups as u64 * rounds) as f64 * 1e9 / ran.elapsed_ns as f64,
            notes,
            seeds: SeedSpreads::default(),
        })
    }
}
