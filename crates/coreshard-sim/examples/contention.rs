//! The cost of contended operations on a simulated machine, by the number of CPUs.
//!
//! `cargo run --release -p coreshard-sim --example contention MACHINE [--operation NAME] [--threads LIST] [--seed N] [--outside NS] [--everyone] [--scattered]`.
//! A machine is a preset's name or a file. An operation is a contended one, or a queue. With `--everyone` all
//! CPUs are busy, in as many groups as possible. With `--scattered` threads lie on CPUs in random order.
#![allow(clippy::print_stdout, reason = "an example that prints its measurements")]

#[path = "../tests/simulated/programs/mod.rs"]
mod programs;

use std::time::Duration;

use coreshard_sim::{Machine, SimAlloc, Simulation};
use programs::{Load, OPERATIONS, Program};

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

fn usual(cpus: u32) -> Vec<u32> {
    let next = |threads: &u32| Some(threads + if *threads < 4 { 1 } else { (threads / 4).max(1) });
    std::iter::successors(Some(1), next).take_while(|threads| *threads <= cpus).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut name = "grace".to_owned();
    let (mut only, mut threads, mut seed) = (None, None, 1);
    let mut load = Load::of(1);
    let (mut everyone, mut scattered) = (false, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--operation" => only = Some(value()?),
            "--threads" => {
                let list: Result<Vec<u32>, _> = value()?.split(',').map(str::parse).collect();
                threads = Some(list?);
            }
            "--seed" => seed = value()?.parse()?,
            "--outside" => load.outside = Duration::from_nanos(value()?.parse()?),
            "--everyone" => everyone = true,
            "--scattered" => scattered = true,
            _ => name = argument,
        }
    }
    let machine = match name.ends_with(".toml") {
        true => Machine::from_file(name.as_ref())?,
        false => Machine::named(&name)?,
    };
    let cpus = machine.topology().cpus().len() as u32;
    load.everyone = everyone.then_some(cpus);
    load.places = if scattered { programs::scattered(cpus, seed) } else { Vec::new() };
    let threads = threads.unwrap_or_else(|| usual(cpus));
    let chosen: Vec<_> = match &only {
        None => OPERATIONS.iter().map(|(name, _)| *name).collect(),
        Some(only) => vec![only.as_str()],
    };
    for operation in chosen {
        let program = Program::named(operation).ok_or(format!("unknown operation {operation}"))?;
        print!("{operation:>22}");
        for threads in &threads {
            let load = Load { threads: *threads, ..load.clone() };
            let ns = Simulation::new(&machine).seed(seed).run(|| program.ns(load))?.value;
            print!(" {threads}:{ns:.3}");
        }
        println!();
    }
    Ok(())
}
