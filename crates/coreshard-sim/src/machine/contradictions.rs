//! Numbers of a machine's file that are each allowed, and contradict one another.

use super::costs::{Arbitration, Costs};
use super::time::{NS, Ps};

/// What contradicts what: the key to blame, and why.
pub(super) struct Contradiction {
    pub(super) key: &'static str,
    pub(super) problem: String,
}

/// The first contradiction of a machine's costs, of which those keys are `given`, and of its matrix of latencies if it has one.
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
    zeros(costs)
        .or_else(|| distances(costs, given))
        .or_else(|| {
            // A CPU is no way from itself.
            let nearest = matrix?.iter().copied().filter(|latency| *latency > 0).min()?;
            let nearest = ("the shortest of latency_matrix", nearest);
            let found = less(nearest, ("l1_hit", costs.l1_hit), FARTHER_THAN_OWN)?;
            Some(Contradiction { key: "latency_matrix", ..found })
        })
        .or_else(|| costs.arbitration.and_then(|arbitration| contention(arbitration, longest)))
}

const FARTHER_THAN_OWN: &str = "another CPU's cache is farther than the own one";

/// A cost and its key.
type Cost = (&'static str, Ps);

fn ns(time: Ps) -> f64 {
    time as f64 / NS as f64
}

/// `larger` must not be less than `smaller`.
fn less((key, larger): Cost, (other, smaller): Cost, why: &str) -> Option<Contradiction> {
    (larger < smaller).then(|| Contradiction {
        key,
        problem: format!("{key} is {}, less than {other}, {}: {why}", ns(larger), ns(smaller)),
    })
}

fn zeros(costs: &Costs) -> Option<Contradiction> {
    let all = [
        ("l1_hit", costs.l1_hit, "time would stand still in a loop of loads"),
        ("cycle", costs.cycle, "no latency could be told in cycles"),
        ("slice", costs.slice, "threads would change places for ever"),
    ];
    let (key, _, why) = all.into_iter().find(|(_, cost, _)| *cost == 0)?;
    Some(Contradiction { key, problem: format!("{key} is 0: {why}") })
}

/// Of those that are given; which must be is for who reads the file to say.
fn distances(costs: &Costs, given: impl Fn(&str) -> bool) -> Option<Contradiction> {
    let hit = ("l1_hit", costs.l1_hit);
    let near = ("memory_local", costs.memory_local);
    let latencies = [
        ("latency_smt", costs.latency_smt),
        ("latency_llc", costs.latency_llc),
        ("latency_package", costs.latency_package),
        ("latency_remote", costs.latency_remote),
    ];
    let given = |cost: &Cost| given(cost.0);
    let farther = "what is farther takes no less";
    less(("atomic", costs.atomic), hit, "it loads and stores the same line")
        .or_else(|| less(near, hit, "memory is farther than the first cache"))
        .or_else(|| {
            let far = Some(("memory_remote", costs.memory_remote)).filter(given)?;
            less(far, near, farther)
        })
        .or_else(|| {
            let mut all = latencies.iter().copied().filter(given);
            all.find_map(|one| less(one, hit, FARTHER_THAN_OWN))
        })
        .or_else(|| {
            // A package's own LLCs may be as far from one another as two packages are.
            let [smt, llc, package, remote] = latencies;
            [(llc, smt), (package, llc), (remote, llc)]
                .into_iter()
                .filter(|(far, _)| given(far))
                .find_map(|(far, near)| less(far, near, farther))
        })
}

fn contention(its: Arbitration, (other, longest): Cost) -> Option<Contradiction> {
    // One CPU is no distance from another.
    if its.request > longest && longest > 0 {
        let (request, longest) = (ns(its.request), ns(longest));
        let problem = format!(
            "request_ns is {request}, more than {other}, {longest}: it is a part of the latency"
        );
        return Some(Contradiction { key: "request_ns", problem });
    }
    // What a machine whose read-modify-writes are a load and a store does not have.
    let others = [
        ("far_atomic_ns", its.far_atomic, "its atomics are a CPU's loads and stores"),
        ("misses_at_once", its.misses_at_once, "its release stores wait for those before"),
    ];
    let (key, _, why) = others.into_iter().find(|(_, given, _)| its.exclusives && *given > 0)?;
    let problem = format!("{key} is given, and load_and_store_exclusive is true: {why}");
    Some(Contradiction { key, problem })
}
