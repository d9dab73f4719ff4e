//! The ladders' benchmarks, and the types of what they measured.
//!
//! A benchmark climbs one ladder, rung by rung, and returns plain data: [`QueueBench`] measures a
//! workqueue and returns [`QueueResults`], which hold one [`QueueCell`] for each combination of
//! scope, wake policy and intake; [`BlockBench`] runs fio's jobs on the block layer. Tables, files and pages are made of them elsewhere; nothing here
//! prints, and whoever wants to see how far a benchmark has come passes a [`Progress`].
//!
//! All of it is generic over the platform, so that the same code measures real threads and
//! simulated ones: threads, clocks and waits are the platform's.
//!
//! A [`QueueTrial`] measures nothing: it uses a workqueue in the ways that break workqueues, for those
//! who search for bugs in it.
#![forbid(unsafe_code)]

mod block;
mod calibration;
mod error;
mod progress;
mod queue;
mod results;
pub mod rt;
mod trial;
mod tune;
mod usl;

pub use block::{
    BlockBench, BlockJob, BlockResults, Direction, FairnessRow, HbaBench, HbaResults, HbaRow,
    HbaRung, Interrupts, IoEngine, JOB_KEYS, JobFileError, JobResult, LadderBench, LadderResults,
    Latency, LittlesLaw, OperationRow, Pattern, Percentile, Published, Repeats, jain,
    parse_job_file,
};
pub use calibration::{Calibration, Contended, Costs, Effort, Figure, calibrate, item_chains};
pub use error::BenchError;
pub use progress::{Progress, Unwatched};
pub use queue::{Combination, Ground, QueueBench};
pub use results::{Mode, QueueCell, QueueResults, ScalingCurve, ScalingPoint, WakeRatio};
pub use trial::{Bomb, Ledger, ParseScenarioError, QueueTrial, Record, Scenario, ScenarioTrial};
pub use tune::{Candidate, Load, TuneEffort, Tuning};
pub use usl::Usl;
