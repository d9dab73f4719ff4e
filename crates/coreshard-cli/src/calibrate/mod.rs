//! `coreshard calibrate`: measures the costs of this machine for simulations.

mod arbitration;
mod core;
mod file;
mod synthetic;

use std::path::{Path, PathBuf};

use anyhow::Context;
use arbitration::{Arbitration, CpuDifferences};
use coreshard::{Host, Topology};
use coreshard_bench::{Effort, calibrate, contended, item_chains};
use coreshard_results::{Calibration, Contended, Contenders, Figure};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::{CpuId, Usable, input};

use crate::common::{
    Bar, Destination, ForceArgs, bail_input, interrupted, other_load, output, side_by_side, whole,
};
use file::Compute;

/// The options of `coreshard calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the machine file to FILE, and print a table [default: the file to standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Number of rounds; each figure is the median over rounds
    #[arg(long, value_name = "N", default_value = "15", value_parser = whole::<u32, 1, 10_000>)]
    rounds: u32,

    #[command(flatten)]
    force: ForceArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.force.apply();
    let whole = Topology::host()?;
    let usable = Usable::host(&whole)?;
    let topology = whole.restrict(usable.cpus())?;
    // Find a machine that a file cannot describe before measuring it.
    let synthetic = synthetic::describe(&topology)?;
    let destination = args.output.as_deref().map(destination).transpose()?;
    let load = other_load(usable.cpus().len());
    let effort = Effort { rounds: args.rounds as usize, ..Effort::default() };
    let mut bar = Bar::new()?;
    let measured = calibrate::<Host>(&topology, effort, &mut bar)?;
    drop(bar);
    let Some(measured) = measured else {
        return Err(interrupted("interrupted before the measurement finished"));
    };
    let compute = compute(&topology, &synthetic, &measured, effort.rounds)?;
    let contends = |all: &[Arbitration]| {
        let simulated = side_by_side(all.len(), |at| {
            let text = file::write(&topology, &synthetic, &measured, None, Some(&all[at]));
            simulate_contention(&text)
        });
        simulated.into_iter().collect()
    };
    let arbitration = arbitration::fit(&measured, shape(&topology, &measured), contends)?;
    let text = file::write(&topology, &synthetic, &measured, Some(compute), arbitration.as_ref());
    // Check that the file can be read.
    read_back(&text)?;
    tell(load, &measured, arbitration.as_ref());
    let Some(destination) = destination else { return output::print(&text) };
    let path = input::path(destination.path()).to_string();
    destination.write(|out| out.write_all(text.as_bytes()))?;
    output::print(&table(&measured, compute))?;
    output::warn(&format!("machine written to {path}; use it with --sim --machine {path}"));
    Ok(())
}

/// Opens the machine file. It must end in `.toml`, which `--machine` requires.
fn destination(path: &Path) -> anyhow::Result<Destination> {
    let is_toml = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"));
    if !is_toml && !path.starts_with("/dev") {
        bail_input!(
            "invalid file {}: expected a name that ends in .toml, or no --output for standard output",
            input::path(path)
        );
    }
    Destination::open(path)
}

/// Prints warnings about the figures.
fn tell(load: Option<String>, measured: &Calibration, arbitration: Option<&Arbitration>) {
    for doubt in load.into_iter().chain(doubts(measured, arbitration)) {
        output::warn(&format!("coreshard calibrate: {doubt}"));
    }
}

/// If the fit is off by a larger factor, contention is not predicted.
const WORST_FIT: f64 = 1.5;

/// Returns reasons to doubt simulations that use these figures.
fn doubts(measured: &Calibration, arbitration: Option<&Arbitration>) -> Vec<String> {
    let mut doubts = Vec::new();
    let alone_ns = measured.atomic.median_ns;
    let apart = |contended: &&Contended| {
        contended.threads > 1 && contended.add.median_ns < WORST_FIT * alone_ns
    };
    if let Some(Contended { threads, add, .. }) = measured.contended.iter().find(apart) {
        doubts.push(format!(
            "a fetch-and-add took {:.1} ns in each of {threads} threads, and {alone_ns:.1} in one alone: they hardly ran at the same time, so contention was not measured",
            add.median_ns
        ));
    }
    let off = arbitration.map_or(1.0, Arbitration::off);
    if off > WORST_FIT {
        doubts.push(format!(
            "simulated contended operations differ from the measured ones by a factor of {off:.2}: predictions of contention will be as far off"
        ));
    }
    doubts
}

