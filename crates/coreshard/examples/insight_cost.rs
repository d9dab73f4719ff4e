//! What measuring times costs: items of about a microsecond on a queue that measures none of them,
//! one in 32 and every one, in turn; and under callgrind the instructions.
//!
//! `cargo run --release -p coreshard --example insight_cost [ITEMS [ROUNDS]]`
//!
//! The items are counted loops, not timed ones, so that each has the same work to do.
//!
//! For the caller's instructions per item:
//! `valgrind --tool=callgrind --toggle-collect='*::push_off' insight_cost 20000 1`, and
//! `'*::push_sampled'`; for a worker's instructions per measured item: the inclusive cost of `run_measured` in what
//! `callgrind_annotate --inclusive=yes` shows of a run without `--toggle-collect`, less that of
//! `work`.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use coreshard::{Sampling, Scope, Workqueue};

/// About a microsecond.
#[inline(never)]
fn work(turns: u64) {
    for turn in 0..turns {
        black_box(turn);
    }
}

/// Turns that take a microsecond here.
fn turns_a_microsecond() -> u64 {
    const TURNS: u64 = 10_000_000;
    let best = (0..5).map(|_| {
        let begun = Instant::now();
        work(TURNS);
        begun.elapsed().as_nanos() as u64
    });
    TURNS * 1_000 / best.min().unwrap_or(1).max(1)
}

#[inline(never)]
fn push(queue: &Workqueue, items: u64, turns: u64) -> Result<(), Box<dyn std::error::Error>> {
    for _ in 0..items {
        queue.queue(move || work(turns))?;
    }
    Ok(())
}

/// As [`push`], under another name: the constant keeps the two functions separate.
#[inline(never)]
fn push_off(queue: &Workqueue, items: u64) -> Result<(), Box<dyn std::error::Error>> {
    push(queue, items, black_box(1))
}

/// As [`push`], under another name.
#[inline(never)]
fn push_sampled(queue: &Workqueue, items: u64) -> Result<(), Box<dyn std::error::Error>> {
    push(queue, items, black_box(2))
}

/// Nanoseconds an item, from the first call to the end of the last item.
fn round(queue: &Workqueue, items: u64, turns: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let begun = Instant::now();
    push(queue, items, turns)?;
    queue.drain()?;
    Ok(begun.elapsed().as_nanos() as f64 / items as f64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (items, rounds) = (number(100_000)?, number(21)?);
    let turns = turns_a_microsecond();
    let build = || coreshard::workqueue().map(|builder| builder.scope(Scope::System));
    let queues = [
        ("off", build()?.build()?),
        ("one in 32", build()?.times(Sampling::one_in(32)).build()?),
        ("every item", build()?.times(Sampling::EVERY_ITEM).build()?),
    ];
    push_off(&queues[0].1, items)?;
    push_sampled(&queues[1].1, items)?;
    let mut ratios = [const { Vec::new() }; 3];
    let mut plain = Vec::new();
    for _ in 0..rounds {
        let mut ns = [0.0; 3];
        for ((_, queue), ns) in queues.iter().zip(&mut ns) {
            *ns = round(queue, items, turns)?;
        }
        plain.push(ns[0]);
        ratios.iter_mut().zip(ns).for_each(|(ratios, it)| ratios.push(it / ns[0]));
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let at = |part: f64| values[((values.len() - 1) as f64 * part) as usize];
        (at(0.25), at(0.5), at(0.75))
    };
    println!("{:.0} ns an item, off (median of {rounds} rounds)", median(&mut plain).1);
    for ((name, _), ratios) in queues.iter().zip(&mut ratios).skip(1) {
        let (low, middle, high) = median(ratios);
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        println!(
            "{name}: {:+.2} % (quartiles {:+.2} to {:+.2} %)",
            percent(middle),
            percent(low),
            percent(high)
        );
    }
    Ok(())
}
