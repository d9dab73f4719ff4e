//! A machine's file, with the source of each number.

use std::fmt::Write as _;
use std::path::Path;

use coreshard::Topology;
use coreshard_results::{Calibration, Figure, Variation};
use coreshard_topology::input;

use super::arbitration::Arbitration;
use crate::common::kernel;

/// A rest after which a CPU is in its deepest idle state: those that were measured lie on both sides.
const DEEP_AFTER_NS: f64 = 1e6;

/// What a program computes between two accesses to shared memory.
#[derive(Clone, Copy)]
pub(super) struct Compute {
    /// An item of the program that was measured.
    pub(super) item: Figure,
    /// The same simulated, with nothing computed.
    pub(super) simulated_item_ns: f64,
    /// How many accesses it makes.
    pub(super) accesses: f64,
    pub(super) ns: f64,
}

/// The file's text.
pub(super) fn write(
    topology: &Topology,
    synthetic: &str,
    measured: &Calibration,
    compute: Option<Compute>,
    arbitration: Option<&Arbitration>,
) -> anyhow::Result<String> {
    let model = topology.model().unwrap_or_else(|| topology.name());
    let mut text = String::new();
    let place = format!("{model}, {}", kernel().unwrap_or_else(|| "Linux".to_owned()));
    writeln!(text, "title = {}", quoted(&place))?;
    writeln!(text, "synthetic = {}", quoted(synthetic))?;
    writeln!(text, "source = [\"coreshard calibrate, on the machine itself\"]")?;
    writeln!(text, "\n[costs]\nline_bytes = 64")?;
    let mut cost = |key: &str, ns: f64, source: &str| {
        writeln!(text, "\n[costs.{key}]\nns = {}\nsource = {}", number(ns), quoted(source))
    };
    let of = |figure: Figure, what: &str| {
        let Figure { min_ns, max_ns, samples, .. } = figure;
        format!("measured: {what}; median of {samples}, {min_ns:.1} to {max_ns:.1} ns")
    };
    let costs = measured.costs();
    let (cycle_ns, cycle_source) = cycle(measured);
    cost("cycle", cycle_ns, &cycle_source)?;
    let load = measured.load.median_ns.max(0.01);
    cost("l1_hit", load, &of(measured.load, "loads that depend on one another"))?;
    let atomic = measured.atomic.median_ns.max(load);
    cost("atomic", atomic, &of(measured.atomic, "fetch-and-add on an own line"))?;
    if let Some(Compute { item, simulated_item_ns, accesses, ns }) = compute {
        let what = format!(
            "items that queue the next one, on one CPU, less the {simulated_item_ns:.1} ns of their \
             {accesses:.1} accesses, divided by these"
        );
        cost("compute", ns, &of(item, &what))?;
    }
    let assumed = "assumed: what is left of a contended add's service time beyond the transfer, ~3 ns \
                   on machines where both were published";
    cost("shared_read", 3.0, assumed)?;
    let memory = measured.memory;
    cost("memory_local", memory.median_ns, &of(memory, "a random walk through 128 MiB"))?;
    if topology.nodes() > 1 {
        let assumed = "assumed: about twice memory_local, as published for two-socket servers";
        cost("memory_remote", 2.0 * memory.median_ns, assumed)?;
    }
    cost(
        "spin_hint",
        measured.spin_hint.median_ns,
        &of(measured.spin_hint, "turns of spinning, less a load"),
    )?;
    cost("clock_read", measured.clock_read.median_ns, &of(measured.clock_read, "clock readings"))?;
    cost("syscall", costs.syscall_ns, &of(measured.wake_nobody, "futex wake-ups of nobody"))?;
    let refused = of(measured.wait_refused, "futex waits that are refused, less a system call");
    cost("futex", costs.futex_ns, &refused)?;
    let here = of(measured.wake_here, "futex wake-ups on one CPU, less a refused wait");
    cost("wake", costs.wake_ns, &here)?;
    if let Some(busy) = measured.wake_busy {
        let source = of(
            busy,
            "futex wake-ups of another CPU that is busy, less those on one CPU; no more than of one that rests",
        );
        cost("wake_remote", costs.wake_remote_ns, &source)?;
    }
    let there = measured.wake_there.unwrap_or(measured.wake_here);
    let source = of(there, "futex wake-ups of another CPU that rests, less those of a busy one");
    cost("ipi_send", costs.ipi_send_ns, &source)?;
    cost("ipi_latency", 0.0, "measured together with the exit from idle states")?;
    let switch =
        of(measured.context_switch, "yields of two threads to each other, less a system call");
    cost("context_switch", costs.context_switch_ns, &switch)?;
    if let Some(timer) = measured.timer {
        let source = of(timer, "waits with a timeout, less those without");
        cost("timer", costs.timer_ns, &source)?;
    }
    let spawn = of(measured.spawn, "starts of threads, less a wake-up");
    cost("thread_create", costs.thread_create_ns, &spawn)?;
    match measured.slice {
        Some(slice) => {
            let what = "turns of two threads that compute on one CPU, as the other one misses it";
            cost("slice", slice.median_ns, &of(slice, what))?;
        }
        None => cost("slice", 3e6, "assumed: no thread waited for another one's CPU")?,
    }
    let rows: Vec<String> = measured
        .latency
        .iter()
        .map(|row| {
            let cells = row.iter().map(|cell| number(cell.map_or(0.0, |it| it.median_ns.max(0.1))));
            format!("    [{}],\n", cells.collect::<Vec<_>>().join(", "))
        })
        .collect();
    writeln!(
        text,
        "\n[costs.latency_matrix]\nns = [\n{}]\nsource = \"measured: compare-exchange ping-pong, half a \
         round trip, median\"",
        rows.concat()
    )?;
    let mut idle = |after_ns: f64, exit_ns: f64, figure: Option<Figure>, rest: &str| {
        let source = figure.map_or_else(
            || "there is one CPU, which nobody wakes from outside".to_owned(),
            |figure| {
                of(
                    figure,
                    &format!(
                        "until a thread runs that was woken after {rest}, less the \
                                          call and the switch"
                    ),
                )
            },
        );
        writeln!(
            text,
            "\n[[costs.idle]]\nafter_ns = {after_ns:.0}\nexit_ns = {}\nsource = {}",
            number(exit_ns),
            quoted(&source)
        )
    };
    let (brief, short) = (measured.woken_after_brief_rest, measured.woken_after_short_rest);
    let brief_ends_ns = measured.brief_rest_ends_ns();
    if brief_ends_ns.is_some() {
        idle(0.0, costs.brief_idle_exit_ns, brief, "20 µs of rest")?;
    }
    let short_rest = match brief_ends_ns {
        None => "0.2 ms of rest",
        Some(_) => {
            "0.2 ms of rest; rests of 20, 40, 80, 160 and 200 µs show where this state begins"
        }
    };
    idle(brief_ends_ns.unwrap_or(0.0), costs.idle_exit_ns, short, short_rest)?;
    let long = measured.woken_after_long_rest;
    idle(DEEP_AFTER_NS, costs.deep_idle_exit_ns, long, "5 ms of rest")?;
    if let Some(arbitration) = arbitration {
        text.push_str(&arbitration.text());
    }
    // What is simulated while numbers are chosen is the same each time.
    if let Some(variation) = &measured.variation
        && compute.is_some()
    {
        text.push_str(&varying(variation));
    }
    Ok(text)
}

