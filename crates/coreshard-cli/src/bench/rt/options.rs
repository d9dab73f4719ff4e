//! What the benchmarks of real time have in common: where they run, with what, and where their results go.

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

/// Where the benchmark runs, and how much of that it uses; without a machine, on this one.
#[derive(Debug, clap::Args)]
pub(super) struct WhereArgs {
    /// Use the first N CPUs alone
    #[arg(long, value_name = "N", value_parser = few)]
    cpus: Option<NonZeroUsize>,

    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    simulated: SimArgs,

    #[command(flatten)]
    seeds: SeedsArgs,

    /// Show N of the lines that simulated CPUs take from one another, with the first seed
    #[arg(long, value_name = "N", requires = "machine",
          value_parser = whole::<usize, 0, 1_000_000>)]
    pub(super) c2c: Option<usize>,
}

impl WhereArgs {
    /// Finds out where the benchmark runs.
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

    /// Simulates `run` of each of `variants` with each seed, each by itself, and returns for each variant what it returned with
    /// each seed, what a reader must know, and the lines that are to be shown.
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
            return Err(interrupted(
                "interrupted before every variant had its turn with each seed",
            ));
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

    /// The lines of a run that recorded them, as many as are to be shown.
    fn lines<R>(&self, run: &mut Run<R>) -> Option<String> {
        let mut report = run.lines.take()?;
        report.lines.truncate(self.c2c?);
        Some(report.to_string())
    }
}

/// Where a benchmark runs.
pub(super) struct RtSite {
    /// The one that is simulated; `None` for this one.
    pub(super) machine: Option<Machine>,
    /// As far as it is to be used.
    pub(super) bench_machine: BenchMachine,
    notes: Vec<String>,
}

impl RtSite {
    /// Refuses more CPUs than there are: they would be cut to these.
    pub(super) fn has(&self, option: &str, asked: Option<NonZeroUsize>) -> anyhow::Result<()> {
        at_most(option, asked, self.bench_machine.usable.len())
    }

    /// What is to be said of this machine, where what else ran is in the figures of what begins now.
    pub(super) fn notes_here(&self) -> Vec<String> {
        self.notes.iter().cloned().chain(other_load(self.bench_machine.usable.len())).collect()
    }
}

fn at_most(option: &str, asked: Option<NonZeroUsize>, cpus: usize) -> anyhow::Result<()> {
    if let Some(asked) = asked.filter(|asked| asked.get() > cpus) {
        bail_input!("{option} {asked}: 1 to {cpus} can be used here");
    }
    Ok(())
}

/// What simulations of all variants with all seeds gave.
pub(super) struct Simulations<R> {
    /// For each variant what it returned with each seed.
    pub(super) found: Vec<Vec<R>>,
    /// What a reader must know.
    pub(super) notes: Vec<String>,
    /// For each variant the lines that are to be shown, where any are.
    pub(super) lines: Vec<String>,
}

/// What the tasks of a benchmark run with.
#[derive(Debug, clap::Args)]
struct ExecutorArgs {
    /// Variants of the index: packed, padded, split, per-llc [default: per-llc]
    #[arg(long, alias = "rungs", value_name = "LIST", value_delimiter = ',', value_parser = variant::<Rung>)]
    variants: Vec<Rung>,

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
    /// One settings for each variant, the oldest first.
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

/// What the benchmarks take that measure one variant after the other.
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
    /// Refuses a priority below which there are too few others.
    pub(super) fn needs_priority(&self, least: u8) -> anyhow::Result<()> {
        let given = self.executor.priority.get();
        if given < least {
            bail_input!(
                "--priority {given}: other tasks have those below it; allowed are {least} to 99"
            );
        }
        Ok(())
    }

    /// Finds out where the benchmark runs.
    pub(super) fn chosen(&self) -> anyhow::Result<RtSite> {
        self.place.chosen()
    }

    /// Measures each variant on this machine, or in simulations of its own with several seeds, and shows the lines of the
    /// first of each.
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
            simulated(bench_machine, *settings.expect("it is one of theirs"))
        };
        let Simulations { found, notes, lines } = self.place.simulate(machine, &variants, run)?;
        for (variant, lines) in variants.iter().zip(lines) {
            output::print_beside(&format!("variant {variant}\n{lines}\n"), output.is_stdout())?;
        }
        Ok((output, noted(over_each_variants_seeds(&found), &notes, notes_of)))
    }
}

/// The results, each with these notes before its own.
fn noted<R>(mut all: Vec<R>, notes: &[String], notes_of: fn(&mut R) -> &mut Vec<String>) -> Vec<R> {
    for results in &mut all {
        notes_of(results).splice(0..0, notes.iter().cloned());
    }
    all
}

/// While the file is open, no CPU enters a state that takes longer than 0 µs to leave, as with cyclictest (Linux,
/// Documentation/power/pm_qos_interface.rst). `None` where that is not granted, which then shows in the figures as it
/// does in everybody's.
fn without_deep_idle_states() -> Option<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
    file.write_all(&0_i32.to_ne_bytes()).ok()?;
    Some(file)
}
