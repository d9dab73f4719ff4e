//! The advice for a machine: what to change, what to consider and what to keep, as text and as JSON.

use std::fmt::Write as _;

use coreshard_advise::measure::{Measured, MeasuredQueue};
use coreshard_advise::{Facts, Finding, RULES, Setting, Verdict};
use serde_json::{Value, json};

use crate::common::{counted, figures};

/// Width of a line in characters.
const WIDTH: usize = 100;
/// Number of workqueues shown in the table.
const MOST_QUEUES: usize = 20;
/// Characters shown of a workqueue's name.
const MOST_LETTERS: usize = 32;

/// A machine's facts and findings.
pub(super) struct Advice {
    pub(super) facts: Facts,
    pub(super) measured: Option<Measured>,
    pub(super) findings: Vec<Finding>,
    /// Why something was not measured or not simulated, one sentence each.
    pub(super) lacking: Vec<String>,
}

impl Advice {
    /// Returns the rules that found nothing to examine.
    fn silent_rules(&self) -> Vec<&'static str> {
        let spoke = |id: &str| self.findings.iter().any(|finding| finding.rule.id == id);
        RULES.iter().map(|rule| rule.id).filter(|id| !spoke(id)).collect()
    }

    /// Returns the advice as JSON.
    pub(super) fn json(&self) -> Value {
        let Self { facts, measured, findings, lacking } = self;
        let topology = &facts.topology;
        let highest = findings.iter().map(|finding| finding.verdict).max();
        json!({
            "machine": {
                "name": topology.name(),
                "model": topology.model(),
                "cpus": topology.cpus().len(),
                "cores": topology.cores(),
                "llcs": topology.llcs(),
                "nodes": topology.nodes(),
                "packages": topology.packages(),
            },
            "verdict": highest.unwrap_or(Verdict::Leave),
            "findings": findings,
            "facts": facts,
            "measured": measured,
            "silent_rules": self.silent_rules(),
            "lacking": lacking,
        })
    }

    /// Returns the advice as text.
    pub(super) fn text(&self) -> String {
        let advice = self;
        let mut text = head(advice);
        let of = |verdict| advice.findings.iter().filter(move |finding| finding.verdict == verdict);
        let count = |verdict| of(verdict).count();
        let (changes, thoughts) = (count(Verdict::Change), count(Verdict::Consider));
        text.push('\n');
        paragraph(&mut text, "", &summary(changes, thoughts));
        for verdict in [Verdict::Change, Verdict::Consider] {
            of(verdict).for_each(|finding| tell(&mut text, finding));
        }
        if let Some(measured) = &advice.measured {
            measurement(&mut text, measured);
        }
        text.push_str("\nKeep:\n");
        for finding in of(Verdict::Leave) {
            let Finding { subject, rule, statement, .. } = finding;
            paragraph(&mut text, "  ", &format!("{subject} ({}): {statement}", rule.id));
        }
        let silent = advice.silent_rules();
        if !silent.is_empty() {
            let silent = format!("Not applicable: {}.", silent.join(", "));
            text.push('\n');
            paragraph(&mut text, "", &silent);
        }
        for note in advice.lacking.iter().chain(&advice.facts.notes) {
            paragraph(&mut text, "", &format!("note: {note}"));
        }
        text
    }
}

fn head(advice: &Advice) -> String {
    let topology = &advice.facts.topology;
    let kernel = &advice.facts.kernel;
    let largest = (0..).map_while(|at| topology.llc(coreshard_topology::LlcId(at)));
    let bytes = largest.filter_map(|llc| llc.size_bytes).max();
    let bytes = bytes.map_or_else(String::new, |bytes| format!(" of up to {} MiB", bytes >> 20));
    let linux = match (&kernel.release, kernel.is_assumed) {
        (Some(release), true) => format!("Linux {release} with default settings, assumed"),
        (Some(release), false) => format!("Linux {release}"),
        (None, _) => "its kernel is unknown".to_owned(),
    };
    let machine = if kernel.is_virtual { "; a virtual machine" } else { "" };
    format!(
        "{}: {}, {}, {}{bytes}, {}; {linux}{machine}\n",
        topology.model().unwrap_or_else(|| topology.name()),
        counted(topology.cpus().len(), "CPU"),
        counted(topology.cores(), "core"),
        counted(topology.llcs(), "last-level cache"),
        counted(topology.nodes(), "node"),
    )
}

fn summary(changes: usize, thoughts: usize) -> String {
    match (changes, thoughts) {
        (0, 0) => "No change is sure to improve this machine.".to_owned(),
        (0, _) => format!("No change is sure to improve this machine; {thoughts} to consider."),
        (_, 0) => format!("Recommended: {}.", counted(changes, "change")),
        _ => format!("Recommended: {}; {thoughts} to consider.", counted(changes, "change")),
    }
}

