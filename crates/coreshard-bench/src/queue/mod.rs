//! Compares a workqueue's scopes, wake policies and intakes.
//!
//! **Method**, that of the Linux kernel's `lib/test_workqueue.c`: producers, each pinned to a CPU, are
//! released together. Each one reads the clock, queues an item, reads the clock, and waits until the item
//! ran. It spins as long as that has paid off, yielding now and then, and then sleeps; if its pool has only
//! its own CPU, it sleeps at once. The *latency* is that of the queueing call alone. The item records when it
//! ran, which gives the *end-to-end* time as well. Throughput is producers × items over the time from the
//! release until the last item ran. In a *flood* a producer does not wait for each item, but keeps at most a
//! given number of them in flight. Then only one item in 64 is timed, since reading the clock takes about as
//! long as queueing an item.
//!
//! **Order.** In every run each combination has its turn, so that a machine that slows down slows all of them
//! alike. The order changes from run to run, by a seed. Combinations that differ only in the wake policy
//! always follow one another, so that their ratio can be taken run by run.
//!
//! **Excluded from the figures.** Every turn has a fresh queue with its own pools and workers, and warms up
//! with a tenth of its items. How long pools hold their locks is measured in a separate short turn, since it
//! costs two readings of the clock each time.

mod notes;
mod order;
mod over_seeds;
mod producer;
mod producer_state;
mod slots;
mod split;
mod tally;
#[cfg(test)]
mod tests;

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Lock, Platform};
use coreshard_results::{Mode, QueueResults};
use coreshard_topology::{Pods, Scope, ShardSize};
use coreshard_workqueue::{Intake, Runtime, Wake};

use crate::crew::{Crew, pinned};
use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Progress;
use notes::Layout;
pub use order::Combination;
pub use over_seeds::over_seeds;
use producer::{FLOOD_SAMPLED_EVERY, Findings, Producer, ProducerSlot, QueueRun};
use producer_state::{ProducerState, producer_states};
pub use split::with_curves;
use tally::{MeasuredRun, Tally};

/// The most timed items of a producer and run in a flood.
const MAX_FLOOD_SAMPLES: u64 = 1 << 16;

/// The default number of items of each CPU and run, closed and in a flood: about 50 ms for the slowest
/// variants on a machine with two CPUs.
const DEFAULT_ITEMS_CLOSED: u64 = 6_000;
const DEFAULT_ITEMS_FLOOD: u64 = 200_000;

/// The most default producers for each real CPU of a virtual topology.
const VIRTUAL_PRODUCERS_PER_CPU: usize = 4;

/// A benchmark of a workqueue. The default compares all variants.
#[derive(Clone, Debug)]
pub struct QueueBench {
    /// The scopes, in any order; reported from fine to coarse.
    pub scopes: Vec<Scope>,
    /// The wake policies, in any order; reported from the oldest.
    pub wakes: Vec<Wake>,
    /// The intakes, in any order; reported from the oldest.
    pub intakes: Vec<Intake>,
    /// The number of producers. By default one for each CPU, or on a virtual topology one for each virtual
    /// CPU, but at most four for each real one.
    pub threads: Option<NonZeroUsize>,
    /// The number of items that each producer queues in a run. By default all producers together queue as
    /// many as one producer on each real CPU would with 6,000, or in a flood with 200,000.
    pub items_per_thread: Option<NonZeroU64>,
    /// Runs of each combination.
    pub runs: NonZeroUsize,
    /// Makes it a flood with at most this many items of each producer in flight. `None`: each producer waits
    /// for each item.
    pub outstanding: Option<NonZeroU64>,
    /// The wanted size of a cache shard.
    pub shard_size: ShardSize,
    /// How long each item computes. By default almost nothing, so that the queue is measured.
    pub item_work: Duration,
    /// The seed of the order of the combinations in each run.
    pub seed: u64,
}

impl Default for QueueBench {
    fn default() -> Self {
        Self {
            scopes: Scope::ALL.to_vec(),
            wakes: Wake::ALL.to_vec(),
            intakes: Intake::ALL.to_vec(),
            threads: None,
            items_per_thread: None,
            runs: NonZeroUsize::new(7).expect("7 is not 0"),
            outstanding: None,
            shard_size: ShardSize::DEFAULT,
            item_work: Duration::ZERO,
            seed: 0,
        }
    }
}

/// A benchmark on its machine, with every default filled in.
struct Session<'a, P: Platform> {
    machine: &'a BenchMachine,
    shard_size: ShardSize,
    slots: Vec<ProducerSlot>,
    items: u64,
    /// In a flood, how many items of a producer may be in flight.
    outstanding: Option<u64>,
    producer_states: &'static [ProducerState<P>],
    layouts: notes::Layouts,
    /// For the timed runs.
    runtime: Runtime<P>,
    /// For the runs that measure how long locks are held.
    lock_runtime: Runtime<P>,
}

