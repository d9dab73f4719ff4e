//! Real-time results as text tables of at most `width` columns, if possible, and as pages.

mod page;

use coreshard_results::{CyclicResults, IndexResults, PiResults, TranscodeResults};

pub use page::{cyclic_page, index_page, pi_page, transcode_page};
pub(crate) use page::{dots, per_sec};

use crate::format;
use crate::plain::{self, notes};

/// Formats the variants of the priority index, one per line.
pub fn index(results: &IndexResults, width: usize) -> String {
    format!(
        "{}, {}: set and search by {}, among {}; {} rounds each, {}\n\n{}\n{}",
        results.machine,
        results.platform,
        format::counted(results.threads, "thread"),
        format::counted(results.searched_cpus, "CPU"),
        format::count(results.rounds_per_thread as f64),
        format::counted(results.runs, "run"),
        plain::table(&results.results, width),
        notes(&results.notes),
    )
}

/// Formats wake-up latencies, one line per variant.
pub fn cyclic(runs: &[CyclicResults], width: usize) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let seeds = first.seeds.of("p50_ns").map_or(1, |spread| spread.each.len());
    format!(
        "{}, {}: {}{}, one wake-up every {} µs, {} each\n\n{}\n{}",
        first.machine,
        first.platform,
        format::counted(first.num_threads, "thread"),
        first.priority.map_or(" at normal priority".to_owned(), |it| format!(", priority {it}")),
        format::plain(first.interval_us),
        format::count(
            first.thread.values().next().map_or(0, |thread| thread.cycles) as f64 / seeds as f64
        ),
        plain::table(runs, width),
        notes(&first.notes),
    )
}

/// Formats resolved inversions, one line per variant.
pub fn pi(runs: &[PiResults], width: usize) -> String {
    let Some(first) = runs.first() else { return String::new() };
    format!(
        "{}, {}: {} groups of three, {} inversions each\n\n{}\n{}",
        first.machine,
        first.platform,
        first.groups,
        format::count(first.rounds_per_group as f64),
        plain::table(runs, width),
        notes(&first.notes),
    )
}

/// Formats frame rates, one line per variant.
pub fn transcode(runs: &[TranscodeResults], width: usize) -> String {
    let Some(first) = runs.first() else { return String::new() };
    format!(
        "{}, {}: {} instances of {} CPUs{}; {} frames, {} tasks\n\n{}\n{}",
        first.machine,
        first.platform,
        first.instances,
        first.instance_cpus,
        first.priority.map_or(", at normal priority".to_owned(), |it| format!(", priority {it}")),
        format::count(first.frames as f64),
        format::count(first.tasks as f64),
        plain::table(runs, width),
        notes(&first.notes),
    )
}
