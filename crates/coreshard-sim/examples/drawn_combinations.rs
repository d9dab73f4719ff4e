//! Benchmarks of the queue on machines of up to 1,024 CPUs, drawn one after the other: each must finish.
//!
//! `cargo run --release -p coreshard-sim --example drawn_combinations [SECONDS [FIRST [MOST_ITEMS]]]`: the
//! duration, the first number, and the most items for all CPUs of a benchmark. A failure prints its number.
#![allow(clippy::print_stdout, reason = "a sweep prints its progress")]

#[path = "../tests/simulated/combinations/mod.rs"]
mod combinations;

use std::time::{Duration, Instant};

use combinations::Combination;
use coreshard_sim::SimAlloc;

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |or: u64| arguments.next().map_or(Ok(or), |text| text.parse());
    let (seconds, first, most_items) = (argument(60)?, argument(0)?, argument(480_000)?);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut number = first;
    while number == first || Instant::now() < end {
        Combination::draw(number, most_items).run().map_err(|what| format!("{number}: {what}"))?;
        number += 1;
    }
    println!(
        "{} combinations from {first} on finish, the last of them {}",
        number - first,
        Combination::draw(number - 1, most_items)
    );
    Ok(())
}
