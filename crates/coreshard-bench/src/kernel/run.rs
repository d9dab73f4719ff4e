//! One run of the kernel's workqueue benchmark (`lib/test_workqueue.c`): producers, each pinned to a CPU, are released
//! together; each queues one item, and sleeps until it ran. The latency is that of the queueing call.

use std::sync::Arc;

use coreshard_platform::{Lock, Platform, ThreadHandle, ThreadSpec, Time};
use coreshard_topology::{Pods, Scope, ShardSize};
use hdrhistogram::Histogram;

use super::workqueue::{ActiveCount, KernelQueue, Kick};
use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::queue::gate::Gate;

/// What one run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelRun {
    /// Operations per second, all threads together.
    pub ops_per_sec: f64,
    /// The operation that is timed, in nanoseconds, at the 50th, 90th and 95th of 100.
    pub percentiles_ns: [u64; 3],
}

impl KernelRun {
    pub(super) fn of(ops: u64, elapsed_ns: u64, samples: &Histogram<u64>) -> Self {
        Self {
            ops_per_sec: ops as f64 * 1e9 / elapsed_ns.max(1) as f64,
            percentiles_ns: [0.5, 0.9, 0.95].map(|share| samples.value_at_quantile(share)),
        }
    }
}

pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("3 digits are allowed")
}

/// Which kernel's workqueue is run, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkqueueRun {
    pub(super) scope: Scope,
    pub(super) shard_size: ShardSize,
    pub(super) kick: Kick,
    pub(super) active: ActiveCount,
    /// Items compute, and some block, as a server's do.
    pub(super) serves: bool,
    pub(super) producers: usize,
    pub(super) items: u64,
}

struct Measured {
    calls_ns: Histogram<u64>,
    ended_at: Option<Time>,
}

impl WorkqueueRun {
    pub(super) fn run<P: Platform>(&self, machine: &BenchMachine) -> Result<KernelRun, BenchError> {
        let pods = Pods::new(&machine.topology, &machine.usable, self.scope, self.shard_size)?;
        let queue: Arc<KernelQueue<P>> =
            KernelQueue::new(machine, &pods, self.producers, self.kick, self.active, self.serves);
        let workers = queue.start(&pods)?;
        let gate: Arc<Gate<P>> = Arc::new(Gate::new(self.producers));
        let found = Measured { calls_ns: histogram(), ended_at: None };
        let found: Arc<Lock<P, Measured>> = Arc::new(Lock::new(found));
        let (items, warm_up) = (self.items, self.items.div_ceil(10));
        let mut producers = Vec::new();
        for (place, cpu) in machine.usable.iter().take(self.producers).enumerate() {
            let (queue, gate, found) = (Arc::clone(&queue), Arc::clone(&gate), Arc::clone(&found));
            let spec = ThreadSpec {
                name: format!("producer-{place}"),
                affinity: Some([cpu].into_iter().collect()),
                ..ThreadSpec::default()
            };
            let body = move || {
                let mut calls_ns = histogram();
                for _ in 0..warm_up {
                    queue.queue(place);
                    queue.items[place].done.park();
                }
                gate.pass();
                for _ in 0..items {
                    let before = P::now();
                    queue.queue(place);
                    calls_ns.record(P::now().ns_since(before)).expect("it grows");
                    queue.items[place].done.park();
                }
                let ended_at = P::now();
                let mut found = found.lock();
                found.calls_ns.add(&calls_ns).expect("equal digits can be added");
                found.ended_at = found.ended_at.max(Some(ended_at));
                drop(found);
                gate.leave();
            };
            producers.push(P::spawn(spec, Box::new(body))?);
        }
        let count = producers.len() as u64;
        gate.wait_for_all();
        let released_at = P::now();
        gate.open();
        gate.wait_until_left();
        producers.into_iter().for_each(ThreadHandle::join);
        queue.stop(workers);
        let found = found.lock();
        let ended_at = found.ended_at.unwrap_or(released_at);
        Ok(KernelRun::of(count * self.items, ended_at.ns_since(released_at), &found.calls_ns))
    }
}
