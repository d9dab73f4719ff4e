//! The benchmark itself in small runs, on real threads.

use std::ops::ControlFlow;

use coreshard_platform::Host;
use coreshard_results::{QueueMeasurement, WakeRatio};
use coreshard_topology::Topology;

use super::*;
use crate::progress::Unwatched;

fn laid_over_host(machine: &str) -> BenchMachine {
    let topology = Topology::parse_machine(machine).unwrap();
    let host = BenchMachine::host();
    BenchMachine {
        name: machine.to_owned(),
        usable: topology.online().clone(),
        topology,
        laid_over: Some(host.usable.clone()),
        ..host
    }
}

fn small() -> QueueBench {
    QueueBench {
        threads: NonZeroUsize::new(2),
        items_per_thread: NonZeroU64::new(50),
        runs: NonZeroUsize::new(3).unwrap(),
        ..QueueBench::default()
    }
}

fn assert_plausible(measurement: &QueueMeasurement) {
    assert!(measurement.items_per_sec_min > 0.0, "{measurement:?}");
    assert!(measurement.items_per_sec_min <= measurement.items_per_sec, "{measurement:?}");
    assert!(measurement.items_per_sec <= measurement.items_per_sec_max, "{measurement:?}");
    let percentiles = [
        measurement.p50_ns,
        measurement.p90_ns,
        measurement.p95_ns,
        measurement.p99_ns,
        measurement.max_ns,
    ];
    assert!(measurement.p50_ns > 0 && percentiles.is_sorted(), "{measurement:?}");
    assert!(measurement.end_to_end_p50_ns > 0, "{measurement:?}");
    assert!(measurement.end_to_end_p50_ns <= measurement.end_to_end_p99_ns, "{measurement:?}");
    assert!(measurement.pods > 0, "{measurement:?}");
    assert!(measurement.wakeups_per_item.is_some_and(|wakeups| wakeups >= 0.0), "{measurement:?}");
    assert!(
        measurement.lock_hold_ns_per_item.is_some_and(|hold_ns| hold_ns > 0.0),
        "{measurement:?}"
    );
    assert!(measurement.lock_hold_max_ns.is_some_and(|hold_ns| hold_ns > 0), "{measurement:?}");
}

#[test]
fn every_combination_is_measured_closed_and_flooded() {
    for outstanding in [None, NonZeroU64::new(1), NonZeroU64::new(16)] {
        let bench = QueueBench { outstanding, ..small() };
        let results = bench.run::<Host>(&BenchMachine::host(), &mut Unwatched).unwrap();
        assert_eq!(results.results.len(), 36);
        results.results.iter().for_each(assert_plausible);
        assert_eq!(results.mode, if outstanding.is_some() { Mode::Flood } else { Mode::Closed });
        assert_eq!(results.outstanding, outstanding.map_or(1, NonZeroU64::get));
        assert_eq!((results.threads, results.items_per_thread, results.runs), (2, 50, 3));
        assert!(!results.virtual_topology);
        // Each newer wake policy compared with the oldest, in 6 scopes with 2 intakes.
        assert_eq!(results.wake_ratios.len(), 24);
        assert!(results.wake_ratios.iter().all(|ratio| ratio.over == "under-lock"));
    }
}

#[test]
fn producers_beyond_the_cpus_are_allowed_and_said() {
    let bench = QueueBench {
        threads: NonZeroUsize::new(BenchMachine::host().usable.len() + 3),
        scopes: vec![Scope::System],
        ..small()
    };
    let results = bench.run::<Host>(&BenchMachine::host(), &mut Unwatched).unwrap();
    assert_eq!(results.results.len(), 6);
    let said = |note: &String| note.contains("producers share");
    assert!(results.notes.iter().any(said), "{:?}", results.notes);
    assert!(results.wake_ratios.iter().all(|ratio| ratio.contended));
}

