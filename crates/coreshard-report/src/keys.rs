//! The keys of JSON and CSV files, as a Markdown page.

use std::fmt::Write as _;

use coreshard_results::column::{Row, Unit};
use coreshard_results::{
    CyclicResults, FairnessRow, HbaRow, IndexMeasurement, KernelMeasurement, OperationRow,
    PiResults, QueueMeasurement, QueueResults, StudyRun, TranscodeResults,
};

/// A section's keys, each with its unit and its meaning.
type Section = (&'static str, &'static [(&'static str, &'static str, &'static str)]);

/// The keys of `coreshard replay --json`.
const REPLAY: &[Section] = &[
    (
        "replay",
        &[
            ("machine", "–", "The simulated machine's name."),
            ("line_bytes", "bytes", "The length of its cache lines."),
            ("accesses", "count", "Accesses of all threads."),
            ("virtual_ns", "ns", "How long the recorded part of the program runs on the machine."),
            (
                "lost_ns",
                "ns",
                "Time that all threads together stood still for lines that other threads had.",
            ),
            (
                "taken_back_ns",
                "ns",
                "The part of `lost_ns` for lines that a thread had before another one took them. The rest is for lines that a \
                 thread touches for the first time, which no layout changes.",
            ),
            (
                "running_ns",
                "ns",
                "Time that all threads together ran, without their waits for other threads.",
            ),
            (
                "findings",
                "–",
                "The verdict: objects that cost at least a hundredth of `running_ns`, the costliest first, and the C library's own \
                 data after all others.",
            ),
            ("shared_lines", "count", "Lines that several threads touch and one of them writes."),
            ("lines", "–", "The costliest of these lines, with what was done to their words."),
            ("objects", "–", "The cost of all accesses to each object, however many lines it has."),
            (
                "locks",
                "–",
                "Locks that threads waited for: `object`, `field`, how often one was found taken (`waits`) and for how long (`waited_ns`), and how often and how long it was held (`holds`, `held_ns`).",
            ),
            (
                "apart",
                "–",
                "The predicted effect of the fields that --apart names on separate lines.",
            ),
            (
                "threads",
                "–",
                "By thread: its time lost to lines, its waits for other threads, and when it ended.",
            ),
            ("notes", "–", "Gaps of the recording, and other remarks."),
        ],
    ),
    (
        "replay: each of `findings`",
        &[
            ("object", "–", "The variable, or the type and where its objects are allocated."),
            ("kind", "–", "`global`, `heap`, `stack` or `unknown`."),
            ("file", "–", "The file of code that has a global; else empty."),
            ("is_c_library", "–", "Whether it is the C library's own data."),
            ("beside", "–", "Other objects on the same lines that cost time as well."),
            ("fields", "–", "The fields that cost most, the costliest first."),
            ("place", "–", "The function, file and line of code that loses most time."),
            ("lost_ns", "ns", "Its part of `taken_back_ns`."),
            ("share", "of 1", "`lost_ns` as a share of `running_ns`."),
            ("sharing", "–", "`true`, `false` or `both`, by time."),
            (
                "advice",
                "–",
                "The remedy: `separate`, `pad_elements`, `split`, `lock_and_data`, `lock_apart`, `own_words`, `read_mostly` or \
                 `hand_over`.",
            ),
            ("summary", "–", "Cause and remedy in a few words."),
            (
                "gain",
                "times",
                "How many times as fast the program would run with the best layout that was tried; `null` if none was tried.",
            ),
        ],
    ),
    (
        "replay: each of `fields` of a finding",
        &[
            (
                "field",
                "–",
                "Its path within the object or element; empty if the object is one word.",
            ),
            ("threads", "–", "The threads that write it, or that read it if none writes it."),
        ],
    ),
];

/// The keys of `coreshard contend --json`.
const CONTEND: &[Section] = &[
    (
        "contend",
        &[
            ("title", "–", "The description's title, or file."),
            ("machine", "–", "The machine."),
            ("platform", "–", "`host` or `sim`."),
            ("setting", "–", "Placement, and time outside."),
            ("outside_ns", "ns", "The least and the most time outside."),
            ("runs", "count", "Runs of each figure."),
            ("points", "–", "By number of threads."),
            (
                "turning_point",
                "–",
                "`threads`; `per_sec`; `at_most`: throughput with the most threads, as a share of that; `fewer`: the next lower number tried.",
            ),
            ("lines", "–", "Share of the threads' time, or how busy they are (`is_busy_share`)."),
            ("remedies", "–", "With the most threads."),
            ("notes", "–", "Remarks."),
        ],
    ),
    (
        "contend: each of `points` and `remedies`",
        &[
            ("remedy", "–", "Its name."),
            ("change", "–", "What it changes."),
            ("threads", "count", "Number of threads."),
            ("run", "–", "Simulated or measured."),
            ("queueing", "–", "Predicted by the queueing model."),
            ("apart", "times", "The larger throughput over the smaller one, less 1."),
            ("preempted", "of 1", "The threads' time without a CPU; `null` if simulated."),
            ("gain_low", "times", "Lowest throughput over that without the remedy."),
            ("gain_high", "times", "Highest."),
        ],
    ),
    (
        "contend: each `run` and `queueing`",
        &[
            ("per_sec", "per second", "Rounds of all threads, median."),
            ("per_sec_low", "per second", "Lowest."),
            ("per_sec_high", "per second", "Highest."),
            ("steps_ns", "ns", "Time of a round's steps, median."),
        ],
    ),
];

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
        "sweep: the first keys of each line, followed by the keys of `results` in `bench queue`",
    );
    section::<IndexMeasurement>(&mut text, "bench rt index: each of `results`");
    section::<KernelMeasurement>(&mut text, "bench kernel: each of `results`");
    section::<CyclicResults>(&mut text, "bench rt cyclic");
    section::<PiResults>(&mut text, "bench rt pi");
    section::<TranscodeResults>(&mut text, "bench rt transcode");
    section::<OperationRow>(&mut text, "bench block --compare: each of `operations`");
    section::<FairnessRow>(&mut text, "bench block --compare: each of `fairness`");
    section::<HbaRow>(&mut text, "bench block --compare --machine: each of `rows`");
    for (title, keys) in REPLAY.iter().chain(CONTEND) {
        let _ = writeln!(text, "\n## {title}\n\n| key | unit | meaning |\n|---|---|---|");
        for (key, unit, meaning) in *keys {
            let _ = writeln!(text, "| `{key}` | {unit} | {meaning} |");
        }
    }
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
