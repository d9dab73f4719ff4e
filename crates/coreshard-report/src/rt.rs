//! What the benchmarks of real time measured: tables for a terminal or a text file, and a page.

mod page;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use coreshard_results::{CyclicResults, IndexResults, PiResults, TranscodeResults};

use crate::format;
pub use page::{cyclic_page, index_page, pi_page, transcode_page};

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

/// How late threads woke up, one line for each rung that was measured.
pub fn cyclic(runs: &[CyclicResults]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let rows = runs.iter().map(|run| {
        let us = |ns: u64| format::time_ns(ns as f64);
        vec![
            run.rung.clone(),
            us(run.p50_ns),
            us(run.p99_ns),
            us(run.p99_9_ns),
            us(run.max_ns),
            format::si(run.cycles_per_sec),
            run.page_faults.to_string(),
        ]
    });
    let header = ["rung", "p50", "p99", "p99.9", "max", "wake-ups/s", "page faults"];
    format!(
        "{}, {}: {} threads{}, one wake-up every {} µs, {} each\n\n{}\n{}",
        first.machine,
        first.platform,
        first.num_threads,
        first.priority.map_or(" at normal priority".to_owned(), |it| format!(", priority {it}")),
        format::plain(first.interval_us),
        format::count(first.thread.values().next().map_or(0, |thread| thread.cycles) as f64),
        figures(&header, rows),
        notes(&first.notes),
    )
}

/// Inversions resolved, one line for each rung.
pub fn pi(runs: &[PiResults]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let rows = runs.iter().map(|run| {
        let over = run.inversions_per_sec / first.inversions_per_sec;
        vec![
            run.rung.clone(),
            format::count(run.inversions_per_sec),
            format!("{over:.3}"),
            format::time_ns(run.waits.p50_ns as f64),
            format::time_ns(run.waits.p99_ns as f64),
            format::time_ns(run.waits.max_ns as f64),
        ]
    });
    let over = format!("× {}", first.rung);
    let header = ["rung", "inversions/s", &over, "wait p50", "p99", "max"];
    format!(
        "{}, {}: {} groups of three, {} inversions each\n\n{}\n{}",
        first.machine,
        first.platform,
        first.groups,
        format::count(first.rounds_per_group as f64),
        figures(&header, rows),
        notes(&first.notes),
    )
}

/// Frames per second, one line for each rung.
pub fn transcode(runs: &[TranscodeResults]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let rows = runs.iter().map(|run| {
        let over = run.frames_per_sec / first.frames_per_sec;
        vec![
            run.rung.clone(),
            format::count(run.frames_per_sec),
            format!("{over:.3}"),
            format::percent(run.work_share),
            format::time_ns(run.between_tasks_ns),
            format::time_ns(run.frame_times.p50_ns as f64),
            format::time_ns(run.frame_times.p99_ns as f64),
        ]
    });
    let over = format!("× {}", first.rung);
    let header = ["rung", "frames/s", &over, "work", "between tasks", "frame p50", "p99"];
    format!(
        "{}, {}: {} instances of {} CPUs{}; {} frames, {} tasks\n\n{}\n{}",
        first.machine,
        first.platform,
        first.instances,
        first.instance_cpus,
        first.priority.map_or(", at normal priority".to_owned(), |it| format!(", priority {it}")),
        format::count(first.frames as f64),
        format::count(first.tasks as f64),
        figures(&header, rows),
        notes(&first.notes),
    )
}
