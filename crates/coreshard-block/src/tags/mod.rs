//! Tags: the right to have a request in flight, shared by the devices of a host.
//!
//! Access rules (`README.md` beside this file explains the protocol):
//!
//! 1. A [`TagPort`] belongs to one thread at a time. Taking and releasing a tag access one word of the
//!    bitmap, the user's line (read-only, except for the packed count), and the port's own line.
//! 2. A word's *waited* mark is set and cleared under the set's lock. A releasing port reads it by the same
//!    instruction that releases the tag.
//! 3. Users, shares and waiters are under the set's lock. It is taken only when a port has to wait, and when
//!    a user becomes busy or idle.

mod bitmap;
#[cfg(all(test, loom))]
mod loom_tests;
mod policy;
mod port;
mod set;
#[cfg(all(test, not(loom)))]
mod tests;

pub use policy::{ParseTagPolicyError, TagPolicy};
pub use port::{Tag, TagPort};
pub use set::{MAX_RESERVED_TAGS, MAX_TAGS, TagSet, TagSetError, TagSetSpec, TagUser};
