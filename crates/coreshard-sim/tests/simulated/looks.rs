//! A watching thread sees an event when a loop of single checks would, although most checks are not
//! simulated.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Padded, Platform, ThreadHandle};
use coreshard_sim::{Machine, Sim, Simulation, Summary};
use coreshard_topology::CpuId;

use crate::machines::{SKYLAKE, TWO_SOCKETS};
use crate::programs::pinned;

const WATCHER: CpuId = CpuId(0);
const WRITER: CpuId = CpuId(1);

type Word = Padded<<Sim as Platform>::AtomicU32>;

fn words(count: usize) -> Arc<[Word]> {
    (0..count).map(|_| Padded::new(<Sim as Platform>::AtomicU32::new(0))).collect()
}

/// Makes simulated checks, one after another.
fn look(looks: u32, mut done: impl FnMut() -> bool) -> bool {
    (0..looks).any(|_| {
        Sim::spin_hint();
        done()
    })
}

#[derive(Clone, Copy)]
struct Case {
    /// The number of checked words; the last one is written.
    words: usize,
    looks: u32,
    /// When it is written; never, if there are fewer checks.
    after: Duration,
}

/// Returns whether the write was seen, when, and the cost of the simulation.
fn sees(machine: &Machine, case: Case, watches: bool) -> (bool, u64, Summary) {
    let run = Simulation::new(machine).run(move || {
        let words = words(case.words);
        let theirs = Arc::clone(&words);
        let writer = pinned(WRITER, move || {
            Sim::compute(case.after);
            theirs[case.words - 1].store(1, Release);
        });
        let seen = Arc::new(std::sync::Mutex::new((false, 0)));
        let theirs = Arc::clone(&seen);
        let watcher = pinned(WATCHER, move || {
            let done = || words.iter().any(|word| word.load(Acquire) == 1);
            let seen = if watches { Sim::watch(case.looks, done) } else { look(case.looks, done) };
            *theirs.lock().unwrap() = (seen, Sim::now().as_ns());
        });
        [writer, watcher].into_iter().for_each(ThreadHandle::join);
        *seen.lock().unwrap()
    });
    let run = run.unwrap();
    (run.value.0, run.value.1, run.summary)
}

#[test]
fn a_watch_sees_what_comes_when_single_looks_would_and_gives_up_when_they_would() {
    for (name, machine) in [("skylake", SKYLAKE), ("two sockets", TWO_SOCKETS)] {
        let machine = Machine::from_toml(name, machine).unwrap();
        for words in [1, 3] {
            for after_ns in [200, 1_010, 7_777, 20_000, 20_013, 20_026, 3_000_000] {
                let after = Duration::from_nanos(after_ns);
                let case = Case { words, looks: 1_000, after };
                let (watched, single) = (sees(&machine, case, true), sees(&machine, case, false));
                let what = format!("{name}, {words} words, written after {after_ns} ns");
                assert_eq!(watched.0, single.0, "{what}");
                assert_eq!(watched.0, after_ns < 1_000_000, "{what}");
                // A single word is seen at the exact time; of several, the others may be checked first.
                let slack_ns = if words == 1 { 0 } else { 20 };
                assert!(
                    watched.1.abs_diff(single.1) <= slack_ns,
                    "{what}: {watched:?}, {single:?}"
                );
                assert!(watched.2.resumes < 80, "{what}: {}", watched.2.resumes);
            }
        }
    }
}

/// The cost of a check is counted even if it is not simulated.
#[test]
fn looks_that_are_not_simulated_are_accesses() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let case = Case { words: 3, looks: 1_000, after: Duration::from_millis(3) };
    let accesses = |watches| sees(&machine, case, watches).2.accesses;
    assert_eq!(accesses(true), accesses(false));
}

