//! `coreshard bench queue`: how each affinity scope, wake-up policy and intake performs.

use std::fmt::Display;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;

use anyhow::{Context, bail};
use coreshard::{CpuSet, Host, Intake, Scope, Topology, Wake};
use coreshard_bench::{BenchMachine, QueueBench, over_seeds, with_curves};
use coreshard_report::{csv, html, table};
use coreshard_results::QueueResults;
use coreshard_sim::{Machine as Simulated, Sim};
use coreshard_topology::{ShardSize, Usable, input};

use super::progress::Bar;
use super::seeds::{SeedsArgs, side_by_side};
use super::simulated::{self, Shared, SimArgs};
use crate::failure::{bad_input, interrupted};
use crate::machine::{Machine, MachineArgs};
use crate::number::{many, whole};
use crate::output;
use crate::results::{self, Destination, JsonArgs, JsonOutput};

/// Where the page goes if nothing was said of where results go.
const DEFAULT_PAGE: &str = "./coreshard-bench.html";

/// Items of a producer and runs, where nothing else is asked for. Virtual time has no noise to
/// average out, and a simulated item takes about ten times a real one.
const SIMULATED_ITEMS: u64 = 300;
const SIMULATED_RUNS: NonZeroUsize = NonZeroUsize::MIN;

/// The options of `coreshard bench queue`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Producers, each pinned to a CPU; more than CPUs share them [default: one for each CPU; with a
    /// virtual machine one for each virtual CPU, but at most 4 for each real one]
    #[arg(long, value_name = "N", value_parser = whole::<u64, 1, 65_536>)]
    threads: Option<u64>,

    /// Items that each producer queues in a run [default: 6000, in a flood 200000, less where
    /// producers outnumber CPUs; simulated 300]
    #[arg(long, value_name = "N", value_parser = many::<u64>)]
    items: Option<u64>,

    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = rung::<Scope>,
          help = rungs("Affinity scopes", &Scope::ALL))]
    scopes: Vec<Scope>,

    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = rung::<Wake>,
          help = rungs("Wake-up policies", &Wake::ALL))]
    wake: Vec<Wake>,

    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = rung::<Intake>,
          help = rungs("Intakes", &Intake::ALL))]
    intake: Vec<Intake>,

    /// Runs of each combination, interleaved [default: 7, simulated 1 with each seed]
    #[arg(long, value_name = "N", value_parser = whole::<u64, 1, 10_000>)]
    runs: Option<u64>,

    /// Flood: producers do not wait for each item, but keep at most N of theirs in flight
    #[arg(long, value_name = "N", value_parser = many::<u64>)]
    outstanding: Option<u64>,

    /// Measure on 1, 2, 4 … CPUs, a producer on each, and fit the universal scalability law: a list of
    /// numbers, or auto (the powers of two, and all); on the first CPUs of the machine
    #[arg(long, value_name = "LIST|auto", conflicts_with = "threads")]
    cpus: Option<CpuCounts>,

    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    simulated: SimArgs,

    #[command(flatten)]
    seeds: SeedsArgs,

    /// Wanted number of cores in a cache shard
    #[arg(long, value_name = "N", default_value_t = ShardSize::DEFAULT.cores(),
          value_parser = whole::<usize, 1, 65_536>)]
    shard_size: usize,

    #[command(flatten)]
    json: JsonArgs,

    /// Write the results as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write the results as a page with charts [default: ./coreshard-bench.html, where no other file
    /// is asked for]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Numbers of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CpuCounts {
    Auto,
    List(Vec<usize>),
}

impl FromStr for CpuCounts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let number = |word: &str| whole::<usize, 1, 65_536>(word.trim());
        text.split(',').map(number).collect::<Result<_, _>>().map(Self::List)
    }
}

impl CpuCounts {
    /// On a machine of so many.
    fn of(&self, cpus: usize) -> Vec<usize> {
        match self {
            Self::List(list) => list.clone(),
            Self::Auto => {
                let powers = (0..).map(|power| 1 << power).take_while(|count| *count < cpus);
                powers.chain([cpus]).collect()
            }
        }
    }
}

/// One word of a list of rungs.
pub(crate) fn rung<R: FromStr<Err: ToString>>(word: &str) -> Result<R, String> {
    word.trim().parse().map_err(|error: R::Err| error.to_string())
}

/// What is told of an option that takes a list of rungs.
fn rungs<R: Display>(what: &str, all: &[R]) -> String {
    let names: Vec<_> = all.iter().map(ToString::to_string).collect();
    format!("{what}: {} [default: all]", names.join(", "))
}

