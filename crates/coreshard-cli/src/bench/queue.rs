//! `coreshard bench queue`: measures each affinity scope, wake-up policy and intake.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;

use crate::common::{
    Bar, Destination, JsonArgs, JsonOutput, MachineArgs, SeedsArgs, Shared, SimArgs, Site,
    bad_input, bail_input, few, interrupted, kernel, many, or_all, other_load, output,
    side_by_side, taken_out, variant, variants, was_interrupted, whole,
};
use anyhow::{Context, bail};
use coreshard::{Host, Intake, Scope, Wake};
use coreshard_bench::{BenchError, BenchMachine, QueueBench, over_seeds, with_curves};
use coreshard_report::{csv, html, table};
use coreshard_results::QueueResults;
use coreshard_sim::{Machine as Simulated, Sim};
use coreshard_topology::ShardSize;

/// The path of the page if no output file is given.
const DEFAULT_PAGE: &str = "./coreshard-bench.html";

/// Default items of a simulated producer. A simulated item takes about ten times as long to run as a real one. One run
/// is enough, as virtual time has no noise.
const SIMULATED_ITEMS: NonZeroU64 = NonZeroU64::new(300).expect("it is not 0");

/// The options of `coreshard bench queue`.
#[derive(Debug, clap::Args)]
pub(super) struct QueueArgs {
    /// Number of producers, each pinned to a CPU, in turn if there are more producers than CPUs [default: one per CPU
    /// of the machine; unless simulated, at most 4 per real CPU]
    #[arg(long, value_name = "N", value_parser = few)]
    threads: Option<NonZeroUsize>,

    /// Items per producer and run [default: 6000, with --outstanding 200000, fewer if producers outnumber CPUs;
    /// simulated 300]
    #[arg(long, value_name = "N", value_parser = many::<NonZeroU64>)]
    items: Option<NonZeroU64>,

    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = variant::<Scope>,
          help = variants("Affinity scopes", &Scope::ALL).replace("all", "all, those with the same pods once"))]
    scopes: Vec<Scope>,

    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = variant::<Wake>,
          help = variants("Wake-up policies", &Wake::ALL))]
    wake: Vec<Wake>,

    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = variant::<Intake>,
          help = variants("Intakes", &Intake::ALL))]
    intake: Vec<Intake>,

    /// Runs of each combination, interleaved [default: 7, simulated 1 per seed]
    #[arg(long, value_name = "N", value_parser = whole::<NonZeroUsize, 1, 10_000>)]
    runs: Option<NonZeroUsize>,

    /// Flood: producers keep up to N items in flight instead of waiting for each
    #[arg(long, value_name = "N", value_parser = many::<NonZeroU64>)]
    outstanding: Option<NonZeroU64>,

    /// Repeat on each of these numbers of CPUs, with a producer on each CPU, and fit the universal scalability law: a
    /// list, or auto (powers of two, and all)
    #[arg(long, value_name = "LIST|auto", conflicts_with = "threads")]
    cpus: Option<CpuCounts>,

    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    simulated: SimArgs,

    #[command(flatten)]
    seeds: SeedsArgs,

    /// Target number of cores in a cache shard
    #[arg(long, value_name = "N", default_value_t = ShardSize::DEFAULT.cores(),
          value_parser = whole::<usize, 1, 65_536>)]
    shard_size: usize,

    #[command(flatten)]
    json: JsonArgs,

    /// Write the results as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write an HTML page with charts [default: ./coreshard-bench.html, if no other output file is given]
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
    /// Returns the counts on a machine with this many CPUs.
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

impl QueueArgs {
    fn bench(&self) -> QueueBench {
        let defaults = QueueBench::default();
        let (items, runs) = match self.simulated.sim {
            true => (Some(SIMULATED_ITEMS), NonZeroUsize::MIN),
            false => (None, defaults.runs),
        };
        QueueBench {
            scopes: or_all(&self.scopes, &Scope::ALL),
            wakes: or_all(&self.wake, &Wake::ALL),
            intakes: or_all(&self.intake, &Intake::ALL),
            threads: self.threads,
            items_per_thread: self.items.or(items),
            runs: self.runs.unwrap_or(runs),
            outstanding: self.outstanding,
            shard_size: ShardSize::new(self.shard_size),
            seed: self.simulated.seed(),
            ..defaults
        }
    }

