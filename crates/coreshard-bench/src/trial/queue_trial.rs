//! A small program that uses a workqueue in ways that tend to break workqueues, decided by a seed.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use coreshard_platform::{Platform, ThreadHandle};
use coreshard_topology::{CpuId, CpuSet, Scope, Topology};
use coreshard_workqueue::{Intake, Runtime, Wake, Work, Workqueue, blocking, join};

use super::ledger::Ledger;
use crate::crew::pinned;

/// How long an item may wait while a CPU that may run it is idle. Longer than a simulation's faults and three
/// scans of the monitor together.
const BOUND: Duration = Duration::from_millis(14);
/// How long an item occupies its CPU, to reveal work that cannot run meanwhile.
const HOGS_FOR: Duration = Duration::from_millis(30);

/// How long the last threads have to end after everything was dropped.
const SETTLE: Duration = Duration::from_millis(40);

/// The work of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Nothing,
    /// Queues another item.
    Queues,
    /// Sleeps, without announcing it.
    Sleeps(Duration),
    /// Sleeps, and announces it.
    Blocks(Duration),
    /// Spins for this many iterations.
    Computes(u32),
    /// Spins for [`HOGS_FOR`].
    Hogs,
    /// Forks in two, this many levels deep.
    Forks(u32),
}

/// How an item is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// On the producer's CPU.
    Here,
    /// On a CPU given explicitly: the producer's, or the only one.
    On,
    /// With a handle, on which its producer waits.
    Awaited,
    /// Queues one of the trial's reusable items instead, at once or after a delay.
    Reusable { which: usize, after: Duration },
    /// Queues nothing, but cancels a reusable item.
    Cancel { which: usize },
    /// Queues nothing, but waits for a reusable item.
    Flush { which: usize },
}

/// The number of reusable items of a trial.
const REUSABLE: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Step {
    task: Task,
    way: Way,
    /// How long the producer sleeps afterwards.
    rest: Duration,
}

#[derive(Clone, Debug)]
struct Program {
    cpu: CpuId,
    /// The CPU of items that are queued on a CPU given explicitly.
    names: CpuId,
    steps: Vec<Step>,
}

/// A small program that uses a workqueue, decided by a seed.
#[derive(Clone, Debug)]
pub struct QueueTrial {
    topology: Topology,
    scope: Scope,
    intake: Intake,
    wake: Wake,
    strict: bool,
    max_active: Option<usize>,
    /// The only CPU that the runtime uses, if there is just one.
    one_cpu: Option<CpuId>,
    /// The limit on workers of the whole runtime, with a reserve in each pool, if there is a limit.
    max_workers: Option<usize>,
    idle_timeout: Duration,
    producers: Vec<Program>,
}

impl fmt::Display for QueueTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, intake, wake, idle_timeout, .. } = self;
        let items: usize = self.producers.iter().map(|producer| producer.steps.len()).sum();
        write!(f, "{scope} · {wake} · {intake}")?;
        if self.strict {
            write!(f, ", strict")?;
        }
        if let Some(most) = self.max_active {
            write!(f, ", max_active {most}")?;
        }
        if let Some(cpu) = self.one_cpu {
            write!(f, ", on CPU {cpu} alone")?;
        }
        if let Some(most) = self.max_workers {
            write!(f, ", max_workers {most} and a rescuer")?;
        }
        write!(
            f,
            ", idle timeout {} µs, {} producers with {items} items",
            idle_timeout.as_micros(),
            self.producers.len()
        )
    }
}

/// Returns the CPUs that may certainly run items queued on `cpu`: CPUs in the same unit that the scope is named after
/// or, for a shard, in the same core. Derived from the topology, not from the pods.
fn allowed(topology: &Topology, scope: Scope, cpu: CpuId) -> CpuSet {
    let Some(own) = topology.cpu(cpu) else { return CpuSet::new() };
    let shares = |other: &coreshard_topology::Cpu| match scope {
        Scope::Cpu => other.id == own.id,
        Scope::Smt | Scope::CacheShard => other.core == own.core,
        Scope::Cache => other.llc == own.llc,
        Scope::Numa => other.node == own.node,
        Scope::System => true,
    };
    topology.cpus().iter().filter(|other| shares(other)).map(|other| other.id).collect()
}

