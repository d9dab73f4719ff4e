//! `coreshard bench rt`: real time, on this machine or on a simulated one.

mod cyclic;
mod index;
mod latency;
mod pi;
mod transcode;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use coreshard_bench::rt::Footing;
use coreshard_bench::{BenchError, Ground, Progress};
use coreshard_report::json;
use coreshard_rt::{Priority, Rung};
use coreshard_sim::{Machine, Profile, Run, Sim, Simulation};
use coreshard_topology::Topology;

use super::destination::Destination;
use super::progress::Bar;
use super::queue::{Site, other_load, rung, said};
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
    /// Measure how late threads of fixed priority wake up, as cyclictest does
    Cyclic(cyclic::Args),
    /// Count priority inversions that are resolved, as pi_stress does
    Pi(pi::Args),
    /// Run instances of a media pipeline, each pinned to some CPUs
    Transcode(transcode::Args),
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.bench {
        Bench::Index(args) => index::run(args),
        Bench::Cyclic(args) => cyclic::run(args),
        Bench::Pi(args) => pi::run(args),
        Bench::Transcode(args) => transcode::run(args),
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

/// What the tasks of a benchmark run with.
#[derive(Debug, clap::Args)]
struct FootingArgs {
    /// Rungs of the index: packed, padded, split, per-llc [default: per-llc]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = rung::<Rung>)]
    rungs: Vec<Rung>,

    /// The priority of the tasks, 1 to 99
    #[arg(long, value_name = "N", default_value = "80", value_parser = priority)]
    priority: Priority,

    /// Do not keep the process's memory from being paged out
    #[arg(long)]
    no_memory_lock: bool,

    /// Measure at normal priority where no other is granted, and say so
    #[arg(long)]
    allow_degraded: bool,
}

fn priority(text: &str) -> Result<Priority, String> {
    let number = text.parse::<u8>().map_err(|_| "allowed are 1 to 99".to_owned())?;
    Priority::new(number).map_err(|error| error.to_string())
}

impl FootingArgs {
    /// One footing for each rung, the oldest first.
    fn each(&self) -> Vec<Footing> {
        let rungs = if self.rungs.is_empty() { &[Rung::PerLlc][..] } else { &self.rungs };
        let footing = |rung| Footing {
            rung,
            priority: self.priority,
            lock_memory: !self.no_memory_lock,
            allow_degraded: self.allow_degraded,
        };
        Rung::ALL.into_iter().filter(|rung| rungs.contains(rung)).map(footing).collect()
    }
}

/// Measures each rung on the ground, on this machine or in a simulation of its own, and hands the
/// lines of each simulation on.
fn each_rung<R>(
    place: &WhereArgs,
    cpus: Option<usize>,
    footing: &FootingArgs,
    lines: Option<usize>,
    here_run: impl Fn(&Ground, Footing) -> Result<R, BenchError>,
    sim_run: impl Fn(&Ground, Footing) -> Result<R, BenchError>,
    note: impl Fn(&mut R, Vec<String>),
) -> anyhow::Result<Vec<R>> {
    let footings = footing.each();
    let mut all = Vec::with_capacity(footings.len());
    let Some(machine) = place.simulated()? else {
        let (ground, notes) = here()?;
        let ground = first_cpus(ground, cpus)?;
        let _awake = latency::hold();
        for footing in footings {
            let mut results = here_run(&ground, footing)?;
            note(&mut results, notes.clone());
            all.push(results);
        }
        return Ok(all);
    };
    let ground = first_cpus(simulated::ground(&machine), cpus)?;
    for footing in footings {
        let simulation = place.simulation(&machine).record_lines(lines.is_some());
        let run = simulation.run(|| sim_run(&ground, footing))?;
        let said = place.note(&run);
        let mut results = run.value?;
        note(&mut results, vec![said]);
        if let (Some(lines), Some(mut report)) = (lines, run.lines) {
            report.lines.truncate(lines);
            output::print(&format!("rung {}\n{report}\n", footing.rung))?;
        }
        all.push(results);
    }
    Ok(all)
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
