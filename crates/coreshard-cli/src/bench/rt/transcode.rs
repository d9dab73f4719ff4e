//! `coreshard bench rt transcode`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use coreshard::Host;
use coreshard_bench::rt::{Compression, Computing, ExecutorSettings, TranscodeBench};
use coreshard_report::rt as report;
use coreshard_sim::Sim;

use super::options::VariantsArgs;
use crate::common::{few, many, microseconds, output, whole};

/// Default CPUs of an instance. The benchmark uses all CPUs if there are fewer.
const INSTANCE_CPUS: NonZeroUsize = NonZeroUsize::new(8).expect("it is not 0");

/// Stages of a simulated slice, as many as real slices have.
const STAGES: usize = 4;

/// The options of `coreshard bench rt transcode`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// CPUs per instance [default: 8, or all if there are fewer]
    #[arg(long, value_name = "N", value_parser = few)]
    instance_cpus: Option<NonZeroUsize>,

    /// Instances [default: as many as fit the CPUs]
    #[arg(long, value_name = "N", value_parser = few)]
    instances: Option<NonZeroUsize>,

    /// Frames per instance
    #[arg(long, value_name = "N", default_value = "200", value_parser = many::<NonZeroU64>)]
    frames: NonZeroU64,

    /// Frames in flight per instance
    #[arg(long, value_name = "N", default_value = "2", value_parser = few)]
    under_way: NonZeroUsize,

    /// Slices per frame, each with a task for each of its four stages
    #[arg(long, value_name = "N", default_value = "8", value_parser = few)]
    slices: NonZeroUsize,

    /// Bytes per slice, on this machine
    #[arg(long, value_name = "N", default_value = "16384", value_parser = whole::<NonZeroUsize, 1, 1_073_741_824>)]
    slice_bytes: NonZeroUsize,

    /// Compute time of a simulated stage, in microseconds
    #[arg(long, value_name = "US", default_value_t = 20, value_parser = microseconds::<u64, 0>)]
    stage_us: u64,

    #[command(flatten)]
    variants: VariantsArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let bench = |settings: ExecutorSettings| TranscodeBench {
        executor: settings,
        instance_cpus: args.instance_cpus.unwrap_or(INSTANCE_CPUS),
        instances: args.instances,
        frames: args.frames,
        under_way: args.under_way,
        slices: args.slices,
    };
    let chosen = args.variants.chosen()?;
    chosen.has("--instance-cpus", args.instance_cpus)?;
    let time = Duration::from_micros(args.stage_us);
    let (output, runs) = args.variants.measure(
        &chosen,
        |bench_machine, settings| {
            bench(settings)
                .run::<Host, _>(bench_machine, Compression { bytes: args.slice_bytes.get() })
        },
        |bench_machine, settings| {
            let work = Computing { stages: STAGES, time, compute: Sim::compute };
            bench(settings).run::<Sim, _>(bench_machine, work)
        },
        |results| &mut results.notes,
    )?;
    output
        .write(&runs, report::transcode(&runs, output::columns()), || report::transcode_page(&runs))
}
