//! `coreshard advise`: which kernel settings of a machine to change, and which to keep.

mod advice;
mod simulation;

use std::time::Duration;

use anyhow::anyhow;
use clap::ValueEnum;
use coreshard_advise::measure::{Measured, measure};
use coreshard_advise::{Facts, KernelVersion, emit, judge};
use coreshard_topology::{Scope, input};

use crate::common::{
    JsonArgs, MachineArgs, bail_input, listen_for_interrupts, output, was_interrupted, whole,
};
use crate::tune::simulated_items;
use advice::Advice;
use simulation::SimulatedMachine;

/// Shown after the options.
const NOTES: &str = "\
Nothing is changed: --emit prints settings for you to review and apply.
--seconds enables the kernel's tracepoints in a separate tracing instance, which
is removed afterwards. It needs root and a mounted tracefs.

Examples:
  coreshard advise                           this machine
  coreshard advise --seconds 10              also measure its workqueues
  coreshard advise --machine sosreport-db1   an unpacked sosreport
  coreshard advise --machine grace --kernel 6.12
                                             a machine that you do not have
  coreshard advise --emit tuned > tuned.conf";

/// The options of `coreshard advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    #[command(flatten)]
    machine: MachineArgs,

    /// Measure this machine's workqueues for this many seconds
    #[arg(long, value_name = "N", value_parser = whole::<u64, 1, 86_400>, conflicts_with = "machine")]
    seconds: Option<u64>,

    /// Kernel release to assume for a preset, a description or an hwloc file
    #[arg(long, value_name = "VERSION")]
    kernel: Option<KernelVersion>,

    /// Skip the simulations, which check a change of scope and choose the pools for --emit builder
    #[arg(long)]
    no_check: bool,

    /// Items per CPU in the simulations, for each of five seeds [default: 100 to 400, depending on CPUs]
    #[arg(long, value_name = "N", value_parser = whole::<u64, 1, 1_000_000>, conflicts_with = "no_check")]
    items: Option<u64>,

    #[command(flatten)]
    json: JsonArgs,

    /// Print settings in this format instead of text
    #[arg(long, value_name = "WHAT", conflicts_with = "json")]
    emit: Option<Emit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// Shell commands for root, valid until reboot, with commands that undo them
    Sysfs,
    /// Parameters for the kernel command line
    Boot,
    /// A profile for tuned
    Tuned,
    /// Rules for udev
    Udev,
    /// Builder calls for a program that links Coreshard, with the measurements
    Builder,
}

/// The kernel reports items of per-CPU queues that keep a CPU for longer, in microseconds.
const USUAL_HOG_US: u64 = 10_000;

fn facts(args: &Args) -> anyhow::Result<Facts> {
    let topology = args.machine.read()?.whole;
    Ok(match (args.machine.root(), args.kernel) {
        (Some(root), Some(_)) => {
            bail_input!(
                "--kernel cannot be used: {} already has a kernel release",
                input::path(root)
            )
        }
        (Some(root), None) => Facts::read(root, topology),
        (None, Some(version)) => Facts::assumed(topology, version),
        (None, None) => Facts::of_machine(topology),
    })
}

fn measured(args: &Args, facts: &Facts) -> anyhow::Result<Option<Measured>> {
    let Some(seconds) = args.seconds else { return Ok(None) };
    let hog_us =
        facts.workqueues.cpu_intensive_thresh_us.filter(|us| *us > 0).unwrap_or(USUAL_HOG_US);
    let time = Duration::from_secs(seconds);
    let measured = measure(&facts.topology, time, hog_us, &mut was_interrupted);
    measured.map(Some).map_err(|error| anyhow!("cannot measure: {error}"))
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let json_output = args.json.open()?;
    let facts = facts(args)?;
    if args.seconds.is_some() {
        listen_for_interrupts()?;
    }
    let mut lacking = Vec::new();
    let measured = measured(args, &facts).unwrap_or_else(|error| {
        lacking.push(error.to_string());
        None
    });
    let mut findings = judge(&facts, measured.as_ref());
    let cpus = facts.topology.cpus().len();
    // Builder calls depend on no finding.
    let is_checked = !args.no_check && args.emit != Some(Emit::Builder);
    for finding in findings.iter_mut().filter(|_| is_checked) {
        let Some(scopes) = finding.scopes() else { continue };
        // More items change nothing on 72 CPUs behind one cache. On 16, seeds disagree regardless of the number of
        // items.
        let items = args.items.unwrap_or((8_000 / cpus.max(1) as u64).clamp(100, 400));
        let machine = SimulatedMachine::new(&args.machine, &facts, measured.as_ref());
        match machine.and_then(|machine| machine.compare(scopes, items)) {
            Ok(simulated) => finding.check_against(simulated),
            Err(error) => lacking.push(format!("cannot simulate the scope change: {error:#}")),
        }
    }
    let text = match args.emit {
        None => {
            let advice = Advice { facts, measured, findings, lacking };
            return json_output.print(&advice.json(), || advice.text());
        }
        Some(Emit::Sysfs) => emit::sysfs(&findings),
        Some(Emit::Boot) => emit::boot_parameters(&findings),
        Some(Emit::Tuned) => emit::tuned(&findings),
        Some(Emit::Udev) => emit::udev(&findings),
        Some(Emit::Builder) if args.no_check => {
            let reason = "the library's default, without a simulation";
            emit::builder(Scope::CacheShard, Some(8), reason)
        }
        Some(Emit::Builder) => {
            let items = args.items.unwrap_or_else(|| simulated_items(cpus));
            SimulatedMachine::new(&args.machine, &facts, measured.as_ref())?.builder(items)?
        }
    };
    for lacking in &lacking {
        output::warn(&format!("note: {lacking}"));
    }
    output::print(&text)
}
