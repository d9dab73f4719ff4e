//! How items enter a pool: the *intake* variants. `README.md` beside this file describes the lock-free
//! variant's protocol.

mod claim_range;
mod injectors;
mod segments;

#[cfg(all(test, loom))]
mod loom_tests;

pub(crate) use crate::base::sizes::MAX_INJECTORS;
pub(crate) use claim_range::Range;
pub(crate) use injectors::{Injectors, ItemWaits, Takers, ToWake, Watches};
pub(crate) use segments::{Claim, SLOTS_TO_A_BURST, Segment, SegmentQueue, TAIL_COUNTERS};

#[cfg(test)]
mod tests;
