//! `coreshard tune`: recommends an affinity scope and a shard size for a machine.

mod load;

use std::fmt::Write as _;

use crate::common::{
    Bar, DEFAULT_SEEDS, JsonArgs, MachineArgs, SimArgs, Site, each_alone, interrupted, output,
    whole,
};
use coreshard::{Host, Scope};
use coreshard_bench::{BenchMachine, TuneEffort, TuneLoad, TuneRound, over_rounds, tune};
use coreshard_results::{Candidate, Load, Tuning};
use coreshard_sim::{Machine, Simulation};

/// The options of `coreshard tune`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    simulated: SimArgs,

    #[command(flatten)]
    load: load::LoadArgs,

    /// Number of seeds to simulate; the output says how many of them agree [default: 5]
    #[arg(long, value_name = "N", requires = "machine", value_parser = whole::<u64, 1, 1_000>)]
    seeds: Option<u64>,

    /// Items that each CPU queues [default: 2000; simulated 100 to 400, depending on CPUs]
    #[arg(long, value_name = "N", value_parser = whole::<u64, 1, 1_000_000_000>)]
    items: Option<u64>,

    /// Times to measure each candidate; in simulations, a factor for --seeds [default: 5; simulated 1]
    #[arg(long, value_name = "N", value_parser = whole::<u32, 1, 10_000>)]
    rounds: Option<u32>,

    #[command(flatten)]
    json: JsonArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let json_output = args.json.open()?;
    let found = match args.machine.simulated()? {
        Some(machine) => simulate(args, &machine)?,
        None => measure(args)?,
    };
    let Some(found) = found else {
        return Err(interrupted("interrupted before all candidates ran"));
    };
    json_output.print(&found.document(), || found.text())
}

/// A recommendation and its load.
struct Found {
    machine: String,
    rounds: Rounds,
    load: TuneLoad,
    load_name: String,
    tuning: Tuning,
}

fn simulate(args: &Args, machine: &Machine) -> anyhow::Result<Option<Found>> {
    let bench_machine = args.machine.bench_machine(machine);
    let cpus = bench_machine.usable.len();
    let (load, load_name) = args.load.load(cpus)?;
    let first = args.simulated.seed();
    // Simulating again with the same seed gives the same result, so a round is another seed.
    let seeds = args.seeds.unwrap_or(DEFAULT_SEEDS) * u64::from(args.rounds.unwrap_or(1));
    let items = args.items.unwrap_or_else(|| simulated_items(cpus));
    let simulation = |seed| args.simulated.simulation(machine).seed(first.wrapping_add(seed));
    let tuning = over_seeds(&bench_machine, seeds, items, load, simulation)?;
    let costs = args.simulated.costs();
    let machine =
        format!("{}, simulated: costs {costs}, {seeds} seeds, from {first} on", bench_machine.name);
    Ok(tuning.map(|tuning| Found { machine, rounds: Rounds::Simulated, load, load_name, tuning }))
}

fn measure(args: &Args) -> anyhow::Result<Option<Found>> {
    let bench_machine = Site::here()?.bench_machine;
    let topology = &bench_machine.topology;
    let machine = format!("{}, measured", topology.model().unwrap_or_else(|| topology.name()));
    let (load, load_name) = args.load.load(bench_machine.usable.len())?;
    let effort = TuneEffort {
        items: args.items.unwrap_or(2_000),
        rounds: args.rounds.unwrap_or(5) as usize,
    };
    let tuning = tune::<Host>(&bench_machine, effort, load, &mut Bar::new()?)?;
    Ok(tuning.map(|tuning| Found { machine, rounds: Rounds::Measured, load, load_name, tuning }))
}

/// Names the load that the recommendation is best for.
fn objective(load: TuneLoad) -> &'static str {
    match load {
        TuneLoad::Unknown => "the least loss if the load is not known",
        TuneLoad::Even => "the even load",
        TuneLoad::Lopsided => "the lopsided load",
        TuneLoad::Seen(_) => "the given load",
    }
}

/// Compares the recommended candidate with the best one under each load.
fn compared(tuning: &Tuning) -> String {
    let best = tuning.recommended();
    type Under = fn(&Candidate) -> Load;
    let named: [(&str, &str, Under); 2] = [
        ("even", "every CPU queues and waits", |it| it.even),
        ("lopsided", "one CPU queues bursts", |it| it.lopsided),
    ];
    let mut text = String::new();
    for (name, what, under) in named {
        let fastest = tuning.fastest(under);
        let (rate, most) = (under(best).items_per_sec, under(fastest).items_per_sec);
        let share = if most > 0.0 { rate / most * 100.0 } else { 100.0 };
        let _ = write!(text, "  {name} ({what}): {share:.0} % of the best rate");
        let _ = match fastest == best {
            true => writeln!(text),
            false => writeln!(
                text,
                "; {fastest} reaches {:.1} times as much (--load {name})",
                most / rate
            ),
        };
    }
    text
}

/// The source of the rounds, and so the reason they may differ.
#[derive(Clone, Copy, Debug)]
enum Rounds {
    Measured,
    Simulated,
}

impl Rounds {
    /// Explains rounds that differ by a factor. Returns `None` if they agree.
    fn differing(self, factor: f64) -> Option<String> {
        let why = match self {
            Self::Measured => {
                "the machine is busy, or the distribution has two modes; try more --rounds"
            }
            Self::Simulated => "it depends on the seed; try more --seeds",
        };
        (factor > 1.2).then(|| format!("Its rounds differ by a factor of {factor:.1}: {why}."))
    }
}

