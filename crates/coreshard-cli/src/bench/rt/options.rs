//! Options shared by the real-time benchmarks: machine, executor and output.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::num::NonZeroUsize;

use coreshard_bench::rt::ExecutorSettings;
use coreshard_bench::{BenchError, BenchMachine, OverSeeds, over_each_variants_seeds};
use coreshard_rt::{Priority, Rung};
use coreshard_sim::{Machine, Run};
use coreshard_topology::Topology;

use crate::common::{
    MachineArgs, PageArgs, PageOutput, SeedsArgs, SimArgs, Site, bail_input, each_with_each_seed,
    few, interrupted, other_load, output, taken_out, unless_interrupted, variant, whole,
};

/// The machine and CPUs to use.
#[derive(Debug, clap::Args)]
pub(super) struct WhereArgs {
    /// Use only the first N CPUs
    #[arg(long, value_name = "N", value_parser = few)]
    cpus: Option<NonZeroUsize>,

    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    simulated: SimArgs,

    #[command(flatten)]
    seeds: SeedsArgs,

    /// Show the N costliest contended cache lines of the first seed's simulation
    #[arg(long, value_name = "N", requires = "machine",
          value_parser = whole::<usize, 0, 1_000_000>)]
    pub(super) c2c: Option<usize>,
}

impl WhereArgs {
    /// Reads the machine.
    pub(super) fn chosen(&self) -> anyhow::Result<RtSite> {
        let machine = self.machine.simulated()?;
        let (bench_machine, notes) = match &machine {
            Some(machine) => (self.machine.bench_machine(machine), Vec::new()),
            None => {
                let Site { bench_machine, notes, .. } = Site::here()?;
                (bench_machine, notes)
            }
        };
        let bench_machine = self.cut(bench_machine)?;
        Ok(RtSite { machine, bench_machine, notes })
    }

    /// Simulates `run` of each variant with each seed, each in its own simulation. Returns the results per variant and
    /// seed, notes, and the contended lines.
    pub(super) fn simulate<G: Sync + fmt::Display, R: Clone + Send>(
        &self,
        machine: &Machine,
        variants: &[G],
        run: impl Fn(&G, u64) -> Result<R, BenchError> + Sync,
    ) -> anyhow::Result<Simulations<R>> {
        let seeds = self.seeds.from(self.simulated.seed())?;
        let runs = each_with_each_seed(variants, &seeds, |variant, seed| {
            let shows_lines = self.c2c.is_some() && seed == seeds[0];
            let simulation =
                self.simulated.simulation(machine).seed(seed).record_lines(shows_lines);
            let run = unless_interrupted(simulation, || run(variant, seed))?;
            Some(run.map(taken_out))
        })?;
        let Some(runs) = runs else {
            return Err(interrupted("interrupted before all variants ran with all seeds"));
        };
        let mut runs = runs.into_iter();
        let mut of_seeds = vec![Vec::new(); seeds.len()];
        let (mut found, mut lines) = (Vec::new(), Vec::new());
        for _ in variants {
            let mut of_variant = Vec::new();
            for (summaries, run) in of_seeds.iter_mut().zip(runs.by_ref()) {
                let mut run = run?;
                lines.extend(self.lines(&mut run));
                summaries.push(run.summary);
                of_variant.push(run.value?);
            }
            found.push(of_variant);
        }
        let notes = of_seeds.iter().map(|summaries| self.simulated.note(summaries)).collect();
        Ok(Simulations { found, notes, lines })
    }

    fn cut(&self, bench_machine: BenchMachine) -> anyhow::Result<BenchMachine> {
        at_most("--cpus", self.cpus, bench_machine.usable.len())?;
        let Some(cpus) = self.cpus else { return Ok(bench_machine) };
        let usable = bench_machine.usable.iter().take(cpus.get()).collect();
        let topology: Topology = bench_machine.topology.restrict(&usable)?;
        Ok(BenchMachine { topology, usable, ..bench_machine })
    }

    /// Returns the recorded lines of a run, as many as `--c2c` asks for.
    fn lines<R>(&self, run: &mut Run<R>) -> Option<String> {
        let mut report = run.lines.take()?;
        report.lines.truncate(self.c2c?);
        Some(report.to_string())
    }
}

/// The machine of a benchmark.
pub(super) struct RtSite {
    /// The simulated machine, or `None` for this one.
    pub(super) machine: Option<Machine>,
    /// The part of the machine to use.
    pub(super) bench_machine: BenchMachine,
    notes: Vec<String>,
}

impl RtSite {
    /// Rejects more CPUs than the machine has: they would be reduced silently.
    pub(super) fn has(&self, option: &str, asked: Option<NonZeroUsize>) -> anyhow::Result<()> {
        at_most(option, asked, self.bench_machine.usable.len())
    }

    /// Returns notes on this machine, including its current load.
    pub(super) fn notes_here(&self) -> Vec<String> {
        self.notes.iter().cloned().chain(other_load(self.bench_machine.usable.len())).collect()
    }
}

