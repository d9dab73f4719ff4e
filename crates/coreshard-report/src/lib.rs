//! Tables, files and pages of benchmark results.
//!
//! Each output format is a module, with a function for each kind of results: [`table::queue`] for a terminal,
//! [`csv::write_queue`] for other programs, [`html::queue_page`] for people. These functions are pure: the same results
//! give the same bytes.
//!
//! ```
//! use coreshard_results::{QueueMeasurement, QueueResults};
//!
//! let results = QueueResults {
//!     machine: "a machine of two CPUs".into(),
//!     threads: 2,
//!     items_per_thread: 50_000,
//!     runs: 5,
//!     results: vec![QueueMeasurement {
//!         scope: "cache_shard".into(),
//!         wake: "coalesced".into(),
//!         intake: "lock-free".into(),
//!         items_per_sec: 2_939_917.0,
//!         items_per_sec_min: 2_900_000.0,
//!         items_per_sec_max: 3_000_000.0,
//!         ..QueueMeasurement::default()
//!     }],
//!     ..QueueResults::default()
//! };
//! assert!(coreshard_report::table::queue(&results, 100).contains("2,939,917"));
//! ```
#![forbid(unsafe_code)]
#![doc(html_root_url = "https://docs.rs/coreshard-report/0.1.0")]

mod chart;
pub mod csv;
mod findings;
pub mod fio;
mod format;
pub mod html;
pub mod kernel;
pub mod keys;
mod plain;
pub mod rt;
mod scaling;
pub mod table;

pub use plain::wrapped;

#[cfg(test)]
testing::watch!();
