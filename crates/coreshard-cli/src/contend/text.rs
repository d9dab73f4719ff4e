//! The results as text, at most 80 columns wide.

use std::fmt::Write as _;

use super::report::{Figure, RemedyRow, Report};
use crate::common::counted;
use crate::common::figures::{ABSENT, count};
use crate::replay::time;

const COLUMNS: usize = 80;
/// The width of a figure, and of a range.
const FIGURE: usize = 9;
const RANGE: usize = 13;
/// How many lines are listed.
const LINES: usize = 4;

pub(super) fn text(report: &Report) -> String {
    let mut text = format!("{}\n", report.title);
    let runs = match (report.platform, report.runs) {
        (_, 0) => "queueing model only".to_owned(),
        ("host", runs) => format!("medians of {runs} runs"),
        (_, 1) => "one seed".to_owned(),
        (_, seeds) => format!("medians over {seeds} seeds"),
    };
    text += &wrapped(&format!("{}; {}; {runs}", report.machine, report.setting), "");
    text.push('\n');
    text += &points(report);
    text.push('\n');
    text += &findings(report);
    if !report.remedies.is_empty() {
        text.push('\n');
        text += &remedies(report);
    }
    for note in &report.notes {
        text += &wrapped(&format!("note: {note}"), "  ");
    }
    text
}

/// The columns of the first table.
fn points(report: &Report) -> String {
    let is_of_range = report.outside_ns.0 < report.outside_ns.1 || report.platform == "host";
    let width = if is_of_range { RANGE } else { FIGURE };
    let rate = |figure: Option<Figure>| match figure {
        None => ABSENT.to_owned(),
        Some(it) if is_of_range => {
            format!("{}–{}", count(it.per_sec_low), count(it.per_sec_high))
        }
        Some(it) => count(it.per_sec),
    };
    let has_run = report.points.iter().any(|point| point.run.is_some());
    let has_queueing = report.points.iter().any(|point| point.queueing.is_some());
    let run = if report.platform == "host" { "measured" } else { "simulated" };
    let mut head = format!("{:>7}", "threads");
    let mut columns = |is_shown: bool, name: &str, width: usize| {
        if is_shown {
            let _ = write!(head, "  {name:>width$}");
        }
    };
    columns(has_run, run, width);
    columns(has_run, "time", FIGURE);
    columns(has_queueing, "queueing", width);
    columns(has_queueing, "time", FIGURE);
    columns(has_run && has_queueing, "apart", 6);
    let room = COLUMNS.saturating_sub(head.chars().count() + 2);
    let highest = report.points.iter().map(|point| point.figure().per_sec).fold(0.0, f64::max);
    let mut text = format!("{head}  rounds/s\n");
    for point in &report.points {
        let mut line = format!("{:>7}", point.threads);
        for (is_shown, figure) in [(has_run, point.run), (has_queueing, point.queueing)] {
            if is_shown {
                let steps = figure.map_or(ABSENT.to_owned(), |it| time(it.steps_ns));
                let _ = write!(line, "  {:>width$}  {steps:>FIGURE$}", rate(figure));
            }
        }
        if let Some(apart) = point.apart {
            let _ = write!(line, "  {:>6}", format!("{:.0} %", apart * 100.0));
        }
        let bar = (room as f64 * point.figure().per_sec / highest).round() as usize;
        let _ = writeln!(text, "{line}  {}", "▇".repeat(bar.clamp(1, room)));
    }
    text
}

fn findings(report: &Report) -> String {
    let mut text = String::new();
    let most = report.points.last().map_or(0, |point| point.threads);
    let turning = match &report.turning_point {
        Some(turn) => format!(
            "turning point: {}, {} rounds/s; {most} threads give {:.0} % of that",
            turn.range(),
            count(turn.per_sec),
            turn.at_most * 100.0
        ),
        None => format!("turning point: none up to {}", counted(most, "thread")),
    };
    text += &wrapped(&turning, "  ");
    if let Some(first) = report.lines.first() {
        let how = if first.is_busy_share { "busy" } else { "share of the threads' time" };
        let lines = report.lines.iter().take(LINES);
        let lines: Vec<_> =
            lines.map(|line| format!("{} {:.0} %", line.line, line.share * 100.0)).collect();
        let threads = counted(first.threads, "thread");
        text += &wrapped(&format!("lines, {how} with {threads}: {}", lines.join(", ")), "  ");
    }
    if let Some(apart) = report.most_apart() {
        let apart = format!("error: the models differ by up to {:.0} %", apart * 100.0);
        text += &wrapped(&apart, "  ");
    }
    text
}

