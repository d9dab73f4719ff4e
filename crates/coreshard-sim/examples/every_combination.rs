//! Each combination of variants on each whole preset, under either profile: none may deadlock.
//!
//! `cargo run --release -p coreshard-sim --example every_combination [ITEMS [SEEDS [CPUS [FIRST]]]]`; items
//! and CPUs are lists, and seeds are counted from the first one.
#![allow(clippy::print_stdout, reason = "a sweep prints its progress")]

#[path = "../tests/simulated/combinations/bench.rs"]
mod bench;

use std::time::Duration;

use bench::run_bench;
use coreshard_bench::QueueBench;
use coreshard_sim::{Machine, Profile, SimAlloc, Simulation};
use coreshard_topology::Preset;

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut list = |default: &str| -> Result<Vec<u64>, std::num::ParseIntError> {
        let text = arguments.next().unwrap_or_else(|| default.to_owned());
        text.split(',').map(str::parse).collect()
    };
    let (items, seeds, cpus, first) = (list("1,10,100")?, list("1")?, list("1024")?, list("0")?);
    let seeds = first[0]..first[0] + seeds[0];
    for name in Preset::names() {
        let machine = Machine::named(name)?;
        let pairs = items.iter().flat_map(|items| cpus.iter().map(move |cpus| (*items, *cpus)));
        for (items, cpus) in pairs {
            for profile in Profile::ALL {
                for seed in seeds.clone() {
                    let simulation = Simulation::new(&machine)
                        .seed(seed)
                        .profile(profile)
                        .time_limit(Duration::from_secs(600))
                        .settle(Duration::from_secs(1));
                    let bench = QueueBench { seed, ..QueueBench::default() };
                    let run = run_bench(&simulation, &machine, cpus as usize, items, bench);
                    let run = run.map_err(|error| {
                        format!("{name}, {profile}, {items} items, seed {seed}: {error}")
                    })?;
                    run.value?;
                }
                println!("{name}, {profile}, {items} items: seeds {seeds:?} finish");
            }
        }
    }
    Ok(())
}