fn tell(text: &mut String, finding: &Finding) {
    let what = if finding.verdict == Verdict::Change { "Change" } else { "Consider" };
    let _ = writeln!(text, "\n{what}: {} ({})", finding.subject, finding.rule.id);
    paragraph(text, "  ", &finding.statement);
    for Setting { path, now, to, .. } in &finding.settings {
        paragraph(text, "  ", &format!("set:      {path} = {to}"));
        if let Some(now) = now {
            paragraph(text, "  ", &format!("undo:     {path} = {now}"));
        }
    }
    if let Some(gain) = &finding.expected {
        let range = format!("{} to {} times the {}: {}", gain.least, gain.most, gain.of, gain.seen);
        paragraph(text, "  ", &format!("expected: {range}"));
    }
    if let Some(simulated) = &finding.simulated {
        let told =
            |ratio: f64, [least, most]: [f64; 2]| format!("{ratio:.2} ({least:.2} to {most:.2})");
        let measured = simulated
            .measured
            .zip(simulated.measured_range)
            .map_or_else(String::new, |(ratio, range)| {
                format!(", {} as measured", told(ratio, range))
            });
        let ratios = format!(
            "{}, throughput ratio: {} if every CPU queues, {} if one queues bursts{measured}; medians and ranges of {} seeds",
            simulated.what,
            told(simulated.even, simulated.even_range),
            told(simulated.lopsided, simulated.lopsided_range),
            simulated.seeds
        );
        paragraph(text, "  ", &format!("simulated: {ratios}"));
    }
    if !finding.risk.is_empty() {
        paragraph(text, "  ", &format!("risk:     {}", finding.risk));
    }
    paragraph(text, "  ", &format!("because:  {} [{}]", finding.rule.reason, finding.rule.source));
}

/// The columns after a workqueue's name, with their widths. Some follow a bar.
const COLUMNS: [(&str, usize); 15] = [
    ("items/s", 8),
    ("infl", 5),
    ("wait p50", 8),
    ("p90", 7),
    ("p99", 7),
    ("max", 7),
    ("run p50", 7),
    ("p99", 7),
    ("max", 7),
    ("x-LLC", 5),
    ("x-NUMA", 6),
    ("workers", 7),
    ("CPUs", 4),
    ("hogs", 4),
    ("rescued", 7),
];
const BARRED: [usize; 3] = [2, 6, 9];

fn row(text: &mut String, name: &str, letters: usize, cells: [String; 15]) {
    let _ = write!(text, "  {name:<letters$}");
    for (at, (cell, (_, width))) in cells.iter().zip(COLUMNS).enumerate() {
        let bar = if BARRED.contains(&at) { " |" } else { "" };
        let _ = write!(text, "{bar} {cell:>width$}");
    }
    text.push('\n');
}

fn measurement(text: &mut String, measured: &Measured) {
    let shown = || measured.queues.iter().take(MOST_QUEUES);
    let names = shown().map(|queue| queue.name.chars().count().min(MOST_LETTERS));
    let letters = names.max().unwrap_or(0).max("workqueue".len());
    let _ = writeln!(text, "\nMeasured for {:.1} s:", measured.seconds);
    row(text, "workqueue", letters, COLUMNS.map(|(title, _)| title.to_owned()));
    for queue in shown() {
        // Trace lines have whole microseconds.
        let us = |us: u64| match us {
            0 => "<1µs".to_owned(),
            _ => figures::time(us.saturating_mul(1_000)),
        };
        let MeasuredQueue { delay, run, .. } = queue;
        let percent =
            |part: u64| format!("{:.0}%", part as f64 * 100.0 / queue.matched.max(1) as f64);
        let name: String = queue.name.chars().take(MOST_LETTERS).collect();
        let cells = [
            format!("{:.1}", queue.queued as f64 / measured.seconds),
            queue.in_flight.to_string(),
            us(delay.p50_us),
            us(delay.p90_us),
            us(delay.p99_us),
            us(delay.max_us),
            us(run.p50_us),
            us(run.p99_us),
            us(run.max_us),
            percent(queue.crossed_llc),
            percent(queue.crossed_node),
            queue.workers.to_string(),
            queue.producers.to_string(),
            queue.hogs.to_string(),
            queue.rescues.to_string(),
        ];
        row(text, &name, letters, cells);
    }
    let more = measured.queues.len().saturating_sub(MOST_QUEUES);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    let unseen = format!(
        "wait: from queueing to start; run: from start to end, sleep included; infl: queued and not finished. {} items were queued before the measurement{}. No tracepoint reports wake-ups after a sleep, maydays and repatriated workers; wq_monitor.py reads them from kernel memory.",
        measured.unmatched,
        if measured.lost > 0 {
            format!("; {} events were lost, so these figures are too low", measured.lost)
        } else {
            String::new()
        }
    );
    paragraph(text, "  ", &unseen);
}

/// Wraps text into lines. Lines after the first have a deeper indent.
fn paragraph(text: &mut String, indent: &str, words: &str) {
    let mut line = indent.to_owned();
    let mut is_first = true;
    // Keep several spaces at the beginning, as in `set:      `.
    for word in words.split_inclusive(' ') {
        let width = line.chars().count() + word.trim_end().chars().count();
        if !is_first && width > WIDTH {
            let _ = writeln!(text, "{}", line.trim_end());
            line = format!("{indent}    ");
        }
        line.push_str(word);
        is_first = false;
    }
    let _ = writeln!(text, "{}", line.trim_end());
}
