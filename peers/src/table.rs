//! The results as a table for a terminal.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::results::{Results, Row, Status, Verdict};

/// A figure with three significant digits and a prefix: `1.23 M`.
pub(crate) fn si(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 999.5e6 => (value / 1e9, " G"),
        size if size >= 999.5e3 => (value / 1e6, " M"),
        size if size >= 999.5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{unit}", digits(value))
}

/// A time with three significant digits: `12.3 µs`.
pub(crate) fn time_ns(value_ns: f64) -> String {
    let (value, unit) = match value_ns.abs() {
        size if size >= 999.5e6 => (value_ns / 1e9, "s"),
        size if size >= 999.5e3 => (value_ns / 1e6, "ms"),
        size if size >= 999.5 => (value_ns / 1e3, "µs"),
        _ => (value_ns, "ns"),
    };
    format!("{} {unit}", digits(value))
}

fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// The parameters of a load: `item_ns=0 producers=2`.
pub(crate) fn params(row: &Row) -> String {
    let pairs: Vec<String> =
        row.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(" ")
}

/// `3.20 × (3.01–3.40)`, and what it says where that is not plain.
pub(crate) fn ratio(row: &Row) -> Option<String> {
    let ratio = row.coreshard_ratio?;
    let verdict = match ratio.verdict() {
        Verdict::Ahead => "",
        Verdict::Behind => " behind",
        Verdict::Tie => " tie",
        Verdict::Unclear => " unclear",
    };
    let (median, min, max) = (digits(ratio.median), digits(ratio.min), digits(ratio.max));
    Some(format!("{median} × ({min}–{max}){verdict}"))
}

/// What stands for a row's figures, or beside them.
pub(crate) fn remark(row: &Row) -> Option<String> {
    if row.status == Status::Measured {
        return row.note.clone();
    }
    let word = row.status.word();
    Some(format!("{word}: {}", row.note.as_deref().unwrap_or("no reason given")))
}

/// Rows of one workload and its parameters, in order.
pub(crate) fn groups(results: &Results) -> impl Iterator<Item = &[Row]> {
    results.results.chunk_by(|a, b| a.workload == b.workload && a.params == b.params)
}

/// Names of the figures that only this group's workload has.
pub(crate) fn figure_names(group: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> =
        group.iter().flat_map(|row| row.figures.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A figure in the unit that its name ends in.
pub(crate) fn figure(name: &str, value: f64) -> String {
    if name.ends_with("_ns") || name.contains("_ns_per_") { time_ns(value) } else { si(value) }
}

/// The whole table, with a blank line between loads.
pub(crate) fn render(results: &Results) -> String {
    let mut text = format!("{}\n{} runs\n", results.machine, results.runs);
    for note in &results.notes {
        text.push_str(note);
        text.push('\n');
    }
    for group in groups(results) {
        let first = &group[0];
        writeln!(text, "\n{} {}", first.workload, params(first)).expect("a string takes it");
        text.push_str(&group_table(group));
        text.push('\n');
        for (peers, remark) in remarks(group) {
            writeln!(text, "  {}: {remark}", peers.join(", ")).expect("a string takes it");
        }
    }
    text
}

/// What is to be said of each peer, with those together of whom the same is.
pub(crate) fn remarks(group: &[Row]) -> Vec<(Vec<&str>, String)> {
    let mut remarks: Vec<(Vec<&str>, String)> = Vec::new();
    for row in group {
        let Some(remark) = remark(row) else { continue };
        match remarks.iter_mut().find(|(_, known)| *known == remark) {
            Some((peers, _)) => peers.push(&row.peer),
            None => remarks.push((vec![&row.peer], remark)),
        }
    }
    remarks
}

/// Rows that have figures.
pub(crate) fn measured(group: &[Row]) -> impl Iterator<Item = &Row> {
    group.iter().filter(|row| row.status == Status::Measured)
}

fn group_table(group: &[Row]) -> String {
    let names = figure_names(group);
    let mut header: Vec<String> = [
        "peer",
        "items/s",
        "coreshard is",
        "call p50",
        "p99",
        "p99.9",
        "e2e p50",
        "p99",
        "p99.9",
        "CPU/item",
        "switches",
        "peak MiB",
        "allocs",
    ]
    .map(str::to_owned)
    .to_vec();
    header.extend(names.iter().map(|name| (*name).to_owned()));
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for row in measured(group) {
        let time = |value: Option<u64>| value.map(|value| time_ns(value as f64));
        let mut cells = vec![
            Some(row.peer.clone()),
            row.items_per_sec.map(si),
            ratio(row),
            time(row.call_p50_ns),
            time(row.call_p99_ns),
            time(row.call_p999_ns),
            time(row.end_to_end_p50_ns),
            time(row.end_to_end_p99_ns),
            time(row.end_to_end_p999_ns),
            row.cpu_ns_per_item.map(time_ns),
            row.context_switches.map(si),
            row.peak_rss_bytes.map(|bytes| format!("{:.1}", bytes / 1024.0 / 1024.0)),
            row.allocations_per_item.map(|count| format!("{count:.2}")),
        ];
        let of = |name: &&str| row.figures.get(*name).map(|value| figure(name, *value));
        cells.extend(names.iter().map(of));
        table.add_row(cells.into_iter().map(|cell| cell.unwrap_or_else(|| "–".to_owned())));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
