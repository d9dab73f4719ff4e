//! Each combination of rungs on each preset, whole, under either profile: none may be deadlocked.
//!
//! `cargo run --release -p coreshard-sim --example every_combination [ITEMS [SEEDS [CPUS [FIRST]]]]`; items and CPUs are
//! lists, and seeds are counted from the first one.
#![allow(clippy::print_stdout, reason = "a sweep says how far it came")]

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use coreshard_bench::{BenchMachine, QueueBench, Unwatched};
use coreshard_sim::{Machine, Profile, Sim, SimAlloc, Simulation};
use coreshard_topology::Preset;

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

fn list(text: Option<String>, or: &[u64]) -> Result<Vec<u64>, std::num::ParseIntError> {
    text.map_or(Ok(or.to_vec()), |text| text.split(',').map(str::parse).collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let items = list(arguments.next(), &[1, 10, 100])?;
    let seeds: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let cpus = list(arguments.next(), &[u64::MAX])?;
    let first: u64 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    for name in Preset::names() {
        let machine = Machine::named(name)?;
        for (items, cpus) in
            items.iter().flat_map(|items| cpus.iter().map(move |cpus| (*items, *cpus)))
        {
            for profile in Profile::ALL {
                for seed in first..first + seeds {
                    let topology = machine.topology().clone();
                    let usable = topology.online().iter().take(cpus as usize).collect();
                    let place =
                        BenchMachine { usable, ..BenchMachine::whole(name, "sim", topology) };
                    let bench = QueueBench {
                        items_per_thread: NonZeroU64::new(items),
                        runs: NonZeroUsize::MIN,
                        seed,
                        ..QueueBench::default()
                    };
                    let simulation = Simulation::new(&machine)
                        .seed(seed)
                        .profile(profile)
                        .time_limit(Duration::from_secs(600))
                        .settle(Duration::from_secs(1));
                    let run = simulation.run(|| bench.run::<Sim>(&place, &mut Unwatched));
                    let run = run.map_err(|error| {
                        format!("{name}, {profile}, {items} items, seed {seed}: {error}")
                    })?;
                    run.value?;
                }
                println!("{name}, {profile}, {items} items: {seeds} seeds from {first} on end");
            }
        }
    }
    Ok(())
}
