//! A block layer without false sharing, generic over the platform below.
//!
//! 1. [`TagSet`]: the right to have requests in flight, shared by devices; a ladder of how it is
//!    accounted ([`TagPolicy`]).
//! 2. [`DeviceCounters`]: issued, done, errors, timeouts; a ladder of how they lie
//!    ([`CounterLayout`]).
//!
//! `tags/README.md` tells the protocol of tags: states, steps, and why no tag is lost and nobody
//! is stranded.

mod counters;
#[cfg(all(test, loom))]
#[path = "../../coreshard-workqueue/src/loom_platform.rs"]
mod loom_platform;
mod node_slice;
mod tags;

pub use counters::{
    CounterLane, CounterLayout, Counts, DeviceCounters, Ended, ParseCounterLayoutError,
};
pub use tags::{
    MOST_RESERVED_TAGS, MOST_TAGS, ParseTagPolicyError, Tag, TagPolicy, TagPort, TagSet,
    TagSetError, TagSetSpec, TagUser,
};