impl QueueTrial {
    /// Creates the trial of a seed, on a machine.
    #[must_use]
    pub fn of_seed(seed: u64, topology: &Topology) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let scope = Scope::ALL[random.usize(..Scope::ALL.len())];
        let micros = |random: &mut fastrand::Rng, most| Duration::from_micros(random.u64(1..=most));
        let idle_timeout = micros(&mut random, 1_000);
        let max_active = (random.u8(..4) == 0).then(|| random.usize(1..4));
        // An item that occupies a CPU, if another CPU may run the items behind it.
        let cpus = topology.cpus();
        // Only the monitor replaces a waiting worker whose wait was not announced.
        let one_cpu = (random.u8(..5) == 0).then(|| cpus[random.usize(..cpus.len())].id);
        let may_hog = max_active.is_none() && one_cpu.is_none() && random.u8(..3) == 0;
        // Waits longer than the monitor takes to scan and to notice them.
        let longest_wait = if random.u8(..3) == 0 { 12_000 } else { 500 };
        let mut producers: Vec<Program> = (0..random.usize(1..=5))
            .map(|_| cpus[random.usize(..cpus.len())].id)
            .collect::<Vec<_>>()
            .into_iter()
            .map(|cpu| Program {
                cpu,
                names: one_cpu.unwrap_or(cpu),
                steps: (0..random.usize(2..=16))
                    .map(|_| Step {
                        task: match random.u8(..10) {
                            0 | 1 => Task::Queues,
                            2 => Task::Sleeps(micros(&mut random, longest_wait)),
                            3 => Task::Blocks(micros(&mut random, longest_wait)),
                            4 | 5 => Task::Computes(random.u32(1..200)),
                            6 => Task::Forks(random.u32(1..=5)),
                            _ => Task::Nothing,
                        },
                        way: match random.u8(..12) {
                            0 | 1 => Way::Awaited,
                            2..=4 => Way::Here,
                            5..=7 => {
                                let which = random.usize(..REUSABLE);
                                match random.u8(..6) {
                                    0 => Way::Cancel { which },
                                    1 => Way::Flush { which },
                                    2 => Way::Reusable { which, after: micros(&mut random, 50) },
                                    _ => Way::Reusable { which, after: Duration::ZERO },
                                }
                            }
                            _ => Way::On,
                        },
                        rest: match random.u8(..8) {
                            0 => micros(&mut random, 1_500),
                            1 | 2 => micros(&mut random, 20),
                            // About when workers that have slept since then exit.
                            3 => idle_timeout + micros(&mut random, 40),
                            _ => Duration::ZERO,
                        },
                    })
                    .collect(),
            })
            .collect();
        if may_hog && allowed(topology, scope, producers[0].cpu).len() > 1 {
            let steps = &mut producers[0].steps;
            let last = steps.len() - 1;
            steps[random.usize(..last)] =
                Step { task: Task::Hogs, way: Way::On, rest: Duration::from_micros(100) };
            steps[last] = Step { task: Task::Nothing, way: Way::On, rest: Duration::ZERO };
        }
        Self {
            topology: topology.clone(),
            scope,
            intake: Intake::ALL[random.usize(..Intake::ALL.len())],
            wake: Wake::ALL[random.usize(..Wake::ALL.len())],
            strict: random.bool(),
            max_active,
            one_cpu,
            max_workers: (random.u8(..6) == 0).then(|| {
                // Each pool has its first worker.
                let pods: HashSet<String> =
                    cpus.iter().map(|cpu| allowed(topology, scope, cpu.id).to_string()).collect();
                pods.len() + random.usize(..2)
            }),
            idle_timeout,
            producers,
        }
    }

    /// Creates an empty ledger for one run of this trial.
    #[must_use]
    pub fn ledger(&self) -> Arc<Ledger> {
        let items = self.producers.iter().map(|producer| producer.steps.len()).sum();
        let allowed = |cpu: CpuId| (cpu, allowed(&self.topology, self.scope, cpu));
        // If workers are limited, an item may wait although a CPU is idle.
        let allowed = match (self.max_workers, self.one_cpu) {
            (Some(_), _) => HashMap::new(),
            (None, Some(one)) => {
                let alone: CpuSet = [one].into_iter().collect();
                self.topology.online().iter().map(|cpu| (cpu, alone.clone())).collect()
            }
            (None, None) => self.topology.online().iter().map(allowed).collect(),
        };
        Arc::new(Ledger::new(items, REUSABLE, allowed, self.max_active, BOUND))
    }

    /// Runs the trial.
    ///
    /// A queue or a producer that cannot be created for lack of a thread is skipped; fewer items are then
    /// queued.
    ///
    /// # Errors
    /// The promise that the workqueue broke, as a text.
    pub fn run<P: Platform>(&self, ledger: &Arc<Ledger>) -> Result<(), String> {
        self.use_a_queue::<P>(ledger)?;
        // The monitor, which no thread waits for, notices that nothing is left, and ends.
        P::sleep(SETTLE);
        ledger.verdict()
    }

    fn use_a_queue<P: Platform>(&self, ledger: &Arc<Ledger>) -> Result<(), String> {
        let mut builder =
            Runtime::<P>::builder(self.topology.clone()).idle_timeout(self.idle_timeout);
        if let Some(cpu) = self.one_cpu {
            builder = builder.usable([cpu].into_iter().collect());
        }
        if let Some(most) = self.max_workers {
            builder = builder.max_workers(most);
        }
        let runtime = builder.build().map_err(|error| format!("no runtime: {error}"))?;
        let mut builder = runtime
            .workqueue()
            .scope(self.scope)
            .intake(self.intake)
            .wake(self.wake)
            .strict(self.strict)
            .rescuer(self.max_workers.is_some());
        if let Some(most) = self.max_active {
            builder = builder.max_active(most);
        }
        let Ok(queue) = builder.build() else { return Ok(()) };
        let works: Arc<[Work<P>]> =
            (0..REUSABLE).map(|which| reusable(which, Arc::clone(ledger))).collect();
        let mut first = 0;
        let mut threads = Vec::new();
        for producer in self.producers.iter().cloned() {
            let (queue, ledger, works) = (queue.clone(), Arc::clone(ledger), Arc::clone(&works));
            let number = first;
            first += producer.steps.len();
            let spec = pinned(format!("producer of item {number} on"), producer.cpu);
            let body = move || produce(&queue, &works, &ledger, &producer, number);
            threads.extend(P::spawn(spec, Box::new(body)));
        }
        threads.into_iter().for_each(ThreadHandle::join);
        for (which, work) in works.iter().enumerate() {
            ledger.expect_flushed(which, work.flush().map_err(|error| error.to_string()));
        }
        queue.drain().map_err(|error| format!("draining on the first thread failed: {error}"))?;
        ledger.verdict()?;
        drop(works);
        drop(queue);
        drop(runtime);
        Ok(())
    }
}

