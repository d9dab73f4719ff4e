//! Searches for bugs with many short runs. Each has a schedule and faults that its seed decides.
//!
//! A [`Subject`] is a small program with a check from outside. [`attempt`] runs it by a [`Plan`]. A run that
//! fails (a promise is broken, or the program deadlocks or panics) is a [`Failure`]. It contains a
//! [`ReplaySeed`]: the same machine, the same code and that seed give the same run again.

mod plan;
mod replay;

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

pub use plan::Plan;
pub use replay::{ParseReplaySeedError, ReplaySeed};

use crate::engine::{Summary, View};
use crate::machine::Machine;

/// How often a run is checked from outside.
const LOOK_EVERY: Duration = Duration::from_micros(250);
/// The virtual time after which a run is aborted, since it is in an endless loop.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// A program to search for bugs.
pub trait Subject {
    /// Runs the program, inside the simulation, as its first thread.
    ///
    /// # Errors
    /// The broken promise.
    fn run(&self) -> Result<(), String>;

    /// Checks the run from outside; called repeatedly.
    ///
    /// # Errors
    /// The broken promise.
    fn look(&self, view: &View<'_>) -> Result<(), String>;
}

/// A run that failed.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// Reproduces the run.
    pub replay: ReplaySeed,
    /// The schedule and the faults.
    pub plan: Plan,
    /// The problem, and the state of each thread at that time.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nschedule and faults: {}", self.what, self.plan)
    }
}

coreshard_topology::readable_debug!(Failure);

impl std::error::Error for Failure {}

/// Runs `subject` on `machine` by `plan`.
///
/// # Errors
/// If the run fails.
pub fn attempt(
    machine: &Machine,
    plan: Plan,
    subject: &impl Subject,
) -> Result<Summary, Box<Failure>> {
    let simulation = plan.simulation(machine).time_limit(TIME_LIMIT);
    let run = || simulation.run_watched(|| subject.run(), LOOK_EVERY, |view| subject.look(view));
    let (trace_hash, what) = match panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(run)) => {
            let what = match run.value {
                Err(what) => what,
                Ok(()) if run.summary.panicked_threads > 0 => {
                    format!("{} threads panicked", run.summary.panicked_threads)
                }
                // As under memory checkers, but for each schedule and each fault.
                Ok(()) if run.left_memory => {
                    "memory that the program has allocated is not freed at its end".into()
                }
                Ok(()) => return Ok(run.summary),
            };
            (Some(run.summary.trace_hash), what)
        }
        Ok(Err(error)) => (error.stuck().map(|stuck| stuck.trace_hash), error.to_string()),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("a payload that is not a string");
            (None, format!("the program panicked: {text}"))
        }
    };
    Err(Box::new(Failure { replay: ReplaySeed::new(plan.seed, trace_hash), plan, what }))
}