/// By how much costs vary.
fn varying(variation: &Variation) -> String {
    let Variation { samples, interruptions, interrupted_every_ns, interrupted_for_ns, .. } =
        *variation;
    let factors = |of: [f64; 6]| {
        let each = of.map(|factor| format!("{:.3}", factor.clamp(0.1, 100.0)));
        each.join(", ")
    };
    let (calls, exits) = (factors(variation.calls), factors(variation.exits));
    let every_ns = interrupted_every_ns.min(1e9);
    let for_ns = interrupted_for_ns.min(every_ns / 2.0);
    format!(
        "\n[costs.variation]\ncalls = [{calls}]\nexits = [{exits}]\ninterrupted_every_ns = {every_ns:.0}\n\
         interrupted_for_ns = {for_ns:.0}\nsource = \"measured: {samples} calls that wake a thread, over the median of their \
         round, at 5, 25, 50, 75, 95 and 99 %, and as many wake-ups until the thread runs; {interruptions} gaps of more than \
         2 µs between looks at the clock\"\n"
    )
}

/// A clock cycle, by the kernel's word where it has one.
fn cycle(measured: &Calibration) -> (f64, String) {
    let mhz = input::head(Path::new("/proc/cpuinfo"), input::HEAD_BYTES).ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
        line.rsplit(':').next()?.trim().parse::<f64>().ok()
    });
    match mhz.filter(|mhz| *mhz > 1.0) {
        Some(mhz) => (1_000.0 / mhz, format!("/proc/cpuinfo: {mhz} MHz")),
        None => {
            ((measured.load.median_ns / 4.0).max(0.001), "assumed: a load takes 4 cycles".into())
        }
    }
}

fn number(ns: f64) -> String {
    format!("{:?}", (ns * 100.0).round() / 100.0)
}

/// As a TOML string.
fn quoted(text: &str) -> String {
    let clean: String = text.chars().filter(|letter| !letter.is_control()).collect();
    format!("\"{}\"", clean.replace('\\', "\\\\").replace('"', "\\\""))
}
