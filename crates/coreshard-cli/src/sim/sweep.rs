//! `coreshard sim search --kth`: fails the first call of a kind, then the second, and so on, in programs that each use
//! one part of the work queue.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::common::output;
use anyhow::bail;
use coreshard_bench::{Record, Scenario, ScenarioTrial};
use coreshard_sim::search::{Failure, Plan, ReplaySeed, Subject, attempt};
use coreshard_sim::{Call, Failing, Lasts, Machine, ParseFailingError, Sim, Summary, View};

/// The fault of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kth {
    /// Platform calls fail.
    Calls(Failing),
    /// This many calls of user code panic, from this one on. Their payloads panic again when they are dropped.
    Panic(u64, u32),
}

impl fmt::Display for Kth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls(failing) => failing.fmt(f),
            Self::Panic(from, calls) => write!(f, "panic:{from}:x{calls}"),
        }
    }
}

impl FromStr for Kth {
    type Err = ParseFailingError;

    fn from_str(text: &str) -> Result<Self, ParseFailingError> {
        let panics = text.strip_prefix("panic:").and_then(|rest| rest.split_once(":x"));
        let panics = panics.and_then(|(from, calls)| from.parse().ok().zip(calls.parse().ok()));
        match panics.filter(|(from, _)| *from > 0) {
            Some((from, calls)) => Ok(Self::Panic(from, calls)),
            None => text.parse().map(Self::Calls),
        }
    }
}

/// The kind of fault that a sweep injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    All,
    Call(Call),
    Panic,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "panic" => Ok(Self::Panic),
            _ => text.parse().map(Self::Call).map_err(|error| format!("{error}, panic, all")),
        }
    }
}

/// For how many calls a kind of fault lasts.
fn durations(call: Call) -> &'static [Lasts] {
    const FOR_A_WHILE: Lasts = Lasts::For(Duration::from_millis(20));
    match call {
        Call::Start | Call::Nice | Call::Affinity | Call::Memory => {
            &[Lasts::Calls(1), Lasts::Calls(3), FOR_A_WHILE]
        }
        Call::Wait | Call::Interrupt | Call::Wake => &[Lasts::Calls(1), Lasts::Calls(3)],
        Call::CpuTime | Call::ThreadState => &[Lasts::Calls(1), FOR_A_WHILE],
    }
}

/// Returns the fault of a step.
type Way = Box<dyn Fn(u64) -> Kth>;

impl Kind {
    /// Returns the ways to fail, each a function from step to fault.
    fn ways(self) -> Vec<(String, Way)> {
        match self {
            Self::All => {
                let calls = Call::ALL.into_iter().map(Self::Call);
                calls.chain([Self::Panic]).flat_map(Self::ways).collect()
            }
            Self::Panic => [1, 3]
                .into_iter()
                .map(|calls| {
                    let at = move |from| Kth::Panic(from, calls);
                    (format!("panic x{calls}"), Box::new(at) as Way)
                })
                .collect(),
            Self::Call(call) => durations(call)
                .iter()
                .map(|lasts| {
                    let at = move |from| Kth::Calls(Failing { call, from, lasts: *lasts });
                    (format!("{call} {lasts}"), Box::new(at) as Way)
                })
                .collect(),
        }
    }
}

/// A run of a sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) scenario: Scenario,
    pub(crate) rounds: usize,
    pub(crate) seed: u64,
    pub(crate) kth: Kth,
}

/// A scenario and its verdict.
struct Judged {
    trial: ScenarioTrial,
    record: Arc<Record>,
}

impl Subject for Judged {
    fn run(&self) -> Result<(), String> {
        self.trial.run::<Sim>(&self.record)
    }

    fn look(&self, view: &View<'_>) -> Result<(), String> {
        self.record.scan(view.now_ns(), view.last_failure_ns())
    }
}

/// The current step, for messages if the process aborts.
static TRIED: Mutex<String> = Mutex::new(String::new());

/// Messages of the standard library about panics that abort the process.
const ENDS_THE_PROCESS: [&str; 3] =
    ["panic in a destructor", "panic in a function that cannot unwind", "aborting the process"];

/// Suppresses the output of panics, which are part of a sweep. For a panic that aborts the process, it prints the step.
/// Call it before the first simulation.
fn tell_of_fatal_panics_alone() {
    std::panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or_default();
        if ENDS_THE_PROCESS.iter().any(|fatal| text.starts_with(fatal)) {
            let tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
            output::warn(&format!("coreshard: {text}\nto replay it: {tried}"));
        }
    }));
}

