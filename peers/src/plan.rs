//! What is measured: the workloads with their parameters, and the peers.

use crate::cell::Params;

/// A workload under one set of parameters, and how much of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) workload: &'static str,
    pub(crate) params: Params,
    pub(crate) items: u64,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Full,
    /// Fewer items; for a look in between.
    Quick,
}

/// All workloads, in the order they are run and shown.
pub(crate) const WORKLOADS: [&str; 1] = ["flood"];

fn load(workload: &'static str, params: &[(&str, u64)], items: u64) -> Load {
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Load { workload, params, items }
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
                load("flood", &params, sized(1_000_000, 400_000))
            });
            let busy = [(1_000, 200_000), (10_000, 20_000)].map(|(item_ns, items)| {
                load("flood", &[("item_ns", item_ns), ("producers", 2)], sized(items, items / 4))
            });
            empty.chain(busy).collect()
        }
        other => unreachable!("{other} is not in the list of workloads"),
    }
}