fn read_back(text: &str) -> anyhow::Result<Machine> {
    Machine::from_toml("the measurements", text).context(
        "the measurements are inconsistent, probably because other programs used the CPUs: try again with more --rounds",
    )
}

/// Returns which numbers of contention these CPUs determine.
fn shape(topology: &Topology, measured: &Calibration) -> CpuDifferences {
    let cpus = topology.cpus();
    let ways = measured.latency.iter().flatten().flatten().map(|figure| figure.median_ns);
    CpuDifferences {
        has_distances: cpus.iter().any(|cpu| cpu.llc != cpus[0].llc),
        has_far_atomics: cfg!(target_arch = "aarch64"),
        nearest_ns: ways.fold(f64::INFINITY, f64::min),
    }
}

/// Simulates contention on the machine of a file.
fn simulate_contention(text: &str) -> anyhow::Result<Vec<Contended>> {
    let machine = read_back(text)?;
    let program = || contended::<Sim>(machine.topology(), CONTENDED_OPERATIONS);
    Ok(Simulation::new(&machine).run(program).map_err(anyhow::Error::new)?.value?)
}

/// Operations of each contending thread in simulations.
const CONTENDED_OPERATIONS: u64 = 500;

/// Computes the time between two accesses: the item's measured time on the first CPU minus its simulated time without
/// computation, per access.
fn compute(
    topology: &Topology,
    synthetic: &str,
    measured: &Calibration,
    rounds: usize,
) -> anyhow::Result<Compute> {
    let one_cpu = topology.restrict(&measured.cpus[..1].iter().copied().map(CpuId).collect())?;
    let item = item_chains::<Host>(&one_cpu, CHAINED_ITEMS, rounds)?;
    let machine = read_back(&file::write(topology, synthetic, measured, None, None))?;
    let simulated = |items| {
        let program = || item_chains::<Sim>(&one_cpu, items, 1);
        let run = Simulation::new(&machine).run(program).map_err(anyhow::Error::new)?;
        anyhow::Ok((run.value?, run.summary.accesses))
    };
    // Simulate N and 2 N items, so that the difference contains only items.
    let (few, many) = (simulated(CHAINED_ITEMS)?, simulated(2 * CHAINED_ITEMS)?);
    // Each run also has a warm-up round.
    let accesses = (many.1 - few.1) as f64 / (2 * CHAINED_ITEMS) as f64;
    let simulated_item_ns = many.0.median_ns;
    let ns = ((item.median_ns - simulated_item_ns) / accesses).max(0.0);
    Ok(Compute { item, simulated_item_ns, accesses, ns })
}

/// Items of a measurement. They take a few milliseconds.
const CHAINED_ITEMS: u64 = 16_000;