/// Creates an item that is queued repeatedly.
fn reusable<P: Platform>(which: usize, ledger: Arc<Ledger>) -> Work<P> {
    Work::new(move |_| {
        ledger.begin_reusable(which);
        (0..20).for_each(|_| P::spin_hint());
        if which == 0 {
            P::sleep(Duration::from_micros(30));
        }
        ledger.end_reusable(which);
    })
}

/// The item's own part: its work, and the records in the ledger.
fn work<P: Platform>(queue: &Workqueue<P>, ledger: &Arc<Ledger>, item: usize, task: Task) {
    ledger.begin(item);
    match task {
        Task::Nothing => {}
        Task::Queues => {
            let child = ledger.child_of(item);
            let (cpu, inner) = (P::current_cpu(), Arc::clone(ledger));
            ledger.offer(child, cpu);
            let accepted = queue.queue(move || {
                inner.begin(child);
                inner.end(child);
            });
            ledger.answer(child, accepted.is_ok());
        }
        Task::Sleeps(duration) => P::sleep(duration),
        Task::Blocks(duration) => blocking::<P, _>(|| P::sleep(duration)),
        Task::Computes(turns) => (0..turns).for_each(|_| P::spin_hint()),
        Task::Hogs => {
            let until = P::now() + HOGS_FOR;
            while P::now() < until {
                (0..10).for_each(|_| P::spin_hint());
            }
        }
        Task::Forks(levels) => {
            let leaves: Vec<_> = (0..1 << levels).map(|_| AtomicU32::new(0)).collect();
            fork::<P>(&leaves, 0);
            ledger.expect_forked(item, leaves.iter().map(|leaf| leaf.load(SeqCst)));
        }
    }
    ledger.end(item);
}

