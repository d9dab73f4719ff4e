//! The visibility of delayed stores: as x86's memory order permits, and no weaker. Also, a search finds a
//! parker that relies on a stronger order.

use std::sync::Arc;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Padded, Parker, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::search::{Plan, Subject, attempt};
use coreshard_sim::{Faults, Machine, Sim, SimError, Simulation, View};

type Word = Padded<<Sim as Platform>::AtomicU32>;

const HELD: Faults = Faults {
    held_stores_per_million: 300_000,
    longest_hold: Duration::from_micros(2),
    stalls_per_million: 20_000,
    longest_stall: Duration::from_micros(1),
    ..Faults::NONE
};

/// The time at which both threads of a program have certainly started.
const START_NS: u64 = 1_000_000;

fn word() -> Word {
    Padded::new(AtomicInt::new(0))
}

fn start(body: impl FnOnce() + Send + 'static) -> <Sim as Platform>::Thread {
    Sim::spawn(ThreadSpec::default(), Box::new(body)).expect("the plan lets threads start")
}

/// Returns the result of `program`, by seed.
fn runs<R>(faults: Faults, seeds: u64, program: impl Fn() -> R) -> Vec<R> {
    let machine = Machine::pocket();
    let run = |seed| Simulation::new(&machine).seed(seed).faults(faults).run(&program);
    (0..seeds).map(|seed| run(seed).expect("it ends").value).collect()
}

/// Two threads that each store to their own word and then read the other's: the litmus test SB.
fn store_then_look(order: Ordering) -> [u32; 2] {
    let words = Arc::new([word(), word(), word(), word()]);
    let threads = [0, 1].map(|own| {
        let words = Arc::clone(&words);
        start(move || {
            // At the same time, apart from random variation.
            Sim::compute(Duration::from_nanos(START_NS.saturating_sub(Sim::now().as_ns())));
            words[own].store(1, order);
            words[2 + own].store(1 + words[1 - own].load(Acquire), SeqCst);
        })
    });
    threads.into_iter().for_each(ThreadHandle::join);
    [2, 3].map(|result| words[result].load(Relaxed) - 1)
}

#[test]
fn a_thread_may_look_before_its_store_is_seen_unless_the_store_is_sequentially_consistent() {
    for order in [Relaxed, Release] {
        let both_early = |found: &&[u32; 2]| **found == [0, 0];
        let found = runs(HELD, 200, || store_then_look(order));
        assert!(found.iter().filter(both_early).count() > 5, "{order:?}: {found:?}");
        let found =
            runs(Faults { held_stores_per_million: 0, ..HELD }, 200, || store_then_look(order));
        assert_eq!(found.iter().find(both_early), None, "{order:?}, no store is held back");
    }
    let found = runs(HELD, 200, || store_then_look(SeqCst));
    assert!(!found.contains(&[0, 0]), "{found:?}");
}

#[test]
fn stores_are_seen_in_their_order_and_at_once_by_their_own_thread() {
    let seen = runs(HELD, 200, || {
        let words = Arc::new([word(), word()]);
        let writer = {
            let words = Arc::clone(&words);
            start(move || {
                for value in 1..=20 {
                    words[0].store(value, Relaxed);
                    words[1].store(value, Release);
                    assert_eq!([0, 1].map(|word| words[word].load(Relaxed)), [value; 2]);
                }
            })
        };
        let mut behind = 0;
        loop {
            let second = words[1].load(Acquire);
            let first = words[0].load(Relaxed);
            assert!(first >= second, "the second store of a pair was seen without the first");
            behind += u32::from(first > second);
            if second == 20 {
                writer.join();
                return behind;
            }
        }
    });
    assert!(seen.iter().any(|behind| *behind > 0), "the stores of a pair are two");
}