#[test]
fn a_virtual_topology_runs_all_its_pods_and_is_called_virtual() {
    let machine = laid_over_host("pack:1 numa:1 l3:2 core:16 pu:1");
    let bench = QueueBench { threads: NonZeroUsize::new(8), ..small() };
    let results = bench.run::<Host>(&machine, &mut Unwatched).unwrap();
    assert!(results.virtual_topology);
    assert!(
        results.notes[0].starts_with("virtual topology: 32 virtual CPUs"),
        "{:?}",
        results.notes
    );
    let pods: Vec<usize> =
        results.results.iter().map(|measurement| measurement.pods).step_by(6).collect();
    assert_eq!(pods, [32, 32, 4, 2, 1, 1]);
    let same =
        results.results.iter().map(|measurement| measurement.same_pods_as.as_deref()).step_by(6);
    assert!(same.eq([None, Some("cpu"), None, None, None, Some("numa")]));
    results.results.iter().for_each(assert_plausible);
}

#[test]
fn results_know_the_librarys_default() {
    let defaults =
        [Scope::default().to_string(), Wake::default().to_string(), Intake::default().to_string()];
    assert_eq!(defaults, QueueMeasurement::DEFAULT);
}

#[test]
fn defaults_follow_the_cpus_there_are() {
    let host = BenchMachine::host();
    let session =
        QueueBench::default().session::<Host>(&host, notes::Layouts::new(Vec::new())).unwrap();
    assert_eq!(session.slots.len(), host.usable.len());
    assert_eq!(session.items, DEFAULT_ITEMS_CLOSED);
    let laid_over = laid_over_host("epyc-9654-2s");
    let session =
        QueueBench::default().session::<Host>(&laid_over, notes::Layouts::new(Vec::new())).unwrap();
    let cpus = host.usable.len();
    assert_eq!(session.slots.len(), (VIRTUAL_PRODUCERS_PER_CPU * cpus).min(384));
    assert_eq!(session.items * session.slots.len() as u64, DEFAULT_ITEMS_CLOSED * cpus as u64);
}

/// Counts steps, and ends the benchmark after a number of them.
struct Ends {
    announced: usize,
    seen: usize,
    after: usize,
}

impl Progress for Ends {
    fn begin(&mut self, steps: usize) {
        self.announced = steps;
    }

