//! Results to draw: invented figures in realistic proportions, made without chance so that each test
//! sees the same ones.
#![allow(dead_code, reason = "not every target that shares the samples draws all of them")]

use coreshard_results::{Mode, QueueMeasurement, QueueResults};

const SCOPES: [&str; 6] = ["cpu", "smt", "cache_shard", "cache", "numa", "system"];
const WAKES: [&str; 3] = ["under-lock", "after-unlock", "coalesced"];
const INTAKES: [&str; 2] = ["locked", "lock-free"];

/// A large machine with one LLC, where the coarse scopes contend: all 36 combinations.
pub(crate) fn many_cpus() -> QueueResults {
    // Throughput and median call of the oldest variants in each scope, of the order that was published for
    // 72 CPUs in one LLC.
    let scopes = [
        (3_433_000.0, 16_400.0, 72),
        (3_449_000.0, 16_500.0, 72),
        (2_939_000.0, 8_200.0, 9),
        (602_000.0, 53_000.0, 1),
        (599_000.0, 53_100.0, 1),
        (598_000.0, 53_200.0, 1),
    ];
    let mut results = base("Sample of 72 CPUs in one LLC (invented figures)", 72);
    results.cpu_model = Some("Sample CPU, 72 cores, 1 thread per core".into());
    for (scope, (throughput, call_ns, pods)) in scopes.into_iter().enumerate() {
        let contended = scope >= 3;
        for wake in 0..WAKES.len() {
            for intake in 0..INTAKES.len() {
                let wake_gain = if contended { [1.0, 1.32, 1.55] } else { [1.0, 0.98, 1.04] }[wake];
                let intake_gain = if contended { [1.0, 2.6] } else { [1.0, 1.11] }[intake];
                let gain = wake_gain * intake_gain;
                results.results.push(measurement(
                    [scope, wake, intake],
                    throughput * gain,
                    call_ns / gain,
                    pods,
                ));
            }
        }
    }
    collapse(&mut results, &[("smt", "cpu"), ("numa", "cache"), ("system", "cache")]);
    results.notes.push("smt = cpu here: 72 pods of one CPU each.".into());
    results.notes.push("cache = numa = system here: 1 pod of 72 CPUs.".into());
    results
}

/// A small machine where most scopes are the same, with figures close together.
pub(crate) fn two_cpus() -> QueueResults {
    let mut results = base("Sample of 2 CPUs (invented figures)", 2);
    results.mode = Mode::Flood;
    results.outstanding = 256;
    for scope in 0..SCOPES.len() {
        for wake in 0..WAKES.len() {
            for intake in 0..INTAKES.len() {
                let gain = [1.0, 1.05, 1.6][wake] * [1.0, 1.9][intake];
                let pods = if scope < 2 { 2 } else { 1 };
                results.results.push(measurement(
                    [scope, wake, intake],
                    2.1e6 * gain,
                    310.0 / gain,
                    pods,
                ));
            }
        }
    }
    collapse(
        &mut results,
        &[
            ("smt", "cpu"),
            ("cache", "cache_shard"),
            ("numa", "cache_shard"),
            ("system", "cache_shard"),
        ],
    );
    results.notes.push("cache_shard = cache = numa = system here: 1 pod.".into());
    results
}

fn base(machine: &str, threads: usize) -> QueueResults {
    QueueResults {
        machine: machine.into(),
        platform: "host".into(),
        threads,
        items_per_thread: 50_000,
        runs: 5,
        outstanding: 1,
        kernel: Some("Linux 6.12.0".into()),
        wakes: WAKES.map(String::from).into(),
        ..QueueResults::default()
    }
}

fn measurement(
    variants: [usize; 3],
    throughput: f64,
    call_ns: f64,
    pods: usize,
) -> QueueMeasurement {
    let [scope, wake, intake] = variants;
    // A ripple that differs from measurement to measurement, between -1 and 1, without chance.
    let ripple = |salt: usize| ((scope * 37 + wake * 17 + intake * 7 + salt * 29) as f64).sin();
    let throughput = throughput * (1.0 + 0.03 * ripple(0));
    let ns = |factor: f64, salt: usize| (call_ns * factor * (1.0 + 0.06 * ripple(salt))) as u64;
    let locked = intake == 0;
    QueueMeasurement {
        scope: SCOPES[scope].into(),
        wake: WAKES[wake].into(),
        intake: INTAKES[intake].into(),
        items_per_sec: throughput,
        items_per_sec_min: throughput * (0.93 + 0.03 * ripple(5)),
        items_per_sec_max: throughput * (1.05 + 0.03 * ripple(6)),
        p50_ns: ns(1.0, 1),
        p90_ns: ns(1.35, 2),
        p95_ns: ns(1.6, 2),
        p99_ns: ns(2.9, 3),
        max_ns: ns(55.0, 4),
        end_to_end_p50_ns: ns(2.4, 4),
        end_to_end_p99_ns: ns(9.0, 5),
        lock_hold_ns_per_item: locked.then(|| [240.0, 62.0, 48.0][wake] * (1.0 + 0.1 * ripple(7))),
        lock_hold_max_ns: locked.then(|| ns(12.0, 8)),
        wakeups_per_item: Some([1.0, 0.99, 0.31][wake]),
        pods,
        same_pods_as: None,
        items_per_sec_q1: None,
        items_per_sec_q3: None,
    }
}

fn collapse(results: &mut QueueResults, same: &[(&str, &str)]) {
    for measurement in &mut results.results {
        measurement.same_pods_as = same
            .iter()
            .find(|(scope, _)| *scope == measurement.scope)
            .map(|(_, finer)| (*finer).to_owned());
    }
}
