//! Measures the cost of a fork that is not stolen: nanoseconds, and under callgrind the instructions.
//!
//! `cargo run --release -p coreshard --example fork_cost [DEPTH]`
//!
//! For instructions: `valgrind --tool=callgrind --toggle-collect='*forks_of*' fork_cost 20`; the sum
//! over the forks that it prints is what a fork and its two calls take.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use coreshard::{CpuSet, Scope};

/// Forks down to the leaves of a tree; how many forks that were.
#[inline(never)]
fn forks_of(depth: u32) -> u64 {
    if depth == 0 {
        return black_box(0);
    }
    let (left, right) = coreshard::join(|| forks_of(depth - 1), || forks_of(depth - 1));
    left + right + 1
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let depth = std::env::args().nth(1).map_or(Ok(20), |text| text.parse())?;
    let usable = coreshard_platform::affinity()?;
    let one = CpuSet::from_iter(usable.iter().next());
    // One worker, so no other can steal.
    let queue = coreshard::workqueue()?.name("forks").scope(Scope::System).cpu_mask(one).build()?;
    for _ in 0..3 {
        let started = Instant::now();
        let forks =
            queue.install(|| forks_of(depth)).map_err(|refused| refused.reason().to_string())?;
        let ns = started.elapsed().as_nanos() as f64 / forks as f64;
        println!("{forks} forks, {ns:.2} ns each");
    }
    Ok(())
}
