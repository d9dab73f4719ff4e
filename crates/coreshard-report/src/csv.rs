//! Results as CSV: one row for each combination of rungs.
//!
//! How the benchmark was asked stands in front of each row, so that the files of several machines and
//! settings can be appended to one another and still be told apart. The columns after that are the keys
//! of the JSON form, in their order. A figure that is absent or not finite is an empty field.

use std::io::{self, Write};

use coreshard_results::{Mode, QueueResults};
use serde::Serialize;

/// Writes a header and one row for each cell of `results`; the header alone where there is no cell.
///
/// # Errors
/// What the writer reports.
pub fn write_queue<W: Write>(results: &QueueResults, writer: W) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().has_headers(false).from_writer(writer);
    csv.write_record(COLUMNS)?;
    for cell in &results.results {
        csv.serialize(Row {
            machine: &results.machine,
            platform: &results.platform,
            virtual_topology: results.virtual_topology,
            mode: results.mode,
            threads: results.threads,
            outstanding: results.outstanding,
            items_per_thread: results.items_per_thread,
            runs: results.runs,
            scope: &cell.scope,
            wake: &cell.wake,
            intake: &cell.intake,
            items_per_sec: finite(cell.items_per_sec),
            items_per_sec_min: finite(cell.items_per_sec_min),
            items_per_sec_max: finite(cell.items_per_sec_max),
            p50_ns: cell.p50_ns,
            p90_ns: cell.p90_ns,
            p95_ns: cell.p95_ns,
            p99_ns: cell.p99_ns,
            max_ns: cell.max_ns,
            end_to_end_p50_ns: cell.end_to_end_p50_ns,
            end_to_end_p99_ns: cell.end_to_end_p99_ns,
            lock_hold_ns_per_item: cell.lock_hold_ns_per_item.and_then(finite),
            lock_hold_max_ns: cell.lock_hold_max_ns,
            wakeups_per_item: cell.wakeups_per_item.and_then(finite),
            pods: cell.pods,
            same_pods_as: cell.same_pods_as.as_deref(),
        })?;
    }
    csv.flush()
}

/// The header, which must be written even where there is no row to take it from.
const COLUMNS: [&str; 26] = [
    "machine",
    "platform",
    "virtual_topology",
    "mode",
    "threads",
    "outstanding",
    "items_per_thread",
    "runs",
    "scope",
    "wake",
    "intake",
    "items_per_sec",
    "items_per_sec_min",
    "items_per_sec_max",
    "p50_ns",
    "p90_ns",
    "p95_ns",
    "p99_ns",
    "max_ns",
    "end_to_end_p50_ns",
    "end_to_end_p99_ns",
    "lock_hold_ns_per_item",
    "lock_hold_max_ns",
    "wakeups_per_item",
    "pods",
    "same_pods_as",
];

/// One row; its fields stand in the order of [`COLUMNS`].
#[derive(Serialize)]
#[cfg_attr(test, derive(Default))]
struct Row<'a> {
    machine: &'a str,
    platform: &'a str,
    virtual_topology: bool,
    mode: Mode,
    threads: usize,
    outstanding: u64,
    items_per_thread: u64,
    runs: usize,
    scope: &'a str,
    wake: &'a str,
    intake: &'a str,
    items_per_sec: Option<f64>,
    items_per_sec_min: Option<f64>,
    items_per_sec_max: Option<f64>,
    p50_ns: u64,
    p90_ns: u64,
    p95_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    end_to_end_p50_ns: u64,
    end_to_end_p99_ns: u64,
    lock_hold_ns_per_item: Option<f64>,
    lock_hold_max_ns: Option<u64>,
    wakeups_per_item: Option<f64>,
    pods: usize,
    same_pods_as: Option<&'a str>,
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_names_the_fields_of_a_row() {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.serialize(Row::default()).unwrap();
        let text = String::from_utf8(csv.into_inner().unwrap()).unwrap();
        assert_eq!(text.lines().next().unwrap(), COLUMNS.join(","));
    }
}
