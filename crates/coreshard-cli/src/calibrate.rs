//! `coreshard calibrate`: measures what things cost on this machine, for simulations of it.

mod file;
mod synthetic;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use coreshard::{Host, Topology};
use coreshard_bench::{Calibration, Effort, Figure, calibrate};
use coreshard_topology::Usable;

use crate::bench::{Bar, Destination};
use crate::failure::interrupted;
use crate::output;

/// The options of `coreshard calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the machine's file there, and show what was measured [default: the file to standard
    /// output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Rounds; each figure is measured once in each, and its median is taken
    #[arg(long, value_name = "N", default_value = "15", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let whole = Topology::host()?;
    let usable = Usable::host(&whole)?;
    let topology = whole.restrict(usable.cpus())?;
    // Before anything is measured: a machine that a file cannot describe is found here.
    let synthetic = synthetic::describe(&topology)?;
    let destination = args.output.as_deref().map(Destination::open).transpose()?;
    let effort = Effort { rounds: args.rounds as usize, ..Effort::default() };
    let mut bar = Bar::new()?;
    let measured = calibrate::<Host>(usable.cpus(), effort, &mut bar)?;
    drop(bar);
    let Some(measured) = measured else {
        return Err(interrupted("interrupted before the machine was measured"));
    };
    let text = file::write(&topology, &synthetic, &measured)?;
    // What is written can be read: it is read here.
    coreshard_sim::Machine::from_toml("what was measured", &text)
        .context("the machine's file cannot be used")?;
    let Some(destination) = destination else { return output::print(&text) };
    let path = destination.path().display().to_string();
    destination.write(|out| out.write_all(text.as_bytes()))?;
    output::print(&table(&measured)?)?;
    output::warn(&format!("machine written to {path}; use it with --sim --machine {path}"));
    Ok(())
}

/// What was measured, for people.
fn table(measured: &Calibration) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(text, "{:<44} {:>10} {:>10} {:>12}", "nanoseconds", "median", "least", "most")?;
    let mut row = |what: &str, figure: Figure| {
        let Figure { median_ns, min_ns, max_ns, .. } = figure;
        writeln!(text, "{what:<44} {median_ns:>10.1} {min_ns:>10.1} {max_ns:>12.1}")
    };
    row("load that hits", measured.load)?;
    row("fetch-and-add, uncontended", measured.atomic)?;
    row("load from memory", measured.memory)?;
    row("spin hint", measured.spin_hint)?;
    row("reading the clock", measured.clock_read)?;
    let pairs = (0..measured.cpus.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    for (one, other) in pairs.take(MOST_PAIRS) {
        if let Some(figure) = measured.latency[one][other] {
            let (one, other) = (measured.cpus[one], measured.cpus[other]);
            row(&format!("line from CPU {one} to CPU {other}, one way"), figure)?;
        }
    }
    for contended in &measured.contended {
        let threads = contended.threads;
        row(&format!("fetch-and-add, {threads} threads, each"), contended.add)?;
        row(&format!("compare-exchange, {threads} threads, each"), contended.compare_exchange)?;
    }
    row("wake-up of nobody", measured.wake_nobody)?;
    row("wait that is refused", measured.wait_refused)?;
    row("wake-up of a thread of this CPU", measured.wake_here)?;
    let there = [
        ("wake-up of a thread of another CPU", measured.wake_there),
        ("until it runs, after a short rest", measured.woken_after_short_rest),
        ("until it runs, after a long rest", measured.woken_after_long_rest),
    ];
    for (what, figure) in there {
        figure.map_or(Ok(()), |figure| row(what, figure))?;
    }
    row("from thread to thread", measured.context_switch)?;
    row("starting a thread", measured.spawn)?;
    Ok(text)
}

/// Pairs of CPUs in the table; the file has all.
const MOST_PAIRS: usize = 10;
