//! The benchmarks in small, on real threads.

use std::num::{NonZeroU64, NonZeroUsize};

use coreshard_platform::Host;
use coreshard_rt::Rung;
use coreshard_topology::{Topology, Usable};

use super::*;
use crate::progress::Unwatched;
use crate::queue::Ground;

fn host() -> Ground {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap();
    Ground {
        name: "a machine".to_owned(),
        platform: "host".to_owned(),
        usable: usable.cpus().clone(),
        cpu_quota: usable.quota_cpus(),
        topology,
        laid_over: None,
    }
}

#[test]
fn every_rung_of_the_index_is_measured_in_every_run() {
    let bench = IndexBench {
        rounds: NonZeroU64::new(2_000).unwrap(),
        runs: NonZeroUsize::new(3).unwrap(),
        rungs: vec![Rung::PerLlc, Rung::Packed],
        ..IndexBench::default()
    };
    let results = bench.run::<Host>(&host(), &mut Unwatched).unwrap();
    let names: Vec<_> = results.results.iter().map(|cell| cell.rung.as_str()).collect();
    assert_eq!((names, results.runs), (vec!["packed", "per-llc"], 3));
    for cell in &results.results {
        let range = [cell.ops_per_sec_min, cell.ops_per_sec, cell.ops_per_sec_max];
        assert!(range[0] > 0.0 && range.is_sorted(), "{cell:?}");
        assert!(cell.find_ns > 0.0 && cell.bytes > 0, "{cell:?}");
    }
    assert_eq!(results.results[0].over_first, 1.0);
    let none = IndexBench { rungs: Vec::new(), ..bench };
    assert!(none.run::<Host>(&host(), &mut Unwatched).is_err());
}

#[test]
fn a_spread_is_the_median_and_the_range() {
    let spread = |runs: &[f64]| {
        let Spread { median, min, max } = Spread::of(runs.iter().copied());
        [median, min, max]
    };
    assert_eq!(spread(&[3.0, 1.0, 2.0]), [2.0, 1.0, 3.0]);
    assert_eq!(spread(&[4.0, 1.0]), [2.5, 1.0, 4.0]);
    assert_eq!(spread(&[]), [0.0; 3]);
}
