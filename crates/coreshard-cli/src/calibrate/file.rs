//! The machine file, with the source of each number.

use std::path::Path;

use coreshard::Topology;
use coreshard_results::{Calibration, Clocks, Figure, Variation};
use coreshard_topology::input;

use super::arbitration::Arbitration;
use super::core::Core;
use crate::common::kernel;

/// Idle time after which a CPU is in its deepest idle state. Measurements were made on both sides of it.
const DEEP_AFTER_NS: f64 = 1e6;

/// Computation between two accesses to shared memory.
#[derive(Clone, Copy)]
pub(super) struct Compute {
    /// An item of the measured program.
    pub(super) item: Figure,
    /// The same item simulated without computation.
    pub(super) simulated_item_ns: f64,
    /// Number of accesses per item.
    pub(super) accesses: f64,
    pub(super) ns: f64,
}

/// The text of the file, built cost by cost.
struct Text(String);

impl Text {
    fn line(&mut self, key: &str, value: &str) {
        self.0 += &format!("{key} = {value}\n");
    }

    /// Adds a cost with its source.
    fn cost(&mut self, key: &str, ns: f64, source: &str) {
        self.0 += &format!("\n[costs.{key}]\n");
        self.line("ns", &number(ns));
        self.line("source", &quoted(source));
    }

    /// Adds a cost derived from a figure.
    fn measured(&mut self, key: &str, ns: f64, figure: Figure, what: &str) {
        self.cost(key, ns, &source(figure, what));
    }

    fn memory(&mut self, measured: &Calibration, compute: Option<Compute>) {
        let (cycle_ns, cycle_source) = cycle(measured);
        self.cost("cycle", cycle_ns, &cycle_source);
        let load = measured.load.median_ns.max(0.01);
        self.measured("l1_hit", load, measured.load, "loads that depend on one another");
        let atomic = measured.atomic.median_ns.max(load);
        self.measured("atomic", atomic, measured.atomic, "fetch-and-add on a private line");
        if let Some(Compute { item, simulated_item_ns, accesses, ns }) = compute {
            let what = format!(
                "items that queue the next one, on one CPU, minus {simulated_item_ns:.1} ns for their {accesses:.1} accesses, per access"
            );
            self.measured("compute", ns, item, &what);
        }
        let assumed = "assumed: service time of a contended add minus the transfer, ~3 ns on machines with both published";
        self.cost("shared_read", 3.0, assumed);
        let memory_ns = measured.memory.median_ns;
        self.measured("memory_local", memory_ns, measured.memory, "a random walk through 128 MiB");
    }

    fn calls(&mut self, measured: &Calibration) {
        let costs = measured.costs();
        let (hint, clock) = (measured.spin_hint, measured.clock_read);
        self.measured("spin_hint", hint.median_ns, hint, "spin iterations, minus a load");
        self.measured("clock_read", clock.median_ns, clock, "clock readings");
        let nobody = measured.wake_nobody;
        self.measured("syscall", costs.syscall_ns, nobody, "futex wake-ups without a waiter");
        let what = "futex waits that return at once, minus a system call";
        self.measured("futex", costs.futex_ns, measured.wait_refused, what);
        let what = "futex wake-ups on one CPU, minus a wait that returns at once";
        self.measured("wake", costs.wake_ns, measured.wake_here, what);
        if let Some(busy) = measured.wake_busy {
            let what = "futex wake-ups on another, busy CPU, minus those on one CPU; at most the cost for an idle CPU";
            self.measured("wake_remote", costs.wake_remote_ns, busy, what);
        }
        let there = measured.wake_there.unwrap_or(measured.wake_here);
        let what = "futex wake-ups on an idle CPU, minus those on a busy one";
        self.measured("ipi_send", costs.ipi_send_ns, there, what);
        let what = "two threads that yield to each other, minus a system call";
        self.measured("context_switch", costs.context_switch_ns, measured.context_switch, what);
        if let Some(timer) = measured.timer {
            let what = "waits with a timeout, minus waits without";
            self.measured("timer", costs.timer_ns, timer, what);
        }
        let what = "thread starts, minus a wake-up";
        self.measured("thread_create", costs.thread_create_ns, measured.spawn, what);
        if let Some(slice) = measured.slice {
            let what = "time slices of two threads that compute on one CPU";
            self.measured("slice", slice.median_ns, slice, what);
        }
    }

    fn latencies(&mut self, measured: &Calibration) {
        self.0 += "\n[costs.latency_matrix]\nns = [\n";
        for row in &measured.latency {
            let each = row.iter().map(|cell| number(cell.map_or(0.0, |it| it.median_ns.max(0.1))));
            self.0 += &format!("    [{}],\n", each.collect::<Vec<_>>().join(", "));
        }
        let source = "measured: compare-exchange ping-pong, half a round trip, median";
        self.0 += &format!("]\nsource = {}\n", quoted(source));
    }

