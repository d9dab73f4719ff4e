//! How long items of one queue wait for a worker while another queue's items, loops and joins occupy all CPUs.
//!
//! `cargo run --release -p coreshard-sim --example hogs [MACHINE [HOG]]`
//!
//! Measures this machine (`host`), or the simulated MACHINE: a name such as `grace`, or a TOML file. Prints a table in Markdown: the median and the
//! longest wait of 100 items of 1 ms for each kind of hog.
#![allow(clippy::print_stdout, reason = "an example that prints its measurements")]

mod hogs;

use std::error::Error;
use std::time::{Duration, Instant};

use coreshard_platform::{Host, Platform};
use coreshard_sim::{Machine, Sim, SimAlloc, Simulation};
use coreshard_topology::Topology;

use hogs::{Bench, Hog, waits};

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

const VICTIMS: usize = 100;

fn spin(duration: Duration) {
    let since = Instant::now();
    while since.elapsed() < duration {
        Host::spin_hint();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let machine = arguments.next().filter(|name| name != "host");
    let only = arguments.next();
    let machine = machine.map(|name| match name.ends_with(".toml") {
        true => Machine::from_file(name.as_ref()),
        false => Machine::named(&name),
    });
    let machine = machine.transpose()?;
    println!("| hog | median, ms | longest, ms |\n|---|--:|--:|");
    for hog in Hog::ALL {
        let name = format!("{hog:?}").to_lowercase();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let waits = match &machine {
            None => {
                let topology =
                    Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
                let cpus = std::thread::available_parallelism()?.get();
                waits::<Host>(&Bench { topology, cpus, compute: spin }, hog, VICTIMS)
            }
            Some(machine) => {
                let topology = machine.topology().clone();
                let cpus = topology.cpus().len();
                let bench = Bench { topology, cpus, compute: Sim::compute };
                Simulation::new(machine).run(move || waits::<Sim>(&bench, hog, VICTIMS))?.value
            }
        };
        let ms = |ns: u64| ns as f64 / 1e6;
        println!(
            "| {name} | {:.2} | {:.2} |",
            ms(waits[waits.len() / 2]),
            ms(waits[waits.len() - 1])
        );
    }
    Ok(())
}