impl Step {
    /// Returns the command line that reproduces the step.
    fn replay(&self, machine: &str, seed: ReplaySeed) -> String {
        let Self { scenario, rounds, kth, .. } = self;
        format!(
            "coreshard sim replay --seed {seed} --program {scenario} --rounds {rounds} --kth {kth} \
             --machine {machine}"
        )
    }

    fn plan(&self) -> Plan {
        match self.kth {
            Kth::Calls(failing) => Plan::of_failing(self.seed, failing),
            // A number beyond all calls.
            Kth::Panic(..) => Plan::of_failing(
                self.seed,
                Failing { call: Call::Start, from: u64::MAX, lasts: Lasts::Calls(1) },
            ),
        }
    }

    /// Runs the step. If the run passes, returns whether a fault occurred in it.
    pub(crate) fn run(
        &self,
        machine: &Machine,
        name: &str,
    ) -> Result<(Summary, bool), Box<Failure>> {
        *TRIED.lock().unwrap_or_else(PoisonError::into_inner) =
            self.replay(name, ReplaySeed::new(self.seed, None));
        let panics = match self.kth {
            Kth::Calls(_) => 0..0,
            Kth::Panic(from, calls) => from..from.saturating_add(calls.into()),
        };
        let record = Arc::new(Record::new(panics));
        let trial = ScenarioTrial::new(self.scenario, self.rounds, self.seed, machine.topology());
        let judged = Judged { trial, record };
        let summary = attempt(machine, self.plan(), &judged)?;
        let went_wrong = match self.kth {
            Kth::Calls(_) => summary.calls.failed() > 0,
            Kth::Panic(from, _) => judged.record.calls() >= from,
        };
        Ok((summary, went_wrong))
    }

    /// Formats a failure and the command line that reproduces it.
    pub(crate) fn tell(&self, failure: &Failure, machine: &str) -> String {
        let mut text = String::new();
        let Self { scenario, kth, seed, .. } = self;
        let _ = writeln!(text, "program {scenario}, seed {seed}, {kth} fails: {failure}");
        let _ = writeln!(text, "to replay it: {}", self.replay(machine, failure.replay));
        text
    }
}

/// The plan of a sweep.
#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    pub(crate) kind: Kind,
    pub(crate) up_to: u64,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) rounds: usize,
    pub(crate) seeds: std::ops::Range<u64>,
}

impl Sweep {
    /// Runs the sweep. After a failure, it skips the program's remaining steps with the same kind of call.
    pub(crate) fn run(&self, machine: &Machine, name: &str) -> anyhow::Result<()> {
        tell_of_fatal_panics_alone();
        let (mut runs, mut accesses, mut broken) = (0_u64, 0_u64, 0_usize);
        let ways = self.kind.ways();
        for scenario in &self.scenarios {
            let mut most = 0;
            for (way, at) in &ways {
                for seed in self.seeds.clone() {
                    for k in 1..=self.up_to {
                        let step =
                            Step { scenario: *scenario, rounds: self.rounds, seed, kth: at(k) };
                        match step.run(machine, name) {
                            Ok((_, false)) => break,
                            Ok((summary, true)) => {
                                runs += 1;
                                accesses += summary.accesses;
                                most = most.max(k);
                            }
                            Err(failure) => {
                                broken += 1;
                                output::print(&step.tell(&failure, name))?;
                                output::print(&format!(
                                    "skipping the rest of {scenario}, {way}\n\n"
                                ))?;
                                break;
                            }
                        }
                    }
                }
            }
            output::print(&format!("{scenario}: up to call {most} of each kind\n"))?;
        }
        if broken > 0 {
            bail!("{broken} ways of failing found bugs, in {runs} runs");
        }
        output::print(&format!(
            "{runs} runs with a failing call in each, {} programs, {} CPUs, {accesses} memory accesses: no failure\n",
            self.scenarios.len(),
            machine.topology().cpus().len(),
        ))
    }
}

/// Replays a step. Panics are printed.
pub(crate) fn replay(step: &Step, machine: &Machine, name: &str) -> Result<Summary, Box<Failure>> {
    tell_of_fatal_panics_alone();
    step.run(machine, name).map(|(summary, _)| summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_read_as_it_is_written() {
        for text in ["panic:7:x3", "start:3:x3", "wake:9:20000us"] {
            assert_eq!(text.parse::<Kth>().unwrap().to_string(), text);
        }
        assert!("panic:0:x1".parse::<Kth>().is_err());
        assert_eq!("all".parse(), Ok(Kind::All));
        let error = "panics".parse::<Kind>().unwrap_err();
        assert!(error.contains("\"panics\"") && error.contains("start, nice"), "{error}");
        assert_eq!(Kind::All.ways().len(), 12 + 6 + 4 + 2);
    }
}
