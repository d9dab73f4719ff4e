//! Small tables of text: a line of headers, and a line for each row.

use coreshard_results::column::{Column, Row, Unit, Value};

use crate::format;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// All columns of the rows that have a heading, but for those of which nothing was measured in any row; texts to the left, figures to the right.
pub(crate) fn table<R: Row>(rows: &[R]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let has_any =
        |column: &Column<R>| rows.iter().any(|row| (column.value)(row, first) != Value::Absent);
    let headed = R::COLUMNS.iter().filter_map(|column| Some((column, column.heading?)));
    let columns: Vec<_> = headed.filter(|(column, _)| has_any(column)).collect();
    let shown = || columns.iter().copied();
    let first_rung = R::COLUMNS.iter().find(|column| column.key == "rung");
    let first_rung = match first_rung.map(|column| (column.value)(first, first)) {
        Some(Value::Text(rung)) => rung,
        _ => "first",
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.add_row(shown().map(|(_, heading)| heading.name.replace("{first}", first_rung)));
    for row in rows {
        table.add_row(
            shown().map(|(column, _)| format::value(column.unit, (column.value)(row, first))),
        );
    }
    for (column, (told, _)) in table.column_iter_mut().zip(shown()) {
        if told.unit != Unit::Text {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
