//! `bench rt pi`: how many priority inversions are resolved per second.
//!
//! **Method**, that of pi_stress (rt-tests): groups of three tasks on one CPU. The one of low priority
//! takes a lock with priority inheritance; the one of high priority waits for it; the one of medium
//! priority runs until the inversion is resolved, and would run for ever without inheritance. Here each
//! round's tasks are begun on the executor, so that each round also goes through the index. All groups
//! are released together, and the time is that from the release to the last group's end.

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

/// A benchmark of inversions, ready to be run.
#[derive(Clone, Debug)]
pub struct PiBench {
    /// The priority of the high task (those of the others are one and two below), variant and memory.
    pub executor: ExecutorSettings,
    /// Groups, one for each of the first CPUs; by default as many as there are CPUs.
    pub groups: Option<NonZeroUsize>,
    /// Inversions of each group.
    pub rounds: NonZeroU64,
}

/// A word that somebody waits for.
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
    /// The low one has the lock.
    is_held: Flag<P>,
    /// The high one is about to ask for it. As it is more important than the low one, on the same CPU, the
    /// low one goes on when it waits.
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
    /// The low one begins the others, which wait; takes the lock, lets them go, and holds it until the high
    /// one waits for it. Returns how long that waited, in nanoseconds.
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
                // Else it might be free again before it is asked for, and nothing be inverted.
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
    /// Where the priority leaves no room for two below it, or the executor, priorities included, cannot
    /// be had: without them the medium task would not be preempted, and nothing be resolved.
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
            waits.add(&waited?).expect("it grows as it must");
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
