//! Cancels, time-outs, aborts and shutdowns at random moments: each item runs once, is returned once, or is reported as
//! dropped.
//!
//! `CORESHARD_STRESS_ITEMS` sets the total number of items, 40,000 by default:
//!
//! ```sh
//! CORESHARD_STRESS_ITEMS=1000000 cargo test --release -p coreshard-workqueue --test all cancel_stress -- --nocapture
//! ```

#![allow(clippy::print_stdout, reason = "prints the counts on request")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{CpuSet, Scope, Topology};
use coreshard_workqueue::{
    Builder, Dropped, Intake, JoinHandle, JoinSet, Runtime, Task, Workqueue, yield_now,
};
use futures_lite::future::block_on;
use testing::NEVER;

const DEFAULT_ITEMS: u64 = 40_000;
/// Items of one queue. It is shut down at a random moment.
const ROUND: usize = 1_000;

/// The end of each item: it runs, is returned unrun, or is dropped. Each entry is written by one of the three, once.
struct Ledger {
    ends: Box<[AtomicU8]>,
}

/// An item that records its end.
struct Entry {
    ledger: Arc<Ledger>,
    item: usize,
    is_run: bool,
}

const RUN: u8 = 1;
const DROPPED: u8 = 16;

impl Ledger {
    fn new() -> Arc<Self> {
        Arc::new(Self { ends: (0..ROUND).map(|_| AtomicU8::new(0)).collect() })
    }

    fn entry(self: &Arc<Self>, item: usize) -> Entry {
        Entry { ledger: Arc::clone(self), item, is_run: false }
    }

    fn end(&self, item: usize) -> u8 {
        self.ends[item].load(Relaxed)
    }
}

impl Entry {
    fn run(mut self) -> usize {
        self.is_run = true;
        self.ledger.ends[self.item].fetch_add(RUN, Relaxed);
        self.item
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.is_run {
            self.ledger.ends[self.item].fetch_add(DROPPED, Relaxed);
        }
    }
}

/// A stream of random numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

