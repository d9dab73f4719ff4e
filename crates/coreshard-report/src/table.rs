//! Results as a text table.
//!
//! There is one row per combination, and a blank line between scopes. If the table is too wide, the least important
//! columns are dropped and listed below it.

use comfy_table::CellAlignment;
use coreshard_results::column::{PAGE, Unit};
use coreshard_results::{Mode, QueueMeasurement, QueueResults, Tuning};

use crate::findings::{self, Contest};
use crate::format;
use crate::plain::{self, Shown, wrapped};
use crate::scaling;

/// Formats the results in at most `width` columns, with a line about the run above the table, and a legend and notes
/// below.
///
/// The fastest combination is marked `*`, and those whose range overlaps its range `~`. Scope, wake policy, intake and
/// throughput are always shown, so a table may be wider than a `width` below about 50.
pub fn queue(results: &QueueResults, width: usize) -> String {
    let results = &format::printable_results(results);
    let mut text = String::new();
    for line in head(results) {
        text += &wrapped(&line, width, "");
    }
    text.push('\n');
    if results.results.is_empty() {
        text.push_str("No combination of variants was measured.\n");
    } else {
        let mut all = plain::measured(&results.results);
        all.retain(|(_, heading)| heading.expendable != PAGE);
        let (body, left_out) = plain::fitted(all, width, |shown| render(results, shown));
        text.push_str(&body);
        text.push('\n');
        for line in legend(results, &left_out) {
            text += &wrapped(&line, width, "");
        }
    }
    text.push_str(&scaling::table(results));
    for note in &results.notes {
        text += &wrapped(&format!("- {note}"), width, "  ");
    }
    text
}

/// Formats the candidates, one per line. The recommended one is marked `*`, those about as good `~`.
///
/// ```
/// use coreshard_results::{Candidate, Tuning};
///
/// let candidate = Candidate { scope: "cache".into(), worth: 0.5, worth_q1: 0.4, worth_q3: 0.6, ..Candidate::default() };
/// let tuning = Tuning { candidates: vec![candidate], ..Tuning::default() };
/// let table = coreshard_report::table::tuning(&tuning, 100);
/// assert!(table.lines().nth(1).unwrap().trim_start().starts_with("*  cache"), "{table}");
/// ```
pub fn tuning(tuning: &Tuning, width: usize) -> String {
    plain::table(&tuning.rows(), width)
}

fn head(results: &QueueResults) -> Vec<String> {
    let mode = match results.mode {
        Mode::Closed => "one item outstanding each".to_owned(),
        Mode::Flood => {
            format!("flood, up to {} outstanding each", format::count(results.outstanding as f64))
        }
    };
    let virtual_label = if results.virtual_topology { " (VIRTUAL topology)" } else { "" };
    vec![
        format!("{}{virtual_label}", results.machine),
        format!(
            "{}, {} items per producer, {}, {mode}",
            format::counted(results.threads, "producer"),
            format::count(results.items_per_thread as f64),
            format::counted(results.runs, "run"),
        ),
    ]
}

fn legend(results: &QueueResults, left_out: &[Shown<QueueMeasurement>]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(contest) = Contest::of(results) {
        let over_slowest = format!(
            "{} the throughput of the {}slowest, {}",
            format::times(contest.ratio()),
            if contest.worst.is_default() { "default, which is the " } else { "" },
            findings::combination(contest.worst),
        );
        let over_default = contest
            .over_default(results)
            .map(|ratio| format!(" and {} that of the default", format::times(ratio)));
        lines.push(format!(
            "* best: {over_slowest}{}{}",
            over_default.unwrap_or_default(),
            if contest.is_decided() { "" } else { ", but their ranges overlap" },
        ));
        if contest.ties > 0 {
            let reach = match findings::range_of(contest.best) {
                findings::QUARTILES => "its quartiles reach those",
                _ => "its runs reach the range",
            };
            lines.push(format!("~ {reach} of the best"));
        }
    }
    lines.push("call: the queueing call alone; e2e: from the call until the item ran".to_owned());
    let left_out: Vec<String> = left_out
        .iter()
        .map(|(_, heading)| format!("{} {}", heading.group.short, heading.name))
        .collect();
    if !left_out.is_empty() {
        lines.push(format!("left out to fit: {}", left_out.join(", ")));
    }
    lines
}

fn render(results: &QueueResults, columns: &[Shown<QueueMeasurement>]) -> String {
    let mut table = plain::borderless();
    let groups = columns.iter().map(|(_, heading)| heading.group.short);
    table.add_row([""].into_iter().chain(groups));
    let names = columns.iter().map(|(_, heading)| heading.name);
    table.add_row([""].into_iter().chain(names));
    table.add_row(vec![""]);
    let best = results.best();
    let mut scope = None;
    for measurement in &results.results {
        if scope.is_some_and(|scope| scope != &measurement.scope) {
            table.add_row(vec![""]);
        }
        scope = Some(&measurement.scope);
        let mark = match best {
            Some(best) if std::ptr::eq(measurement, best) => "*",
            Some(best) if findings::ties_with(measurement, best) => "~",
            _ => "",
        };
        let texts = columns.iter().map(|(column, _)| {
            format::value(column.unit, (column.value)(measurement, measurement))
        });
        table.add_row([mark.to_owned()].into_iter().chain(texts));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        let right = if index == columns.len() { 0 } else { 2 };
        let (alignment, right) = match index.checked_sub(1) {
            None => (CellAlignment::Left, 1),
            Some(index) if columns[index].0.unit == Unit::Text => (CellAlignment::Left, right),
            Some(_) => (CellAlignment::Right, right),
        };
        column.set_padding((0, right)).set_cell_alignment(alignment);
    }
    plain::lines(&table)
}
