//! The keys of JSON and CSV files, as a Markdown page.

use std::fmt::Write as _;

use coreshard_results::column::{Row, Unit};
use coreshard_results::{
    CyclicResults, FairnessRow, HbaRow, IndexMeasurement, KernelMeasurement, OperationRow,
    PiResults, QueueMeasurement, QueueResults, StudyRun, TranscodeResults,
};

/// Returns the keys of table results with units and meanings: the content of `docs/RESULTS.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Keys of results\n\nThis page describes the keys of files written by `--json` and `--csv`, in the order of the file.\nNew keys are only added at the end. `cargo run -p coreshard-report --example keys` makes this page.\n",
    );
    section::<QueueResults>(&mut text, "bench queue");
    section::<QueueMeasurement>(
        &mut text,
        "bench queue: each of `results`, and each row of a CSV file",
    );
    section::<StudyRun>(
        &mut text,
        "sweep: the first keys of each line, followed by those of `results` in `bench queue`",
    );
    section::<IndexMeasurement>(&mut text, "bench rt index: each of `results`");
    section::<KernelMeasurement>(&mut text, "bench kernel: each of `results`");
    section::<CyclicResults>(&mut text, "bench rt cyclic");
    section::<PiResults>(&mut text, "bench rt pi");
    section::<TranscodeResults>(&mut text, "bench rt transcode");
    section::<OperationRow>(&mut text, "bench block --compare: each of `operations`");
    section::<FairnessRow>(&mut text, "bench block --compare: each of `fairness`");
    section::<HbaRow>(&mut text, "bench block --compare --machine: each of `rows`");
    text
}

fn section<R: Row>(text: &mut String, title: &str) {
    let _ = writeln!(text, "\n## {title}\n\n| key | unit | meaning |\n|---|---|---|");
    for column in R::COLUMNS.iter().filter(|column| !column.key.is_empty()) {
        let unit = if column.unit == Unit::Text { "–" } else { column.unit.name() };
        // Links work only in rustdoc.
        let meaning = column.meaning.trim().replace("[`", "`").replace("`]", "`");
        let _ = writeln!(text, "| `{}` | {unit} | {meaning} |", column.key);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_of_keys_is_up_to_date() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/RESULTS.md");
        let page = std::fs::read_to_string(path).unwrap();
        let command = "cargo run -p coreshard-report --example keys > docs/RESULTS.md";
        assert!(page == super::markdown(), "the page is out of date: run {command}");
    }
}
