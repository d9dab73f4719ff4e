//! A tree of joins, as parallel iterators are cut, on teams of the whole machine and of parts of it: how much sooner is it
//! over with more members?
//!
//! `cargo run --release -p coreshard-sim --example team_forks [MACHINE [LEAVES [ADDS [SCOPE]]]]`
#![allow(clippy::print_stdout, reason = "an example that prints its measurements")]

use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Padded, Platform};
use coreshard_sim::{Machine, Sim, SimAlloc, Simulation};
use coreshard_topology::Scope;
use coreshard_workqueue::{Runtime, join};

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

/// Halves it, down to single leaves.
fn tree(leaves: u32, leaf: &(impl Fn() + Sync)) {
    if leaves < 2 {
        return leaf();
    }
    let half = leaves / 2;
    join::<Sim, _, _>(|| tree(half, leaf), || tree(leaves - half, leaf));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let machine = Machine::named(&argument("grace"))?;
    let leaves: u32 = argument("4096").parse()?;
    let adds: u32 = argument("200").parse()?;
    let scope: Scope = argument("cache").parse()?;
    let cpus = machine.topology().online().len();
    let mut alone = None;
    for members in [1, 2, 4, 8, 16, 32, 64, cpus] {
        if members > cpus {
            continue;
        }
        let times = std::sync::Mutex::new(Vec::new());
        Simulation::new(&machine).run(|| {
            let runtime = Runtime::<Sim>::builder(machine.topology().clone()).build();
            let runtime = runtime.expect("all CPUs");
            let team = runtime.team("forks").members(members).scope(scope).build();
            let team = team.expect("so many threads");
            // On a line of its own, so that the machine's clock counts it.
            let leaf = || {
                let own = Padded::new(<Sim as Platform>::AtomicU64::new(0));
                (0..adds).for_each(|_| {
                    own.fetch_add(1, Relaxed);
                });
            };
            for _ in 0..5 {
                let began = Sim::now();
                team.install(|| tree(leaves, &leaf));
                let took = Sim::now() - began;
                times.lock().expect("nobody panics").push(took);
            }
        })?;
        let mut times = times.into_inner()?;
        times.sort_unstable();
        let median = times[times.len() / 2];
        let alone = *alone.get_or_insert(median);
        println!(
            "{members:4} members: {:9.1} us, {:6.1} x as fast as one",
            median.as_secs_f64() * 1e6,
            alone.as_secs_f64() / median.as_secs_f64(),
        );
    }
    Ok(())
}
