//! Simple text tables: a header line, and a line per row.

use std::fmt::Write as _;

use coreshard_results::column::{Column, Heading, Row, Unit, Value};

use crate::format;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A column with its heading.
pub(crate) type Shown<R> = (&'static Column<R>, Heading);

/// Formats all columns with a heading that have a value in any row. Less important columns are dropped if the table
/// would be wider than `width`, and listed below it. Text is left-aligned and figures are right-aligned.
pub(crate) fn table<R: Row>(rows: &[R], width: usize) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let (mut text, left_out) = fitted(measured(rows), width, |shown| render(rows, first, shown));
    let mut left_out: Vec<_> = left_out.iter().map(|(_, heading)| heading.name).collect();
    left_out.sort_unstable();
    left_out.dedup();
    if !left_out.is_empty() {
        let _ = writeln!(text, "\nleft out to fit: {}", left_out.join(", "));
    }
    text
}

/// Returns the columns with a heading and at least one value.
pub(crate) fn measured<R: Row>(rows: &[R]) -> Vec<Shown<R>> {
    let headed = R::COLUMNS.iter().filter_map(|column| Some((column, column.heading?)));
    let has_any = |(column, _): &Shown<R>| {
        rows.iter().any(|row| (column.value)(row, &rows[0]) != Value::Absent)
    };
    headed.filter(has_any).collect()
}

/// Formats the table in at most `width` columns if possible. Returns it with the columns that were dropped.
pub(crate) fn fitted<R: Row>(
    all: Vec<Shown<R>>,
    width: usize,
    render: impl Fn(&[Shown<R>]) -> String,
) -> (String, Vec<Shown<R>>) {
    let mut shown = all.clone();
    loop {
        let text = render(&shown);
        let next = shown.iter().map(|(_, heading)| heading.expendable).max().unwrap_or(0);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        if widest <= width || next == 0 {
            let is_out = |(_, heading): &Shown<R>| heading.expendable > next;
            return (text, all.into_iter().filter(is_out).collect());
        }
        shown.retain(|(_, heading)| heading.expendable < next);
    }
}

/// Creates a table without borders.
pub(crate) fn borderless() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Returns the table's lines without trailing spaces.
pub(crate) fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns `line`, wrapped at words to `width` characters, with a newline at its end. Continuation lines begin with `indent`.
pub fn wrapped(line: &str, width: usize, indent: &str) -> String {
    let (mut text, mut used) = (String::new(), 0);
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
    text + "\n"
}

/// Formats notes, one per line.
pub(crate) fn notes(notes: &[String]) -> String {
    notes.iter().map(|note| format!("{note}\n")).collect()
}

fn render<R: Row>(rows: &[R], first: &R, shown: &[Shown<R>]) -> String {
    let first_variant = R::COLUMNS.iter().find(|column| column.key == "variant");
    let first_variant = match first_variant.map(|column| (column.value)(first, first)) {
        Some(Value::Text(variant)) => variant,
        _ => "first",
    };
    let mut table = borderless();
    table.add_row(shown.iter().map(|(_, heading)| heading.name.replace("{first}", first_variant)));
    for row in rows {
        let texts = shown.iter().map(|(column, _)| (column.unit, (column.value)(row, first)));
        table.add_row(texts.map(|(unit, value)| format::value(unit, value)));
    }
    for (column, (told, _)) in table.column_iter_mut().zip(shown) {
        if told.unit != Unit::Text {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    lines(&table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coreshard_results::{IndexMeasurement, SeedSpread, SeedSpreads};

    #[test]
    fn what_matters_least_is_left_out_where_it_does_not_fit() {
        let spread = SeedSpread { q1: 1.0, q3: 2.0, ..SeedSpread::default() };
        let seeds: SeedSpreads =
            ["ops_per_sec", "find_ns"].map(|key| (key.to_owned(), spread.clone())).into();
        let cell =
            IndexMeasurement { variant: "packed".into(), seeds, ..IndexMeasurement::default() };
        let text = |width| table(std::slice::from_ref(&cell), width);
        let quartiles = |width| text(width).lines().next().unwrap().matches("quartiles").count();
        assert_eq!((quartiles(200), quartiles(70), quartiles(50)), (2, 1, 0));
        assert!(!text(200).contains("left out"), "{}", text(200));
        assert!(text(70).ends_with("\nleft out to fit: quartiles\n"), "{}", text(70));
        // Important columns stay, and columns without values are not shown.
        assert!(text(1).contains("ops/s") && !text(200).contains("range"), "{}", text(1));
        assert_eq!(table::<IndexMeasurement>(&[], 80), "");
    }
}