fn at_most(option: &str, asked: Option<NonZeroUsize>, cpus: usize) -> anyhow::Result<()> {
    if let Some(asked) = asked.filter(|asked| asked.get() > cpus) {
        bail_input!("invalid {option} {asked}: expected 1 to {cpus}");
    }
    Ok(())
}

/// The results of simulating all variants with all seeds.
pub(super) struct Simulations<R> {
    /// Results by variant and seed.
    pub(super) found: Vec<Vec<R>>,
    /// Notes for readers of the results.
    pub(super) notes: Vec<String>,
    /// The contended lines of each variant, if requested.
    pub(super) lines: Vec<String>,
}

/// The executor's options.
#[derive(Debug, clap::Args)]
struct ExecutorArgs {
    /// Variants of the priority index: packed, padded, split, per-llc [default: per-llc]
    #[arg(long, alias = "rungs", value_name = "LIST", value_delimiter = ',', value_parser = variant::<Rung>)]
    variants: Vec<Rung>,

    /// Priority of the tasks, 1 to 99
    #[arg(long, value_name = "N", default_value = "80", value_parser = priority)]
    priority: Priority,

    /// Do not lock the process's memory
    #[arg(long)]
    no_memory_lock: bool,

    /// Measure at normal priority if real-time priority is not permitted
    #[arg(long)]
    allow_degraded: bool,
}

fn priority(text: &str) -> Result<Priority, String> {
    let number = text.parse::<u8>().map_err(|_| "expected 1 to 99".to_owned())?;
    Priority::new(number).map_err(|error| error.to_string())
}

impl ExecutorArgs {
    /// Returns settings for each variant, the oldest first.
    fn each(&self) -> Vec<ExecutorSettings> {
        let variants = if self.variants.is_empty() { &[Rung::PerLlc][..] } else { &self.variants };
        let settings = |variant| ExecutorSettings {
            variant,
            priority: self.priority,
            lock_memory: !self.no_memory_lock,
            allow_degraded: self.allow_degraded,
        };
        Rung::ALL.into_iter().filter(|variant| variants.contains(variant)).map(settings).collect()
    }
}

/// The options of benchmarks that measure one variant after the other.
#[derive(Debug, clap::Args)]
pub(super) struct VariantsArgs {
    #[command(flatten)]
    executor: ExecutorArgs,

    #[command(flatten)]
    place: WhereArgs,

    #[command(flatten)]
    output: PageArgs,
}

impl VariantsArgs {
    /// Rejects a priority that leaves too few lower ones for other tasks.
    pub(super) fn needs_priority(&self, least: u8) -> anyhow::Result<()> {
        let given = self.executor.priority.get();
        if given < least {
            bail_input!(
                "invalid --priority {given}: expected {least} to 99, as other tasks need lower ones"
            );
        }
        Ok(())
    }

    /// Reads the machine.
    pub(super) fn chosen(&self) -> anyhow::Result<RtSite> {
        self.place.chosen()
    }

    /// Measures each variant on this machine, or simulates each with several seeds, and prints contended lines if
    /// requested.
    pub(super) fn measure<R: OverSeeds + Send>(
        &self,
        chosen: &RtSite,
        here: impl Fn(&BenchMachine, ExecutorSettings) -> Result<R, BenchError>,
        simulated: impl Fn(&BenchMachine, ExecutorSettings) -> Result<R, BenchError> + Sync,
        notes_of: fn(&mut R) -> &mut Vec<String>,
    ) -> anyhow::Result<(PageOutput, Vec<R>)> {
        let output = self.output.open()?;
        let all_settings = self.executor.each();
        let bench_machine = &chosen.bench_machine;
        let Some(machine) = &chosen.machine else {
            let notes = chosen.notes_here();
            let _awake = without_deep_idle_states();
            let all = all_settings.into_iter().map(|settings| here(bench_machine, settings));
            return Ok((output, noted(all.collect::<Result<_, _>>()?, &notes, notes_of)));
        };
        let variants: Vec<Rung> = all_settings.iter().map(|settings| settings.variant).collect();
        let run = |variant: &Rung, _seed| {
            let settings = all_settings.iter().find(|settings| settings.variant == *variant);
            simulated(bench_machine, *settings.expect("the variant has settings"))
        };
        let Simulations { found, notes, lines } = self.place.simulate(machine, &variants, run)?;
        for (variant, lines) in variants.iter().zip(lines) {
            output::print_beside(&format!("variant {variant}\n{lines}\n"), output.is_stdout())?;
        }
        Ok((output, noted(over_each_variants_seeds(&found), &notes, notes_of)))
    }
}

/// Inserts notes before the notes of each result.
fn noted<R>(mut all: Vec<R>, notes: &[String], notes_of: fn(&mut R) -> &mut Vec<String>) -> Vec<R> {
    for results in &mut all {
        notes_of(results).splice(0..0, notes.iter().cloned());
    }
    all
}

/// Keeps CPUs out of idle states with an exit latency above 0 µs while the file is open, as cyclictest does (Linux,
/// Documentation/power/pm_qos_interface.rst). Returns `None` if this is not permitted. The figures then include the
/// exit latency.
fn without_deep_idle_states() -> Option<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
    file.write_all(&0_i32.to_ne_bytes()).ok()?;
    Some(file)
}
