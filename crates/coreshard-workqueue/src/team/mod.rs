//! Teams: a fixed number of threads, each with an index of its own.
//!
//! A team is what programs know that were written for a pool of threads: so many threads from the start, the same
//! ones to the end, work that a thread spawns is its own until another has time, and whoever waits works. It is a pool with
//! the rules of `pool/members.rs`; what is here makes one, and brings it work.

mod broadcast;
mod builder;
mod error;
mod handle;
mod job;
mod join;
mod listing;
mod member_thread;
mod scope;
mod wait;

pub use builder::TeamBuilder;
pub use error::TeamError;
pub use handle::{Team, Yielded};
pub use join::{join_told, join_told_or_else};
pub use member_thread::MemberThread;
pub use scope::TeamScope;