#[test]
fn a_locked_instruction_a_system_call_and_the_end_of_a_thread_let_stores_go() {
    let long = Faults {
        held_stores_per_million: 1_000_000,
        longest_hold: Duration::from_secs(1),
        ..Faults::NONE
    };
    let let_go: [fn(&Word); 4] = [
        |other| _ = other.fetch_add(1, Relaxed),
        |_| Sim::yield_now(),
        |other| Sim::wake_one(&raw const **other),
        |_| (),
    ];
    for (number, let_go) in let_go.into_iter().enumerate() {
        let seen_after = runs(long, 5, || {
            let words = Arc::new([word(), word()]);
            let since = Sim::now();
            let writer = {
                let words = Arc::clone(&words);
                start(move || {
                    words[0].store(1, Relaxed);
                    let_go(&words[1]);
                    // Longer than anything but the delay.
                    if number < 3 {
                        Sim::compute(Duration::from_millis(100));
                    }
                })
            };
            while words[0].load(Relaxed) == 0 {
                Sim::spin_hint();
            }
            let seen_after = Sim::now().ns_since(since);
            writer.join();
            seen_after
        });
        assert!(
            seen_after.iter().all(|after_ns| *after_ns < 50_000_000),
            "{number}: {seen_after:?}"
        );
    }
}

/// A parker that takes an available permit by a plain store. A second permit that arrives before the store is
/// visible is overwritten, although the writes before it were not seen either.
struct HastyParker {
    word: Word,
}

impl HastyParker {
    fn park(&self) {
        if self.word.compare_exchange(0, 1, Relaxed, Acquire).is_err() {
            self.word.store(0, Relaxed);
            return;
        }
        while self.word.compare_exchange(2, 0, Acquire, Relaxed).is_err() {
            Sim::wait(&self.word, 1, None);
        }
    }

    fn unpark(&self) {
        if self.word.swap(2, AcqRel) == 1 {
            Sim::wake_one(&raw const *self.word);
        }
    }
}

trait Sleep: Send + Sync + 'static {
    fn sleep(&self);
    fn wake(&self);
}

impl Sleep for HastyParker {
    fn sleep(&self) {
        self.park();
    }
    fn wake(&self) {
        self.unpark();
    }
}

impl Sleep for Parker<Sim> {
    fn sleep(&self) {
        self.park();
    }
    fn wake(&self) {
        self.unpark();
    }
}

/// Two threads increment once per round, and wake a third, which sleeps until both have counted.
struct Counting<S: Sleep>(fn() -> S);

impl<S: Sleep> Subject for Counting<S> {
    fn run(&self) -> Result<(), String> {
        const ROUNDS: u32 = 20;
        const LOOKS: u32 = 8;
        let shared = Arc::new((self.0(), word(), word()));
        let counters = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            start(move || {
                let (sleeper, counted, round) = &*shared;
                for number in 1..=ROUNDS {
                    while round.load(Acquire) < number {
                        Sim::spin_hint();
                    }
                    // A spurious permit, as occurs often, and a real one.
                    sleeper.wake();
                    counted.fetch_add(1, SeqCst);
                    sleeper.wake();
                }
            })
        });
        let (sleeper, counted, round) = &*shared;
        for number in 1..=ROUNDS {
            round.store(number, SeqCst);
            let counted = || counted.load(SeqCst) == 2 * number;
            // It checks a few times before it sleeps.
            if !(0..LOOKS).any(|_| {
                counted() || {
                    Sim::spin_hint();
                    false
                }
            }) {
                while !counted() {
                    sleeper.sleep();
                }
            }
        }
        counters.into_iter().for_each(ThreadHandle::join);
        Ok(())
    }

    fn look(&self, _view: &View<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// A plan of the search without failing thread starts.
fn plan(seed: u64) -> Plan {
    let mut plan = Plan::of_seed(seed);
    plan.faults.failed_spawns_per_million = 0;
    plan
}

#[test]
fn a_search_finds_the_permit_that_a_plain_store_wipes_out_and_none_in_the_real_parker() {
    let machine = Machine::pocket();
    let hasty = || HastyParker { word: word() };
    let found = (0..2_000).find_map(|seed| attempt(&machine, plan(seed), &Counting(hasty)).err());
    let failure = found.expect("the search finds it");
    // The counters spin for the next round.
    assert!(failure.what.contains("did not finish"), "{failure}");
    let again = attempt(&machine, plan(failure.replay.seed), &Counting(hasty)).unwrap_err();
    assert_eq!(again, failure, "it is replayed");
    for seed in 0..2_000 {
        let real = attempt(&machine, plan(seed), &Counting(Parker::<Sim>::new));
        real.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn a_run_with_held_stores_is_the_same_again() {
    let machine = Machine::pocket();
    let hash = |seed| {
        let run =
            Simulation::new(&machine).seed(seed).faults(HELD).run(|| store_then_look(Release));
        run.map_err(|error: SimError| error.to_string()).unwrap().summary.trace_hash
    };
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}
