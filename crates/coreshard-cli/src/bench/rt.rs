//! `coreshard bench rt`: real time, on this machine or on a simulated one.

mod cyclic;
mod index;
mod latency;
mod pi;
mod transcode;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use coreshard_bench::rt::ExecutorSettings;
use coreshard_bench::{BenchError, BenchMachine, Progress};
use coreshard_report::json;
use coreshard_results::{CyclicResults, PiResults, TranscodeResults};
use coreshard_rt::{Priority, Rung};
use coreshard_sim::{Machine, Profile, Run, Sim, Simulation};
use coreshard_topology::Topology;

use super::destination::Destination;
use super::progress::Bar;
use super::queue::{Site, other_load, rung, said};
use super::simulated;
use crate::machine::MachineArgs;
use crate::number::{few, seed, whole};
use crate::output;

/// The options of `coreshard bench rt`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: RtCommand,
}

#[derive(Debug, Subcommand)]
enum RtCommand {
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
    match &args.command {
        RtCommand::Index(args) => index::run(args),
        RtCommand::Cyclic(args) => cyclic::run(args),
        RtCommand::Pi(args) => pi::run(args),
        RtCommand::Transcode(args) => transcode::run(args),
    }
}

/// Where the benchmark runs, and how much of that it uses; without a machine, on this one.
#[derive(Debug, clap::Args)]
struct WhereArgs {
    /// Use the first N CPUs alone
    #[arg(long, value_name = "N", value_parser = few)]
    cpus: Option<NonZeroUsize>,

    /// Simulate a machine: a preset's name (such as xeon-hcc-2s), or a file (.toml)
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,

    /// Settles ties between simulated CPUs; equal seeds give equal results
    #[arg(long, value_name = "N", default_value_t = 0, requires = "machine", value_parser = seed)]
    seed: u64,

    /// Whose costs apply: futex (a program on that machine), or in-kernel (no system calls)
    #[arg(long, value_name = "PROFILE", default_value_t = Profile::Futex, requires = "machine")]
    costs: Profile,

    /// Show N of the lines that simulated CPUs take from one another
    #[arg(long, value_name = "N", requires = "machine",
          value_parser = whole::<usize, 0, 1_000_000>)]
    c2c: Option<usize>,
}

impl WhereArgs {
    fn simulated(&self) -> anyhow::Result<Option<Machine>> {
        self.machine.as_deref().map(simulated::machine).transpose()
    }

    /// A simulation of the machine with these options.
    fn simulation<'machine>(&self, machine: &'machine Machine) -> Simulation<'machine> {
        let simulation = Simulation::new(machine).seed(self.seed).profile(self.costs);
        simulation.record_lines(self.c2c.is_some())
    }

    /// This machine as far as it is to be used, and what to say of it.
    fn here(&self) -> anyhow::Result<(BenchMachine, Vec<String>)> {
        let machine = MachineArgs { machine: None, sysfs: None, hwloc_xml: None }.read()?;
        let Site { bench_machine, mut notes, .. } = Site::here(machine);
        let bench_machine = self.cut(bench_machine)?;
        notes.extend(other_load(bench_machine.usable.len()));
        Ok((bench_machine, notes))
    }

    /// A simulated machine as far as it is to be used.
    fn bench_machine(&self, machine: &Machine) -> anyhow::Result<BenchMachine> {
        self.cut(simulated::bench_machine(machine))
    }

    fn cut(&self, bench_machine: BenchMachine) -> anyhow::Result<BenchMachine> {
        let Some(cpus) = self.cpus else { return Ok(bench_machine) };
        let usable = bench_machine.usable.iter().take(cpus.get()).collect();
        let topology: Topology = bench_machine.topology.restrict(&usable)?;
        Ok(BenchMachine { topology, usable, ..bench_machine })
    }

    /// The lines of a run that recorded them, as many as are to be shown.
    fn lines<R>(&self, run: &mut Run<R>) -> Option<String> {
        let mut report = run.lines.take()?;
        report.lines.truncate(self.c2c?);
        Some(report.to_string())
    }

    /// What a reader must know of a simulated run.
    fn note<R>(&self, run: &Run<R>) -> String {
        format!(
            "simulated: costs {}, seed {}, {} ns of virtual time, trace {:016x}",
            self.costs, self.seed, run.summary.virtual_ns, run.summary.trace_hash
        )
    }
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
struct ExecutorArgs {
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

impl ExecutorArgs {
    /// One settings for each rung, the oldest first.
    fn each(&self) -> Vec<ExecutorSettings> {
        let rungs = if self.rungs.is_empty() { &[Rung::PerLlc][..] } else { &self.rungs };
        let settings = |rung| ExecutorSettings {
            rung,
            priority: self.priority,
            lock_memory: !self.no_memory_lock,
            allow_degraded: self.allow_degraded,
        };
        Rung::ALL.into_iter().filter(|rung| rungs.contains(rung)).map(settings).collect()
    }
}

/// What the benchmarks take that measure one rung after the other.
#[derive(Debug, clap::Args)]
struct RungsArgs {
    #[command(flatten)]
    executor: ExecutorArgs,