    /// Without `--scopes`, scopes with the same pods are measured once. Returns the notes that say which.
    fn once_per_layout(
        &self,
        bench: &mut QueueBench,
        machine: &BenchMachine,
    ) -> Result<Vec<String>, BenchError> {
        if self.scopes.is_empty() { bench.measure_equal_pods_once(machine) } else { Ok(Vec::new()) }
    }
}

/// Checked output files.
struct Destinations {
    json: JsonOutput,
    csv: Option<Destination>,
    html: Option<Destination>,
}

impl Destinations {
    fn open(args: &QueueArgs) -> anyhow::Result<Self> {
        let (csv, mut html) = (args.csv.as_deref(), args.html.as_deref());
        if !args.json.is_given() && csv.is_none() && html.is_none() {
            html = Some(Path::new(DEFAULT_PAGE));
        }
        let (json, [csv, html]) = args.json.open_beside([csv, html])?;
        Ok(Self { json, csv, html })
    }

    fn write(self, results: &QueueResults) -> anyhow::Result<()> {
        self.json.print(results, || table::queue(results, output::columns()))?;
        if let Some(file) = self.csv {
            let mut text = Vec::new();
            csv::write_queue(results, &mut text)?;
            file.report(&String::from_utf8(text)?)?;
        }
        self.html.map_or(Ok(()), |file| file.report(&html::queue_page(results)))
    }
}

/// Runs the subcommand.
pub(super) fn run(args: &QueueArgs) -> anyhow::Result<()> {
    let mut bench = args.bench();
    if args.simulated.sim
        && let Some(machine) = args.machine.simulated()?
    {
        return run_simulated(args, &machine, bench);
    }
    let given = args.simulated.given().or(args.seeds.given());
    if let Some(option) = given {
        bail_input!("{option} needs --sim");
    }
    let Site { bench_machine, cpu_model, notes } = Site::new(&args.machine)?;
    let equal_pods = args.once_per_layout(&mut bench, &bench_machine)?;
    // From here on, an interrupt leaves no files behind.
    let mut bar = Bar::new()?;
    let destinations = Destinations::open(args)?;
    let load = other_load(bench_machine.laid_over.as_ref().unwrap_or(&bench_machine.usable).len());
    let mut results = match &args.cpus {
        None => bench.run::<Host>(&bench_machine, &mut bar)?,
        Some(_) if bench_machine.laid_over.is_some() => {
            bail_input!(
                "--cpus needs the real machine or --sim: a virtual topology has no real CPUs"
            );
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
    results.notes.extend(equal_pods);
    finish(destinations, &results)
}

/// Runs each combination in its own simulation, so that combinations do not affect one another.
fn run_simulated(
    args: &QueueArgs,
    machine: &Simulated,
    mut bench: QueueBench,
) -> anyhow::Result<()> {
    let bar = Bar::new()?;
    let destinations = Destinations::open(args)?;
    let place = args.machine.bench_machine(machine);
    let equal_pods = args.once_per_layout(&mut bench, &place)?;
    // One benchmark, or one for each number of CPUs.
    let benches = match &args.cpus {
        None => vec![(bench, place)],
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
        simulation.run(|| part.run::<Sim>(place, &mut progress)).map(taken_out)
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
    results.notes.extend(equal_pods);
    finish(destinations, &results)
}

fn finish(destinations: Destinations, results: &QueueResults) -> anyhow::Result<()> {
    if results.results.is_empty() {
        if was_interrupted() {
            return Err(interrupted("interrupted before anything was measured"));
        }
        bail!("nothing was measured");
    }
    destinations.write(results)?;
    if was_interrupted() {
        return Err(interrupted("interrupted: the results are incomplete"));
    }
    Ok(())
}