fn remedies(report: &Report) -> String {
    let first = &report.remedies[0];
    let has_run = report.remedies.iter().any(|row| row.run.is_some());
    let has_queueing = report.remedies.iter().any(|row| row.queueing.is_some());
    let run = if report.platform == "host" { "measured" } else { "simulated" };
    let threads = format!("with {}", counted(first.threads, "thread"));
    let mut text = format!("{threads:<16}");
    for (is_shown, name) in [(has_run, run), (has_queueing, "queueing")] {
        if is_shown {
            let _ = write!(text, "  {name:>FIGURE$}");
        }
    }
    let _ = writeln!(text, "  {:>13}", "gain");
    for row in &report.remedies {
        let mut line = format!("{:<16}", row.remedy);
        for (is_shown, figure) in [(has_run, row.run), (has_queueing, row.queueing)] {
            if is_shown {
                let rate = figure.map_or(ABSENT.to_owned(), |it| count(it.per_sec));
                let _ = write!(line, "  {rate:>FIGURE$}");
            }
        }
        let _ = writeln!(text, "{line}  {:>13}  {}", gain(row), row.change);
    }
    text
}

/// Formats the gain: `×1.9`, or `×1.2 – ×1.9`.
pub(super) fn gain(row: &RemedyRow) -> String {
    let one = |gain: f64| match gain {
        ..9.95 => format!("×{gain:.2}"),
        ..99.5 => format!("×{gain:.1}"),
        _ => format!("×{gain:.0}"),
    };
    let (low, high) = (one(row.gain_low), one(row.gain_high));
    if low == high { low } else { format!("{low}–{}", high.trim_start_matches('×')) }
}

/// Breaks a line between words, and ends it.
fn wrapped(line: &str, indent: &str) -> String {
    coreshard_report::wrapped(line, COLUMNS, indent)
}

#[cfg(test)]
mod tests {
    use super::super::report::{LineShare, Point};
    use super::*;

    fn figure(per_sec: f64, factor: f64) -> Figure {
        Figure {
            per_sec,
            per_sec_low: per_sec / factor,
            per_sec_high: per_sec * factor,
            steps_ns: 1e9 / per_sec,
        }
    }

    fn report(factor: f64) -> Report {
        let point = |threads: usize, rate: f64| {
            Point::new(
                threads,
                Some(figure(rate, factor)),
                Some(figure(1.3 * rate, factor)),
                factor > 1.0,
            )
        };
        let row = |remedy, gain_high| RemedyRow {
            remedy,
            change: "pauses after failures",
            threads: 480,
            run: Some(figure(1.23e8, factor)),
            queueing: Some(figure(1.5e8, factor)),
            gain_low: 12.3,
            gain_high,
        };
        let mut report = Report {
            title: "a title".into(),
            machine: "a machine with a name that is rather long, as machines' names are".into(),
            platform: "sim",
            setting: "threads unpinned, 50 to 90 % of a lone thread's time outside".into(),
            runs: 5,
            points: vec![point(1, 3e6), point(2, 1.2e7), point(480, 1.1e6)],
            lines: vec![LineShare {
                line: "a_long_name + another_long_name + a_third_name".into(),
                share: 0.83,
                is_busy_share: false,
                threads: 480,
            }],
            remedies: vec![row("back off", 123.4), row("queue lock", 12.3)],
            outside_ns: (10.0, 10.0 * factor),
            notes: vec!["word ".repeat(40)],
            ..Report::default()
        };
        report.set_turning_point();
        report
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        for factor in [1.0, 2.0] {
            let text = text(&report(factor));
            for line in text.lines() {
                assert!(line.chars().count() <= COLUMNS, "{line}\n{text}");
            }
        }
    }

    #[test]
    fn ranges_are_shown_if_the_time_outside_is_one() {
        let exact = text(&report(1.0));
        assert!(exact.contains("12.0M") && !exact.contains("6.00M–"), "{exact}");
        let range = text(&report(2.0));
        assert!(range.contains("6.00M–24.0M"), "{range}");
    }

    #[test]
    fn the_findings_name_the_turning_point_the_line_and_the_error() {
        let text = text(&report(1.0));
        assert!(
            text.contains("turning point: 2 threads, 12.0M rounds/s; 480 threads give 9 %"),
            "{text}"
        );
        assert!(
            text.contains("lines, share of the threads' time with 480 threads: a_long_"),
            "{text}"
        );
        assert!(text.contains("the models differ by up to 30 %"), "{text}");
        assert!(text.contains("×12.3–123  pauses") && text.contains("×12.3  pauses"), "{text}");
    }
}
