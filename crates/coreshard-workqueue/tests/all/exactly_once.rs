//! Every accepted item runs exactly once.
//!
//! Tests all combinations of scope, wake policy and intake, with 1 to 8 producers, on this machine and on a
//! virtual one with many pods; with items that panic, items that queue items, and queues that are built
//! and dropped meanwhile. `CORESHARD_STRESS_ITEMS` sets the total number of items, half a million by default:
//!
//! ```sh
//! CORESHARD_STRESS_ITEMS=100000000 cargo test --release -p coreshard-workqueue --test all exactly_once
//! ```

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{CpuId, Scope, Topology, Usable};
use coreshard_workqueue::{Intake, Runtime, Wake, Workqueue};

const DEFAULT_ITEMS: u64 = 500_000;
const PRODUCERS: std::ops::RangeInclusive<usize> = 1..=8;

/// Longer than any machine needs: a lost item makes the test time out.
const NEVER: Duration = Duration::from_secs(120);

/// How often each item ran.
struct Ledger {
    runs: Box<[AtomicU8]>,
    panics: AtomicU64,
}

impl Ledger {
    fn new(items: usize) -> Arc<Self> {
        let runs = (0..items).map(|_| AtomicU8::new(0)).collect();
        Arc::new(Self { runs, panics: AtomicU64::new(0) })
    }

    fn ran(&self, item: usize) {
        // Saturates, so that a wrapped count never looks like one run.
        if self.runs[item].fetch_add(1, Relaxed) == u8::MAX {
            self.runs[item].store(u8::MAX, Relaxed);
        }
    }

    /// Items that did not run exactly `expected(item)` times, and how often they did.
    fn wrong(&self, expected: impl Fn(usize) -> u8) -> Vec<(usize, u8)> {
        let counts = self.runs.iter().map(|runs| runs.load(Relaxed)).enumerate();
        counts.filter(|(item, runs)| *runs != expected(*item)).collect()
    }
}

#[derive(Clone, Copy, Debug)]
struct Combination {
    scope: Scope,
    wake: Wake,
    intake: Intake,
}

fn combinations() -> Vec<Combination> {
    let mut all = Vec::new();
    for scope in Scope::ALL {
        for wake in Wake::ALL {
            all.extend(Intake::ALL.map(|intake| Combination { scope, wake, intake }));
        }
    }
    all
}

fn queue(runtime: &Runtime<Host>, of: Combination, ledger: &Arc<Ledger>) -> Workqueue<Host> {
    let ledger = Arc::clone(ledger);
    runtime
        .workqueue()
        .name("stress")
        .scope(of.scope)
        .wake(of.wake)
        .intake(of.intake)
        .shard_size(1)
        .panic_handler(move |_| {
            ledger.panics.fetch_add(1, Relaxed);
        })
        .build()
        .unwrap()
}

/// Queues an item in one of many ways, by its number. Each must lead to one run.
fn bring_in(
    item: usize,
    queue: &Workqueue<Host>,
    passing: impl FnOnce(bool) -> Workqueue<Host>,
    cpus: &[CpuId],
    ledger: &Arc<Ledger>,
) {
    let own = Arc::clone(ledger);
    match item % 128 {
        // A queue for one item that shares the pools, and one with other pools. The drop drains.
        11 | 75 => {
            let passing = passing(item % 128 == 11);
            passing.queue(move || own.ran(item)).unwrap();
        }
        // An item that is joined.
        21 => {
            let handle = queue.submit(move || own.ran(item)).unwrap();
            handle.join().unwrap();
        }
        // An item that panics, and whose handle reports it.
        37 => {
            let work = move || {
                own.ran(item);
                resume_unwind(Box::new("deliberate"));
            };
            let error = queue.submit(work).unwrap().join().unwrap_err();
            assert_eq!(error.message(), "deliberate");
        }
        // A closure too large to be stored inline.
        49 | 113 => {
            let ballast = [item as u64; 12];
            let work = move || {
                assert!(ballast.iter().all(|part| *part == item as u64));
                own.ran(item);
            };
            queue.queue(work).unwrap();
        }
        _ if panics(item) => {
            let work = move || {
                own.ran(item);
                // Does not call the panic hook.
                resume_unwind(Box::new("deliberate"));
            };
            queue.queue(work).unwrap();
        }
        rest => match rest % 16 {
            5 => drop(queue.submit(move || own.ran(item)).unwrap()),
            7 => queue.queue_on(cpus[item % cpus.len()], move || own.ran(item)).unwrap(),
            // An item that queues the counting one. It may hold the last handle of the queue.
            9 => {
                let again = queue.clone();
                queue.queue(move || again.queue(move || own.ran(item)).unwrap()).unwrap();
            }
            _ => queue.queue(move || own.ran(item)).unwrap(),
        },
    }
}

/// Whether an item panics that has no handle.
fn panics(item: usize) -> bool {
    item % 16 == 3
}

