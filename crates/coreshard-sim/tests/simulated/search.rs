//! The search finds the bugs that are planted for it, one line replays each, and it finds none in the real
//! code.

#![allow(clippy::print_stdout, reason = "a search says which seed found a bug")]

use std::sync::{Arc, Mutex, MutexGuard};

use coreshard_bench::{Ledger, QueueTrial};
use coreshard_sim::search::{Failure, Plan, ReplaySeed, Subject, attempt};
use coreshard_sim::{Machine, Sim, Summary, View};
use coreshard_workqueue::canary::{Canary, plant};

/// Canaries are planted in the whole process: one test at a time.
static PLANTED: Mutex<()> = Mutex::new(());

struct Planted(#[allow(dead_code, reason = "held, but never read")] MutexGuard<'static, ()>);

impl Planted {
    fn new(canary: Option<Canary>) -> Self {
        let alone = PLANTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        plant(canary);
        Self(alone)
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        plant(None);
    }
}

struct Trial {
    trial: QueueTrial,
    ledger: Arc<Ledger>,
}

impl Subject for Trial {
    fn run(&self) -> Result<(), String> {
        self.trial.run::<Sim>(&self.ledger)
    }

    fn look(&self, view: &View<'_>) -> Result<(), String> {
        self.ledger.scan(view.now_ns(), view.last_failure_ns(), |cpu| view.idle_ns(cpu))
    }
}

fn try_seed(machine: &Machine, seed: u64) -> Result<Summary, Box<Failure>> {
    let trial = QueueTrial::of_seed(seed, machine.topology());
    let ledger = trial.ledger();
    attempt(machine, Plan::of_seed(seed), &Trial { trial, ledger })
}

/// Returns the first of `seeds` seeds that fails.
fn search(machine: &Machine, seeds: u64) -> Option<Box<Failure>> {
    (0..seeds).find_map(|seed| try_seed(machine, seed).err())
}

/// The number of seeds within which each canary must be found. With the current code, the first seeds to find
/// them are 13, 104 and 563.
const CANARIES: [(Canary, u64); 3] =
    [(Canary::LostWakeup, 4_000), (Canary::CullRace, 4_000), (Canary::SplitPair, 1_000)];

#[test]
fn each_planted_bug_is_found_and_replayed_by_the_line_that_is_printed() {
    testing::own_process!();
    let machine = Machine::pocket();
    for (canary, seeds) in CANARIES {
        let planted = Planted::new(Some(canary));
        let failure = search(&machine, seeds);
        let failure = failure.unwrap_or_else(|| panic!("{canary:?} not found in {seeds} seeds"));
        println!("{canary:?}: found by seed {}, of {seeds}", failure.replay.seed);
        // The printed line suffices.
        let line = failure.replay.to_string();
        let replay: ReplaySeed = line.parse().unwrap();
        let again = try_seed(&machine, replay.seed).unwrap_err();
        assert_eq!(again, failure, "{canary:?}");
        assert_eq!(again.replay.trace_hash, replay.trace_hash);
        assert!(replay.trace_hash.is_some(), "{canary:?}: {failure}");
        drop(planted);
        // The planted bug was found, not another one.
        let _none = Planted::new(None);
        if let Err(real) = try_seed(&machine, replay.seed) {
            panic!("seed {} fails without {canary:?}: {real}", replay.seed);
        }
    }
}

#[test]
fn nothing_is_found_in_the_real_code() {
    testing::own_process!();
    let _none = Planted::new(None);
    let machine = Machine::pocket();
    let seeds = std::env::var("CORESHARD_SEARCH_SEEDS").map_or(100, |text| {
        text.parse().unwrap_or_else(|_| panic!("CORESHARD_SEARCH_SEEDS={text:?} is not a number"))
    });
    if let Some(failure) = search(&machine, seeds) {
        panic!("coreshard sim replay --machine pocket --seed {}\n{failure}", failure.replay);
    }
}
