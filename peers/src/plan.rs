//! The measurements: the workloads with their parameters, and the peers.

use crate::cell::Params;

/// A workload with one set of parameters, and its number of items and runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) workload: &'static str,
    pub(crate) params: Params,
    pub(crate) items: u64,
    /// The most runs, for a load whose runs take long and agree.
    pub(crate) most_runs: usize,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Full,
    /// Fewer items, for a quick look.
    Quick,
}

/// All workloads, in the order they are run and shown.
pub(crate) const WORKLOADS: [&str; 10] = [
    "flood",
    "ping-pong",
    "burst",
    "trickle",
    "fork-join",
    "parallel-for",
    "async",
    "blocking",
    "many-pools",
    "mixed",
];

impl Load {
    /// Whether the floor of this load is known.
    pub(crate) fn has_floor(&self) -> bool {
        let is = |name, value| self.params.get(name) == Some(&value);
        match self.workload {
            "flood" => is("item_ns", 0),
            "ping-pong" => is("producers", 1),
            "trickle" => true,
            _ => false,
        }
    }
}

fn load(workload: &'static str, params: &[(&str, u64)], items: u64) -> Load {
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Load { workload, params, items, most_runs: usize::MAX }
}

/// The loads of a workload in [`WORKLOADS`].
pub(crate) fn loads(workload: &str, extent: Extent) -> Vec<Load> {
    let sized = |full: u64, quick: u64| if extent == Extent::Full { full } else { quick };
    match workload {
        "flood" => {
            let most = if extent == Extent::Full { 8 } else { 4 };
            let producers = [1, 2, 4, 8].into_iter().filter(|&count| count <= most);
            let empty = producers.map(|producers| {
                let params = [("item_ns", 0), ("producers", producers)];
                load("flood", &params, sized(500_000, 300_000))
            });
            let busy = [(1_000, 200_000), (10_000, 20_000)].map(|(item_ns, items)| {
                load("flood", &[("item_ns", item_ns), ("producers", 2)], sized(items, items / 4))
            });
            empty.chain(busy).collect()
        }
        "ping-pong" => [1, 2]
            .map(|producers| load("ping-pong", &[("producers", producers)], sized(20_000, 10_000)))
            .to_vec(),
        "burst" => [1_000, 10_000]
            .map(|item_ns| load("burst", &[("item_ns", item_ns)], sized(64 * 16, 64 * 8)))
            .to_vec(),
        "trickle" => vec![load("trickle", &[("items_per_sec", 1_000)], sized(300, 150))],
        "fork-join" => vec![
            load("fork-join", &[("fib", sized(30, 27))], u64::MAX),
            load("fork-join", &[("tree_levels", sized(24, 20))], u64::MAX),
        ],
        "parallel-for" => [0, 1]
            .map(|skewed| {
                let items = sized(2_000_000, 500_000);
                load("parallel-for", &[("skewed", skewed)], items)
            })
            .to_vec(),
        "async" => ["spawn", "yield", "message"]
            .map(|what| load("async", &[(what, 1)], sized(100_000, 50_000)))
            .to_vec(),
        "blocking" => [1, 0]
            .map(|told| Load { most_runs: 3, ..load("blocking", &[("told", told)], 64) })
            .to_vec(),
        "many-pools" => {
            let params = [("components", 16), ("item_ns", 1_000)];
            vec![load("many-pools", &params, sized(100_000, 50_000))]
        }
        "mixed" => {
            [1, 2].map(|large| load("mixed", &[("large", large)], sized(1_000, 500))).to_vec()
        }
        other => unreachable!("{other} is not in the list of workloads"),
    }
}
