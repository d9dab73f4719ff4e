//! The other line of a pair, which some machines bring along (`pair_prefetch`).
//!
//! Intel's second-level caches "complete" a line that they fetch with the one beside it, to 128 aligned bytes (Intel 64 and
//! IA-32 Architectures Optimization Reference Manual, "Spatial Prefetcher"). Where another CPU writes that line, it has to take it
//! back. It is fetched to be read, also with a line that is to be written: else words that are only read, beside a contended one,
//! would be lost to all with each write, and structures that were padded to 64 bytes would have gained nothing. Nobody waits for
//! it, and it is left where others wait for it: two CPUs that add to words 64 bytes apart take 12 ns for each, 8 where they are 128
//! apart, and 38 on one line (measured on a Xeon, family 6, model 207). What nobody has had yet stays in memory: capacity is not in
//! this model.

use super::lines::Place;
use crate::machine::Ps;

/// What prefetchers of pairs ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pairs {
    /// A line that is taken, and for which nobody waited before: when it is free, and its slot of the arbiter's.
    pub(super) waits: Option<(Ps, usize)>,
}

/// The other line of a line's pair.
pub(super) const fn other_of(line: Place, line_bytes: usize) -> Place {
    Place(line.0 ^ line_bytes as u64)
}