/// A turn that does anything but check may do something else the next time, so each one is executed.
#[test]
fn a_turn_that_does_more_than_look_is_made_each_time() {
    let machine = Machine::from_toml("skylake", SKYLAKE).unwrap();
    let turns = |what: fn(&Word)| {
        let run = Simulation::new(&machine).run(move || {
            let (word, mut turns) = (words(1), 0);
            let seen = Sim::watch(100, || {
                turns += 1;
                what(&word[0]);
                false
            });
            assert!(!seen);
            turns
        });
        run.unwrap().value
    };
    let looks = turns(|word| assert_eq!(word.load(Relaxed), 0));
    assert!(looks < 10, "{looks}");
    let others: [fn(&Word); 4] = [
        |word| word.store(0, Relaxed),
        |word| assert_eq!(word.swap(0, Relaxed), 0),
        |word| assert_ne!((word.load(Relaxed), Sim::now().as_ns()), (1, 0)),
        |_| (),
    ];
    for (number, other) in others.into_iter().enumerate() {
        assert_eq!(turns(other), 100, "{number}");
    }
}

/// Time that its CPU spends on another thread does not count as checking.
#[test]
fn who_is_preempted_while_it_watches_looks_as_often() {
    let machine = Machine::from_toml("skylake", SKYLAKE).unwrap();
    let took_ns = |watches: bool, shared: bool| {
        let run = Simulation::new(&machine).run(move || {
            let beside = pinned(if shared { WATCHER } else { WRITER }, || {
                (0..2_000).for_each(|_| {
                    Sim::compute(Duration::from_micros(5));
                    Sim::preemption_point();
                });
            });
            let took_ns = Arc::new(std::sync::Mutex::new(0));
            let theirs = Arc::clone(&took_ns);
            let watcher = pinned(WATCHER, move || {
                let (word, other) = (&words(1)[0], &words(1)[0]);
                let begun = Sim::now();
                let done = || word.load(Acquire) == 1;
                for round in 0..100 {
                    // It must not be taken for a thread that spins forever.
                    other.store(round, Relaxed);
                    assert!(!if watches { Sim::watch(2_000, done) } else { look(2_000, done) });
                }
                *theirs.lock().unwrap() = Sim::now().ns_since(begun);
            });
            [beside, watcher].into_iter().for_each(ThreadHandle::join);
            *took_ns.lock().unwrap()
        });
        run.unwrap().value
    };
    let close = |one: u64, other: u64| one.abs_diff(other) < other / 50;
    assert!(took_ns(false, true) > took_ns(false, false) + 3_000_000, "it shares its CPU");
    for shared in [false, true] {
        let (watched, single) = (took_ns(true, shared), took_ns(false, shared));
        assert!(close(watched, single), "{watched} {single}, {shared}");
    }
}

/// If CPUs are interrupted, this also happens while their threads watch, and as often.
#[test]
fn who_watches_is_interrupted_as_often() {
    const VARIATION: &str = "\n[costs.variation]\ncalls = [1, 1, 1, 1, 1, 1]\nexits = [1, 1, 1, 1, 1, 1]\n\
                             interrupted_every_ns = 20000\ninterrupted_for_ns = 10000\nsource = \"s\"\n";
    let took_ns = |machine: &str, watches: bool| {
        let machine = Machine::from_toml("varies", machine).unwrap();
        let run = Simulation::new(&machine).run(move || {
            let (word, other) = (&words(1)[0], &words(1)[0]);
            let begun = Sim::now();
            let done = || word.load(Acquire) == 1;
            for round in 0..1_000 {
                other.store(round, Relaxed);
                assert!(!if watches { Sim::watch(1_000, done) } else { look(1_000, done) });
            }
            Sim::now().ns_since(begun)
        });
        run.unwrap().value
    };
    let varies = format!("{SKYLAKE}{VARIATION}");
    let (watched, single) = (took_ns(&varies, true), took_ns(&varies, false));
    let steady = took_ns(SKYLAKE, true);
    assert!(single > steady + steady / 20, "{single} {steady}");
    assert!(watched.abs_diff(single) < (single - steady) / 4, "{watched} {single} {steady}");
}