    /// Adds an idle state.
    fn idle(&mut self, after_ns: f64, exit_ns: f64, figure: Option<Figure>, rest: &str) {
        let what =
            || format!("until a thread woken after {rest} runs, minus the call and the switch");
        let source = match figure {
            Some(figure) => source(figure, &what()),
            None => "the only CPU is never woken by another".to_owned(),
        };
        self.0 += "\n[[costs.idle]]\n";
        self.line("after_ns", &format!("{after_ns:.0}"));
        self.line("exit_ns", &number(exit_ns));
        self.line("source", &quoted(&source));
    }

    fn idle_states(&mut self, measured: &Calibration) {
        let costs = measured.costs();
        let brief_ends_ns = measured.brief_rest_ends_ns();
        let mut short_rest = "0.2 ms idle";
        if brief_ends_ns.is_some() {
            let brief = measured.woken_after_brief_rest;
            self.idle(0.0, costs.brief_idle_exit_ns, brief, "20 µs idle");
            short_rest = "0.2 ms idle; idle times of 20, 40, 80, 160 and 200 µs show the beginning of this state";
        }
        let (short, long) = (measured.woken_after_short_rest, measured.woken_after_long_rest);
        self.idle(brief_ends_ns.unwrap_or(0.0), costs.idle_exit_ns, short, short_rest);
        self.idle(DEEP_AFTER_NS, costs.deep_idle_exit_ns, long, "5 ms idle");
    }
}

/// Formats the file.
pub(super) fn write(
    topology: &Topology,
    synthetic: &str,
    measured: &Calibration,
    compute: Option<Compute>,
    arbitration: Option<&Arbitration>,
) -> String {
    let model = topology.model().unwrap_or_else(|| topology.name());
    let place = format!("{model}, {}", kernel().unwrap_or_else(|| "Linux".to_owned()));
    let mut text = Text(String::new());
    text.line("title", &quoted(&place));
    text.line("synthetic", &quoted(synthetic));
    text.line("source", "[\"coreshard calibrate, on the machine itself\"]");
    text.0 += "\n[costs]\nline_bytes = 64\n";
    text.memory(measured, compute);
    text.calls(measured);
    text.latencies(measured);
    text.idle_states(measured);
    let Text(mut text) = text;
    if let Some(arbitration) = arbitration {
        text += &arbitration.text(&Core::host(), cycle(measured).0);
    }
    if let Some(clocks) = &measured.clocks {
        text += &cores(clocks);
    }
    // Values fitted by simulation are the same each time.
    if let Some(variation) = &measured.variation
        && compute.is_some()
    {
        text += &varying(variation);
    }
    text
}

fn source(figure: Figure, what: &str) -> String {
    let Figure { min_ns, max_ns, samples, .. } = figure;
    format!("measured: {what}; median of {samples}, {min_ns:.1} to {max_ns:.1} ns")
}

/// Formats the variation of costs.
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
        "\n[costs.variation]\ncalls = [{calls}]\nexits = [{exits}]\ninterrupted_every_ns = {every_ns:.0}\ninterrupted_for_ns = {for_ns:.0}\nsource = \"measured: {samples} calls that wake a thread, relative to the median of their round, at 5, 25, 50, 75, 95 and 99 %, and the same for wake-up latencies; {interruptions} gaps of more than 2 µs between clock readings\"\n"
    )
}

/// Formats how fast cores compute while others do.
fn cores(clocks: &Clocks) -> String {
    let Clocks { alone, cores, siblings } = clocks;
    // A ratio of times, and its inverse is one of speeds.
    let line = |key: &str, times: &Figure| {
        let speed = |times: f64| (1.0 / times.max(0.1)).clamp(0.1, 1.0);
        format!(
            "{key} = {:.2} # measured: {:.2} to {:.2}\n",
            speed(times.median_ns),
            speed(times.max_ns),
            speed(times.min_ns)
        )
    };
    let smt = siblings.as_ref().map(|times| line("smt_share", times)).unwrap_or_default();
    format!(
        "\n[costs.cores]\n{}{smt}source = \"measured: a computation of {:.1} ms, three instructions a cycle, on one CPU of each core at once, and on all CPUs; medians of {} rounds\"\n",
        line("all_core_clock", cores),
        alone.median_ns / 1e6,
        alone.samples
    )
}

/// Returns the length of a clock cycle, from the kernel if it reports the frequency.
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

/// Formats a TOML string.
fn quoted(text: &str) -> String {
    let clean: String = text.chars().filter(|letter| !letter.is_control()).collect();
    format!("\"{}\"", clean.replace('\\', "\\\\").replace('"', "\\\""))
}