impl QueueBench {
    /// Runs the benchmark.
    ///
    /// Blocks until it has finished, or until `progress` ends it. In that case the results contain the
    /// measurements so far, and a note says so.
    ///
    /// # Errors
    /// If a comparison has no variant, or if the threads, their affinities or the pools are unavailable.
    pub fn run<P: Platform>(
        &self,
        machine: &BenchMachine,
        progress: &mut dyn Progress,
    ) -> Result<QueueResults, BenchError> {
        let combinations = order::combinations(&self.scopes, &self.wakes, &self.intakes)?;
        let layouts = self.layouts(machine, &combinations)?;
        let session = self.session::<P>(machine, layouts)?;
        let runs = self.runs.get();
        let mut tallies: Vec<Tally> =
            combinations.iter().map(|combination| Tally::new(*combination, runs)).collect();
        let steps = combinations.len() * (runs + 1);
        progress.begin(steps);

        let mut order = order::RunOrder::new(&combinations, self.seed);
        let mut done = 0;
        'steps: for run in 0..=runs {
            for place in order.next_run() {
                let tally = &mut tallies[place];
                let combination = tally.combination;
                if progress.step(&combination).is_break() {
                    break 'steps;
                }
                // Last, so that a benchmark that is ended early has the most important figures.
                if run == runs {
                    tally.set_lock_hold(session.measure_locks(combination)?.lock_hold());
                } else {
                    tally.add(run, &session.measure(combination)?);
                }
                done += 1;
            }
        }
        let mut results = session.describe(self);
        for tally in &tallies {
            let layout = session.layouts.of(tally.combination.scope);
            results.results.extend(tally.measurement(layout.pods.len(), layout.same_as.clone()));
        }
        let slots = &session.slots;
        results.wake_ratios = order::baselines(&combinations)
            .filter_map(|(new, old)| {
                let (new, old) = (&tallies[new], &tallies[old]);
                let contended = session.layouts.of(new.combination.scope).is_contended(slots);
                new.ratio_over(old, contended)
            })
            .collect();
        results.notes.extend(notes::wake_ratios(&results.wake_ratios));
        results.notes.extend(notes::early_end(done, steps, "turns were taken"));
        Ok(results)
    }

    /// Returns which of its scopes have the same pods on a machine, one sentence for each group.
    ///
    /// # Errors
    /// If the machine has no CPU of a pod.
    pub(crate) fn same_pods(&self, machine: &BenchMachine) -> Result<Vec<String>, BenchError> {
        let combinations = order::combinations(&self.scopes, &self.wakes, &self.intakes)?;
        Ok(self.layouts(machine, &combinations)?.collapsed())
    }

    /// Leaves out every scope with the same pods as a finer one on this machine: the figures of both would differ by
    /// noise alone. Returns one sentence for each group of such scopes.
    ///
    /// # Errors
    /// If the machine has no CPU of a pod, or if a comparison has no variant.
    pub fn measure_equal_pods_once(
        &mut self,
        machine: &BenchMachine,
    ) -> Result<Vec<String>, BenchError> {
        let combinations = order::combinations(&self.scopes, &self.wakes, &self.intakes)?;
        let (scopes, notes) = self.layouts(machine, &combinations)?.one_of_each();
        self.scopes = scopes;
        Ok(notes)
    }

    fn layouts(
        &self,
        machine: &BenchMachine,
        combinations: &[Combination],
    ) -> Result<notes::Layouts, BenchError> {
        let BenchMachine { topology, usable, .. } = machine;
        let mut scopes: Vec<Scope> = combinations.iter().map(|it| it.scope).collect();
        scopes.dedup();
        let pods: Result<Vec<Pods>, _> = scopes
            .into_iter()
            .map(|scope| Pods::new(topology, usable, scope, self.shard_size))
            .collect();
        Ok(notes::Layouts::new(pods?))
    }

    /// Returns the producers' CPUs.
    fn slots(&self, machine: &BenchMachine) -> Vec<ProducerSlot> {
        let real = machine.real_cpus().len();
        let most = match machine.laid_over {
            Some(_) => real * VIRTUAL_PRODUCERS_PER_CPU,
            None => real,
        };
        let threads = self.threads.map_or(machine.usable.len().min(most), NonZeroUsize::get).max(1);
        match &machine.laid_over {
            Some(cpus) => slots::on_virtual_cpus(threads, &machine.usable, cpus),
            None => slots::on_own_cpus(threads, &machine.usable),
        }
    }

    fn session<'a, P: Platform>(
        &self,
        machine: &'a BenchMachine,
        layouts: notes::Layouts,
    ) -> Result<Session<'a, P>, BenchError> {
        let real = machine.real_cpus().len();
        let slots = self.slots(machine);
        let threads = slots.len();
        let is_flood = self.outstanding.is_some();
        let items_per_cpu = if is_flood { DEFAULT_ITEMS_FLOOD } else { DEFAULT_ITEMS_CLOSED };
        let items = self
            .items_per_thread
            .map_or(items_per_cpu * real as u64 / threads as u64, NonZeroU64::get)
            .max(1);
        let samples = match is_flood {
            true => items.div_ceil(FLOOD_SAMPLED_EVERY).min(MAX_FLOOD_SAMPLES),
            false => 0,
        };
        Ok(Session {
            machine,
            shard_size: self.shard_size,
            slots,
            items,
            outstanding: self.outstanding.map(NonZeroU64::get),
            producer_states: producer_states(threads, samples as usize, self.item_work),
            layouts,
            runtime: runtime(machine, false)?,
            lock_runtime: runtime(machine, true)?,
        })
    }
}

