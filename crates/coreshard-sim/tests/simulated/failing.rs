//! Calls that fail by their number: each kind fails when requested, and only then.

use std::time::Duration;

use coreshard_platform::{AtomicInt, Parker, Platform, ThreadHandle, ThreadSpec, WaitOutcome};
use coreshard_sim::{
    Call, FailedStarts, Failing, Faults, Lasts, Machine, Sim, Simulation, Summary, View,
};

const WHILE: Duration = Duration::from_micros(500);

fn run<R>(failing: Failing, program: impl FnOnce() -> R) -> (R, Summary) {
    let faults = Faults { failing: Some(failing), ..Faults::NONE };
    let run = Simulation::new(&Machine::pocket()).faults(faults).run(program).unwrap();
    (run.value, run.summary)
}

fn starts(spec: &ThreadSpec) -> bool {
    Sim::spawn(spec.clone(), Box::new(|| ())).map(ThreadHandle::join).is_ok()
}

/// Returns which of five calls succeed.
fn five(act: impl Fn() -> bool) -> Vec<bool> {
    (0..5).map(|_| act()).collect()
}

#[test]
fn the_second_call_of_each_kind_fails_and_the_third() {
    let spec = ThreadSpec {
        affinity: Some(Machine::pocket().topology().online().clone()),
        nice: Some(3),
        ..ThreadSpec::default()
    };
    let word = || <Sim as Platform>::AtomicU32::new(7);
    let calls: [(Call, &dyn Fn() -> bool); 6] = [
        (Call::Start, &|| starts(&spec)),
        (Call::Nice, &|| starts(&spec)),
        (Call::Affinity, &|| starts(&spec)),
        (Call::Memory, &|| Sim::allocate(100, None).is_ok()),
        (Call::CpuTime, &|| Sim::cpu_time_of(Sim::this_thread()).is_some()),
        // An interrupted wait has not timed out.
        (Call::Wait, &|| Sim::wait(&word(), 7, Some(WHILE)) == WaitOutcome::TimedOut),
    ];
    for (call, act) in calls {
        let failing = Failing { call, from: 2, lasts: Lasts::Calls(2) };
        let (done, summary) = run(failing, || five(act));
        assert_eq!(done, [true, false, false, true, true], "{call}");
        assert_eq!(summary.calls.failed(), 2, "{call}");
        assert!(summary.calls.made(call) >= 5, "{call}");
    }
}

#[test]
fn all_calls_fail_for_a_while_and_then_none() {
    let failing = Failing { call: Call::Start, from: 2, lasts: Lasts::For(WHILE) };
    let (done, _) = run(failing, || {
        (0..10)
            .map(|_| {
                Sim::sleep(WHILE / 3);
                starts(&ThreadSpec::default())
            })
            .collect::<Vec<_>>()
    });
    let failed = done.iter().filter(|done| !**done).count();
    assert!(done[0] && !done[1] && (2..=3).contains(&failed) && done[5..].iter().all(|done| *done));
}

#[test]
fn a_wait_is_interrupted_and_a_wake_up_comes_late() {
    let failing = Failing { call: Call::Interrupt, from: 1, lasts: Lasts::Calls(1) };
    let (waited_ns, _) = run(failing, || {
        let (word, began) = (<Sim as Platform>::AtomicU32::new(7), Sim::now());
        assert_eq!(Sim::wait(&word, 7, None), WaitOutcome::Returned);
        Sim::now().ns_since(began)
    });
    assert!((30_000..60_000).contains(&waited_ns), "{waited_ns}");
    let waits = |from| {
        let failing = Failing { call: Call::Wake, from, lasts: Lasts::Calls(1) };
        let program = || {
            let parker = std::sync::Arc::new(Parker::<Sim>::new());
            let waker = std::sync::Arc::clone(&parker);
            let thread = Sim::spawn(
                ThreadSpec::default(),
                Box::new(move || {
                    Sim::sleep(WHILE);
                    waker.unpark();
                }),
            );
            let began = Sim::now();
            parker.park();
            let waited_ns = Sim::now().ns_since(began);
            thread.unwrap().join();
            waited_ns
        };
        run(failing, program).0
    };
    assert!(waits(1) > waits(2) + 250_000);
}

/// The search's failed starts come in runs, each takes time, and an observer of the run sees when the last
/// one happened.
#[test]
fn starts_fail_by_chance_in_runs() {
    let faults = Faults {
        failed_spawns_per_million: 100_000,
        failed_starts: FailedStarts {
            at_most: 0,
            longest: Duration::from_millis(2),
            longest_try: Duration::from_micros(400),
        },
        ..Faults::NONE
    };
    let machine = Machine::pocket();
    let (mut runs, mut failures, mut longest_try_ns) = (0, 0, 0);
    for seed in 0..20 {
        let mut last = None;
        let watch = |view: &View<'_>| {
            last = view.last_failure_ns();
            Ok(())
        };
        let program = || {
            (0..100)
                .map(|_| {
                    let began = Sim::now();
                    let done = starts(&ThreadSpec::default());
                    let took_ns = if done { 0 } else { Sim::now().ns_since(began) };
                    Sim::sleep(Duration::from_micros(100));
                    (done, took_ns)
                })
                .collect::<Vec<_>>()
        };
        let simulation = Simulation::new(&machine).seed(seed).faults(faults);
        let run = simulation.run_watched(program, Duration::from_micros(50), watch).unwrap();
        let done = run.value;
        failures += done.iter().filter(|(done, _)| !done).count();
        runs += done.windows(2).filter(|two| two[0].0 && !two[1].0).count();
        longest_try_ns =
            done.iter().map(|(_, took_ns)| *took_ns).max().unwrap().max(longest_try_ns);
        assert_eq!(last.is_some(), done.iter().any(|(done, _)| !done), "seed {seed}");
    }
    assert!(failures > 3 * runs && runs > 20, "{failures} failures in {runs} runs");
    assert!((300_000..600_000).contains(&longest_try_ns), "{longest_try_ns}");
}