/// The rungs that were listed, or all of them.
pub(crate) fn or_all<R: Copy>(listed: &[R], all: &[R]) -> Vec<R> {
    if listed.is_empty() { all.to_vec() } else { listed.to_vec() }
}

impl Args {
    fn bench(&self) -> QueueBench {
        let bench = self.bench_here();
        if !self.simulated.sim {
            return bench;
        }
        QueueBench {
            items_per_thread: bench.items_per_thread.or(NonZeroU64::new(SIMULATED_ITEMS)),
            runs: self.runs.map_or(SIMULATED_RUNS, |_| bench.runs),
            seed: self.simulated.seed(),
            ..bench
        }
    }

    fn bench_here(&self) -> QueueBench {
        let to_usize = |number| usize::try_from(number).ok().and_then(NonZeroUsize::new);
        let defaults = QueueBench::default();
        QueueBench {
            scopes: or_all(&self.scopes, &Scope::ALL),
            wakes: or_all(&self.wake, &Wake::ALL),
            intakes: or_all(&self.intake, &Intake::ALL),
            threads: self.threads.and_then(to_usize),
            items_per_thread: self.items.and_then(NonZeroU64::new),
            runs: self.runs.and_then(to_usize).unwrap_or(defaults.runs),
            outstanding: self.outstanding.and_then(NonZeroU64::new),
            shard_size: ShardSize::new(self.shard_size),
            ..defaults
        }
    }
}

/// Where the results go, found to be writable.
struct Destinations {
    json: JsonOutput,
    csv: Option<Destination>,
    html: Option<Destination>,
}

impl Destinations {
    fn open(args: &Args) -> anyhow::Result<Self> {
        let (csv, mut html) = (args.csv.as_deref(), args.html.as_deref());
        if !args.json.is_given() && csv.is_none() && html.is_none() {
            html = Some(Path::new(DEFAULT_PAGE));
        }
        let [json, csv, html] = Destination::open_all([args.json.file(), csv, html])?;
        Ok(Self { json: args.json.output(json), csv, html })
    }

    fn write(self, results: &QueueResults) -> anyhow::Result<()> {
        let table = || Ok(table::queue(results, output::columns()));
        self.json.print(|| results::pretty(results), table)?;
        if let Some(file) = self.csv {
            let path = file.path().to_owned();
            file.write(|out| csv::write_queue(results, out))?;
            output::written(&path);
        }
        if let Some(file) = self.html {
            let path = file.path().to_owned();
            file.write(|out| out.write_all(html::queue_page(results).as_bytes()))?;
            output::written(&path);
        }
        Ok(())
    }
}

/// What the benchmark stands on, and what to say of it.
pub(super) struct Site {
    pub(super) bench_machine: BenchMachine,
    cpu_model: Option<String>,
    pub(super) notes: Vec<String>,
}

impl Site {
    pub(super) fn new(args: &MachineArgs) -> anyhow::Result<Self> {
        let machine = args.read()?;
        if args.name().is_none() {
            return Ok(Self::here(machine));
        }
        let this = Topology::host()?;
        let usable = Usable::host(&this)?;
        let Machine { topology, .. } = machine;
        Ok(Self {
            bench_machine: BenchMachine {
                cpu_quota: usable.quota_cpus(),
                laid_over: Some(usable.cpus().clone()),
                ..BenchMachine::whole(topology.name().to_owned(), "host", topology)
            },
            cpu_model: this.model().map(str::to_owned),
            notes: limits(&usable).into_iter().collect(),
        })
    }

    pub(super) fn here(machine: Machine) -> Self {
        let Machine { topology, usable, .. } = machine;
        let cpu_model = topology.model().map(str::to_owned);
        let name = cpu_model.as_deref().unwrap_or_else(|| topology.name());
        let cpus = topology.online().len();
        let name = format!("{name}, {cpus} CPU{}", if cpus == 1 { "" } else { "s" });
        let mut notes = topology.notes().to_vec();
        notes.extend(usable.as_ref().and_then(limits));
        Self {
            bench_machine: BenchMachine {
                cpu_quota: usable.as_ref().and_then(Usable::quota_cpus),
                ..BenchMachine::whole(name, "host", topology)
            },
            cpu_model,
            notes,
        }
    }
}

/// Which CPUs may be used, where that is not all.
fn limits(usable: &Usable) -> Option<String> {
    let (cpus, online): (&CpuSet, &CpuSet) = (usable.cpus(), usable.online());
    (cpus != online).then(|| {
        format!(
            "affinity and cpusets leave CPUs {cpus} of {online} to this process; no other is used"
        )
    })
}

