//! Measures the cost of queueing an item: nanoseconds per item, and under callgrind the instructions.
//!
//! `cargo run --release -p coreshard --example item_cost [ITEMS [ROUNDS]]`
//!
//! For instructions: `valgrind --tool=callgrind --toggle-collect='*push_many*' item_cost 20000 1`,
//! or with `submit_many` or `requeue_many`.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use coreshard::{Scope, Work, Workqueue};

#[inline(never)]
fn push_many(queue: &Workqueue, items: u64, ran: &'static AtomicU64) {
    for _ in 0..items {
        let pushed = queue.queue(move || {
            ran.fetch_add(1, Relaxed);
        });
        pushed.expect("the queue is open");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (items, rounds) = (number(200_000)?, number(5)?);
    let queue = coreshard::workqueue()?.name("cost").scope(Scope::System).build()?;
    let ran: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));

    for round in 0..rounds {
        let started = Instant::now();
        push_many(&queue, items, ran);
        let pushed = started.elapsed();
        queue.drain()?;
        let ns = |elapsed: std::time::Duration| elapsed.as_nanos() as f64 / items as f64;
        println!("round {round}: push {:.1} ns, push and run {:.1} ns", ns(pushed), {
            ns(started.elapsed())
        });
    }
    compare_requeue(&queue, items, rounds)?;
    Ok(())
}

#[inline(never)]
fn submit_many(queue: &Workqueue, items: u64, ballast: &Arc<[u64; 4]>) {
    for more in 0..items {
        let held = Arc::clone(ballast);
        let work = move || black_box(held[0] + more + items);
        // The handle is dropped: the item runs all the same.
        drop(queue.submit(work).expect("the queue is open"));
    }
}

#[inline(never)]
fn requeue_many(queue: &Workqueue, works: &[Work]) {
    for work in works {
        assert!(work.queue(queue).expect("the queue is open"), "it is not pending");
    }
}

/// A boxed closure's submit against a reusable item's requeueing, in turn: nanoseconds of this
/// thread from one call to the next, and from a call to its end.
fn compare_requeue(
    queue: &Workqueue,
    items: u64,
    rounds: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    const BATCH: u64 = 64;
    let works: Vec<_> = (0..BATCH)
        .map(|_| {
            let mut runs = 0_u64;
            Work::new(move |_| runs = black_box(runs + 1))
        })
        .collect();
    let ballast = Arc::new([1_u64; 4]);
    let mut ratios = Vec::new();
    for round in 0..rounds.max(3) {
        let (mut submits, mut requeues) = (Duration::ZERO, Duration::ZERO);
        let started = Instant::now();
        for _ in 0..items / BATCH {
            let started = Instant::now();
            submit_many(queue, BATCH, &ballast);
            submits += started.elapsed();
            queue.drain()?;
        }
        let submitted = started.elapsed();
        let started = Instant::now();
        for _ in 0..items / BATCH {
            let started = Instant::now();
            requeue_many(queue, &works);
            requeues += started.elapsed();
            queue.drain()?;
        }
        let requeued = started.elapsed();
        let ns = |elapsed: Duration| elapsed.as_nanos() as f64 / items as f64;
        println!(
            "round {round}: submit {:.1} ns ({:.1} with its end), requeue {:.1} ns ({:.1})",
            ns(submits),
            ns(submitted),
            ns(requeues),
            ns(requeued)
        );
        ratios.push((ns(requeues) / ns(submits), ns(requeued) / ns(submitted)));
    }
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (call, whole) = ratios[ratios.len() / 2];
    println!("requeue / submit: {call:.2} for the call, {whole:.2} with its end (median round)");
    Ok(())
}
