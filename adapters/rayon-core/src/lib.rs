//! The interface of [rayon-core](https://docs.rs/rayon-core/1.13.0), on the workers of Coreshard.
//!
//! If a program replaces the published package by this one (`[patch.crates-io]`; see the README), its unchanged `rayon` runs
//! here: each `ThreadPool` is a *team*, a fixed number of threads on the process's Coreshard runtime, beside the program's
//! queues. On a worker of such a queue, `join`, `scope` and `spawn` run on that queue.
//!
//! This crate only translates calls. Scheduling is done by Coreshard.
//!
//! ```
//! use rayon_core as rayon;
//!
//! fn sum(numbers: &[u64]) -> u64 {
//!     if numbers.len() <= 1_000 {
//!         return numbers.iter().sum();
//!     }
//!     let (left, right) = numbers.split_at(numbers.len() / 2);
//!     let (left, right) = rayon::join(|| sum(left), || sum(right));
//!     left + right
//! }
//!
//! let numbers: Vec<u64> = (0..100_000).collect();
//! assert_eq!(sum(&numbers), 4_999_950_000);
//! ```
//!
//! Names, bounds and guarantees are the same as in rayon. The documentation here is a summary.
//!
//! # Environment
//!
//! | variable | meaning |
//! |---|---|
//! | `RAYON_NUM_THREADS` | threads of a pool if the program requests none, or 0. 0: as many as usable CPUs |
//! | `RAYON_RS_NUM_CPUS` | as above, if that variable is absent or not a number |
//! | `CORESHARD_WAKE` | when a chosen worker is woken: `under-lock`, `after-unlock`, `coalesced` |
//! | `CORESHARD_INTAKE` | how work enters from outside: `locked`, `lock-free` |
//! | `CORESHARD_SCOPE` | which CPUs share a pool: `system`, `numa`, `cache`, `cache_shard`, `smt`, `cpu` |
//! | `CORESHARD_SHARD_SIZE` | the wanted size of a cache shard, in cores |
//! | `CORESHARD_INSIGHT` | `1`, with the feature `insight`: `coreshard top` sees the process |
//!
//! They are read when the first pool is built. An invalid value of a `CORESHARD_` variable is an error of
//! [`ThreadPoolBuilder::build`], and a panic if the global pool is built on demand.
#![warn(missing_debug_implementations)]

mod broadcast;
mod build_error;
mod builder;
#[cfg(doctest)]
mod compile_fail;
mod configuration;
mod current;
mod global;
mod join;
mod pool;
mod request;
mod scope;
mod settings;
mod team;
mod thread_builder;

pub use broadcast::{BroadcastContext, broadcast, spawn_broadcast};
pub use build_error::ThreadPoolBuildError;
pub use builder::{ThreadPoolBuilder, max_num_threads};
#[allow(deprecated, reason = "part of the interface")]
pub use configuration::{Configuration, initialize};
pub use current::{
    Yield, current_num_threads, current_thread_has_pending_tasks, current_thread_index, spawn,
    spawn_fifo, yield_local, yield_now,
};
pub use join::{FnContext, join, join_context};
pub use pool::ThreadPool;
pub use scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
pub use thread_builder::ThreadBuilder;
