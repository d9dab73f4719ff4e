//! CSV and JSON files are read back as what was written.

use coreshard_report::csv as report_csv;
use coreshard_results::{QueueMeasurement, QueueResults};

fn csv_of(results: &QueueResults) -> String {
    let mut bytes = Vec::new();
    report_csv::write_queue(results, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn json_of(results: &QueueResults) -> String {
    serde_json::to_string_pretty(results).unwrap()
}

#[test]
fn json_is_read_back_as_it_was() {
    for results in [crate::sample::many_cpus(), crate::sample::two_cpus(), QueueResults::default()]
    {
        let json = json_of(&results);
        assert_eq!(serde_json::from_str::<QueueResults>(&json).unwrap(), results);
    }
}

#[test]
fn csv_rows_are_read_back_as_the_measurements_they_were() {
    for results in [crate::sample::many_cpus(), crate::sample::two_cpus()] {
        let text = csv_of(&results);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let measurements: Vec<QueueMeasurement> =
            reader.deserialize().map(Result::unwrap).collect();
        assert_eq!(measurements, results.results);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert!(reader.records().all(|row| row.unwrap().get(0) == Some(results.machine.as_str())));
    }
}

#[test]
fn csv_quotes_what_would_break_a_row() {
    let mut results = crate::sample::two_cpus();
    results.machine = "two, \"three\"\nand four".into();
    let text = csv_of(&results);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let row = reader.records().next().unwrap().unwrap();
    assert_eq!(&row[0], results.machine);
}

#[test]
fn csv_without_measurements_is_a_header() {
    let text = csv_of(&QueueResults::default());
    assert_eq!(text.lines().count(), 1);
    assert!(text.starts_with("machine,platform,"), "{text}");
}

#[test]
fn csv_leaves_absent_figures_empty() {
    let mut results = crate::sample::two_cpus();
    results.results.truncate(1);
    results.results[0].items_per_sec = f64::NAN;
    results.results[0].lock_hold_ns_per_item = None;
    let text = csv_of(&results);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let row = reader.records().next().unwrap().unwrap();
    let field = |name: &str| &row[headers.iter().position(|header| header == name).unwrap()];
    assert_eq!(field("items_per_sec"), "");
    assert_eq!(field("lock_hold_ns_per_item"), "");
    assert_ne!(field("p50_ns"), "");
}

/// A writer that accepts nothing.
struct Full;

impl std::io::Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_as_such() {
    let results = crate::sample::two_cpus();
    let csv = report_csv::write_queue(&results, Full).unwrap_err();
    assert_eq!(csv.kind(), std::io::ErrorKind::StorageFull);
}
