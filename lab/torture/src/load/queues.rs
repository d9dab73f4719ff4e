//! Items: queued, submitted, scoped, forked, looped over, panicking, waiting.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use coreshard::{CpuId, NodeId, Workqueue};
use fastrand::Rng;

use super::Site;

pub(super) fn queue(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    for _ in 0..rng.u32(1..64) {
        let entry = site.ledger.entry("queue");
        // Sometimes the closure is large, and so boxed.
        let ballast = [rng.u64(..); 8];
        if rng.bool() {
            site.ledger.accepted("queue", queue.queue(move || entry.ran()));
        } else {
            let item = move || {
                std::hint::black_box(ballast);
                entry.ran();
            };
            site.ledger.accepted("queue, boxed", queue.queue(item));
        }
    }
    // A producer that never waits could get ahead of the workers by any number of items.
    if rng.u32(..4) == 0 {
        site.ledger.succeeded("flush behind a burst", queue.flush());
    }
}

pub(super) fn queue_somewhere(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    let mut entry = Some(site.ledger.entry("an item for a CPU or a node"));
    let mut item = move || entry.take().expect("an item runs once").ran();
    // Rejected if the CPU or node does not exist: the caller runs it.
    if rng.bool() {
        if let Err(refused) = queue.queue_on(CpuId(rng.u32(..6)), item) {
            item = refused.into_item();
            item();
        }
    } else if let Err(refused) = queue.queue_on_node(NodeId(rng.u32(..2)), item) {
        item = refused.into_item();
        item();
    }
}

pub(super) fn submit(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    let entry = site.ledger.entry("submit");
    let number = rng.u64(..);
    let submitted = queue.submit(move || {
        entry.ran();
        number
    });
    let Some(handle) = site.ledger.accepted("submit", submitted) else { return };
    if rng.bool() {
        site.ledger.check(handle.join().ok() == Some(number), "another item's result came back");
    }
}

pub(super) fn scope(site: &Site, rng: &mut Rng) {
    let mut numbers = [0_u64; 16];
    let mut accepted = 0;
    site.any_queue(rng).scope(|scope| {
        for number in &mut numbers {
            let entry = site.ledger.entry("scope");
            let item = move || {
                *number += 1;
                entry.ran();
            };
            let queued = site.ledger.offer(|| scope.queue(item));
            accepted += u64::from(site.ledger.accepted("scope", queued).is_some());
        }
    });
    site.ledger.check(numbers.iter().sum::<u64>() == accepted, "a scope ended before its items");
}

pub(super) fn nested_scope(site: &Site, rng: &mut Rng) {
    fn nest(site: &Site, queue: &Workqueue, depth: u32) {
        let entry = site.ledger.entry("nested scope");
        queue.scope(|scope| {
            let item = move || {
                if depth > 0 {
                    nest(site, queue, depth - 1);
                }
                entry.ran();
            };
            let queued = site.ledger.offer(|| scope.queue(item));
            site.ledger.accepted("an open queue refused a nested item", queued);
        });
    }
    // A queue without a limit: with one, it would wait for itself.
    let queue = &site.queues[[0, 3, 4, 5][rng.usize(..4)]];
    nest(site, queue, rng.u32(1..6));
}

pub(super) fn install(site: &Site, rng: &mut Rng) {
    fn sum(depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let (a, b) = coreshard::join(|| sum(depth - 1), || sum(depth - 1));
        a + b
    }
    let depth = rng.u32(1..10);
    let entry = site.ledger.entry("install");
    let item = move || {
        entry.ran();
        sum(depth)
    };
    let result = site.ledger.offer(|| site.any_queue(rng).install(item));
    let result = site.ledger.accepted("install", result);
    site.ledger.check(result.is_none_or(|sum| sum == 1 << depth), "a forked sum is wrong");
}

pub(super) fn loops(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    let mut numbers = vec![1_u32; rng.usize(1..3_000)];
    let done = queue.for_each_mut(&mut numbers, |number| *number += 1);
    let done = site.ledger.accepted("for_each_mut", done);
    site.ledger
        .check(done.is_none() || numbers.iter().all(|n| *n == 2), "a loop left something out");
    let count = std::sync::atomic::AtomicUsize::new(0);
    let length = rng.usize(..3_000);
    let done = queue.for_each_range(0..length, |range| {
        count.fetch_add(range.len(), std::sync::atomic::Ordering::Relaxed);
    });
    let done = site.ledger.accepted("for_each_range", done);
    site.ledger.check(done.is_none() || count.into_inner() == length, "a range left something out");
}

/// Panics when it is dropped after its item has run. If the item is returned, it does not.
struct Bomb {
    armed: bool,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.armed && !thread::panicking() {
            std::panic::resume_unwind(Box::new("a destructor's"));
        }
    }
}

pub(super) fn panics(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    let entry = site.ledger.entry("a panicking item");
    match rng.u32(..4) {
        0 => {
            let queued = queue.queue(move || {
                entry.ran();
                std::panic::resume_unwind(Box::new("an item's"));
            });
            site.ledger.accepted("an open queue refused an item", queued);
        }
        1 => {
            let submitted = queue.submit(move || {
                entry.ran();
                std::panic::resume_unwind(Box::new(7_u32))
            });
            let Some(handle) = site.ledger.accepted("submit", submitted) else { return };
            let thrown: Result<(), _> = handle.join();
            site.ledger.check(
                thrown.is_err_and(|panic| panic.into_payload().is::<u32>()),
                "an item's panic was not returned",
            );
        }
        2 => {
            let mut bomb = Bomb { armed: false };
            let queued = queue.queue(move || {
                entry.ran();
                bomb.armed = true;
                drop(bomb);
            });
            site.ledger.accepted("an open queue refused an item", queued);
        }
        _ => {
            // The result is not used, and its destructor panics.
            let queued = queue.submit(move || {
                entry.ran();
                Bomb { armed: true }
            });
            let handle = site.ledger.accepted("an open queue refused a submission", queued);
            // An available output is dropped here, with its handle.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
        }
    }
}

pub(super) fn waits(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    for _ in 0..rng.u32(1..6) {
        let entry = site.ledger.entry("a waiting item");
        let wait = Duration::from_micros(rng.u64(100..6_000));
        let says_so = rng.bool();
        let queued = queue.queue(move || {
            let wait = || thread::sleep(wait);
            if says_so {
                coreshard::blocking(wait)
            } else {
                wait()
            }
            entry.ran();
        });
        site.ledger.accepted("an open queue refused an item", queued);
    }
}

pub(super) fn flush(site: &Site, rng: &mut Rng) {
    site.ledger.succeeded("flush from outside", site.any_queue(rng).flush());
}

pub(super) fn drain(site: &Site, rng: &mut Rng) {
    site.ledger.succeeded("drain from outside", site.any_queue(rng).drain());
}