fn stress(runtime: &Runtime<Host>, total_items: u64) {
    let combinations = combinations();
    let cells = combinations.len() * PRODUCERS.count();
    let items_per_cell = (total_items / cells as u64).max(256) as usize;
    for (number, combination) in combinations.iter().enumerate() {
        let other = combinations[(number + 7) % combinations.len()];
        for producers in PRODUCERS {
            one_cell(runtime, *combination, other, producers, items_per_cell);
        }
    }
    runtime.shutdown(NEVER).unwrap();
}

fn one_cell(
    runtime: &Runtime<Host>,
    combination: Combination,
    other: Combination,
    producers: usize,
    items: usize,
) {
    let ledger = Ledger::new(items);
    let main = queue(runtime, combination, &ledger);
    let cpus: Vec<CpuId> = runtime.usable().iter().collect();
    std::thread::scope(|scope| {
        for producer in 0..producers {
            let (ledger, cpus, handle) = (&ledger, &cpus, main.clone());
            scope.spawn(move || {
                for item in (producer..items).step_by(producers) {
                    let passing =
                        |same| queue(runtime, if same { combination } else { other }, ledger);
                    bring_in(item, &handle, passing, cpus, ledger);
                }
            });
        }
        // Now producers and items hold the last handles.
        if producers.is_multiple_of(2) {
            drop(main);
        } else {
            // While the producers run: a drain would reject their items.
            main.flush().unwrap();
            main.flush().unwrap();
            drop(main);
        }
    });
    // An item that holds the last handle leaves the draining to another thread.
    wait_until(
        || ledger.wrong(|_| 1).is_empty(),
        || {
            let wrong = ledger.wrong(|_| 1);
            format!(
                "{combination:?}, {producers} producers, {items} items: {} items did not run once, \
             such as (item, runs) {:?}",
                wrong.len(),
                &wrong[..wrong.len().min(8)]
            )
        },
    );
    let panics = (0..items).filter(|item| panics(*item) && item % 128 != 75).count() as u64;
    wait_until(
        || ledger.panics.load(Relaxed) == panics,
        || format!("{combination:?}: {panics} panics expected, {:?} handled", ledger.panics),
    );
}

fn wait_until(done: impl Fn() -> bool, else_say: impl Fn() -> String) {
    let started = std::time::Instant::now();
    while !done() {
        assert!(started.elapsed() < NEVER, "{}", else_say());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn total_items() -> u64 {
    match std::env::var("CORESHARD_STRESS_ITEMS") {
        Ok(text) => text.parse().expect("CORESHARD_STRESS_ITEMS is a number of items"),
        Err(_) => DEFAULT_ITEMS,
    }
}

fn usable() -> (Topology, Usable) {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap();
    (topology, usable)
}

#[test]
fn on_this_machine() {
    let (topology, usable) = usable();
    let runtime = Runtime::builder(topology).usable(usable.cpus().clone()).build().unwrap();
    stress(&runtime, total_items() / 2);
}

#[test]
fn on_many_pods() {
    let virtual_machine = Topology::from_synthetic("pack:2 numa:1 l3:2 core:2 pu:2").unwrap();
    let real = usable().1.cpus().clone();
    let runtime = Runtime::builder(virtual_machine).laid_over(real).build().unwrap();
    stress(&runtime, total_items() / 2);
}

#[test]
fn while_the_queue_is_shut_down() {
    let (topology, usable) = usable();
    let runtime = Runtime::builder(topology).usable(usable.cpus().clone()).build().unwrap();
    const ITEMS: usize = 4_000;
    for combination in combinations() {
        let ledger = Ledger::new(ITEMS);
        let accepted = Ledger::new(ITEMS);
        let queue = queue(&runtime, combination, &ledger);
        let mut run_by_then = 0;
        std::thread::scope(|scope| {
            for producer in 0..4 {
                let (queue, ledger, accepted) = (&queue, &ledger, &accepted);
                scope.spawn(move || {
                    for item in (producer..ITEMS).step_by(4) {
                        let own = Arc::clone(ledger);
                        match queue.queue(move || own.ran(item)) {
                            Ok(()) => accepted.ran(item),
                            // It was returned unrun.
                            Err(refused) if item % 2 == 0 => drop(refused.into_item()),
                            Err(refused) => {
                                refused.into_item()();
                                accepted.ran(item);
                            }
                        }
                    }
                });
            }
            wait_until(|| queue.stats().queued > 200, || "no item is accepted".to_owned());
            queue.shutdown(NEVER).unwrap();
            run_by_then = queue.stats().total().run;
        });
        // No item was accepted after the shutdown, and all that were accepted before have run.
        assert_eq!(queue.stats().total().run, run_by_then, "{combination:?}");
        let wrong = ledger.wrong(|item| accepted.runs[item].load(Relaxed));
        assert!(wrong.is_empty(), "{combination:?}: {wrong:?}");
    }
}
