//! Each call that can fail does so once, by its number, in small programs that use one part of the workqueue
//! each: the first in one run, the second in the next, until a program makes no more.

#![allow(clippy::print_stdout, reason = "a sweep says how many runs it took")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coreshard_bench::{Record, Scenario, ScenarioTrial};
use coreshard_sim::search::{Failure, Plan, ReplaySeed, Subject, attempt};
use coreshard_sim::{Call, Failing, Lasts, Machine, Sim, SimAlloc, View};
use coreshard_workqueue::canary::{Canary, plant};

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

/// Canaries are planted in the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

const FOR_A_WHILE: Lasts = Lasts::For(Duration::from_millis(20));

struct Judged {
    trial: ScenarioTrial,
    record: Arc<Record>,
}

impl Subject for Judged {
    fn run(&self) -> Result<(), String> {
        self.trial.run::<Sim>(&self.record)
    }

    fn look(&self, view: &View<'_>) -> Result<(), String> {
        self.record.look(view.now_ns(), view.last_failure_ns())
    }
}

/// Runs a scenario in which these calls fail. Says whether any did.
fn step(
    machine: &Machine,
    scenario: Scenario,
    seed: u64,
    failing: Failing,
) -> Result<bool, Box<Failure>> {
    let trial = ScenarioTrial::new(scenario, 1, seed, machine.topology());
    let judged = Judged { trial, record: Arc::new(Record::new(0..0)) };
    let summary = attempt(machine, Plan::of_failing(seed, failing), &judged)?;
    Ok(summary.calls.failed() > 0)
}

/// Lets call after call fail. Returns how many runs it took, or the first that broke a promise.
fn sweep(
    machine: &Machine,
    scenario: Scenario,
    call: Call,
    lasts: Lasts,
) -> Result<u64, (Failing, Box<Failure>)> {
    let mut runs = 0;
    for seed in 0..2 {
        for from in 1.. {
            let failing = Failing { call, from, lasts };
            if !step(machine, scenario, seed, failing).map_err(|failure| (failing, failure))? {
                break;
            }
            runs += 1;
        }
    }
    Ok(runs)
}

/// What breaks a promise today, and how.
const KNOWN: [(Scenario, Call, Lasts); 2] = [
    // The worker that comes back lies down while the stand-in that is not to be had still counts.
    (Scenario::Blocking, Call::Start, FOR_A_WHILE),
    // The monitor and a worker are not to be had, and the worker there is waits: nobody tries again.
    (Scenario::Scopes, Call::Start, FOR_A_WHILE),
];

fn ways() -> impl Iterator<Item = (Scenario, Call, Lasts)> {
    // The intake ends the process where it gets no memory, as the standard collections do.
    let calls = Call::ALL.into_iter().filter(|call| *call != Call::Memory);
    calls.flat_map(|call| {
        let longest = match call {
            Call::Wait | Call::Interrupt | Call::Wake => Lasts::Calls(3),
            _ => FOR_A_WHILE,
        };
        [Lasts::Calls(1), longest].into_iter().flat_map(move |lasts| {
            Scenario::ALL.into_iter().map(move |scenario| (scenario, call, lasts))
        })
    })
}

#[test]
fn no_call_that_fails_breaks_a_promise() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::pocket();
    let mut runs = 0;
    for (scenario, call, lasts) in ways().filter(|way| !KNOWN.contains(way)) {
        match sweep(&machine, scenario, call, lasts) {
            Ok(more) => runs += more,
            Err((failing, failure)) => panic!(
                "coreshard sim replay --machine pocket --seed {} --program {scenario} --rounds 1 \
                 --kth {failing}\n{failure}",
                failure.replay
            ),
        }
    }
    println!("{runs} runs");
    assert!(runs > 1_000, "{runs}");
}

#[test]
#[ignore = "a pool stops for ever where threads cannot be started for a while"]
fn starts_that_fail_for_a_while_break_no_promise() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (scenario, call, lasts) in KNOWN {
        if let Err((failing, failure)) = sweep(&Machine::pocket(), scenario, call, lasts) {
            panic!("{scenario}, {failing}: {failure}");
        }
    }
}

/// With a bug planted, a sweep finds it, and what it prints brings it about again.
#[test]
fn a_failure_of_a_sweep_is_replayed_by_what_is_printed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    plant(Some(Canary::CullRace));
    let machine = Machine::pocket();
    let found =
        [Call::Wake, Call::Wait, Call::Interrupt, Call::Start].into_iter().find_map(|call| {
            Scenario::ALL.into_iter().find_map(|scenario| {
                let failed = sweep(&machine, scenario, call, Lasts::Calls(1)).err();
                failed.map(|(failing, failure)| (scenario, failing, failure))
            })
        });
    let (scenario, failing, failure) = found.expect("a sweep finds the planted bug");
    println!("{scenario}, {failing}: {failure}");
    let (scenario, failing) = (scenario.to_string(), failing.to_string());
    let replay: ReplaySeed = failure.replay.to_string().parse().unwrap();
    let again = || {
        let (scenario, failing) = (scenario.parse().unwrap(), failing.parse().unwrap());
        step(&machine, scenario, replay.seed, failing)
    };
    assert_eq!(again().unwrap_err(), failure);
    plant(None);
    // It is the planted bug that was found.
    assert!(again().is_ok());
}
