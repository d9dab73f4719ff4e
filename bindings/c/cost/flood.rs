//! A flood of closures from one thread: nanoseconds an item until all have run, until all are queued, and of CPU time.
//!
//! Usage: flood [COUNT [ROUNDS [IN_FLIGHT]]]    the producer counts to COUNT before each item; at IN_FLIGHT items under way it
//!                                              waits for half of them; the medians of 15 rounds of 200,000 items by default
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const ITEMS: u64 = 200_000;

/// On separate cache lines.
#[repr(align(256))]
struct Ran(AtomicU64);

static RAN: Ran = Ran(AtomicU64::new(0));

fn wait_for(items: u64) {
    while RAN.0.load(Ordering::Acquire) < items {
        // Seldom enough to leave the line to who counts.
        (0..10).for_each(|_| std::hint::spin_loop());
    }
}

fn cpu_ns() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc is mounted");
    let (_, rest) = stat.rsplit_once(')').expect("the name is in brackets");
    let ticks = rest.split_whitespace().skip(11).take(2);
    ticks.map(|it| it.parse::<f64>().expect("a number")).sum::<f64>() * 1e7
}

fn main() {
    let number = |at: usize, default: u64| {
        std::env::args().nth(at).and_then(|number| number.parse().ok()).unwrap_or(default)
    };
    let (count, rounds, in_flight) = (number(1, 0), number(2, 15), number(3, u64::MAX));
    let queue = coreshard::workqueue().unwrap().name("flood").build().unwrap();
    let mut times = Vec::new();
    let cpu_before = cpu_ns();
    for round in 0..rounds {
        let began = Instant::now();
        let first = round * ITEMS;
        let mut known = first;
        for item in first..first + ITEMS {
            for it in 0..count {
                black_box(it);
            }
            if item - known >= in_flight {
                wait_for(item - in_flight / 2);
                known = RAN.0.load(Ordering::Acquire);
            }
            // With one word, as calls from C have two.
            let work = move || {
                black_box(item);
                RAN.0.fetch_add(1, Ordering::Release);
            };
            queue.queue(work).unwrap();
        }
        let queued = began.elapsed();
        queue.flush().unwrap();
        times.push((began.elapsed(), queued));
    }
    times.sort();
    let (all, queued) = times[times.len() / 2];
    let ns = |time: std::time::Duration| time.as_nanos() as f64 / ITEMS as f64;
    let cpu = (cpu_ns() - cpu_before) / (ITEMS * rounds) as f64;
    println!("{:.1} {:.1} {cpu:.1}", ns(all), ns(queued));
}
