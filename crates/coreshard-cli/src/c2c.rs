//! `coreshard c2c`: shows the cache lines that CPUs contend for, on a simulated machine.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use crate::common::{JsonArgs, MachineArgs, SimArgs, few, many};
use anyhow::Context;
use coreshard::{Intake, Scope, Wake};
use coreshard_bench::{QueueBench, Unwatched};
use coreshard_sim::{LineReport, LineSummary, Sim};

/// The options of `coreshard c2c`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("machine", |machine| machine.required(true)))]
pub(crate) struct Args {
    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    simulated: SimArgs,

    /// Affinity scope
    #[arg(long, value_name = "SCOPE", default_value_t = Scope::default())]
    scope: Scope,

    /// Wake-up policy
    #[arg(long, value_name = "POLICY", default_value_t = Wake::default())]
    wake: Wake,

    /// Intake
    #[arg(long, value_name = "INTAKE", default_value_t = Intake::default())]
    intake: Intake,

    /// Items per producer
    #[arg(long, value_name = "N", default_value = "200", value_parser = many::<NonZeroU64>)]
    items: NonZeroU64,

    /// Number of lines to show, the costliest first
    #[arg(long, value_name = "N", default_value = "10", value_parser = few)]
    lines: NonZeroUsize,

    #[command(flatten)]
    json: JsonArgs,

    /// Write a timeline of the tasks on each CPU, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let machine = args.machine.must_be_simulated()?;
    let (json, [trace]) = args.json.open_beside([args.trace.as_deref()])?;
    let bench = QueueBench {
        scopes: vec![args.scope],
        wakes: vec![args.wake],
        intakes: vec![args.intake],
        items_per_thread: Some(args.items),
        runs: NonZeroUsize::MIN,
        seed: args.simulated.seed(),
        ..QueueBench::default()
    };
    let bench_machine = args.machine.bench_machine(&machine);
    let simulation = args
        .simulated
        .simulation(&machine)
        .record_lines(true)
        .record_timeline(args.trace.is_some());
    let run = simulation.run(|| bench.run::<Sim>(&bench_machine, &mut Unwatched))?;
    drop(run.value?);
    let report = run.lines.context("the simulation has recorded no lines")?;
    if let (Some(file), Some(timeline)) = (trace, &run.timeline) {
        file.write(|out| out.write_all(timeline.to_trace_json().as_bytes()))?;
    }
    json.print_as(|| Ok(report.rows_json() + "\n"), || text(args, &bench_machine.name, &report))
}

/// Fields of the benchmark itself: how producers learn that an item ran, and the work assignment.
const OF_THE_BENCHMARK: [&str; 4] = ["WakeUp.", "ProducerState.", "Gate.", "QueueRun."];

fn is_of_the_benchmark(line: &LineSummary) -> bool {
    let of_it = |field: &String| OF_THE_BENCHMARK.iter().any(|name| field.starts_with(name));
    line.fields.iter().all(of_it)
}

/// Formats the costliest lines and their share of the total cost.
fn text(args: &Args, machine: &str, report: &LineReport) -> String {
    let (of_bench, lines): (Vec<_>, Vec<_>) =
        report.lines.iter().cloned().partition(is_of_the_benchmark);
    let cost = |lines: &[LineSummary]| lines.iter().map(|line| line.cost_ns).sum::<f64>();
    let total = cost(&report.lines);
    let percent = |part: f64| if total > 0.0 { part * 100.0 / total } else { 0.0 };
    let shown = lines.len().min(args.lines.get());
    let mut text = format!(
        "{}, {} {} {}, costs {}, seed {}: {shown} of {} contended lines, {:.0} % of the total cost\n",
        machine,
        args.scope,
        args.wake,
        args.intake,
        args.simulated.costs(),
        args.simulated.seed(),
        report.lines.len(),
        percent(cost(&lines[..shown])),
    );
    let first = LineReport { lines: lines[..shown].to_vec(), ..report.clone() };
    text += &first.to_string();
    if !of_bench.is_empty() {
        text += &format!(
            "not shown: {} lines of the benchmark itself, {:.0} % of the cost\n",
            of_bench.len(),
            percent(cost(&of_bench))
        );
    }
    text
}
