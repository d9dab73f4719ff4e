//! What the benchmarks of real time have in common: where they run, with what, and where their results go.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use coreshard_bench::rt::ExecutorSettings;
use coreshard_bench::{BenchError, BenchMachine, OverSeeds, over_each_rungs_seeds};
use coreshard_results::{CyclicResults, PiResults, TranscodeResults};
use coreshard_rt::{Priority, Rung};
use coreshard_sim::{Machine, Run};
use coreshard_topology::Topology;

use super::super::queue::{Site, other_load, rung};
use super::super::seeds::{SeedsArgs, each_with_each_seed};
use super::super::simulated::{self, SimArgs};
use super::latency;
use crate::failure::{bad_input, interrupted};
use crate::machine::{self, MachineArgs};
use crate::number::{few, whole};
use crate::output;
use crate::results::{self, Destination, JsonArgs, JsonOutput};

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
    pub(super) fn chosen_machine(&self) -> anyhow::Result<ChosenMachine> {
        let machine = self.machine.simulated()?;
        let (bench_machine, notes) = match &machine {
            Some(machine) => (simulated::bench_machine(&self.machine, machine), Vec::new()),
            None => {
                let Site { bench_machine, notes, .. } = Site::here(machine::Machine::here()?);
                (bench_machine, notes)
            }
        };
        let bench_machine = self.cut(bench_machine)?;
        Ok(ChosenMachine { machine, bench_machine, notes })
    }

    /// Simulates `run` of each of `rungs` with each seed, each by itself, and returns for each rung what it returned with
    /// each seed, what a reader must know, and the lines that are to be shown.
    pub(super) fn simulate<G: Sync + fmt::Display, R: Clone + Send>(
        &self,
        machine: &Machine,
        rungs: &[G],
        run: impl Fn(&G, u64) -> Result<R, BenchError> + Sync,
    ) -> anyhow::Result<Simulations<R>> {
        let seeds = self.seeds.from(self.simulated.seed())?;
        let runs = each_with_each_seed(rungs, &seeds, |rung, seed| {
            let shows_lines = self.c2c.is_some() && seed == seeds[0];
            let simulation =
                self.simulated.simulation(machine).seed(seed).record_lines(shows_lines);
            let run = simulated::unless_interrupted(simulation, || run(rung, seed))?;
            Some(run.map(simulated::taken_out))
        })?;
        let Some(runs) = runs else {
            return Err(interrupted("interrupted before every rung had its turn with each seed"));
        };
        let mut runs = runs.into_iter();
        let mut of_seeds = vec![Vec::new(); seeds.len()];
        let (mut found, mut lines) = (Vec::new(), Vec::new());
        for _ in rungs {
            let mut of_rung = Vec::new();
            for (summaries, run) in of_seeds.iter_mut().zip(runs.by_ref()) {
                let mut run = run?;
                lines.extend(self.lines(&mut run));
                summaries.push(run.summary);
                of_rung.push(run.value?);
            }
            found.push(of_rung);
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
pub(super) struct ChosenMachine {
    /// The one that is simulated; `None` for this one.
    pub(super) machine: Option<Machine>,
    /// As far as it is to be used.
    pub(super) bench_machine: BenchMachine,
    notes: Vec<String>,
}

impl ChosenMachine {
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
    match asked.filter(|asked| asked.get() > cpus) {
        None => Ok(()),
        Some(asked) => {
            let problem = format!("{option} {asked}: 1 to {cpus} can be used here");
            Err(bad_input(anyhow::Error::msg(problem)))
        }
    }
}

/// What simulations of all rungs with all seeds gave.
pub(super) struct Simulations<R> {
    /// For each rung what it returned with each seed.
    pub(super) found: Vec<Vec<R>>,
    /// What a reader must know.
    pub(super) notes: Vec<String>,
    /// For each rung the lines that are to be shown, where any are.
    pub(super) lines: Vec<String>,
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
pub(super) struct RungsArgs {
    #[command(flatten)]
    executor: ExecutorArgs,

    #[command(flatten)]
    place: WhereArgs,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl RungsArgs {
    /// Refuses a priority below which there are too few others.
    pub(super) fn needs_priority(&self, least: u8) -> anyhow::Result<()> {
        let given = self.executor.priority.get();
        if given >= least {
            return Ok(());
        }
        let problem = format!(
            "--priority {given}: other tasks have those below it; allowed are {least} to 99"
        );
        Err(bad_input(anyhow::Error::msg(problem)))
    }

    /// Finds out where the benchmark runs.
    pub(super) fn chosen_machine(&self) -> anyhow::Result<ChosenMachine> {
        self.place.chosen_machine()
    }

    /// Measures each rung on this machine, or in simulations of its own with several seeds, and shows the lines of the
    /// first of each.
    pub(super) fn measure<R: Noted + OverSeeds + Send>(
        &self,
        chosen: &ChosenMachine,
        here: impl Fn(&BenchMachine, ExecutorSettings) -> Result<R, BenchError>,
        simulated: impl Fn(&BenchMachine, ExecutorSettings) -> Result<R, BenchError> + Sync,
    ) -> anyhow::Result<Vec<R>> {
        let all_settings = self.executor.each();
        let bench_machine = &chosen.bench_machine;
        let Some(machine) = &chosen.machine else {
            let mut all = Vec::with_capacity(all_settings.len());
            let notes = chosen.notes_here();
            let _awake = latency::hold();
            for settings in all_settings {
                let mut results = here(bench_machine, settings)?;
                results.notes().splice(0..0, notes.iter().cloned());
                all.push(results);
            }
            return Ok(all);
        };
        let rungs: Vec<Rung> = all_settings.iter().map(|settings| settings.rung).collect();
        let run = |rung: &Rung, _seed| {
            let settings = all_settings.iter().find(|settings| settings.rung == *rung);
            simulated(bench_machine, *settings.expect("it is one of theirs"))
        };
        let Simulations { found, notes, lines } = self.place.simulate(machine, &rungs, run)?;
        for (rung, lines) in rungs.iter().zip(lines) {
            self.output.show(&format!("rung {rung}\n{lines}\n"))?;
        }
        let mut all = over_each_rungs_seeds(&found);
        for results in &mut all {
            results.notes().splice(0..0, notes.iter().cloned());
        }
        Ok(all)
    }
}

/// Results with sentences that a reader must know.
pub(super) trait Noted {
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
pub(crate) struct OutputArgs {
    #[command(flatten)]
    json: JsonArgs,

    /// Write a page with the results, and pictures of their distributions
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The files that results go to.
pub(crate) struct Output {
    json: JsonOutput,
    html: Option<Destination>,
}

impl OutputArgs {
    /// Shows what is not of the results, beside JSON on standard output on the other one.
    pub(super) fn show(&self, text: &str) -> anyhow::Result<()> {
        if self.json.is_stdout() {
            output::warn(text);
            return Ok(());
        }
        output::print(text)
    }

    /// Finds out whether the files can be written, before anything is measured.
    pub(crate) fn open(&self) -> anyhow::Result<Output> {
        let [json, html] = Destination::open_all([self.json.file(), self.html.as_deref()])?;
        Ok(Output { json: self.json.output(json), html })
    }
}

impl Output {
    pub(crate) fn write(
        self,
        results: &impl serde::Serialize,
        table: &str,
        page: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        self.json.print(|| results::pretty(results), || Ok(table.to_owned()))?;
        if let Some(file) = self.html {
            let path = file.path().to_owned();
            file.write(|out| out.write_all(page().as_bytes()))?;
            output::written(&path);
        }
        Ok(())
    }
}