#[derive(Default)]
struct Counts {
    run: AtomicU64,
    cancelled: AtomicU64,
    backlog: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

fn spin(steps: u64) {
    (0..steps).for_each(|_| std::hint::spin_loop());
}

/// Joins, cancels or drops a handle, at random.
fn settle(
    mut handle: JoinHandle<usize, Host>,
    item: usize,
    dice: &mut Dice,
    ledger: &Ledger,
    counts: &Counts,
) {
    spin(dice.below(200));
    let outcome = match dice.below(6) {
        0 => match handle.cancel() {
            Ok(taken) => {
                add(&counts.cancelled);
                assert_eq!(ledger.end(item), 0, "it has not begun");
                if dice.below(2) == 0 {
                    assert_eq!(taken.run(), item);
                    assert_eq!(ledger.end(item), RUN);
                } else {
                    drop(taken);
                    assert_eq!(ledger.end(item), DROPPED);
                }
                return;
            }
            Err(handle) => handle.join(),
        },
        1 => loop {
            match handle.join_timeout(Duration::from_micros(dice.below(50))) {
                Ok(outcome) => break outcome,
                Err(again) => {
                    add(&counts.timed_out);
                    handle = again;
                }
            }
        },
        2 => block_on(handle),
        3 => {
            let _ = block_on(futures_lite::future::poll_once(&mut handle));
            match handle.cancel() {
                Ok(taken) => {
                    add(&counts.cancelled);
                    return drop(taken);
                }
                Err(handle) => return drop(handle),
            }
        }
        4 => return drop(handle),
        _ => handle.join(),
    };
    match outcome {
        Ok(value) => {
            assert_eq!(value, item);
            assert_eq!(ledger.end(item), RUN);
        }
        Err(panic) => {
            assert!(panic.into_payload().is::<Dropped>());
            assert_eq!(ledger.end(item), DROPPED, "it was reported as dropped");
        }
    }
}

fn settle_task(
    task: Task<usize>,
    item: usize,
    dice: &mut Dice,
    ledger: &Ledger,
    set: &mut JoinSet<usize, Host>,
) {
    match dice.below(5) {
        0 => drop(task),
        1 => task.detach(),
        2 => _ = set.add(task),
        way => {
            if way == 3 {
                task.abort();
            }
            match block_on(task.result()) {
                Ok(value) => assert_eq!((value, ledger.end(item)), (item, RUN)),
                Err(error) => {
                    assert!(!error.is_panic() && (way == 3 || error.is_queue_gone()), "{error}");
                    assert_eq!(ledger.end(item), DROPPED);
                }
            }
        }
    }
}

fn produce(
    queue: &Workqueue<Host>,
    items: impl Iterator<Item = usize>,
    mut dice: Dice,
    ledger: &Arc<Ledger>,
    counts: &Counts,
    produced: &AtomicU64,
) {
    let mut set = JoinSet::new();
    // Some are kept for a while, so that later ones are settled first.
    let mut open: Vec<(JoinHandle<usize, Host>, usize)> = Vec::new();
    for item in items {
        if open.len() > 16 {
            let (handle, item) = open.swap_remove(dice.below(open.len() as u64) as usize);
            settle(handle, item, &mut dice, ledger, counts);
        }
        produced.fetch_add(1, Relaxed);
        let entry = ledger.entry(item);
        let work = dice.below(300);
        match dice.below(8) {
            0..5 => match queue.submit(move || {
                spin(work);
                entry.run()
            }) {
                Ok(handle) => open.push((handle, item)),
                Err(_refused) => add(&counts.refused),
            },
            5 => {
                let yields = dice.below(3);
                let future = async move {
                    for _ in 0..yields {
                        yield_now().await;
                    }
                    entry.run()
                };
                match queue.spawn(future) {
                    Ok(task) => settle_task(task, item, &mut dice, ledger, &mut set),
                    Err(_refused) => add(&counts.refused),
                }
            }
            6 if dice.below(10) == 0 => {
                let _ = queue.flush_timeout(Duration::from_micros(dice.below(100)));
                drop(entry);
            }
            _ => match queue.queue(move || _ = entry.run()) {
                Ok(()) => {}
                Err(_refused) => add(&counts.refused),
            },
        }
    }
    for (handle, item) in open {
        settle(handle, item, &mut dice, ledger, counts);
    }
    while let Some(ended) = block_on(set.join_next()) {
        assert!(ended.is_ok() || ended.is_err_and(|error| error.is_queue_gone()));
    }
}

fn one_round(runtime: &Runtime<Host>, seed: u64, counts: &Counts) {
    let ways: [fn(Builder<'_, Host>) -> Builder<'_, Host>; 5] = [
        |it| it,
        |it| it.intake(Intake::Locked),
        |it| it.ordered(),
        |it| it.max_active(2),
        |it| it.scope(Scope::Cpu),
    ];
    let mut dice = Dice(seed);
    let queue = ways[(seed % 5) as usize](runtime.workqueue()).build().unwrap();
    let ledger = Ledger::new();
    let produced = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for producer in 0..2 {
            let (queue, ledger, produced) = (&queue, &ledger, &produced);
            let dice = Dice(dice.below(u64::MAX));
            threads.spawn(move || {
                produce(queue, (producer..ROUND).step_by(2), dice, ledger, counts, produced);
            });
        }
        // At a random moment of the round; in a tenth of the rounds after the last item.
        let moment = dice.below(ROUND as u64 * 10 / 9).min(ROUND as u64);
        testing::wait_until("items are produced", || produced.load(Relaxed) >= moment);
        let mut timeout = Duration::from_micros(dice.below(500));
        loop {
            let backlog = queue.shutdown_now(timeout);
            let in_flight = backlog.in_flight();
            for item in backlog {
                add(&counts.backlog);
                if dice.below(2) == 0 { item.run() } else { drop(item) }
            }
            if in_flight == 0 {
                break;
            }
            timeout = NEVER;
        }
    });
    drop(queue);
    // Tasks that were woken after the shutdown are dropped by a background thread of the runtime.
    testing::wait_until("each item ends", || (0..ROUND).all(|item| ledger.end(item) != 0));
    for item in 0..ROUND {
        match ledger.end(item) {
            RUN => add(&counts.run),
            DROPPED => add(&counts.dropped),
            ends => panic!(
                "item {item} of round {seed}: {} runs, {} drops",
                ends % DROPPED,
                ends / DROPPED
            ),
        }
    }
}

#[test]
fn each_item_runs_once_or_comes_back_once_or_says_that_it_was_dropped() {
    let items = match std::env::var("CORESHARD_STRESS_ITEMS") {
        Ok(text) => text.parse().expect("CORESHARD_STRESS_ITEMS is a number of items"),
        Err(_) => DEFAULT_ITEMS,
    };
    let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1").unwrap();
    let real: CpuSet = coreshard_platform::affinity().unwrap();
    let runtime = Runtime::<Host>::builder(topology).laid_over(real).build().unwrap();
    let counts = Counts::default();
    let rounds = items.div_ceil(ROUND as u64);
    (0..rounds).for_each(|round| one_round(&runtime, round, &counts));
    let Counts { run, cancelled, backlog, dropped, refused, timed_out } = counts;
    println!(
        "{} items: {run:?} run, {dropped:?} dropped; {cancelled:?} came back from a cancel, {backlog:?} in a backlog, \
         {refused:?} refused; {timed_out:?} joins whose time was over",
        rounds * ROUND as u64
    );
}
