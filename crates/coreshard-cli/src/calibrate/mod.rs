//! `coreshard calibrate`: measures what things cost on this machine, for simulations of it.

mod arbitration;
mod file;
mod synthetic;

use std::path::{Path, PathBuf};

use anyhow::Context;
use arbitration::Arbitration;
use coreshard::{Host, Topology};
use coreshard_bench::{Effort, calibrate, contended, item_chains};
use coreshard_results::{Calibration, Contended, Figure};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::{CpuId, CpuSet, Usable, input};

use crate::common::{
    Bar, Destination, ForceArgs, bail_input, interrupted, other_load, output, whole,
};
use file::Compute;

/// The options of `coreshard calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the machine's file there, and show what was measured [default: the file to standard
    /// output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Rounds; each figure is measured once in each, and its median is taken
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
    // Before anything is measured: a machine that a file cannot describe is found here.
    let synthetic = synthetic::describe(&topology)?;
    let destination = args.output.as_deref().map(destination).transpose()?;
    let load = other_load(usable.cpus().len());
    let effort = Effort { rounds: args.rounds as usize, ..Effort::default() };
    let mut bar = Bar::new()?;
    let measured = calibrate::<Host>(usable.cpus(), effort, &mut bar)?;
    drop(bar);
    let Some(measured) = measured else {
        return Err(interrupted("interrupted before the machine was measured"));
    };
    let compute = compute(&topology, &synthetic, &measured, effort.rounds)?;
    let contends = |arbitration: &Arbitration| {
        let text = file::write(&topology, &synthetic, &measured, None, Some(arbitration));
        simulate_contention(&text, usable.cpus())
    };
    let one_llc = topology.cpus().iter().all(|cpu| cpu.llc == topology.cpus()[0].llc);
    let arbitration = arbitration::fit(&measured, one_llc, contends)?;
    let text = file::write(&topology, &synthetic, &measured, Some(compute), arbitration.as_ref());
    // What is written can be read: it is read here.
    read_back(&text)?;
    tell(load, &measured, arbitration.as_ref());
    let Some(destination) = destination else { return output::print(&text) };
    let path = input::path(destination.path()).to_string();
    destination.write(|out| out.write_all(text.as_bytes()))?;
    output::print(&table(&measured, compute))?;
    output::warn(&format!("machine written to {path}; use it with --sim --machine {path}"));
    Ok(())
}

/// Where the machine's file goes. It has the ending by which `--machine` knows one.
fn destination(path: &Path) -> anyhow::Result<Destination> {
    let is_toml = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"));
    if !is_toml && !path.starts_with("/dev") {
        bail_input!(
            "{}: a machine's file ends in .toml, by which --machine knows it; without --output it goes to standard output",
            input::path(path)
        );
    }
    Destination::open(path)
}

/// Says what makes the figures doubtful.
fn tell(load: Option<String>, measured: &Calibration, arbitration: Option<&Arbitration>) {
    for doubt in load.into_iter().chain(doubts(measured, arbitration)) {
        output::warn(&format!("coreshard calibrate: {doubt}"));
    }
}

/// What is off by more, as a factor, predicts no contention.
const WORST_FIT: f64 = 1.5;

/// Why simulations by these figures may predict another machine.
fn doubts(measured: &Calibration, arbitration: Option<&Arbitration>) -> Vec<String> {
    let mut doubts = Vec::new();
    let alone_ns = measured.atomic.median_ns;
    let apart = |contended: &&Contended| {
        contended.threads > 1 && contended.add.median_ns < WORST_FIT * alone_ns
    };
    if let Some(Contended { threads, add, .. }) = measured.contended.iter().find(apart) {
        doubts.push(format!(
            "a fetch-and-add took each of {threads} threads {:.1} ns, and one alone {alone_ns:.1}: they hardly ran at the \
             same time, so that what contends was not measured",
            add.median_ns
        ));
    }
    let off = arbitration.map_or(1.0, Arbitration::off);
    if off > WORST_FIT {
        doubts.push(format!(
            "contended operations, simulated, are within a factor of {off:.2} of what was measured, and no better: what \
             contends will be predicted so"
        ));
    }
    doubts
}

fn read_back(text: &str) -> anyhow::Result<Machine> {
    Machine::from_toml("what was measured", text).context(
        "the measurements contradict one another, as they do while other programs use the CPUs; measure again, with more \
         --rounds",
    )
}

/// What contends, on the machine of a file.
fn simulate_contention(text: &str, cpus: &CpuSet) -> anyhow::Result<Vec<Contended>> {
    let machine = read_back(text)?;
    let program = || contended::<Sim>(cpus, CONTENDED_OPERATIONS);
    Ok(Simulation::new(&machine).run(program).map_err(anyhow::Error::new)?.value?)
}

/// Operations of each thread that contends, simulated.
const CONTENDED_OPERATIONS: u64 = 500;

