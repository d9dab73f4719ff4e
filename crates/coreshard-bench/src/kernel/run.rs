//! One run of a program: threads, each pinned to a CPU, are released together. The kernel's workqueue is run
//! as in its own benchmark (`lib/test_workqueue.c`): each producer queues one item, and sleeps until it ran.
//! The latency is that of the queueing call.

use std::sync::Arc;

use coreshard_platform::{Lock, Platform, Time};
use coreshard_topology::{Pods, Scope, ShardSize};
use hdrhistogram::Histogram;

use super::workqueue::{ActiveCount, KernelQueue, Kick};
use crate::crew::{Crew, pinned};
use crate::error::BenchError;
use crate::machine::BenchMachine;

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelRun {
    /// Operations per second, all threads together.
    pub ops_per_sec: f64,
    /// The duration of the timed operation in nanoseconds, at the 50th, 90th and 95th percentile.
    pub percentiles_ns: [u64; 3],
}

impl KernelRun {
    fn of(ops: u64, elapsed_ns: u64, samples: &Histogram<u64>) -> Self {
        Self {
            ops_per_sec: ops as f64 * 1e9 / elapsed_ns.max(1) as f64,
            percentiles_ns: [0.5, 0.9, 0.95].map(|share| samples.value_at_quantile(share)),
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("3 digits are allowed")
}

/// Calls `operation` on a thread of each of the first CPUs. First it is repeated to warm up; the measured
/// repetitions begin when all threads are ready. It returns the nanoseconds to record.
pub(super) fn on_each_cpu<P: Platform>(
    machine: &BenchMachine,
    threads: usize,
    (warm_up, operations): (u64, u64),
    operation: impl Fn(usize, u64) -> u64 + Send + Sync + 'static,
) -> Result<KernelRun, BenchError> {
    let found = Arc::new(Lock::<P, _>::new((histogram(), None::<Time>)));
    let operation = Arc::new(operation);
    let mut crew = Crew::<P>::new(threads);
    for (place, cpu) in machine.usable.iter().take(threads).enumerate() {
        let (found, operation) = (Arc::clone(&found), Arc::clone(&operation));
        crew.spawn(pinned(format!("cpu-{place}"), cpu), move |gate| {
            for number in 0..warm_up {
                operation(place, number);
            }
            if !gate.pass() {
                return;
            }
            let mut took_ns = histogram();
            for number in 0..operations {
                took_ns.record(operation(place, number)).expect("it grows");
            }
            let ended_at = P::now();
            let mut found = found.lock();
            found.0.add(&took_ns).expect("equal digits can be added");
            found.1 = found.1.max(Some(ended_at));
            drop(found);
            gate.leave();
        })?;
    }
    let released_at = crew.run().released_at;
    let (took_ns, ended_at) = &*found.lock();
    let elapsed_ns = ended_at.unwrap_or(released_at).ns_since(released_at);
    Ok(KernelRun::of(threads as u64 * operations, elapsed_ns, took_ns))
}

/// The variant of the kernel's workqueue, and its load.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkqueueRun {
    pub(super) scope: Scope,
    pub(super) shard_size: ShardSize,
    pub(super) kick: Kick,
    pub(super) active: ActiveCount,
    /// Whether items compute and some block, like a server's.
    pub(super) serves: bool,
    pub(super) producers: usize,
    pub(super) items: u64,
}

impl WorkqueueRun {
    pub(super) fn run<P: Platform>(&self, machine: &BenchMachine) -> Result<KernelRun, BenchError> {
        let pods = Pods::new(&machine.topology, &machine.usable, self.scope, self.shard_size)?;
        let queue: Arc<KernelQueue<P>> =
            KernelQueue::new(machine, &pods, self.producers, self.kick, self.active, self.serves);
        let workers = queue.start(&pods)?;
        let counts = (self.items.div_ceil(10), self.items);
        let producer = Arc::clone(&queue);
        let run = on_each_cpu::<P>(machine, self.producers, counts, move |place, _| {
            let before = P::now();
            producer.queue(place);
            let took_ns = P::now().ns_since(before);
            producer.items[place].done.park();
            took_ns
        });
        queue.stop(workers);
        run
    }
}