/// What else ran before the benchmark began, where that is more than a little: it is in the figures.
pub(crate) fn other_load(cpus: usize) -> Option<String> {
    let text = input::text(Path::new("/proc/loadavg"), input::NUMBER_BYTES).ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    (load > 0.25 * cpus as f64).then(|| {
        format!(
            "the machine was not at rest: its load was {load} over the minute before; the ranges \
             show what that does"
        )
    })
}

/// The kernel's name and release.
pub(crate) fn kernel() -> Option<String> {
    let release = input::text(Path::new("/proc/sys/kernel/osrelease"), input::NUMBER_BYTES).ok()?;
    Some(format!("Linux {}", input::plain(&release)))
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let bench = args.bench();
    if args.simulated.sim
        && let Some(machine) = args.machine.simulated()?
    {
        return run_simulated(args, &machine, &bench);
    }
    let given = args.simulated.given().or(args.seeds.given());
    if let Some(option) = given {
        return Err(bad_input(anyhow::anyhow!("{option} needs --sim")));
    }
    let Site { bench_machine, cpu_model, notes } = Site::new(&args.machine)?;
    // Before there are files: from here on an interrupt leaves none behind.
    let mut bar = Bar::new()?;
    let destinations = Destinations::open(args)?;
    let load = other_load(bench_machine.laid_over.as_ref().unwrap_or(&bench_machine.usable).len());
    let mut results = match &args.cpus {
        None => bench.run::<Host>(&bench_machine, &mut bar)?,
        Some(_) if bench_machine.laid_over.is_some() => {
            let problem = "--cpus needs the machine itself, or --sim: a virtual topology has no CPUs of \
                           its own to scale over";
            return Err(bad_input(anyhow::Error::msg(problem)));
        }
        Some(counts) => {
            let counts = counts.of(bench_machine.usable.len());
            bench.run_scaling::<Host>(&bench_machine, &counts, &mut bar).map_err(bad_input)?
        }
    };
    drop(bar);
    results.cpu_model = cpu_model;
    results.kernel = kernel();
    results.notes.splice(0..0, notes.into_iter().chain(load));
    finish(destinations, &results)
}

/// Each combination on a machine of its own, so that it makes the same figures beside others as alone.
fn run_simulated(args: &Args, machine: &Simulated, bench: &QueueBench) -> anyhow::Result<()> {
    let bar = Bar::new()?;
    let destinations = Destinations::open(args)?;
    let place = simulated::bench_machine(&args.machine, machine);
    // One, or one for each number of CPUs.
    let benches = match &args.cpus {
        None => vec![(bench.clone(), place)],
        Some(counts) => {
            let counts = counts.of(place.usable.len());
            bench.on_first_cpus(&place, &counts).map_err(bad_input)?
        }
    };
    let mut parts = Vec::new();
    for (bench, place) in &benches {
        parts.extend(bench.parts()?.into_iter().map(|part| (part, place)));
    }
    let seeds = args.seeds.from(args.simulated.seed())?;
    let simulations = seeds.len() * parts.len();
    let bar = Mutex::new(bar);
    let runs = side_by_side(simulations, |at| {
        let (seed, (part, place)) = (seeds[at / parts.len()], &parts[at % parts.len()]);
        let mut progress = Shared { bar: &bar, simulations };
        let simulation = args.simulated.simulation(machine).seed(seed);
        simulation.run(|| part.run::<Sim>(place, &mut progress)).map(simulated::taken_out)
    });
    drop(bar);
    let mut runs = runs.into_iter();
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for _ in &seeds {
        let mut summaries = Vec::new();
        let mut found = Vec::new();
        for run in runs.by_ref().take(parts.len()) {
            let run = run?;
            summaries.push(run.summary);
            found.push(run.value.map_err(bad_input)?);
        }
        notes.push(args.simulated.note(&summaries));
        let each = benches.iter().zip(found.chunks(parts.len() / benches.len()));
        let joined: Result<Vec<_>, _> =
            each.map(|((bench, place), found)| bench.join(place, found)).collect();
        let joined = joined?;
        all.extend(if args.cpus.is_some() {
            with_curves(joined)
        } else {
            joined.into_iter().next()
        });
    }
    let mut results = over_seeds(&all).context("nothing was measured")?;
    results.cpu_model = machine.topology().model().map(str::to_owned);
    results.notes.splice(0..0, notes);
    finish(destinations, &results)
}

fn finish(destinations: Destinations, results: &QueueResults) -> anyhow::Result<()> {
    if results.results.is_empty() {
        if Bar::was_interrupted() {
            return Err(interrupted("interrupted before anything was measured"));
        }
        bail!("nothing was measured");
    }
    destinations.write(results)?;
    if Bar::was_interrupted() {
        return Err(interrupted("interrupted: the results hold what was measured until then"));
    }
    Ok(())
}