fn runtime<P: Platform>(
    machine: &BenchMachine,
    measure_lock_holds: bool,
) -> Result<Runtime<P>, BenchError> {
    let mut builder = Runtime::builder(machine.topology.clone())
        .usable(machine.usable.clone())
        .measure_lock_holds(measure_lock_holds);
    if let Some(cpus) = machine.cpu_quota {
        builder = builder.cpu_quota(cpus);
    }
    if let Some(cpus) = &machine.laid_over {
        builder = builder.laid_over(cpus.clone());
    }
    Ok(builder.build()?)
}

impl<P: Platform> Session<'_, P> {
    fn measure(&self, combination: Combination) -> Result<MeasuredRun, BenchError> {
        self.turn(&self.runtime, combination, self.items, true)
    }

    fn measure_locks(&self, combination: Combination) -> Result<MeasuredRun, BenchError> {
        self.turn(&self.lock_runtime, combination, self.items.div_ceil(4), false)
    }

    /// Runs one combination's turn: its queue is created, warmed up, measured and dropped.
    fn turn(
        &self,
        runtime: &Runtime<P>,
        combination: Combination,
        items: u64,
        is_timed: bool,
    ) -> Result<MeasuredRun, BenchError> {
        let Combination { scope, wake, intake } = combination;
        let queue = runtime
            .workqueue()
            .name("bench")
            .scope(scope)
            .wake(wake)
            .intake(intake)
            .shard_size(self.shard_size.cores())
            .build()?;
        let run = Arc::new(QueueRun {
            queue,
            outstanding: self.outstanding,
            warm_up_items: items.div_ceil(10),
            items,
            findings: Lock::new(Findings::new()),
        });
        P::describe(Arc::as_ptr(&run));
        run.findings.describe();
        let crew = self.producers(&run, self.layouts.of(scope))?;
        crew.assemble();
        let before = run.queue.stats().total();
        if is_timed {
            P::measured(true);
        }
        let released_at = crew.release();
        P::measured(false);
        crew.join();
        let after = run.queue.stats().total();
        let findings = std::mem::replace(&mut *run.findings.lock(), Findings::new());
        Ok(MeasuredRun {
            elapsed_ns: findings.ended_at.ns_since(released_at),
            findings,
            items: items * self.slots.len() as u64,
            pools: [before, after],
        })
    }

    fn producers(&self, run: &Arc<QueueRun<P>>, layout: &Layout) -> Result<Crew<P>, BenchError> {
        let mut crew = Crew::new(self.slots.len());
        for ((at, slot), state) in self.slots.iter().enumerate().zip(self.producer_states) {
            let watches = layout.runs_elsewhere(slot);
            let producer = Producer::new(Arc::clone(run), state, *slot, watches);
            let spec = pinned(format!("producer-{at}"), slot.pinned_to);
            crew.spawn(spec, |gate| producer.run(gate))?;
        }
        Ok(crew)
    }

    /// Returns the results without figures.
    fn describe(&self, bench: &QueueBench) -> QueueResults {
        QueueResults {
            machine: self.machine.name.clone(),
            platform: self.machine.platform.clone(),
            threads: self.slots.len(),
            items_per_thread: self.items,
            runs: bench.runs.get(),
            mode: if self.outstanding.is_some() { Mode::Flood } else { Mode::Closed },
            outstanding: self.outstanding.unwrap_or(1),
            virtual_topology: self.machine.laid_over.is_some(),
            notes: notes::of(self.machine, &self.slots, self.outstanding, &self.layouts),
            wakes: Wake::ALL.iter().map(Wake::to_string).collect(),
            ..QueueResults::default()
        }
    }
}
