//! Loads on simulated machines: Coreshard beside the protocols of other executors and a lower bound.
//!
//! `cargo run --release -p scaling -- --machine grace --loads loop:64:10000,burst:64:10000`
//!
//! Prints a table with the median time of each executor, in microseconds, or writes it as JSON.
#![allow(clippy::print_stdout, reason = "it prints its measurements")]

mod body;
mod executor;
mod load;
mod ours;
mod program;
mod protocols;
#[cfg(test)]
mod tests;

#[cfg(test)]
testing::watch!();

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use coreshard_sim::{LineReport, Machine, Sim, SimAlloc, Simulation};
use coreshard_topology::{CpuSet, Scope};
use serde_json::json;

use crate::executor::Executor;
use crate::load::Load;
use crate::ours::{Coreshard, OurTeam};
use crate::protocols::{channel::Channel, floor::Floor, rayon::Rayon, tokio::Tokio};

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

/// Loads that represent users' programs.
const LOADS: &str = "loop:16:1000000,loop:64:10000,loop:4096:2000,loop:4096:250,burst:64:1000,burst:64:10000,pingpong:200:1,pingpong:200:16,\
                     spawn:12800:1,spawn:12800:64,fib:20:100,tree:13:100,chain:200:200";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    Coreshard,
    /// A team whose members each keep their share of a loop.
    Team,
    Rayon,
    Channel,
    Tokio,
    Floor,
}

/// Times loads on a simulated machine.
#[derive(Debug, Parser)]
struct Arguments {
    /// A preset or a machine's file.
    #[arg(long, default_value = "grace")]
    machine: String,
    /// How many of its CPUs, the first ones [default: all].
    #[arg(long)]
    cpus: Option<usize>,
    /// Loads, as in loop:64:10000.
    #[arg(long, value_delimiter = ',', default_value = LOADS)]
    loads: Vec<Load>,
    /// Executors.
    #[arg(long, value_delimiter = ',', default_value = "coreshard,rayon,channel,tokio,floor")]
    executors: Vec<Name>,
    /// The scope of Coreshard's queue [default: the library's default].
    #[arg(long)]
    scope: Option<Scope>,
    /// Members of Coreshard's team [default: as many as CPUs].
    #[arg(long)]
    members: Option<usize>,
    /// Seeds, one for each simulation.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// Runs in each simulation after the first, which is reported by itself.
    #[arg(long, default_value_t = 8)]
    runs: usize,
    /// Prints the costliest cache lines of Coreshard's first seed.
    #[arg(long, default_value_t = 0)]
    lines: usize,
    /// Writes the times as JSON instead of a table.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Times in nanoseconds, of all seeds.
#[derive(Debug, Default)]
struct Times {
    first: Vec<u64>,
    later: Vec<u64>,
}

fn median(times: &mut [u64]) -> Option<u64> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

impl Arguments {
    fn machine(&self) -> anyhow::Result<Machine> {
        Ok(if self.machine.ends_with(".toml") {
            Machine::from_file(self.machine.as_ref())?
        } else {
            Machine::named(&self.machine)?
        })
    }

    fn start(&self, name: Name, machine: &Machine, cpus: &CpuSet) -> Arc<dyn Executor> {
        let members = self.members.unwrap_or(cpus.len());
        match name {
            Name::Coreshard => Arc::new(Coreshard::start(machine, cpus, self.scope)),
            Name::Team => Arc::new(OurTeam::start(machine, members, self.scope)),
            Name::Rayon => Arc::new(Rayon::start(cpus)),
            Name::Channel => Arc::new(Channel::start(cpus)),
            Name::Tokio => Arc::new(Tokio::start(cpus)),
            Name::Floor => Arc::new(Floor::start(cpus)),
        }
    }

    /// `None` if the executor cannot run the load.
    fn times(
        &self,
        machine: &Machine,
        cpus: &CpuSet,
        load: Load,
        name: Name,
    ) -> anyhow::Result<Option<Times>> {
        let mut all = Times::default();
        for seed in 0..self.seeds {
            let times = Mutex::new(None);
            let program = || {
                let executor = self.start(name, machine, cpus);
                let measured = executor::time(&executor, load, self.runs + 1);
                executor.end();
                Sim::outside(|| {
                    *times.lock().expect("no thread panics") = measured.map(|times| times.to_vec())
                });
            };
            let is_recorded =
                self.lines > 0 && matches!(name, Name::Coreshard | Name::Team) && seed == 0;
            let simulation = Simulation::new(machine).seed(seed).record_lines(is_recorded);
            let run = simulation.time_limit(Duration::from_secs(60)).run(program)?;
            if let Some(lines) = run.lines {
                let most = self.lines.min(lines.lines.len());
                println!("{}", LineReport { lines: lines.lines[..most].to_vec(), ..lines });
            }
            let Some(times) = times.into_inner().expect("no thread panics") else {
                return Ok(None);
            };
            let ns = |time: &Duration| time.as_nanos() as u64;
            all.first.extend(times.first().map(ns));
            all.later.extend(times[1..].iter().map(ns));
        }
        Ok(Some(all))
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let machine = arguments.machine()?;
    let online = machine.topology().online();
    let count = arguments.cpus.unwrap_or(online.len());
    if count == 0 || count > online.len() {
        bail!("invalid number of CPUs {count}: expected 1 to {}", online.len());
    }
    let cpus: CpuSet = online.iter().take(count).collect();
    let mut cells = Vec::new();
    if arguments.json.is_none() {
        println!("{}, {count} CPUs: median us (of the first run)\n", arguments.machine);
        let names = arguments.executors.iter().map(|name| format!(" {name:?} |"));
        println!("| load |{}", names.collect::<String>());
        println!("|---|{}", "--:|".repeat(arguments.executors.len()));
    }
    for load in &arguments.loads {
        let mut row = format!("| {load} |");
        for name in &arguments.executors {
            let times = arguments.times(&machine, &cpus, *load, *name)?;
            let Some(mut times) = times else {
                row += " – |";
                continue;
            };
            let (first, later) = (median(&mut times.first), median(&mut times.later));
            let us = |time: Option<u64>| time.unwrap_or(0) as f64 / 1e3;
            row += &format!(" {:.0} ({:.0}) |", us(later), us(first));
            cells.push(json!({
                "load": load.to_string(), "executor": format!("{name:?}").to_lowercase(), "cpus": count,
                "machine": arguments.machine, "first_ns": first, "median_ns": later,
                "least_ns": times.later.first(), "most_ns": times.later.last(),
            }));
        }
        if arguments.json.is_none() {
            println!("{row}");
        }
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&cells)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
