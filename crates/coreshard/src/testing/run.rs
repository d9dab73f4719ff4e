//! One simulated run of a test, on its own host thread, monitored by the test's thread.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use coreshard_sim::{Faults, Machine, Pulse, Sim, SimError, Simulation, Stuck, Summary, Switching};

use super::left_behind::left_behind;
use crate::test_machine::SimulatedProcess;

/// The payload of a test's panic.
pub(super) type Payload = Box<dyn Any + Send>;

/// How a run ended.
pub(super) enum Outcome<R> {
    /// The test returned or panicked, and left this behind.
    Over { value: Result<R, Payload>, left_behind: Option<String>, summary: Box<Summary> },
    /// The simulation was aborted.
    Failed { what: String, trace_hash: Option<u64> },
}

/// The settings of a run.
pub(super) struct Settings {
    pub(super) machine: Machine,
    /// Maximum real time without progress.
    pub(super) patience: Duration,
    pub(super) how: How,
}

/// The source of scheduling decisions.
pub(super) enum How {
    /// The test's own thread.
    ByHand,
    /// The seed.
    Drawn {
        seed: u64,
        faults: Box<Faults>,
        switching: Switching,
        time_limit: Duration,
        turn_limit: u64,
    },
}

impl Settings {
    fn simulation(&self) -> Simulation<'_> {
        let simulation = Simulation::new(&self.machine).uniform_memory(true).record_waits(true);
        match &self.how {
            How::ByHand => simulation.by_hand(true).time_limit(Duration::MAX),
            How::Drawn { seed, faults, switching, time_limit, turn_limit } => simulation
                .seed(*seed)
                .faults(**faults)
                .switching(*switching)
                .spare_starts(|name, by_test| by_test || name == "cs-timekeeper")
                .time_limit(*time_limit)
                .turn_limit(*turn_limit),
        }
    }
}

/// Checks for progress per patience interval.
const LOOKS: u32 = 20;

/// Runs `test` as the simulated program.
///
/// The run has its own thread. If the program waits with means that the simulator does not know, that thread is
/// abandoned, and the test can still report it.
pub(super) fn run<R: Send + 'static>(
    settings: Settings,
    test: impl FnOnce() -> R + Send + 'static,
) -> Outcome<R> {
    assert!(!Sim::is_running(), "tests cannot be nested");
    let pulse = Arc::new(Pulse::default());
    let (tell, told) = mpsc::channel();
    let patience = settings.patience;
    let told_of_turns = Arc::clone(&pulse);
    let body = move || {
        SimulatedProcess::prepare(settings.machine.topology().clone());
        let simulation = settings.simulation().pulse(told_of_turns);
        let outcome = simulate(&simulation, test);
        SimulatedProcess::end();
        drop(tell.send(outcome));
    };
    // Output is attributed to the test by the thread's name.
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let thread = std::thread::Builder::new().name(name).spawn(body);
    drop(thread.unwrap_or_else(|error| panic!("cannot start the test's thread: {error}")));
    let (mut seen, mut since) = (pulse.beats(), Instant::now());
    loop {
        match told.recv_timeout(patience / LOOKS) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Disconnected) => {
                let what = "the simulation's thread ended early; see its output".to_owned();
                return Outcome::Failed { what, trace_hash: None };
            }
            Err(RecvTimeoutError::Timeout) => {
                let beats = pulse.beats();
                if beats != seen {
                    (seen, since) = (beats, Instant::now());
                } else if since.elapsed() >= patience {
                    return Outcome::Failed { what: silence(&pulse, patience), trace_hash: None };
                }
            }
        }
    }
}

/// Describes a run without progress.
fn silence(pulse: &Pulse, patience: Duration) -> String {
    let (thread, item) = pulse.thread();
    let item = item.map_or(String::new(), |item| format!(", inside item {item}"));
    format!(
        "thread {thread:?}{item} has not returned for {patience:?} of real time: it may wait for a lock, channel or condition variable of the standard library that another virtual thread must release, or compute for very long"
    )
}

fn simulate<R>(simulation: &Simulation<'_>, test: impl FnOnce() -> R) -> Outcome<R> {
    let program = || {
        let value = panic::catch_unwind(AssertUnwindSafe(test));
        Sim::end_by_hand();
        let left_behind = if value.is_ok() { left_behind() } else { None };
        (value, left_behind)
    };
    match panic::catch_unwind(AssertUnwindSafe(|| simulation.run(program))) {
        Ok(Ok(run)) => {
            let (value, left_behind) = run.value;
            Outcome::Over { value, left_behind, summary: Box::new(run.summary) }
        }
        Ok(Err(error)) => {
            let trace_hash = match &error {
                SimError::Setup(_) | SimError::Stopped => None,
                SimError::Deadlock(Stuck { trace_hash, .. })
                | SimError::TimeLimit(Stuck { trace_hash, .. })
                | SimError::Broken { stuck: Stuck { trace_hash, .. }, .. } => Some(*trace_hash),
            };
            Outcome::Failed { what: error.to_string(), trace_hash }
        }
        Err(payload) => {
            let what = format!("the simulation itself panicked: {}", text_of(&*payload));
            Outcome::Failed { what, trace_hash: None }
        }
    }
}

/// Returns the text of a panic payload.
pub(super) fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("not a text")
}
