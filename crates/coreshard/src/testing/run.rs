//! One simulated run of a test, on a host thread of its own, watched from the test's.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use coreshard_sim::{Faults, Machine, Pulse, Sim, SimError, Simulation, Stuck, Summary, Switching};

use super::left_behind::left_behind;
use crate::test_machine::SimulatedProcess;

/// What a test threw.
pub(super) type Payload = Box<dyn Any + Send>;

/// How a run ended.
pub(super) enum Outcome<R> {
    /// The test has returned this, or thrown; and what it left behind, in words.
    Over { value: Result<R, Payload>, left_behind: Option<String>, summary: Box<Summary> },
    /// The simulation was given up.
    Failed { what: String, trace_hash: Option<u64> },
}

/// How a run is to be.
pub(super) struct Settings {
    pub(super) machine: Machine,
    /// For how long of real time nothing may go on.
    pub(super) patience: Duration,
    pub(super) how: How,
}

/// Who says what runs when.
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

/// How often the test's thread looks whether the run goes on.
const LOOKS: u32 = 20;

/// Runs `test` as the simulated program.
///
/// The run has a thread of its own: where the program waits by what the simulator does not know, that thread is lost,
/// and the test can still tell of it.
pub(super) fn run<R: Send + 'static>(
    settings: Settings,
    test: impl FnOnce() -> R + Send + 'static,
) -> Outcome<R> {
    assert!(!Sim::is_running(), "a test runs inside another one");
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
    // So that what is printed is taken for the test's.
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let thread = std::thread::Builder::new().name(name).spawn(body);
    drop(
        thread.unwrap_or_else(|error| panic!("a test needs a thread for its simulation: {error}")),
    );
    let (mut seen, mut since) = (pulse.beats(), Instant::now());
    loop {
        match told.recv_timeout(patience / LOOKS) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Disconnected) => {
                let what =
                    "the simulation's thread has ended early; see what it printed".to_owned();
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

/// What a run is that goes on no more.
fn silence(pulse: &Pulse, patience: Duration) -> String {
    let (thread, item) = pulse.thread();
    let item = item.map_or(String::new(), |item| format!(", inside item {item}"));
    format!(
        "thread {thread:?}{item} has not come back for {patience:?} of real time: does it wait by something that is not \
         Coreshard's (a lock, a channel or a condition variable of the standard library, which another virtual thread \
         would have to free), or compute for very long?"
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

/// A panic, in words.
pub(super) fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("something that is no text")
}
