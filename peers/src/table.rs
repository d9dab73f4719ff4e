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

/// `3.20 × (3.01–3.40)`, with its verdict unless one is clearly ahead.
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

/// The remark in place of a row's figures, or beside them.
fn remark(row: &Row) -> Option<String> {
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

/// A column's text for a row.
type Text<'group> = dyn Fn(&Row) -> Option<String> + 'group;
/// The same, for rows of any load.
type Common = fn(&Row) -> Option<String>;

/// A column of a group's table.
pub(crate) struct Column<'group> {
    pub(crate) title: &'group str,
    pub(crate) text: Box<Text<'group>>,
}

/// The columns of a group: the common ones that are not empty, and the figures that only this load has.
pub(crate) fn columns(group: &[Row]) -> Vec<Column<'_>> {
    fn time(value: Option<u64>) -> Option<String> {
        value.map(|value| time_ns(value as f64))
    }
    const ALWAYS: [(&str, Common); 14] = [
        ("peer", |row| Some(row.peer.clone())),
        ("items/s", |row| row.items_per_sec.map(si)),
        ("coreshard is", ratio),
        ("call p50", |row| time(row.call_p50_ns)),
        ("p99", |row| time(row.call_p99_ns)),
        ("p99.9", |row| time(row.call_p999_ns)),
        ("e2e p50", |row| time(row.end_to_end_p50_ns)),
        ("p99", |row| time(row.end_to_end_p99_ns)),
        ("p99.9", |row| time(row.end_to_end_p999_ns)),
        ("CPU/item", |row| row.cpu_ns_per_item.map(time_ns)),
        ("of coreshard's", |row| {
            row.coreshard_cpu_ratio.map(|ratio| format!("{} ×", digits(ratio.median)))
        }),
        ("switches", |row| row.context_switches.map(si)),
        ("peak MiB", |row| {
            row.peak_rss_bytes.map(|bytes| format!("{:.1}", bytes / 1024.0 / 1024.0))
        }),
        ("allocs", |row| row.allocations_per_item.map(|count| format!("{count:.2}"))),
    ];
    let always = ALWAYS.into_iter().map(|(title, text)| Column { title, text: Box::new(text) });
    let own = figure_names(group).into_iter().map(|name| Column {
        title: name,
        text: Box::new(move |row| row.figures.get(name).map(|value| figure(name, *value))),
    });
    always
        .chain(own)
        .filter(|column| measured(group).any(|row| (column.text)(row).is_some()))
        .collect()
}

/// Names of the figures that only this group's workload has.
fn figure_names(group: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> =
        group.iter().flat_map(|row| row.figures.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A figure in the unit that its name ends in.
fn figure(name: &str, value: f64) -> String {
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

/// The remarks on peers. Peers with the same remark are grouped.
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
    let columns = columns(group);
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|column| column.title));
    for row in measured(group) {
        let text = |column: &Column<'_>| (column.text)(row).unwrap_or_else(|| "–".to_owned());
        table.add_row(columns.iter().map(text));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::sample;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        assert_eq!(si(12_345_678.0), "12.3 M");
        assert_eq!(si(999.6), "1.00 k");
        assert_eq!(si(0.0), "0");
        assert_eq!(time_ns(999.6), "1.00 µs");
        assert_eq!(time_ns(1_234_567.0), "1.23 ms");
        assert_eq!(figure("last_start_ns", 1_500.0), "1.50 µs");
        assert_eq!(figure("threads", 2.0), "2.00");
    }

    #[test]
    fn the_table_has_the_measured_rows_and_names_the_others() {
        let text = render(&sample());
        let line = |start: &str| text.lines().find(|line| line.trim_start().starts_with(start));
        assert!(line("coreshard ").unwrap().contains("20.0 M"), "{text}");
        assert!(line("rayon ").unwrap().contains("4.00 × (2.00–5.00)"), "{text}");
        assert!(text.contains("chili: does not fit: has no spawn"), "{text}");
        assert!(text.contains("onetbb: absent: not installed"), "{text}");
        assert!(text.contains("eigen: hung: not finished after 20 s"), "{text}");
        assert!(text.contains("asio: 1 of 3 runs failed: out of memory"), "{text}");
    }

    #[test]
    fn peers_of_whom_the_same_is_to_be_said_share_a_line() {
        let mut results = sample();
        results.results.retain(|row| row.peer == "chili");
        results.results.push(Row { peer: "other".into(), ..results.results[0].clone() });
        assert!(render(&results).contains("chili, other: does not fit"));
    }
}
