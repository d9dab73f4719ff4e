//! Teams: a fixed number of threads, each with a fixed index.
//!
//! A team suits programs that were written for a thread pool: the number of threads is fixed, and the same threads run from
//! start to end. Work that a thread spawns stays with it until another thread is idle, and a waiting thread works. A team is a
//! pool with the rules of `pool/members.rs`; this module builds it and brings it work.

mod broadcast;
mod builder;
mod calls;
mod error;
mod handle;
mod job;
mod join;
mod listing;
mod member_thread;
mod scope;
mod shares;
mod wait;

pub use builder::TeamBuilder;
pub use error::TeamError;
pub use handle::{Team, Yielded};
pub use join::{join_told, join_told_or_else};
pub use member_thread::MemberThread;
pub use scope::TeamScope;
