//! Each call that can fail does so once, by its number, in small programs that use one part of the workqueue
//! each: the first call in one run, the second in the next, until a program makes no more calls.

#![allow(clippy::print_stdout, reason = "a sweep prints the number of its runs")]

use std::sync::Arc;
use std::time::Duration;

use coreshard_bench::{Record, Scenario, ScenarioTrial};
use coreshard_platform::{Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::search::{Failure, Plan, ReplaySeed, Subject, attempt};
use coreshard_sim::{Call, Failing, Lasts, Machine, Sim, View};

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
        self.record.scan(view.now_ns(), view.last_failure_ns())
    }
}

/// Runs a scenario and lets these calls fail. Returns whether any did.
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

/// Makes call after call fail. Returns the number of runs, or the first run that broke a promise.
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

fn ways() -> impl Iterator<Item = (Scenario, Call, Lasts)> {
    // The intake aborts the process if it gets no memory, as the standard collections do.
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
#[ignore = "at night: 3,000 simulations"]
fn no_call_that_fails_breaks_a_promise_at_night() {
    let machine = Machine::pocket();
    let mut runs = 0;
    for (scenario, call, lasts) in ways() {
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

/// A program that cannot handle a failed start of its third thread.
struct Fragile;

impl Subject for Fragile {
    fn run(&self) -> Result<(), String> {
        let threads = (0..5).map(|_| Sim::spawn(ThreadSpec::default(), Box::new(|| ())));
        let started: Vec<_> =
            threads.map(|thread| thread.map(ThreadHandle::join).is_ok()).collect();
        if started[2] { Ok(()) } else { Err(format!("started: {started:?}")) }
    }

    fn look(&self, _view: &View<'_>) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn a_failure_of_a_sweep_is_replayed_by_what_is_printed() {
    let machine = Machine::pocket();
    let run = |seed, failing| attempt(&machine, Plan::of_failing(seed, failing), &Fragile);
    for seed in 0..8 {
        let at = |from| Failing { call: Call::Start, from, lasts: Lasts::Calls(1) };
        let broken: Vec<_> = (1..7).filter_map(|from| run(seed, at(from)).err()).collect();
        let [failure] = broken.as_slice() else { panic!("{broken:?}") };
        // Everything that is printed about it.
        let failing = failure.plan.faults.failing.unwrap().to_string();
        assert_eq!(failing, "start:3:x1");
        let replay: ReplaySeed = failure.replay.to_string().parse().unwrap();
        let again = run(replay.seed, failing.parse().unwrap()).unwrap_err();
        assert_eq!(&again, failure);
        assert!(replay.trace_hash.is_some() && replay.trace_hash == again.replay.trace_hash);
        assert!(failure.to_string().contains("calls that fail start:3:x1"), "{failure}");
    }
}

/// A program that leaks its allocations.
struct Leaks(bool);

impl Subject for Leaks {
    fn run(&self) -> Result<(), String> {
        let boxed = Box::new([0_u8; 100]);
        if self.0 {
            std::mem::forget(std::hint::black_box(boxed));
        }
        Ok(())
    }

    fn look(&self, _: &View<'_>) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn what_a_program_does_not_free_is_a_broken_promise() {
    let machine = Machine::pocket();
    attempt(&machine, Plan::of_seed(0), &Leaks(false)).unwrap();
    let failure = attempt(&machine, Plan::of_seed(0), &Leaks(true)).unwrap_err();
    assert!(failure.to_string().contains("not freed"), "{failure}");
}
