//! `coreshard bench rt`: real time, on this machine or on a simulated one.

mod index;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use coreshard_bench::{Ground, Progress};
use coreshard_report::json;
use coreshard_sim::{Machine, Profile, Run, Sim, Simulation};
use coreshard_topology::Topology;

use super::destination::Destination;
use super::progress::Bar;
use super::queue::{Site, other_load, said};
use super::simulated;
use crate::machine::MachineArgs;
use crate::output;

/// The options of `coreshard bench rt`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Set and search each rung of the priority index on all CPUs at once
    Index(index::Args),
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.bench {
        Bench::Index(args) => index::run(args),
    }
}

/// Where the benchmark runs; without a machine, on this one.
#[derive(Debug, clap::Args)]
struct WhereArgs {
    /// Simulate a machine: a preset's name (such as xeon-hcc-2s), or a file (.toml)
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,

    /// Settles ties between simulated CPUs; equal seeds give equal results
    #[arg(long, value_name = "N", default_value_t = 0, requires = "machine")]
    seed: u64,

    /// Whose costs apply: futex (a program on that machine), or in-kernel (no system calls)
    #[arg(long, value_name = "PROFILE", default_value_t = Profile::Futex, requires = "machine")]
    costs: Profile,
}

impl WhereArgs {
    fn simulated(&self) -> anyhow::Result<Option<Machine>> {
        self.machine.as_deref().map(simulated::machine).transpose()
    }

    /// A simulation of the machine with these options.
    fn simulation<'machine>(&self, machine: &'machine Machine) -> Simulation<'machine> {
        Simulation::new(machine).seed(self.seed).profile(self.costs)
    }

    /// What a reader must know of a simulated run.
    fn note<R>(&self, run: &Run<R>) -> String {
        format!(
            "simulated: costs {}, seed {}, {} ns of virtual time, trace {:016x}",
            self.costs, self.seed, run.summary.virtual_ns, run.summary.trace_hash
        )
    }
}

/// This machine, and what to say of it.
fn here() -> anyhow::Result<(Ground, Vec<String>)> {
    let machine = MachineArgs { machine: None, sysfs: None, hwloc_xml: None }.read()?;
    let Site { ground, mut notes, .. } = Site::here(machine);
    notes.extend(other_load(ground.usable.len()));
    Ok((ground, notes))
}

/// The cut of a simulated machine to its first CPUs, so that a smaller run is possible.
fn first_cpus(ground: Ground, cpus: Option<usize>) -> anyhow::Result<Ground> {
    let Some(cpus) = cpus else { return Ok(ground) };
    let usable = ground.usable.iter().take(cpus).collect();
    let topology: Topology = ground.topology.restrict(&usable)?;
    Ok(Ground { topology, usable, ..ground })
}

/// A bar, seen from inside a simulation.
struct Outside(Bar);

impl Progress for Outside {
    fn begin(&mut self, steps: usize) {
        Sim::outside(|| self.0.begin(steps));
    }

    fn step(&mut self, what: &dyn std::fmt::Display) -> std::ops::ControlFlow<()> {
        Sim::outside(|| self.0.step(what))
    }
}

/// Where results go besides the terminal.
#[derive(Debug, clap::Args)]
struct OutputArgs {
    /// Write the results as JSON; with "-" to standard output, and nothing else there
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

impl OutputArgs {
    fn is_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Finds out whether the file can be written, before anything is measured.
    fn open(&self) -> anyhow::Result<Option<Destination>> {
        let path = self.json.as_deref().filter(|_| !self.is_stdout());
        path.map(Destination::open).transpose()
    }

    fn write(
        &self,
        file: Option<Destination>,
        results: &impl serde::Serialize,
        table: &str,
    ) -> anyhow::Result<()> {
        if self.is_stdout() {
            let mut text = Vec::new();
            json::write(results, &mut text)?;
            return output::print(&String::from_utf8(text)?);
        }
        output::print(table)?;
        if let Some(file) = file {
            let path = file.path().to_owned();
            file.write(|out| json::write(results, out))?;
            said(&path);
        }
        Ok(())
    }
}