    fn step(&mut self, _what: &dyn std::fmt::Display) -> ControlFlow<()> {
        self.seen += 1;
        if self.seen > self.after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn steps_are_announced_and_all_taken() {
    let bench = QueueBench { scopes: vec![Scope::Cpu, Scope::System], ..small() };
    let mut progress = Ends { announced: 0, seen: 0, after: usize::MAX };
    let results = bench.run::<Host>(&BenchMachine::host(), &mut progress).unwrap();
    assert_eq!((progress.announced, progress.seen), (12 * 4, 12 * 4));
    assert!(!results.notes.iter().any(|note| note.contains("ended early")));
}

#[test]
fn an_early_end_keeps_what_was_measured() {
    let bench = QueueBench { scopes: vec![Scope::Cpu, Scope::System], ..small() };
    for (after, measurements) in [(0, 0), (5, 5), (12, 12), (30, 12)] {
        let mut progress = Ends { announced: 0, seen: 0, after };
        let results = bench.run::<Host>(&BenchMachine::host(), &mut progress).unwrap();
        assert_eq!(results.results.len(), measurements);
        assert!(results.results.iter().all(|measurement| measurement.items_per_sec > 0.0));
        let note = format!("ended early: {after} of 48 turns were taken");
        assert!(results.notes.contains(&note), "{:?}", results.notes);
    }
}

#[test]
fn a_machine_without_its_cpus_is_an_error() {
    let mut machine = BenchMachine::host();
    machine.usable = "8000".parse().unwrap();
    let error = small().run::<Host>(&machine, &mut Unwatched).unwrap_err().to_string();
    assert!(error.contains("8000"), "{error}");
    let mut machine = laid_over_host("pack:1 l3:1 core:4 pu:1");
    machine.laid_over = Some("8000".parse().unwrap());
    let error = small().run::<Host>(&machine, &mut Unwatched).unwrap_err().to_string();
    assert!(error.contains("8000"), "{error}");
}

#[test]
fn curves_have_a_point_for_each_number_of_cpus() {
    let host = BenchMachine::host();
    let most = host.usable.len();
    let bench = QueueBench {
        scopes: vec![Scope::System],
        wakes: vec![Wake::Coalesced],
        runs: NonZeroUsize::MIN,
        ..small()
    };
    let results = bench.run_scaling::<Host>(&host, &[most, 1, most], &mut Unwatched).unwrap();
    assert_eq!((results.threads, results.curves.len()), (most, 2));
    for curve in &results.curves {
        let cpus: Vec<usize> = curve.points.iter().map(|point| point.cpus).collect();
        assert!(cpus.is_sorted() && cpus[0] == 1 && *cpus.last().unwrap() == most, "{cpus:?}");
        assert!(curve.points.iter().all(|point| point.items_per_sec > 0.0));
        assert_eq!(curve.usl.is_some(), cpus.len() > 2);
    }
    for wrong in [0, most + 1] {
        let error = bench.run_scaling::<Host>(&host, &[wrong], &mut Unwatched).unwrap_err();
        let said = format!("invalid number of CPUs {wrong}: expected 1 to {most}");
        assert!(error.to_string().contains(&said), "{error}");
    }
    assert!(bench.run_scaling::<Host>(&host, &[], &mut Unwatched).is_err());
}

/// Simulations of each combination, joined, look like a benchmark of all of them.
#[test]
fn parts_are_joined_to_what_the_whole_would_say() {
    let machine = BenchMachine::host();
    let bench = QueueBench {
        scopes: vec![Scope::System, Scope::Numa, Scope::Cpu],
        intakes: vec![Intake::Locked],
        runs: NonZeroUsize::new(2).unwrap(),
        ..small()
    };
    let whole = bench.run::<Host>(&machine, &mut Unwatched).unwrap();
    let of_part = |part: QueueBench| part.run::<Host>(&machine, &mut Unwatched).unwrap();
    let mut parts: Vec<_> = bench.parts().unwrap().into_iter().map(of_part).collect();
    let joined = bench.join(&machine, &parts).unwrap();
    let measurements = |results: &QueueResults| {
        let said = |it: &QueueMeasurement| {
            (it.scope.clone(), it.wake.clone(), it.pods, it.same_pods_as.clone())
        };
        results.results.iter().map(said).collect::<Vec<_>>()
    };
    assert_eq!(measurements(&joined), measurements(&whole));
    let ratios = |results: &QueueResults| {
        let said = |it: &WakeRatio| (it.scope.clone(), it.wake.clone(), it.contended);
        results.wake_ratios.iter().map(said).collect::<Vec<_>>()
    };
    assert_eq!(ratios(&joined), ratios(&whole));
    for ratio in &joined.wake_ratios {
        let rate = |wake: &str| {
            let its = |it: &&QueueMeasurement| (&*it.scope, &*it.wake) == (&*ratio.scope, wake);
            joined.results.iter().find(its).unwrap().items_per_sec
        };
        assert_eq!(ratio.items_per_sec_ratio, rate(&ratio.wake) / rate(&ratio.over));
        let range = ratio.items_per_sec_ratio_min..=ratio.items_per_sec_ratio_max;
        assert!(range.contains(&ratio.items_per_sec_ratio), "{ratio:?}");
    }
    // Without the figures in them.
    let notes = |results: &QueueResults| {
        let told = results.notes.iter().map(|note| note.split(':').next().unwrap().to_owned());
        told.collect::<Vec<_>>()
    };
    assert_eq!(notes(&joined), notes(&whole));

    // The combination that was not begun when the benchmark was ended.
    let mut never = Ends { announced: 0, seen: 0, after: 0 };
    parts[0] = bench.parts().unwrap()[0].run::<Host>(&machine, &mut never).unwrap();
    let ended = bench.join(&machine, &parts).unwrap();
    assert_eq!(measurements(&ended), measurements(&whole)[1..]);
    assert_eq!(ended.wake_ratios.len(), whole.wake_ratios.len() - 2, "cpu has no oldest one");
    let note =
        format!("ended early: {} of {} combinations were measured", parts.len() - 1, parts.len());
    assert!(ended.notes.contains(&note), "{:?}", ended.notes);
}