/// Visits each leaf, and stays in some of them longer than in others.
fn fork<P: Platform>(leaves: &[AtomicU32], first: u32) {
    match leaves {
        [] => {}
        [leaf] => {
            leaf.fetch_add(1, SeqCst);
            match first % 8 {
                3 => P::sleep(Duration::from_micros(20)),
                turns => (0..turns * 8).for_each(|_| P::spin_hint()),
            }
        }
        leaves => {
            let (left, right) = leaves.split_at(leaves.len() / 2);
            let middle = first + left.len() as u32;
            join::<P, _, _>(|| fork::<P>(left, first), || fork::<P>(right, middle));
        }
    }
}

fn produce<P: Platform>(
    queue: &Workqueue<P>,
    works: &[Work<P>],
    ledger: &Arc<Ledger>,
    producer: &Program,
    first: usize,
) {
    for (at, step) in producer.steps.iter().enumerate() {
        let (item, task) = (first + at, step.task);
        let (inner, kept) = (queue.clone(), Arc::clone(ledger));
        let work = move || work(&inner, &kept, item, task);
        match step.way {
            Way::Here => {
                ledger.offer(item, P::current_cpu());
                ledger.answer(item, queue.queue(work).is_ok());
            }
            Way::On => {
                ledger.offer(item, producer.names);
                ledger.answer(item, queue.queue_on(producer.names, work).is_ok());
            }
            Way::Reusable { which, after } => {
                let turn = ledger.offer_reusable(which);
                let answer = works[which].queue_after(queue, after);
                ledger.answer_reusable(which, turn, answer.ok());
            }
            Way::Cancel { which } => ledger.cancelled(which, works[which].cancel()),
            Way::Flush { which } => {
                let flushed = works[which].flush().map_err(|error| error.to_string());
                ledger.expect_flushed(which, flushed);
            }
            Way::Awaited => {
                ledger.offer(item, P::current_cpu());
                let handle = queue.submit(work);
                ledger.answer(item, handle.is_ok());
                if let Ok(handle) = handle {
                    let over = handle.join().is_ok();
                    ledger.expect_over(item, over);
                }
            }
        }
        if !step.rest.is_zero() {
            P::sleep(step.rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use coreshard_platform::Host;

    use super::*;

    #[test]
    fn what_the_host_runs_keeps_its_promises() {
        let topology = Topology::host().unwrap();
        for seed in 0..12 {
            let trial = QueueTrial::of_seed(seed, &topology);
            let ledger = trial.ledger();
            trial.run::<Host>(&ledger).unwrap_or_else(|broken| panic!("{trial}: {broken}"));
        }
    }

    #[test]
    fn a_seed_is_a_trial_and_seeds_try_all_variants() {
        let topology = Topology::parse_machine("pack:1 l3:2 core:2 pu:2").unwrap();
        let all: Vec<QueueTrial> =
            (0..200).map(|seed| QueueTrial::of_seed(seed, &topology)).collect();
        for scope in Scope::ALL {
            assert!(all.iter().any(|trial| trial.scope == scope));
        }
        let hogs = |trial: &&QueueTrial| {
            trial.producers[0].steps.iter().any(|step| step.task == Task::Hogs)
        };
        let hogging: Vec<_> = all.iter().filter(hogs).collect();
        assert!(hogging.len() > 10);
        assert!(hogging.iter().all(|trial| trial.scope != Scope::Cpu));
        let again = QueueTrial::of_seed(7, &topology);
        assert_eq!(format!("{again:?}"), format!("{:?}", all[7]));
    }

    #[test]
    fn a_core_is_allowed_as_a_whole() {
        let topology = Topology::parse_machine("pack:2 numa:1 l3:2 core:2 pu:2").unwrap();
        let allowed = |scope| allowed(&topology, scope, CpuId(5)).to_string();
        assert_eq!(allowed(Scope::Cpu), "5");
        assert_eq!(allowed(Scope::Smt), "4-5");
        assert_eq!(allowed(Scope::CacheShard), "4-5");
        assert_eq!(allowed(Scope::Cache), "4-7");
        assert_eq!(allowed(Scope::Numa), "0-7");
        assert_eq!(allowed(Scope::System), "0-15");
    }
}
