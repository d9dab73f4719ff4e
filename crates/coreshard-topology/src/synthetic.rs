//! Machines described by hwloc's synthetic strings, such as `pack:2 numa:1 l3:1 core:120 pu:2`.
//!
//! The language is that of hwloc 2.x ("Synthetic topologies" in its documentation). A string lists the levels of a
//! machine from the outside in, each with the number of objects per object of the level above:
//!
//! - `TYPE:COUNT`, where TYPE is `package` (or `socket`), `die`, `group`, `numanode` (or `node`),
//!   `l1` to `l5`, `l1i` to `l3i`, `core` or `pu`, in any case, cut short as long as two letters are
//!   left, and caches with `u`, `d` or `i` and the word `cache` behind if wanted (`L2uCache`);
//! - or `COUNT` alone on every level, and the types are chosen as hwloc chooses them;
//! - `[numa]` attaches a NUMA node to each object of the level before it (or to the machine, at the
//!   start), besides `numa:COUNT`, which makes NUMA nodes a level;
//! - `(ATTRIBUTE …)` behind a level, in `[numa(…)]`, or at the very start: `size=` for caches,
//!   `memory=` for the rest, and `indexes=` as a full list (`0,2,1,3`), as loops (`2*2:1*2`) or as
//!   types (`numa:core`).
//!
//! The last level is always `pu`. If there is no NUMA node, one is added for the whole machine.
//!
//! **CPU numbers.** Unless `indexes=` is given, CPUs are numbered in tree order, so that siblings of a core are
//! adjacent (`core:2 pu:2`: 0-1 and 2-3). Many x86 machines number one thread of every core first, as in `core:2
//! pu:2(indexes=core)` (0, 2 and 1, 3).
//!
//! **Stricter than hwloc.** hwloc ignores input that it cannot parse, or builds impossible machines. Here these are
//! errors: a wrong `indexes=`, anything between a type and its colon, the same cache level twice, several packages,
//! NUMA nodes or last-level caches inside one core, and more CPUs or higher numbers than [`MAX_CPU`](crate::MAX_CPU)
//! allows.

mod build;
mod indexes;
mod level;
mod parse;

use crate::{Topology, TopologyError};

/// Builds the machine that a synthetic string describes.
pub(crate) fn topology(text: &str) -> Result<Topology, TopologyError> {
    build::topology(&parse::machine(text)?)
}

#[cfg(test)]
mod tests;
