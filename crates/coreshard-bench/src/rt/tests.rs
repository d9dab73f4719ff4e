//! The benchmarks in small runs, on real threads.

use std::num::{NonZeroU64, NonZeroUsize};

use coreshard_platform::Host;
use coreshard_results::Durations;
use coreshard_rt::Rung;

use super::*;
use crate::machine::BenchMachine;
use crate::progress::Unwatched;

#[test]
fn every_variant_of_the_index_is_measured_in_every_run() {
    let bench = IndexBench {
        rounds: NonZeroU64::new(2_000).unwrap(),
        runs: NonZeroUsize::new(3).unwrap(),
        variants: vec![Rung::PerLlc, Rung::Packed],
        ..IndexBench::default()
    };
    let results = bench.run::<Host>(&BenchMachine::host(), &mut Unwatched).unwrap();
    let names: Vec<_> =
        results.results.iter().map(|measurement| measurement.variant.as_str()).collect();
    assert_eq!((names, results.runs), (vec!["packed", "per-llc"], 3));
    for measurement in &results.results {
        let range =
            [measurement.ops_per_sec_min, measurement.ops_per_sec, measurement.ops_per_sec_max];
        assert!(range[0] > 0.0 && range.is_sorted(), "{measurement:?}");
        assert!(measurement.find_ns > 0.0 && measurement.bytes > 0, "{measurement:?}");
        assert_eq!(measurement.each_run.len(), 3);
    }
    assert_eq!(results.results[0].over_first, 1.0);
    let none = IndexBench { variants: Vec::new(), ..bench };
    assert!(none.run::<Host>(&BenchMachine::host(), &mut Unwatched).is_err());
}

#[test]
fn cyclic_counts_every_wake_up_and_has_the_keys_of_cyclictest() {
    let bench = CyclicBench {
        executor: settings(),
        threads: NonZeroUsize::new(2),
        interval: std::time::Duration::from_micros(500),
        cycles: NonZeroU64::new(20).unwrap(),
        distance: std::time::Duration::from_micros(100),
    };
    let results = bench.run::<Host>(&BenchMachine::host()).unwrap();
    assert_eq!(results.thread.len(), 2);
    for thread in results.thread.values() {
        assert_eq!((thread.cycles, thread.histogram.values().sum::<u64>()), (20, 20));
        assert!(thread.min <= thread.max && thread.avg <= thread.max as f64 + 1.0, "{thread:?}");
    }
    assert!(
        results.p50_ns > 0 && results.p50_ns <= results.p99_ns && results.p99_ns <= results.max_ns
    );
    let json = serde_json::to_value(&results).unwrap();
    for key in ["file_version", "num_threads", "resolution_in_ns", "thread"] {
        assert!(!json[key].is_null(), "{key}");
    }
    for key in ["histogram", "cycles", "min", "max", "avg", "cpu", "node"] {
        assert!(!json["thread"]["1"][key].is_null(), "{key}");
    }
}

fn settings() -> ExecutorSettings {
    ExecutorSettings {
        variant: Rung::PerLlc,
        priority: coreshard_rt::Priority::new(60).unwrap(),
        lock_memory: false,
        allow_degraded: true,
    }
}

fn are_durations(durations: &Durations, number: u64) {
    assert_eq!((durations.number, durations.by_ns.values().sum::<u64>()), (number, number));
    assert!(
        [20, durations.p50_ns, durations.p99_ns, durations.max_ns].is_sorted(),
        "{durations:?}"
    );
}

#[test]
fn inversions_are_resolved_or_priorities_are_named_as_missing() {
    let bench = PiBench {
        executor: settings(),
        groups: NonZeroUsize::new(2),
        rounds: NonZeroU64::new(20).unwrap(),
    };
    match bench.run::<Host>(&BenchMachine::host()) {
        Ok(results) => {
            assert!(results.inversions_per_sec > 0.0 && results.groups == 2);
            are_durations(&results.waits, 2 * 20);
        }
        Err(error) => assert!(error.to_string().contains("RLIMIT_RTPRIO"), "{error}"),
    }
    let low = coreshard_rt::Priority::new(2).unwrap();
    let bench = PiBench { executor: ExecutorSettings { priority: low, ..settings() }, ..bench };
    assert!(
        bench.run::<Host>(&BenchMachine::host()).is_err(),
        "priority 2 has only one priority below it"
    );
}

#[test]
fn all_frames_are_transcoded() {
    let bench = TranscodeBench {
        executor: settings(),
        instance_cpus: NonZeroUsize::new(8).unwrap(),
        instances: NonZeroUsize::new(2),
        frames: NonZeroU64::new(5).unwrap(),
        under_way: NonZeroUsize::new(2).unwrap(),
        slices: NonZeroUsize::new(3).unwrap(),
    };
    let results =
        bench.run::<Host, _>(&BenchMachine::host(), Compression { bytes: 5_000 }).unwrap();
    assert_eq!((results.frames, results.tasks), (10, 10 * 3 * 4));
    assert!(results.frames_per_sec > 0.0);
    assert!(results.work_share > 0.0, "{results:?}");
    are_durations(&results.frame_times, 10);
}