/// Returns the default number of items per simulated CPU. It is large enough to outweigh the start, when all CPUs begin
/// at once and all workers sleep. It decreases with the number of CPUs, because cache misses per item increase.
pub(crate) fn simulated_items(cpus: usize) -> u64 {
    (40_000 / cpus.max(1) as u64).clamp(100, 400)
}

/// Simulates the machine with this many seeds. Returns `None` after an interrupt.
pub(crate) fn over_seeds<'machine>(
    bench_machine: &BenchMachine,
    seeds: u64,
    items: u64,
    load: TuneLoad,
    simulation: impl Fn(u64) -> Simulation<'machine> + Sync,
) -> anyhow::Result<Option<Tuning>> {
    let round = TuneRound::new(bench_machine, items, load)?;
    let found = each_alone(bench_machine, round.benches(), seeds as usize, simulation)?;
    let rounds = |found: Vec<Vec<_>>| found.iter().map(|it| round.judged(it)).collect::<Vec<_>>();
    Ok(found.map(|found| over_rounds(&rounds(found), load)))
}

/// The JSON document.
#[derive(serde::Serialize)]
struct Document<'a> {
    machine: &'a str,
    /// The load that the recommended candidate is best for.
    optimised_for: &'a str,
    /// The names of the candidates with the highest rate under each load.
    fastest_even: String,
    fastest_lopsided: String,
    #[serde(flatten)]
    tuning: &'a Tuning,
}

impl Found {
    fn document(&self) -> Document<'_> {
        Document {
            machine: &self.machine,
            optimised_for: objective(self.load),
            fastest_even: self.tuning.fastest(|it| it.even).to_string(),
            fastest_lopsided: self.tuning.fastest(|it| it.lopsided).to_string(),
            tuning: &self.tuning,
        }
    }

    fn text(&self) -> String {
        let Self { machine, rounds, load, load_name, tuning } = self;
        let best = tuning.recommended();
        let mut text = format!(
            "{machine}; load {load_name}\n\n{}\nRecommended for {}: {best}\n{}{} of {} rounds agree.\n",
            coreshard_report::table::tuning(tuning, output::columns()),
            objective(*load),
            compared(tuning),
            tuning.agreeing,
            tuning.rounds
        );
        if !tuning.as_good.is_empty() {
            let others = tuning.as_good.iter().map(|at| tuning.candidates[*at].to_string());
            let others: Vec<String> = others.collect();
            text += &format!("About as good, with more pools: {}.\n", others.join(", "));
        }
        let spread = |load: Load| load.items_per_sec_max / load.items_per_sec_min;
        if let Some(line) = rounds.differing(spread(best.even).max(spread(best.lopsided))) {
            text += &(line + "\n");
        }
        let scope = best.scope.parse::<Scope>().map_or(String::new(), |it| format!("{it:?}"));
        let shard =
            best.shard_cores.map_or_else(String::new, |cores| format!(".shard_size({cores})"));
        text + &format!(
            "even: every CPU queues one item and waits for it; lopsided: one CPU queues bursts of items of {:.1} µs;\nset another run time with --load or --item-us\nin a program: coreshard::workqueue()?.scope(coreshard::Scope::{scope}){shard}.build()?\n",
            load.item_work().as_nanos() as f64 / 1e3,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(scope: &str, even: f64, lopsided: f64) -> Candidate {
        let load = |items_per_sec| Load { items_per_sec, ..Load::default() };
        let (even, lopsided) = (load(even), load(lopsided));
        Candidate { scope: scope.to_owned(), even, lopsided, ..Candidate::default() }
    }

    #[test]
    fn a_recommendation_says_what_it_is_for_and_what_is_faster_for_what() {
        let candidates = vec![
            candidate("cpu", 50.0, 1.0),
            candidate("cache", 10.0, 4.0),
            candidate("system", 2.0, 8.0),
        ];
        let tuning = Tuning { candidates, best: 1, rounds: 5, agreeing: 5, ..Tuning::default() };
        let found = Found {
            machine: "it".to_owned(),
            rounds: Rounds::Simulated,
            load: TuneLoad::Unknown,
            load_name: "unknown".to_owned(),
            tuning,
        };
        let said = found.text();
        for line in [
            "Recommended for the least loss if the load is not known: cache",
            "  even (every CPU queues and waits): 20 % of the best rate; cpu reaches 5.0 times as much (--load even)",
            "  lopsided (one CPU queues bursts): 50 % of the best rate; system reaches 2.0 times as much (--load lopsided)",
        ] {
            assert!(said.lines().any(|it| it == line), "{line}: {said}");
        }
    }

    #[test]
    fn a_simulated_machine_is_not_said_to_be_without_rest() {
        let of = |rounds: Rounds| rounds.differing(1.5).unwrap();
        assert_eq!(
            of(Rounds::Simulated),
            "Its rounds differ by a factor of 1.5: it depends on the seed; try more --seeds."
        );
        assert!(of(Rounds::Measured).contains("the machine is busy"));
        assert!(of(Rounds::Measured).contains("try more --rounds"));
        assert_eq!(Rounds::Simulated.differing(1.1), None);
        assert_eq!(Rounds::Measured.differing(1.1), None);
    }
}
