//! Detects numbers of a machine's file that are valid individually but contradict one another.

use super::costs::{Arbitration, Costs, NS, Ps};

/// The key to blame, and the contradiction.
type Contradiction = (&'static str, String);

/// Returns the first contradiction among a machine's costs, whose keys are `given`, and its latency matrix,
/// if it has one.
pub(super) fn of(
    costs: &Costs,
    matrix: Option<&[Ps]>,
    given: impl Fn(&str) -> bool,
) -> Option<Contradiction> {
    let longest = match matrix {
        Some(matrix) => {
            ("the longest of latency_matrix", matrix.iter().copied().max().unwrap_or(0))
        }
        None => ("latency_llc", costs.latency_llc),
    };
    let nearest_of_matrix = || {
        // The distance of a CPU to itself does not count.
        let nearest = matrix?.iter().copied().filter(|latency| *latency > 0).min()?;
        let nearest = ("the shortest of latency_matrix", nearest);
        let (_, problem) = less(nearest, ("l1_hit", costs.l1_hit), FARTHER_THAN_OWN)?;
        Some(("latency_matrix", problem))
    };
    zeros(costs)
        .or_else(|| distances(costs, given))
        .or_else(nearest_of_matrix)
        .or_else(|| contention(costs.arbitration?, longest))
}

const FARTHER_THAN_OWN: &str = "another CPU's cache is farther than the CPU's own";

/// A cost and its key.
type Cost = (&'static str, Ps);

fn ns(time: Ps) -> f64 {
    time as f64 / NS as f64
}

/// Returns a contradiction if `larger` is less than `smaller`.
fn less((key, larger): Cost, (other, smaller): Cost, why: &str) -> Option<Contradiction> {
    let problem = || format!("{key} is {}, less than {other}, {}: {why}", ns(larger), ns(smaller));
    (larger < smaller).then(|| (key, problem()))
}

fn zeros(costs: &Costs) -> Option<Contradiction> {
    let all = [
        ("l1_hit", costs.l1_hit, "time would stand still in a loop of loads"),
        ("cycle", costs.cycle, "latencies could not be expressed in cycles"),
        ("slice", costs.slice, "threads would switch forever"),
    ];
    let (key, _, why) = all.into_iter().find(|(_, cost, _)| *cost == 0)?;
    Some((key, format!("{key} is 0: {why}")))
}

/// Compares the given costs; the reader of the file decides which are required.
fn distances(costs: &Costs, given: impl Fn(&str) -> bool) -> Option<Contradiction> {
    let hit = ("l1_hit", costs.l1_hit);
    let near = ("memory_local", costs.memory_local);
    let latencies = [
        ("latency_smt", costs.latency_smt),
        ("latency_llc", costs.latency_llc),
        ("latency_package", costs.latency_package),
        ("latency_remote", costs.latency_remote),
    ];
    let farther = "a greater distance cannot cost less";
    let [smt, llc, package, remote] = latencies;
    // Pairs whose first cost must not be less than the second, with the reason. A package's own LLCs may be as far
    // apart as two packages.
    let pairs = [
        (("atomic", costs.atomic), hit, "it loads and stores the same line"),
        (near, hit, "memory is farther than the first cache"),
        (("memory_remote", costs.memory_remote), near, farther),
    ]
    .into_iter()
    .chain(latencies.map(|latency| (latency, hit, FARTHER_THAN_OWN)))
    .chain([(llc, smt), (package, llc), (remote, llc)].map(|(far, near)| (far, near, farther)));
    pairs.filter(|(far, ..)| given(far.0)).find_map(|(far, near, why)| less(far, near, why))
}

fn contention(its: Arbitration, (other, longest): Cost) -> Option<Contradiction> {
    // A single CPU has no distances.
    if its.request > longest && longest > 0 {
        let (request, longest) = (ns(its.request), ns(longest));
        let problem = format!(
            "request_ns is {request}, more than {other}, {longest}: it is a part of the latency"
        );
        return Some(("request_ns", problem));
    }
    // Keys that have no meaning on a machine whose read-modify-writes are a load and a store.
    let others = [
        ("far_atomic_ns", its.far_atomic, "its atomics are a CPU's loads and stores"),
        ("misses_at_once", its.misses_at_once, "its release stores wait for those before"),
    ];
    let (key, _, why) = others.into_iter().find(|(_, given, _)| its.exclusives && *given > 0)?;
    let problem = format!("{key} is given, and load_and_store_exclusive is true: {why}");
    Some((key, problem))
}
