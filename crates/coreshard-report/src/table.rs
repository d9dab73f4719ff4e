//! Results as a table for a terminal or a text file.
//!
//! One row for each combination, a blank line between scopes. The table fits the width it is given: the
//! columns that matter least are left out first, and the line below the table says which.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use coreshard_results::{Mode, QueueCell, QueueResults};

use crate::findings::{self, Contest};
use crate::format;
use crate::scaling;

/// The narrowest table: scope, wake, intake and throughput are never left out.
const ALWAYS: u8 = 0;

struct Column {
    /// Two header lines.
    title: [&'static str; 2],
    alignment: CellAlignment,
    /// Columns of the highest number are left out first.
    expendable: u8,
    text: fn(&QueueCell) -> String,
}

impl Column {
    const fn text(title: [&'static str; 2], text: fn(&QueueCell) -> String) -> Self {
        Self { title, alignment: CellAlignment::Left, expendable: ALWAYS, text }
    }

    const fn figure(
        title: [&'static str; 2],
        expendable: u8,
        text: fn(&QueueCell) -> String,
    ) -> Self {
        Self { title, alignment: CellAlignment::Right, expendable, text }
    }

    /// The header in one line, as the sentence about columns left out names it.
    fn name(&self) -> String {
        self.title.join(" ").trim().to_owned()
    }
}

const COLUMNS: [Column; 14] = [
    Column::text(["", "scope"], |cell| cell.scope.clone()),
    Column::text(["", "wake"], |cell| cell.wake.clone()),
    Column::text(["", "intake"], |cell| cell.intake.clone()),
    Column::figure(["", "items/s"], ALWAYS, |cell| format::count(cell.items_per_sec)),
    Column::figure(["", "spread"], 4, |cell| format::percent(findings::spread(cell))),
    Column::figure(["call", "p50"], 1, |cell| format::time_ns(cell.p50_ns as f64)),
    Column::figure(["call", "p90"], 7, |cell| format::time_ns(cell.p90_ns as f64)),
    Column::figure(["call", "p95"], 5, |cell| format::time_ns(cell.p95_ns as f64)),
    Column::figure(["call", "p99"], 3, |cell| format::time_ns(cell.p99_ns as f64)),
    Column::figure(["call", "max"], 8, |cell| format::time_ns(cell.max_ns as f64)),
    Column::figure(["e2e", "p50"], 6, |cell| format::time_ns(cell.end_to_end_p50_ns as f64)),
    Column::figure(["e2e", "p99"], 2, |cell| format::time_ns(cell.end_to_end_p99_ns as f64)),
    Column::figure(["lock", "held/item"], 9, |cell| {
        cell.lock_hold_ns_per_item.map_or_else(absent, format::time_ns)
    }),
    Column::figure(["wakes", "per item"], 10, |cell| {
        cell.wakeups_per_item.map_or_else(absent, format::plain)
    }),
];

fn absent() -> String {
    format::ABSENT.to_owned()
}

/// The results as a table of at most `width` columns of a terminal, with a line about the run above it
/// and the legend and notes below; lines end in a line feed.
///
/// The combination of the highest throughput is marked with `*`, those whose run-to-run range reaches
/// its range with `~`. Scope, wake policy, intake and throughput are always shown, so a table of less
/// than about 50 columns is wider than asked.
pub fn queue(results: &QueueResults, width: usize) -> String {
    let results = &format::printable_results(results);
    let mut text = String::new();
    for line in head(results) {
        push_wrapped(&mut text, &line, width, "");
    }
    text.push('\n');
    if results.results.is_empty() {
        text.push_str("No combination of rungs was measured.\n");
    } else {
        let mut shown: Vec<&Column> = COLUMNS.iter().collect();
        let mut body = render(results, &shown);
        while widest_line(&body) > width {
            let Some(next) = shown.iter().map(|column| column.expendable).max() else { break };
            if next == ALWAYS {
                break;
            }
            shown.retain(|column| column.expendable != next);
            body = render(results, &shown);
        }
        text.push_str(&body);
        text.push('\n');
        for line in legend(results, &shown) {
            push_wrapped(&mut text, &line, width, "");
        }
    }
    text.push_str(&scaling::table(results));
    for note in &results.notes {
        push_wrapped(&mut text, &format!("- {note}"), width, "  ");
    }
    text
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

fn legend(results: &QueueResults, shown: &[&Column]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(contest) = Contest::of(results) {
        lines.push(format!(
            "* best: {} the throughput of {}{}",
            format::times(contest.ratio()),
            findings::combination(contest.worst),
            if contest.is_decided() { "" } else { ", but their ranges overlap" },
        ));
        if contest.ties > 0 {
            lines.push("~ its runs reach the range of the best".to_owned());
        }
    }
    lines.push("call: the queueing call alone; e2e: from the call until the item ran".to_owned());
    let left_out: Vec<String> = COLUMNS
        .iter()
        .filter(|column| shown.iter().all(|other| other.title != column.title))
        .map(Column::name)
        .collect();
    if !left_out.is_empty() {
        lines.push(format!("left out to fit: {}", left_out.join(", ")));
    }
    lines
}

fn render(results: &QueueResults, columns: &[&Column]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for line in 0..2 {
        let titles = columns.iter().map(|column| column.title[line].to_owned());
        table.add_row([String::new()].into_iter().chain(titles));
    }
    table.add_row(vec![""]);
    let best = results.best();
    let mut scope = None;
    for cell in &results.results {
        if scope.is_some_and(|scope| scope != &cell.scope) {
            table.add_row(vec![""]);
        }
        scope = Some(&cell.scope);
        let mark = match best {
            Some(best) if std::ptr::eq(cell, best) => "*",
            Some(best) if findings::ties_with(cell, best) => "~",
            _ => "",
        };
        let texts = columns.iter().map(|column| (column.text)(cell));
        table.add_row([mark.to_owned()].into_iter().chain(texts));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        let right = if index == columns.len() { 0 } else { 2 };
        let (alignment, right) = match index.checked_sub(1) {
            None => (CellAlignment::Left, 1),
            Some(index) => (columns[index].alignment, right),
        };
        column.set_padding((0, right)).set_cell_alignment(alignment);
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn widest_line(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Appends `line`, broken between words so that no line is longer than `width` unless a word is;
/// continued lines begin with `indent`.
fn push_wrapped(text: &mut String, line: &str, width: usize, indent: &str) {
    let mut used = 0;
    for word in line.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            text.push('\n');
            text.push_str(indent);
            used = indent.len();
        } else if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += length;
    }
    text.push('\n');
}