/// Formats the measurements as a table.
fn table(measured: &Calibration, compute: Compute) -> String {
    let mut rows: Vec<(String, Option<Figure>)> = Vec::new();
    let mut row = |what: &str, figure: Option<Figure>| rows.push((what.to_owned(), figure));
    row("load that hits", Some(measured.load));
    row("fetch-and-add, uncontended", Some(measured.atomic));
    row("load from memory", Some(measured.memory));
    row("spin hint", Some(measured.spin_hint));
    row("reading the clock", Some(measured.clock_read));
    let pairs = (0..measured.cpus.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    for (at, other_at) in pairs.take(MAX_PAIRS) {
        let (one, other) = (measured.cpus[at], measured.cpus[other_at]);
        let what = format!("line from CPU {one} to CPU {other}, one way");
        row(&what, measured.latency[at][other_at]);
    }
    if let Some(fetched) = measured.fetched {
        row("line written by another CPU: load", Some(fetched.load));
        row("  then the other line of its pair", Some(fetched.load_of_pair));
        row("  fetch-and-add", Some(fetched.add));
        row("  load, then fetch-and-add", Some(fetched.load_and_add));
        row("  concurrent stores", Some(fetched.store));
    }
    for curve in &measured.contended {
        let Contended { contenders, threads, .. } = curve;
        let on = match contenders {
            Contenders::CoresFirst => format!("{threads} threads"),
            Contenders::Siblings => format!("{threads} of a core"),
            Contenders::Packages => format!("{threads}, all packages"),
        };
        row(&format!("fetch-and-add, {on}, each"), Some(curve.add));
        row(&format!("swap, {on}, each"), Some(curve.swap));
        row(&format!("compare-exchange, {on}, each"), Some(curve.compare_exchange));
        row(&format!("  with pauses, {on}, each"), Some(curve.paused_exchange));
        row(&format!("ticket lock, {on}, each"), Some(curve.ticket_lock));
        row(&format!("lock, {on}, each"), Some(curve.mutex));
    }
    row("wake-up without a waiter", Some(measured.wake_nobody));
    row("wait that returns at once", Some(measured.wait_refused));
    row("wake-up of a thread on this CPU", Some(measured.wake_here));
    row("wake-up of a thread on a busy CPU", measured.wake_busy);
    row("wake-up of a thread on another CPU", measured.wake_there);
    row("until it runs, after 20 µs idle", measured.woken_after_brief_rest);
    row("until it runs, after 0.2 ms idle", measured.woken_after_short_rest);
    row("until it runs, after 5 ms idle", measured.woken_after_long_rest);
    for (rest_ns, figure) in &measured.woken_after_rests_between {
        row(&format!("  the same after {} µs", rest_ns / 1e3), Some(*figure));
    }
    row("switch between threads", Some(measured.context_switch));
    row("timeout of a wait", measured.timer);
    row("start of a thread", Some(measured.spawn));
    row("time slice of a contended CPU", measured.slice);
    row("item that queues the next one", Some(compute.item));
    let mut text =
        format!("{:<44} {:>10} {:>10} {:>12}\n", "nanoseconds", "median", "least", "most");
    for (what, figure) in rows {
        let Some(Figure { median_ns, min_ns, max_ns, .. }) = figure else { continue };
        text += &format!("{what:<44} {median_ns:>10.1} {min_ns:>10.1} {max_ns:>12.1}\n");
    }
    let mut single = |what: &str, ns: f64| text += &format!("{what:<44} {ns:>10.1}\n");
    single("computation between two accesses", compute.ns);
    if let Some(variation) = measured.variation.filter(|it| it.interruptions > 0) {
        single("time between two interruptions", variation.interrupted_every_ns);
        single("an interruption", variation.interrupted_for_ns);
    }
    text
}

/// Number of CPU pairs in the table. The file has all.
const MAX_PAIRS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn point(threads: usize, each_ns: f64) -> Contended {
        let figure = Figure { median_ns: each_ns, ..Figure::default() };
        Contended {
            threads,
            add: figure,
            swap: figure,
            compare_exchange: figure,
            paused_exchange: figure,
            ticket_lock: figure,
            ..Contended::default()
        }
    }

    /// Returns a calibration with two contending threads that take `two_ns` per operation.
    fn measured(two_ns: f64) -> Calibration {
        Calibration {
            atomic: Figure { median_ns: 3.0, ..Figure::default() },
            contended: vec![point(1, 3.1), point(2, two_ns)],
            ..Calibration::default()
        }
    }

    #[test]
    fn a_machine_that_no_simulation_comes_near_is_told_of() {
        let told = |simulated_ns| {
            let curves = vec![point(1, 3.0), point(2, simulated_ns)];
            let simulate = |all: &[Arbitration]| Ok(vec![curves.clone(); all.len()]);
            let shape =
                CpuDifferences { has_distances: false, has_far_atomics: false, nearest_ns: 50.0 };
            let fitted = arbitration::fit(&measured(40.0), shape, simulate).unwrap();
            doubts(&measured(40.0), fitted.as_ref())
        };
        assert_eq!(told(50.0), [""; 0]);
        let told = told(120.0);
        assert!(told[0].contains("by a factor of 3.00"), "{told:?}");
    }

    #[test]
    fn threads_that_did_not_contend_are_told_of() {
        assert_eq!(doubts(&measured(36.0), None), [""; 0]);
        let told = doubts(&measured(3.0), None);
        assert!(told[0].contains("3.0 ns in each of 2 threads, and 3.0 in one alone"), "{told:?}");
        assert_eq!(told.len(), 1);
    }
}
