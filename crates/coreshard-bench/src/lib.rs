//! Benchmarks that compare variants of the runtime's parts.
//!
//! A benchmark measures one variant after the other and returns plain data. [`QueueBench`] measures a
//! workqueue and returns [`QueueResults`](coreshard_results::QueueResults), with one measurement for each
//! combination of scope, wake policy and intake. [`BlockBench`] runs fio's jobs on the block layer. Tables,
//! files and pages are made elsewhere; nothing here prints. A caller that wants to follow a benchmark passes
//! a [`Progress`].
//!
//! All of it is generic over the platform, so the same code measures real threads and simulated ones:
//! threads, clocks and waits are the platform's.
//!
//! A [`QueueTrial`] measures nothing: it uses a workqueue in ways that tend to break workqueues, to find bugs
//! in it.
#![forbid(unsafe_code)]
#![doc(html_root_url = "https://docs.rs/coreshard-bench/0.1.0")]

mod block;
mod calibration;
mod crew;
mod error;
#[cfg(all(debug_assertions, not(test)))]
mod instances;
pub mod kernel;
mod kernel_scopes;
mod machine;
mod progress;
mod queue;
pub mod rt;
mod seeds;
mod spread;
mod trial;
mod tune;

pub use block::{
    Amount, BlockBench, BlockJob, ComparisonBench, HbaBench, HbaVariant, IoEngine, JOB_KEYS,
    JobFileError, Pattern, jain, parse_job_file,
};
pub use calibration::{Effort, calibrate, contended, item_chains};
pub use error::BenchError;
#[cfg(all(debug_assertions, not(test)))]
pub use instances::instances;
pub use kernel_scopes::{ScopeComparison, ScopeRatios, SeenLoad};
pub use machine::BenchMachine;
pub use progress::{Progress, Unwatched};
pub use queue::{Combination, QueueBench, over_seeds, with_curves};
pub use seeds::{
    OverSeeds, SeedFigure, hba_over_seeds, index_over_seeds, over_each_variants_seeds,
};
pub use trial::{Bomb, Ledger, ParseScenarioError, QueueTrial, Record, Scenario, ScenarioTrial};
pub use tune::{TuneEffort, TuneLoad, TuneRound, over_rounds, tune};

#[cfg(test)]
testing::watch!();
