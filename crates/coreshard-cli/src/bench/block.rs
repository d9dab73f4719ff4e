//! `coreshard bench block`: the block layer, in fio's words.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::{
    Bar, JsonArgs, JsonOutput, MachineArgs, SeedsArgs, Shared, SimArgs, Site, bad_input,
    bail_input, few, interrupted, note, output, side_by_side, taken_out, was_interrupted, whole,
};
use anyhow::Context;
use coreshard::Host;
use coreshard_bench::{
    BlockBench, BlockJob, ComparisonBench, HbaBench, hba_over_seeds, parse_job_file,
};
use coreshard_report::fio;
use coreshard_results::Interrupts;
use coreshard_sim::{Machine as Simulated, Profile, Sim};
use coreshard_topology::input;

/// Declares the options that are words of a job, with the one place that knows what they mean:
/// [`BlockJob::set`].
macro_rules! job_options {
    ($($(#[doc = $doc:literal])+ $key:ident: $value:literal;)+
     switches: $($(#[doc = $switch_doc:literal])+ $switch:ident;)+) => {
        /// A job's words, as options.
        #[derive(Debug, clap::Args)]
        struct JobArgs {
            $($(#[doc = $doc])+
            #[arg(long = stringify!($key), value_name = $value)]
            $key: Option<String>,)+
            $($(#[doc = $switch_doc])+
            #[arg(long = stringify!($switch), value_name = "0|1", num_args = 0..=1,
                  require_equals = true, default_missing_value = "1")]
            $switch: Option<String>,)+
        }

        impl JobArgs {
            /// The words that were given, with their values.
            fn given(&self) -> Vec<(&'static str, &str)> {
                let all = [
                    $((stringify!($key), &self.$key),)+
                    $((stringify!($switch), &self.$switch),)+
                ];
                all.into_iter().filter_map(|(word, value)| Some((word, value.as_deref()?))).collect()
            }
        }
    };
}

job_options! {
    /// The job's name
    name: "NAME";
    /// The file or block device; one that is not there is made where a size is given
    filename: "FILE";
    /// read, write, rw, randread, randwrite or randrw [default: read]
    rw: "PATTERN";
    /// Per cent of reads where both are made [default: 50]
    rwmixread: "PERCENT";
    /// Bytes of a request [default: 4k]
    bs: "BYTES";
    /// Sizes of requests with their percentages, such as 4k/60:64k/40, in place of bs
    bssplit: "SPLIT";
    /// How much of the file is used, in bytes or per cent [default: all]
    size: "BYTES|PERCENT%";
    /// Where in the file that begins [default: 0]
    offset: "BYTES|PERCENT%";
    /// How much each thread transfers before it is done [default: as much as size]
    io_size: "BYTES|PERCENT%";
    /// How often each thread does that [default: 1]
    loops: "N";
    /// Requests in flight, each thread [default: 1]
    iodepth: "N";
    /// Threads [default: 1]
    numjobs: "N";
    /// The longest that it runs, in seconds or with a unit [default: until io_size was transferred]
    runtime: "TIME";
    /// How long it runs before it is measured, and before runtime begins [default: 0]
    ramp_time: "TIME";
    /// Requests of each thread in each of its loops, at most
    number_ios: "N";
    /// Requests a second of each thread, at most: of reads and of writes
    rate_iops: "N[,N]";
    /// auto, io_uring, psync, threads, null, memory, or libaio, which means auto [default: auto]
    ioengine: "ENGINE";
    /// pattern: what was written is read back and compared
    verify: "none|pattern";
    /// Where the dice begin [default: 0]
    randseed: "N";
    /// The CPUs that threads are pinned to, each to one, in turn
    cpus_allowed: "CPUS";
    /// How shared tags are accounted: packed, padded, windowed:PERCENT or none [default: none]
    tags: "POLICY";
    /// Tags that all threads share [default: as many as they can use]
    tag_depth: "N";
    /// How the device's counters lie: packed, padded or per-cpu [default: per-cpu]
    counters: "LAYOUT";
    /// Where state lies: any-node or node-local [default: node-local]
    memory: "MEMORY";
    switches:
    /// Past the page cache
    direct;
    /// Registered buffers
    fixedbufs;
    /// A kernel thread takes submissions
    sqthread_poll;
    /// Completions are polled for
    hipri;
    /// Runs as long as runtime says, however much is transferred
    time_based;
    /// Picks random blocks without a record: some come again before others come once
    norandommap;
    /// Without a randseed, the dice begin at the same place in each run [default: 1]
    randrepeat;
    /// Taken for fio's sake; threads are what runs in any case
    thread;
    /// Taken for fio's sake; threads are reported together in any case
    group_reporting;
}

/// The options of `coreshard bench block`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("machine", |machine| machine.requires("compare")))]
pub(super) struct BlockArgs {
    /// A job file of fio's; its sections run one after another. Options hold for all of them. Without a job, memory is read
    /// for 2 s: no file or device is touched
    #[arg(value_name = "JOBFILE")]
    job_file: Option<PathBuf>,

    #[command(flatten)]
    job: JobArgs,

    /// Run the jobs so often; shown are the average, the range and the spread (max - min) / max
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN, value_parser = whole::<NonZeroUsize, 1, 10_000>)]
    repeat: NonZeroUsize,

    /// Compare layouts of counters and policies of shared tags instead of running a job; with --machine do the
    /// experiment with an adapter, 16 jobs and 64 requests in flight each, on a machine of two nodes (such as
    /// epyc-9754-2s)
    #[arg(long, alias = "ladder")]
    compare: bool,

    // With --compare: the experiment with an adapter, 16 jobs and 64 requests in flight each, on a simulated
    // machine of two nodes.
    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    simulated: SimArgs,

    #[command(flatten)]
    seeds: SeedsArgs,

    /// With --machine: the devices that the jobs share [default: 4]
    #[arg(long, value_name = "N", requires = "machine", value_parser = few)]
    devices: Option<NonZeroUsize>,

    /// With --machine: interrupts come on the CPU that submitted, not on the adapter's node
    #[arg(long, requires = "machine")]
    interrupts_at_submitter: bool,

    /// Write to the file or device though it holds what this benchmark did not put there: that is lost
    #[arg(long, visible_alias = "allow_overwrite")]
    allow_overwrite: bool,

    /// Write to the device or file though it is mounted, or in use otherwise: that is destroyed
    #[arg(long, visible_alias = "allow_mounted_write")]
    allow_mounted_write: bool,

    // The JSON is fio's.
    #[command(flatten)]
    json: JsonArgs,

    /// As fio's: json writes to standard output where --json names no file, and json+ also tells how
    /// often each latency was seen
    #[arg(long = "output-format", value_enum, default_value_t, conflicts_with = "compare")]
    output_format: OutputFormat,
}

/// What the results are written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum OutputFormat {
    #[default]
    Normal,
    Json,
    #[value(name = "json+")]
    JsonPlus,
}

/// The words of the job that runs if none is given. It touches no file and no device, and ends soon.
const HARMLESS: [(&str, &str); 7] = [
    ("name", "memory"),
    ("ioengine", "memory"),
    ("rw", "randread"),
    ("size", "64M"),
    ("iodepth", "16"),
    ("runtime", "2"),
    ("time_based", "1"),
];

impl BlockArgs {
    /// True if no job is given, in a file or by options.
    fn is_without_job(&self) -> bool {
        self.job_file.is_none() && self.job.given().is_empty()
    }

    fn jobs(&self) -> anyhow::Result<Vec<BlockJob>> {
        let mut jobs = match &self.job_file {
            None => vec![BlockJob::default()],
            Some(path) => {
                let text = input::text(path, input::JOBS_BYTES)
                    .with_context(|| format!("the job file {} cannot be read", input::path(path)))
                    .map_err(bad_input)?;
                parse_job_file(&text, &BlockJob::default())
                    .with_context(|| input::path(path).to_string())
                    .map_err(bad_input)?
            }
        };
        let words = if self.is_without_job() { HARMLESS.to_vec() } else { self.job.given() };
        for job in &mut jobs {
            for (word, value) in &words {
                job.set(word, value)
                    .map_err(|problem| bad_input(anyhow::anyhow!("--{word}: {problem}")))?;
            }
            job.allow_overwrite |= self.allow_overwrite;
            job.allow_mounted_write |= self.allow_mounted_write;
        }
        Ok(jobs)
    }

    /// Where the JSON goes, checked to be writable.
    fn destination(&self) -> anyhow::Result<JsonOutput> {
        if !self.json.is_given() && self.output_format != OutputFormat::Normal {
            return Ok(JsonOutput::to_stdout());
        }
        self.json.open()
    }
}

fn finish(
    destination: JsonOutput,
    results: &impl serde::Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    destination.print(results, text)?;
    if was_interrupted() {
        return Err(interrupted("interrupted: the results hold what was measured until then"));
    }
    Ok(())
}

/// Runs the subcommand.
pub(super) fn run(args: &BlockArgs) -> anyhow::Result<()> {
    if args.compare {
        return compare(args);
    }
    let bench = BlockBench { jobs: args.jobs()?, repeat: args.repeat };
    let site = Site::here()?;
    let destination = args.destination()?;
    let inputs = bench.jobs.iter().filter_map(|job| job.filename.as_deref());
    inputs.chain(args.job_file.as_deref()).try_for_each(|file| destination.is_not(file))?;
    let results = bench.run::<Host>(&site.bench_machine, &mut Bar::new()?);
    let mut results = results.map_err(classed)?;
    results.timestamp =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    results.notes.extend(site.notes);
    if args.is_without_job() {
        results.notes.push(
            "no job was given: random reads of 64 MiB of memory for 2 s, which is the speed of the block layer \
             itself; measure a file or a device with --filename"
                .to_owned(),
        );
    }
    if results.jobs.is_empty() {
        return Err(interrupted("interrupted before anything was measured"));
    }
    if args.output_format != OutputFormat::JsonPlus {
        results = results.without_bins();
    }
    finish(destination, &results, || fio::text(&results))
}

fn compare(args: &BlockArgs) -> anyhow::Result<()> {
    if let Some((word, _)) = args.job.given().first() {
        bail_input!("--compare takes no words of a job, but --{word} was given");
    }
    if let Some(machine) = args.machine.simulated()? {
        return simulate(args, &machine);
    }
    let site = Site::here()?;
    let destination = args.destination()?;
    let mut bench = ComparisonBench::default();
    if args.repeat > NonZeroUsize::MIN {
        bench.runs = args.repeat;
    }
    let results = bench.run::<Host>(&site.bench_machine, &mut Bar::new()?).map_err(classed)?;
    finish(destination, &results, || fio::comparison_text(&results, output::columns()))
}

fn simulate(args: &BlockArgs, machine: &Simulated) -> anyhow::Result<()> {
    let bench_machine = args.machine.bench_machine(machine);
    let destination = args.destination()?;
    let mut bench = HbaBench { seed: args.simulated.seed(), ..HbaBench::published(Sim::compute) };
    if args.repeat > NonZeroUsize::MIN {
        bench.runs = args.repeat;
    }
    if let Some(devices) = args.devices {
        bench.devices = devices.get();
    }
    if args.interrupts_at_submitter {
        bench.interrupts = Interrupts::Submitter;
    }
    let costs = args.simulated.costs.unwrap_or(Profile::InKernel);
    let seeds = args.seeds.from(args.simulated.seed())?;
    let bar = Mutex::new(Bar::new()?);
    let runs = side_by_side(seeds.len(), |at| {
        let bench = HbaBench { seed: seeds[at], ..bench.clone() };
        let mut progress = Shared { bar: &bar, simulations: seeds.len() };
        let simulation = args.simulated.simulation(machine).profile(costs).seed(seeds[at]);
        simulation.run(|| bench.run::<Sim>(&bench_machine, &mut progress)).map(taken_out)
    });
    drop(bar);
    // Of seeds with which each variant had a run, before the benchmark was ended.
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for run in runs {
        let run = run?;
        let results = run.value.map_err(classed)?;
        if results.rows.iter().all(|row| !row.runs.iops.is_empty()) {
            notes.push(note(costs, &[run.summary]));
            all.push(results);
        }
    }
    let planned = seeds.len() * bench.runs.get();
    let done: usize = all.iter().map(|results| results.rows[0].runs.iops.len()).sum();
    let Some(mut results) = hba_over_seeds(&all) else {
        return Err(interrupted("interrupted before anything was measured"));
    };
    results.notes.extend(notes);
    if done < planned {
        results.notes.push(format!("ended early: {done} of {planned} runs were made"));
    }
    results.notes.push(
        "published: of another machine, which is not named, as is not how many devices were shared"
            .to_owned(),
    );
    finish(destination, &results, || fio::hba_text(&results, output::columns()))
}

/// Status 2 for what was asked for, 1 for what happened.
fn classed(error: coreshard_bench::BenchError) -> anyhow::Error {
    if error.is_bad_input() { bad_input(error) } else { error.into() }
}