    #[command(flatten)]
    place: WhereArgs,

    #[command(flatten)]
    output: OutputArgs,
}

impl RungsArgs {
    /// Measures each rung on the bench_machine, on this machine or in a simulation of its own, and shows the
    /// lines of each simulation.
    fn measure<R: Noted>(
        &self,
        here: impl Fn(&BenchMachine, ExecutorSettings) -> Result<R, BenchError>,
        simulated: impl Fn(&BenchMachine, ExecutorSettings) -> Result<R, BenchError>,
    ) -> anyhow::Result<Vec<R>> {
        let all_settings = self.executor.each();
        let mut all = Vec::with_capacity(all_settings.len());
        let Some(machine) = self.place.simulated()? else {
            let (bench_machine, notes) = self.place.here()?;
            let _awake = latency::hold();
            for settings in all_settings {
                let mut results = here(&bench_machine, settings)?;
                results.notes().splice(0..0, notes.iter().cloned());
                all.push(results);
            }
            return Ok(all);
        };
        let bench_machine = self.place.bench_machine(&machine)?;
        for settings in all_settings {
            let simulation = self.place.simulation(&machine);
            let mut run = simulation.run(|| simulated(&bench_machine, settings))?;
            let said = self.place.note(&run);
            if let Some(lines) = self.place.lines(&mut run) {
                self.output.show(&format!("rung {}\n{lines}\n", settings.rung))?;
            }
            let mut results = run.value?;
            results.notes().insert(0, said);
            all.push(results);
        }
        Ok(all)
    }
}

/// Results with sentences that a reader must know.
trait Noted {
    fn notes(&mut self) -> &mut Vec<String>;
}

macro_rules! noted {
    ($($results:ty),+) => {
        $(impl Noted for $results {
            fn notes(&mut self) -> &mut Vec<String> {
                &mut self.notes
            }
        })+
    };
}

noted!(CyclicResults, PiResults, TranscodeResults);

/// Where results go besides the terminal.
#[derive(Debug, clap::Args)]
struct OutputArgs {
    /// Write the results as JSON; with "-" to standard output, and nothing else there
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,

    /// Write a page with the results, and pictures of their distributions
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The files that results go to.
struct Output {
    is_stdout: bool,
    json: Option<Destination>,
    html: Option<Destination>,
}

impl OutputArgs {
    fn is_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Shows what is not of the results, beside JSON on standard output on the other one.
    fn show(&self, text: &str) -> anyhow::Result<()> {
        if self.is_stdout() {
            output::warn(text);
            return Ok(());
        }
        output::print(text)
    }

    /// Finds out whether the files can be written, before anything is measured.
    fn open(&self) -> anyhow::Result<Output> {
        let is_stdout = self.is_stdout();
        let json = self.json.as_deref().filter(|_| !is_stdout);
        let [json, html] = Destination::open_all([json, self.html.as_deref()])?;
        Ok(Output { is_stdout, json, html })
    }
}

impl Output {
    fn write(
        self,
        results: &impl serde::Serialize,
        table: &str,
        page: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if self.is_stdout {
            let mut text = Vec::new();
            json::write(results, &mut text)?;
            output::print(&String::from_utf8(text)?)?;
        } else {
            output::print(table)?;
        }
        let mut written = Vec::new();
        if let Some(file) = self.json {
            written.push(file.path().to_owned());
            file.write(|out| json::write(results, out))?;
        }
        if let Some(file) = self.html {
            written.push(file.path().to_owned());
            file.write(|out| out.write_all(page().as_bytes()))?;
        }
        written.iter().for_each(|path| said(path));
        Ok(())
    }
}
