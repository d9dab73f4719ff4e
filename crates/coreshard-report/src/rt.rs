//! What the benchmarks of real time measured, as tables for a terminal or a text file.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use coreshard_bench::rt::IndexResults;

use crate::format;

/// A table of rows that begin with a name; all other columns are figures.
fn figures(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.add_row(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn notes(notes: &[String]) -> String {
    notes.iter().map(|note| format!("{note}\n")).collect()
}

/// The rungs of the priority index, one a line.
pub fn index(results: &IndexResults) -> String {
    let rows = results.results.iter().map(|cell| {
        vec![
            cell.rung.clone(),
            format::si(cell.ops_per_sec),
            format!("{}–{}", format::si(cell.ops_per_sec_min), format::si(cell.ops_per_sec_max)),
            format!("{:.2}", cell.over_first),
            format!("{:.2}–{:.2}", cell.over_first_min, cell.over_first_max),
            format::time_ns(cell.find_ns),
            format::time_ns(cell.set_ns),
            format::count(cell.bytes as f64),
        ]
    });
    let first = results.results.first().map_or("first", |cell| cell.rung.as_str());
    let header = ["rung", "ops/s", "range", &format!("× {first}"), "range", "find", "set", "bytes"];
    format!(
        "{}, {}: {} threads set and search among {} CPUs; {} rounds each, {} runs\n\n{}\n{}",
        results.machine,
        results.platform,
        results.threads,
        results.searched_cpus,
        format::count(results.rounds_per_thread as f64),
        results.runs,
        figures(&header, rows),
        notes(&results.notes),
    )
}