/// What a program computes between two accesses: what its items take on the first CPU beyond what they take
/// on the machine that was measured so far, which lets nothing be computed.
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
    // Once as many items, and twice as many, so that what is not theirs falls out.
    let (few, many) = (simulated(CHAINED_ITEMS)?, simulated(2 * CHAINED_ITEMS)?);
    // Each run has a round that is not measured.
    let accesses = (many.1 - few.1) as f64 / (2 * CHAINED_ITEMS) as f64;
    let simulated_item_ns = many.0.median_ns;
    let ns = ((item.median_ns - simulated_item_ns) / accesses).max(0.0);
    Ok(Compute { item, simulated_item_ns, accesses, ns })
}

/// Items of a measurement; a few milliseconds.
const CHAINED_ITEMS: u64 = 16_000;

/// What was measured, for people.
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
        row("line that another CPU has written: load", Some(fetched.load));
        row("  the other line of its pair then", Some(fetched.load_of_pair));
        row("  fetch-and-add", Some(fetched.add));
        row("  load, then fetch-and-add", Some(fetched.load_and_add));
        row("  stores, many at once", Some(fetched.store));
    }
    for Contended { threads, add, compare_exchange, ticket_lock, mutex } in &measured.contended {
        row(&format!("fetch-and-add, {threads} threads, each"), Some(*add));
        row(&format!("compare-exchange, {threads} threads, each"), Some(*compare_exchange));
        row(&format!("ticket lock, {threads} threads, each"), Some(*ticket_lock));
        row(&format!("lock, {threads} threads, each"), Some(*mutex));
    }
    row("wake-up of nobody", Some(measured.wake_nobody));
    row("wait that is refused", Some(measured.wait_refused));
    row("wake-up of a thread of this CPU", Some(measured.wake_here));
    row("wake-up of a thread of a busy CPU", measured.wake_busy);
    row("wake-up of a thread of another CPU", measured.wake_there);
    row("until it runs, after a brief rest", measured.woken_after_brief_rest);
    row("until it runs, after a short rest", measured.woken_after_short_rest);
    row("until it runs, after a long rest", measured.woken_after_long_rest);
    for (rest_ns, figure) in &measured.woken_after_rests_between {
        row(&format!("  the same after {} µs", rest_ns / 1e3), Some(*figure));
    }
    row("from thread to thread", Some(measured.context_switch));
    row("a wait with a timeout, beyond one without", measured.timer);
    row("starting a thread", Some(measured.spawn));
    row("a thread's turn, where another waits", measured.slice);
    row("an item that queues the next one", Some(compute.item));
    let mut text =
        format!("{:<44} {:>10} {:>10} {:>12}\n", "nanoseconds", "median", "least", "most");
    for (what, figure) in rows {
        let Some(Figure { median_ns, min_ns, max_ns, .. }) = figure else { continue };
        text += &format!("{what:<44} {median_ns:>10.1} {min_ns:>10.1} {max_ns:>12.1}\n");
    }
    let mut single = |what: &str, ns: f64| text += &format!("{what:<44} {ns:>10.1}\n");
    single("computed between two accesses", compute.ns);
    if let Some(variation) = measured.variation.filter(|it| it.interruptions > 0) {
        single("time between two interruptions", variation.interrupted_every_ns);
        single("an interruption", variation.interrupted_for_ns);
    }
    text
}

/// Pairs of CPUs in the table; the file has all.
const MAX_PAIRS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn contended(threads: usize, each_ns: f64) -> Contended {
        let figure = Figure { median_ns: each_ns, ..Figure::default() };
        Contended {
            threads,
            add: figure,
            compare_exchange: figure,
            ticket_lock: figure,
            mutex: figure,
        }
    }

    /// Of two threads that take so long for each operation where they contend.
    fn measured(two_ns: f64) -> Calibration {
        Calibration {
            atomic: Figure { median_ns: 3.0, ..Figure::default() },
            contended: vec![contended(1, 3.1), contended(2, two_ns)],
            ..Calibration::default()
        }
    }

    #[test]
    fn a_machine_that_no_simulation_comes_near_is_told_of() {
        let told = |simulated_ns| {
            let simulate =
                |_: &Arbitration| Ok(vec![contended(1, 3.0), contended(2, simulated_ns)]);
            let fitted = arbitration::fit(&measured(40.0), true, simulate).unwrap();
            doubts(&measured(40.0), fitted.as_ref())
        };
        assert_eq!(told(50.0), [""; 0]);
        let told = told(120.0);
        assert!(told[0].contains("within a factor of 3.00 of what was measured"), "{told:?}");
    }

    #[test]
    fn threads_that_did_not_contend_are_told_of() {
        assert_eq!(doubts(&measured(36.0), None), [""; 0]);
        let told = doubts(&measured(3.0), None);
        assert!(told[0].contains("each of 2 threads 3.0 ns, and one alone 3.0"), "{told:?}");
        assert_eq!(told.len(), 1);
    }
}
