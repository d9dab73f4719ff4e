//! `coreshard tune`: which affinity scope and size of shards suit a machine.

use std::fmt::Write as _;

use coreshard::{Host, Scope};
use coreshard_bench::{BenchMachine, TuneEffort, tune};
use coreshard_results::{Candidate, Load, Tuning};
use coreshard_sim::Sim;
use coreshard_topology::Usable;

use crate::bench::Bar;
use crate::bench::simulated::{self, Outside, SimArgs};
use crate::failure::interrupted;
use crate::machine::{Machine, MachineArgs};
use crate::number::whole;
use crate::output;

/// The options of `coreshard tune`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    simulated: SimArgs,

    /// Items that each CPU queues [default: 2000; simulated 100]
    #[arg(long, value_name = "N", value_parser = whole::<u64, 1, 1_000_000_000>)]
    items: Option<u64>,

    /// Rounds, in each of which every candidate has its turn [default: 5; simulated 1]
    #[arg(long, value_name = "N", value_parser = whole::<u32, 1, 10_000>)]
    rounds: Option<u32>,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let effort = |items, rounds| TuneEffort {
        items: args.items.unwrap_or(items),
        rounds: args.rounds.unwrap_or(rounds) as usize,
    };
    let (name, tuning) = match args.machine.simulated()? {
        Some(machine) => {
            let bench_machine = simulated::bench_machine(&args.machine, &machine);
            let mut bar = Outside(Bar::new()?);
            let simulation = args.simulated.simulation(&machine);
            let run =
                simulation.run(|| tune::<Sim>(&bench_machine, effort(100, 1), None, &mut bar))?;
            let (costs, seed) = (args.simulated.costs(), args.simulated.seed());
            (format!("{}, simulated: costs {costs}, seed {seed}", bench_machine.name), run.value?)
        }
        None => {
            let Machine { topology, usable, .. } = Machine::here()?;
            let name = topology.model().unwrap_or_else(|| topology.name()).to_owned();
            let bench_machine = BenchMachine {
                cpu_quota: usable.as_ref().and_then(Usable::quota_cpus),
                ..BenchMachine::whole(name, "host", topology)
            };
            let mut bar = Bar::new()?;
            let tuning = tune::<Host>(&bench_machine, effort(2_000, 5), None, &mut bar)?;
            (format!("{}, measured", bench_machine.name), tuning)
        }
    };
    let Some(tuning) = tuning else {
        return Err(interrupted("interrupted before every candidate had its turn"));
    };
    if args.json {
        return output::print(
            &(serde_json::to_string_pretty(&Named { machine: &name, tuning: &tuning })? + "\n"),
        );
    }
    output::print(&text(&name, &tuning)?)
}

/// What was tried, and on which machine.
#[derive(serde::Serialize)]
struct Named<'a> {
    machine: &'a str,
    #[serde(flatten)]
    tuning: &'a Tuning,
}

fn text(name: &str, tuning: &Tuning) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(text, "{name}\n")?;
    writeln!(
        text,
        "  {:<18} {:>5}  {:>12} {:>9}  {:>12} {:>9}  {:>6}",
        "candidate", "pools", "even items/s", "e2e p99", "lopsided", "e2e p99", "worth"
    )?;
    for (at, candidate) in tuning.candidates.iter().enumerate() {
        let mark = match at {
            _ if at == tuning.best => "*",
            _ if tuning.as_good.contains(&at) => "~",
            _ => " ",
        };
        let Candidate { pods, even, lopsided, worth, .. } = candidate;
        writeln!(
            text,
            "{mark} {:<18} {pods:>5}  {:>12.0} {:>6.1} µs  {:>12.0} {:>6.1} µs  {:>4.0} %",
            candidate.to_string(),
            even.items_per_sec,
            even.end_to_end_p99_ns as f64 / 1e3,
            lopsided.items_per_sec,
            lopsided.end_to_end_p99_ns as f64 / 1e3,
            worth * 100.0
        )?;
    }
    let best = tuning.recommended();
    let shard = best.shard_cores.map_or_else(String::new, |cores| format!(".shard_size({cores})"));
    writeln!(
        text,
        "\nRecommended: {best}. Under the load that suits it less it still reaches {:.0} % of the best.",
        best.worth * 100.0
    )?;
    if !tuning.as_good.is_empty() {
        let others = tuning.as_good.iter().map(|at| tuning.candidates[*at].to_string());
        let others: Vec<String> = others.collect();
        writeln!(text, "About as good, with more pools: {}.", others.join(", "))?;
    }
    let spread = |load: Load| load.items_per_sec_max / load.items_per_sec_min;
    if spread(best.even) > 1.2 || spread(best.lopsided) > 1.2 {
        writeln!(
            text,
            "Its rounds differ by a factor of {:.1}: the machine is not at rest, or the figure has two \
             modes; more --rounds tell.",
            spread(best.even).max(spread(best.lopsided))
        )?;
    }
    writeln!(
        text,
        "even: every CPU queues one item and waits for it; lopsided: one CPU queues bursts of items of \
         5 µs\nin a program: runtime.workqueue().scope(Scope::{:?}){shard}",
        best.scope.parse::<Scope>()?
    )?;
    Ok(text)
}
