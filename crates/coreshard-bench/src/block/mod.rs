//! The benchmark of the block layer, in fio's words.
//!
//! **Method**, as close to fio's as possible: each thread of a job keeps `iodepth` requests in flight. The
//! clock is read once for each submitted request, and once for each batch of completions. A request's *slat*
//! is the time of its submission, its *lat* the time from before the submission until its completion was
//! seen, and *clat* the difference.
//!
//! **Check.** The number of requests in flight is integrated over time. By Little's law its mean equals
//! throughput times latency. Both are reported, and their ratio.

mod bins;
mod comparison;
mod contents;
mod course;
mod device;
mod hba;
mod job;
mod job_file;
mod need;
mod permutation;
mod run;
mod tally;
#[cfg(test)]
mod tests;
mod usage;
mod words;
mod worker;

pub use comparison::{ComparisonBench, jain};
pub use hba::{HbaBench, HbaVariant};
pub use job::{BlockJob, IoEngine, JOB_KEYS, Pattern};
pub use job_file::{JobFileError, parse_job_file};
pub use run::BlockBench;
pub use words::Amount;
