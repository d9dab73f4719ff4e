//! A program's contention in a few lines of text, run on a machine and predicted by a queueing model.
//!
//! A [`Contention`] says which words share a cache line, which operations each thread repeats on them, and how
//! long it computes outside of them. Two models predict its throughput by the number of threads:
//!
//! 1. [`simulate`] runs the operations on a simulated machine. [`measure`] runs the same code on real CPUs.
//! 2. [`queueing::predict`] solves a closed queueing network, with a station for each line.
//!
//! They share the machine's costs and nothing else, so their disagreement bounds what either is worth.
//! [`Remedy`] rewrites a contention as the standard remedies would.
//!
//! ```
//! use coreshard_sim::contend::{Contention, queueing};
//! use coreshard_sim::Machine;
//!
//! let counter = Contention::from_toml("counter.toml", "outside_ns = 100\nsteps = [{ add = \"hits\" }]")?;
//! let pocket = Machine::pocket();
//! let one = queueing::predict(&counter, &pocket, 1, 100.0);
//! let all = queueing::predict(&counter, &pocket, 16, 100.0);
//! assert!(all.per_sec < 16.0 * one.per_sec);
//! # Ok::<(), coreshard_sim::contend::ContentionError>(())
//! ```

mod description;
mod error;
mod file;
mod locks;
mod program;
pub mod queueing;
mod remedies;
mod shared;
mod stage;
mod turning;

pub use description::{
    Contention, Copies, Object, Operation, Outside, Pinning, Retry, Step, WORDS_OF_LINE,
};
pub use error::ContentionError;
pub use program::{Measured, Until, measure, simulate};
pub use remedies::{CPUS_OF_SHARD, Remedy};
pub use stage::Stage;
pub use turning::{thread_counts, turning_point};
