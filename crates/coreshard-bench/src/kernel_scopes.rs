//! Two affinity scopes of the kernel's own workqueue, held against each other under the loads of [`tune`](crate::tune()).
//!
//! The kernel's queue is what is simulated: items enter under the pool's lock, and workers are woken under it. On a
//! machine with a kernel's costs the ratio of two scopes is what a change of the scope can be expected to bring there.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use coreshard_platform::Platform;
use coreshard_topology::{Scope, ShardSize};
use coreshard_workqueue::{Intake, Wake};

use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Unwatched;
use crate::queue::QueueBench;

/// How long an item of the lopsided load computes.
const ITEM_WORK: Duration = Duration::from_micros(5);

/// A load that was measured on the machine itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenLoad {
    /// How many CPUs queue.
    pub producers: NonZeroUsize,
    /// How long an item takes.
    pub item_work: Duration,
}

impl SeenLoad {
    /// The benchmark `like` under this load, as far as the machine has CPUs for it.
    pub(crate) fn bench(self, machine: &BenchMachine, like: &QueueBench) -> QueueBench {
        let cpus = NonZeroUsize::new(machine.usable.len()).unwrap_or(NonZeroUsize::MIN);
        QueueBench {
            threads: Some(self.producers.min(cpus)),
            item_work: self.item_work,
            ..like.clone()
        }
    }
}

/// Throughput with the second scope over that with the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScopeRatios {
    /// Each CPU queues an item and waits for it.
    pub even: f64,
    /// One CPU queues bursts.
    pub lopsided: f64,
    /// As was measured, where something was.
    pub seen: Option<f64>,
}

/// Holds a scope against another one.
///
/// # Errors
/// As [`QueueBench::run`].
pub fn compare_scopes<P: Platform>(
    machine: &BenchMachine,
    (from, to): (Scope, Scope),
    shard_size: ShardSize,
    items: NonZeroU64,
    seen: Option<SeenLoad>,
) -> Result<ScopeRatios, BenchError> {
    let cpus = machine.usable.len() as u64;
    let even = QueueBench {
        scopes: vec![from, to],
        wakes: vec![Wake::UnderLock],
        intakes: vec![Intake::Locked],
        items_per_thread: Some(items),
        runs: NonZeroUsize::MIN,
        shard_size,
        ..QueueBench::default()
    };
    let lopsided = QueueBench {
        threads: Some(NonZeroUsize::MIN),
        items_per_thread: NonZeroU64::new(items.get().saturating_mul(cpus)),
        outstanding: NonZeroU64::new(4 * cpus),
        item_work: ITEM_WORK,
        ..even.clone()
    };
    let seen = seen.map(|load| load.bench(machine, &even));
    let ratio = |bench: &QueueBench| -> Result<f64, BenchError> {
        let results = bench.run::<P>(machine, &mut Unwatched)?.results;
        let rate = |scope: Scope| {
            let name = scope.to_string();
            results.iter().find(|cell| cell.scope == name).map_or(0.0, |cell| cell.items_per_sec)
        };
        Ok(rate(to) / rate(from).max(f64::MIN_POSITIVE))
    };
    Ok(ScopeRatios {
        even: ratio(&even)?,
        lopsided: ratio(&lopsided)?,
        seen: seen.as_ref().map(ratio).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use coreshard_platform::Host;
    use coreshard_topology::Topology;

    use super::*;

    /// What the figures are is the simulated machine's to say; here each load has its turn, in both scopes.
    #[test]
    fn both_scopes_are_measured_under_each_load() {
        let topology = Topology::from_synthetic("pack:1 l3:2 core:1 pu:1").unwrap();
        let machine = BenchMachine::whole("two caches", "host", topology);
        let load = SeenLoad { producers: NonZeroUsize::new(9).unwrap(), item_work: Duration::ZERO };
        let scopes = (Scope::System, Scope::Cache);
        let items = NonZeroU64::new(20).unwrap();
        let ratios =
            compare_scopes::<Host>(&machine, scopes, ShardSize::DEFAULT, items, Some(load))
                .unwrap();
        for ratio in [ratios.even, ratios.lopsided, ratios.seen.unwrap()] {
            assert!(ratio.is_finite() && ratio > 0.0, "{ratios:?}");
        }
    }
}
