//! `coreshard bench block`: measures the block layer with fio's options.

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

/// Declares the job options. Only [`BlockJob::set`] knows what they mean.
macro_rules! job_options {
    ($($(#[doc = $doc:literal])+ $key:ident: $value:literal;)+
     switches: $($(#[doc = $switch_doc:literal])+ $switch:ident;)+) => {
        /// The options of a job.
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
            /// Returns the options that were given, with their values.
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
    /// Name of the job
    name: "NAME";
    /// File or block device; a missing file is created if a size is given
    filename: "FILE";
    /// Access pattern: read, write, rw, randread, randwrite or randrw [default: read]
    rw: "PATTERN";
    /// Percentage of reads in a mixed pattern [default: 50]
    rwmixread: "PERCENT";
    /// Size of a request [default: 4k]
    bs: "BYTES";
    /// Request sizes with percentages, such as 4k/60:64k/40, instead of bs
    bssplit: "SPLIT";
    /// Size of the region to use, in bytes or percent of the file [default: all]
    size: "BYTES|PERCENT%";
    /// Start of the region [default: 0]
    offset: "BYTES|PERCENT%";
    /// Amount that each thread transfers [default: same as size]
    io_size: "BYTES|PERCENT%";
    /// Repetitions per thread [default: 1]
    loops: "N";
    /// Requests in flight per thread [default: 1]
    iodepth: "N";
    /// Number of threads [default: 1]
    numjobs: "N";
    /// Maximum run time, in seconds or with a unit [default: until io_size is transferred]
    runtime: "TIME";
    /// Warm-up time that is not measured or counted in runtime [default: 0]
    ramp_time: "TIME";
    /// Maximum number of requests per thread and loop
    number_ios: "N";
    /// Maximum reads and writes per second of each thread: one number for both, or two
    rate_iops: "N[,N]";
    /// auto, io_uring, psync, threads, null, memory or libaio (an alias of auto) [default: auto]
    ioengine: "ENGINE";
    /// pattern: read back and compare the written data
    verify: "none|pattern";
    /// Random seed [default: 0]
    randseed: "N";
    /// CPUs to pin threads to, one CPU per thread in turn
    cpus_allowed: "CPUS";
    /// Accounting of shared tags: packed, padded, windowed:PERCENT or none [default: none]
    tags: "POLICY";
    /// Tags shared by all threads [default: as many as they can use]
    tag_depth: "N";
    /// Layout of the device's counters: packed, padded or per-cpu [default: per-cpu]
    counters: "LAYOUT";
    /// Placement of state: any-node or node-local [default: node-local]
    memory: "MEMORY";
    switches:
    /// Bypass the page cache
    direct;
    /// Use registered buffers
    fixedbufs;
    /// Let a kernel thread poll for submissions
    sqthread_poll;
    /// Poll for completions
    hipri;
    /// Run for the whole runtime, regardless of the amount transferred
    time_based;
    /// Choose random blocks without tracking: blocks may repeat before all are used
    norandommap;
    /// Without randseed, use the same random sequence in each run [default: 1]
    randrepeat;
    /// Accepted for compatibility with fio; jobs always use threads
    thread;
    /// Accepted for compatibility with fio; threads are always reported together
    group_reporting;
}

/// The options of `coreshard bench block`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("machine", |machine| machine.requires("compare")))]
pub(super) struct BlockArgs {
    /// Job file in fio's format; its sections run one after another, and options apply to all. Without a job, the
    /// benchmark reads memory for 2 s and uses no file or device
    #[arg(value_name = "JOBFILE")]
    job_file: Option<PathBuf>,

    #[command(flatten)]
    job: JobArgs,

    /// Run the jobs N times; show average, range and spread (max - min) / max
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN, value_parser = whole::<NonZeroUsize, 1, 10_000>)]
    repeat: NonZeroUsize,

    /// Compare counter layouts and tag policies instead of running a job; with --machine, simulate an adapter with 16
    /// jobs and 64 requests in flight each, on a two-node machine such as epyc-9754-2s
    #[arg(long, alias = "ladder")]
    compare: bool,

    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    simulated: SimArgs,

    #[command(flatten)]
    seeds: SeedsArgs,

    /// With --machine: number of devices that the jobs share [default: 4]
    #[arg(long, value_name = "N", requires = "machine", value_parser = few)]
    devices: Option<NonZeroUsize>,

    /// With --machine: handle interrupts on the submitting CPU instead of the adapter's node
    #[arg(long, requires = "machine")]
    interrupts_at_submitter: bool,

    /// Write to a file or device that holds other data: that data is lost
    #[arg(long, visible_alias = "allow_overwrite")]
    allow_overwrite: bool,

    /// Write to a device or file that is mounted or in use: its data is destroyed
    #[arg(long, visible_alias = "allow_mounted_write")]
    allow_mounted_write: bool,

    // The JSON has fio's format.
    #[command(flatten)]
    json: JsonArgs,

    /// Output format as in fio: json goes to standard output unless --json names a file, json+ adds latency counts
    #[arg(long = "output-format", value_enum, default_value_t, conflicts_with = "compare")]
    output_format: OutputFormat,
}

/// The format of the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum OutputFormat {
    #[default]
    Normal,
    Json,
    #[value(name = "json+")]
    JsonPlus,
}

/// The job that runs if none is given. It uses no file or device and ends soon.
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
    /// Returns true if no job is given, in a file or by options.
    fn is_without_job(&self) -> bool {
        self.job_file.is_none() && self.job.given().is_empty()
    }

    fn jobs(&self) -> anyhow::Result<Vec<BlockJob>> {
        let mut jobs = match &self.job_file {
            None => vec![BlockJob::default()],
            Some(path) => {
                let text = input::text(path, input::JOBS_BYTES)
                    .with_context(|| format!("cannot read the job file {}", input::path(path)))
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

    /// Checks that the JSON can be written, and returns its destination.
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
        return Err(interrupted("interrupted: the results are incomplete"));
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
            "no job was given: random reads of 64 MiB of memory for 2 s measure the block layer itself; use --filename for a file or device"
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
        bail_input!("invalid option --{word}: --compare accepts no job options");
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
    // Keep seeds with at least one run of each variant before the interrupt.
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
        results.notes.push(format!("ended early: {done} of {planned} runs"));
    }
    results.notes.push(
        "published figures are from another machine; its name and the number of shared devices are unknown"
            .to_owned(),
    );
    finish(destination, &results, || fio::hba_text(&results, output::columns()))
}

/// Chooses exit status 2 for a wrong request and 1 for a failure.
fn classed(error: coreshard_bench::BenchError) -> anyhow::Error {
    if error.is_bad_input() { bad_input(error) } else { error.into() }
}
