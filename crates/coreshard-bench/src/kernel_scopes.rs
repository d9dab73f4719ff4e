//! Compares two affinity scopes of the kernel's own workqueue under the loads of [`tune`](crate::tune()).
//!
//! It simulates the kernel's queue: items enter under the pool's lock, and workers are woken under it. On a
//! machine with a kernel's costs, the ratio of two scopes predicts the effect of changing the scope there.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use coreshard_results::QueueResults;
use coreshard_topology::{Scope, ShardSize};
use coreshard_workqueue::{Intake, Wake};

use crate::machine::BenchMachine;
use crate::queue::QueueBench;

/// The default computing time of an item of the lopsided load.
pub(crate) const ITEM_WORK: Duration = Duration::from_micros(5);

/// A load that was measured on the machine itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenLoad {
    /// The number of CPUs that queue items.
    pub producers: NonZeroUsize,
    /// The duration of an item.
    pub item_work: Duration,
}

impl SeenLoad {
    /// Returns the benchmark `like` under this load, as far as the machine has CPUs for it.
    pub(crate) fn bench(self, machine: &BenchMachine, like: &QueueBench) -> QueueBench {
        let cpus = NonZeroUsize::new(machine.usable.len()).unwrap_or(NonZeroUsize::MIN);
        QueueBench {
            threads: Some(self.producers.min(cpus)),
            item_work: self.item_work,
            ..like.clone()
        }
    }
}

/// Returns the benchmark under each load: even, with `items` items for each CPU; lopsided, with one producer
/// that queues as many as all of them; and the load that was `seen`, if any.
pub(crate) fn under_each_load(
    machine: &BenchMachine,
    even: QueueBench,
    item_work: Duration,
    seen: Option<SeenLoad>,
) -> impl Iterator<Item = QueueBench> {
    let cpus = machine.usable.len() as u64;
    let items = even.items_per_thread.map_or(0, NonZeroU64::get);
    let lopsided = QueueBench {
        threads: Some(NonZeroUsize::MIN),
        items_per_thread: NonZeroU64::new(items.saturating_mul(cpus)),
        outstanding: NonZeroU64::new(4 * cpus),
        item_work,
        ..even.clone()
    };
    let seen = seen.map(|load| load.bench(machine, &even));
    [even, lopsided].into_iter().chain(seen)
}

/// Throughput with the second scope relative to the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScopeRatios {
    /// Each CPU queues an item and waits for it.
    pub even: f64,
    /// One CPU queues bursts.
    pub lopsided: f64,
    /// The measured load, if there is one.
    pub seen: Option<f64>,
}

/// A comparison of two scopes: a benchmark for each scope and load.
///
/// Each benchmark has its own simulated machine, so that its figure does not depend on the others.
#[derive(Clone, Debug)]
pub struct ScopeComparison {
    /// The first scope and the second under the first load, then under the next load.
    benches: Vec<QueueBench>,
}

impl ScopeComparison {
    /// Creates the comparison of the scopes `from` and `to`, under the known loads and the one that was
    /// `seen`.
    #[must_use]
    pub fn new(
        machine: &BenchMachine,
        (from, to): (Scope, Scope),
        shard_size: ShardSize,
        items: NonZeroU64,
        seen: Option<SeenLoad>,
    ) -> Self {
        let even = QueueBench {
            wakes: vec![Wake::UnderLock],
            intakes: vec![Intake::Locked],
            items_per_thread: Some(items),
            runs: NonZeroUsize::MIN,
            shard_size,
            ..QueueBench::default()
        };
        let of_both = |bench: QueueBench| {
            [from, to].map(|scope| QueueBench { scopes: vec![scope], ..bench.clone() })
        };
        let loads = under_each_load(machine, even, ITEM_WORK, seen);
        Self { benches: loads.flat_map(of_both).collect() }
    }

    /// Returns the benchmarks, each of one combination and one run.
    #[must_use]
    pub fn benches(&self) -> &[QueueBench] {
        &self.benches
    }

    /// Computes the ratios from the results of the [benchmarks](Self::benches), in their order.
    ///
    /// # Panics
    /// If there is not one result for each benchmark.
    #[must_use]
    pub fn ratios(&self, found: &[QueueResults]) -> ScopeRatios {
        assert_eq!(found.len(), self.benches.len(), "there is one for each");
        let rate = |found: &QueueResults| {
            found.results.first().map_or(0.0, |measurement| measurement.items_per_sec)
        };
        let ratio = |pair: &[QueueResults]| rate(&pair[1]) / rate(&pair[0]).max(f64::MIN_POSITIVE);
        let ratios: Vec<f64> = found.chunks(2).map(ratio).collect();
        ScopeRatios { even: ratios[0], lopsided: ratios[1], seen: ratios.get(2).copied() }
    }
}

#[cfg(test)]
mod tests {
    use coreshard_platform::Host;
    use coreshard_topology::Topology;

    use super::*;
    use crate::progress::Unwatched;

    /// The figures depend on the simulated machine; this test checks that each load has its turn, in both
    /// scopes.
    #[test]
    fn both_scopes_are_measured_under_each_load() {
        let topology = Topology::from_synthetic("pack:1 l3:2 core:1 pu:1").unwrap();
        let machine = BenchMachine::whole("two caches", "host", topology);
        let load = SeenLoad { producers: NonZeroUsize::new(9).unwrap(), item_work: Duration::ZERO };
        let scopes = (Scope::System, Scope::Cache);
        let items = NonZeroU64::new(20).unwrap();
        let compared =
            ScopeComparison::new(&machine, scopes, ShardSize::DEFAULT, items, Some(load));
        let found =
            compared.benches().iter().map(|bench| bench.run::<Host>(&machine, &mut Unwatched));
        let found: Vec<_> = found.collect::<Result<_, _>>().unwrap();
        let ratios = compared.ratios(&found);
        for ratio in [ratios.even, ratios.lopsided, ratios.seen.unwrap()] {
            assert!(ratio.is_finite() && ratio > 0.0, "{ratios:?}");
        }
    }
}
