//! Results as CSV: one row per combination of variants.
//!
//! The benchmark's options precede each row, so that files of several machines and settings can be concatenated. The
//! other columns are the keys of the JSON form, in their order. A figure that is absent or not finite is an empty
//! field.

use std::io::{self, Write};

use coreshard_results::column::{Column, Row, Value};
use coreshard_results::{QueueMeasurement, QueueResults};

/// Writes a header and one row per measurement.
///
/// # Errors
///
/// Errors of the writer.
pub fn write_queue<W: Write>(results: &QueueResults, writer: W) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(writer);
    csv.write_record(in_each_row().map(key).chain(of_measurements().map(key)))?;
    for measurement in &results.results {
        let asked = in_each_row().map(|column| field((column.value)(results, results)));
        let found = of_measurements().map(|column| field((column.value)(measurement, measurement)));
        csv.write_record(asked.chain(found))?;
    }
    csv.flush()
}

/// Returns the beginning of each file written here.
pub fn queue_mark() -> String {
    let keys: Vec<&str> = in_each_row().map(key).collect();
    keys.join(",") + ","
}

fn key<R>(column: &Column<R>) -> &'static str {
    column.key
}

fn in_each_row() -> impl Iterator<Item = &'static Column<QueueResults>> {
    let of = |key: &&str| QueueResults::COLUMNS.iter().find(|column| column.key == *key);
    QueueResults::IN_EACH_ROW.iter().filter_map(of)
}

fn of_measurements() -> impl Iterator<Item = &'static Column<QueueMeasurement>> {
    QueueMeasurement::COLUMNS.iter().filter(|column| !column.key.is_empty())
}

fn field(value: Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_owned(),
        Value::Flag(is_so) => is_so.to_string(),
        Value::Whole(number) => number.to_string(),
        Value::Figure(number) if number.is_finite() => format!("{number:?}"),
        Value::Figure(_) | Value::Range(..) | Value::Absent => String::new(),
    }
}
