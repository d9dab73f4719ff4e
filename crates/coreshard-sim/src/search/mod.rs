//! Searching for bugs: many short runs, each on a schedule and with faults that its seed decides.
//!
//! A [`Subject`] is a small program, and a look at it from outside. [`attempt`] runs it by a [`Plan`]. A
//! run that fails (a promise is broken, the program deadlocks or panics) is a [`Failure`], which names a
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

/// How often a run is looked at from outside.
const LOOK_EVERY: Duration = Duration::from_micros(250);
/// Virtual time after which a run is given up: it goes round in a circle.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// What is searched for bugs.
pub trait Subject {
    /// The program. It runs inside the simulation, as its first thread.
    ///
    /// # Errors
    /// Which promise was broken.
    fn run(&self) -> Result<(), String>;

    /// Looks at the run from outside, again and again.
    ///
    /// # Errors
    /// Which promise is broken.
    fn look(&self, view: &View<'_>) -> Result<(), String>;
}

/// A run that failed.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// Brings it about again.
    pub replay: ReplaySeed,
    /// The schedule and the faults.
    pub plan: Plan,
    /// What was broken, and what each thread did then.
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
/// If it fails.
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
            let text = text.unwrap_or("something that is no text");
            (None, format!("the program panicked: {text}"))
        }
    };
    Err(Box::new(Failure { replay: ReplaySeed::new(plan.seed, trace_hash), plan, what }))
}
