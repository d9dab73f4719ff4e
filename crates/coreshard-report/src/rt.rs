//! What the benchmarks of real time measured: tables for a terminal or a text file, and a page.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use coreshard_bench::rt::{CyclicResults, IndexResults, PiResults, TranscodeResults};
use maud::{DOCTYPE, Markup, PreEscaped, html};

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
        vec![run.rung.clone(), format::count(run.inversions_per_sec), format!("{over:.3}")]
    });
    format!(
        "{}, {}: {} groups of three, {} inversions each\n\n{}\n{}",
        first.machine,
        first.platform,
        first.groups,
        format::count(first.rounds_per_group as f64),
        figures(&["rung", "inversions/s", &format!("× {}", first.rung)], rows),
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
        ]
    });
    let header = ["rung", "frames/s", &format!("× {}", first.rung), "work", "between tasks"];
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

/// A page that needs nothing else: the table of [`cyclic`], and a picture of each thread's histogram.
pub fn cyclic_page(runs: &[CyclicResults]) -> String {
    let data = serde_json::to_string(runs).unwrap_or_default().replace("</", "<\\/");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content="coreshard";
                title { "coreshard bench rt cyclic" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "How late threads wake up" }
                pre { (cyclic(runs)) }
                @for run in runs {
                    h2 { "Rung " (run.rung) }
                    @for (number, thread) in &run.thread {
                        figure {
                            figcaption {
                                "Thread " (number) " on CPU " (thread.cpu) ": " (thread.cycles)
                                " wake-ups, " (thread.min) " to " (thread.max) " µs"
                            }
                            (histogram(&thread.histogram))
                        }
                    }
                }
                script type="application/json" #results { (PreEscaped(data)) }
            }
        }
    };
    page.into_string()
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;\
padding:0 1rem;color-scheme:light dark}pre{overflow-x:auto}svg{width:100%;height:auto}\
svg text{font-size:11px;fill:currentColor}rect{fill:#3b78c2}line{stroke:currentColor;opacity:.4}\
figure{margin:1.5rem 0}";

/// Bars over a logarithmic scale of microseconds, their heights logarithmic too: the few late ones are
/// what matters.
fn histogram(by_us: &BTreeMap<u64, u64>) -> Markup {
    const BARS: usize = 60;
    const WIDTH: f64 = 900.0;
    const HEIGHT: f64 = 160.0;
    let last = by_us.keys().last().copied().unwrap_or(0).max(9);
    let scale = ((last + 1) as f64).ln() / BARS as f64;
    let mut bars = [0_u64; BARS];
    for (us, count) in by_us {
        let bar = (((us + 1) as f64).ln() / scale) as usize;
        bars[bar.min(BARS - 1)] += count;
    }
    let height = |count: u64| if count == 0 { 0.0 } else { 1.0 + (count as f64).ln() };
    let most = bars.iter().copied().map(height).fold(1.0, f64::max);
    let step = WIDTH / BARS as f64;
    let ticks = (0..).map(|power| 10_u64.pow(power)).take_while(|us| *us <= last + 1);
    html! {
        svg viewBox="0 0 900 190" role="img" {
            title { "Wake-ups by latency in microseconds, both scales logarithmic" }
            @for (at, count) in bars.iter().enumerate() {
                @if *count > 0 {
                    @let tall = height(*count) / most * HEIGHT;
                    rect x=(format!("{:.1}", at as f64 * step)) y=(format!("{:.1}", HEIGHT - tall))
                        width=(format!("{:.1}", step - 1.0)) height=(format!("{tall:.1}")) {
                        title { (count) " wake-ups" }
                    }
                }
            }
            line x1="0" y1="160" x2="900" y2="160" {}
            @for us in ticks {
                text x=(format!("{:.1}", ((us + 1) as f64).ln() / scale * step)) y="178" {
                    (us) " µs"
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_picture_for_each_thread_and_the_results() {
        let thread = coreshard_bench::rt::CyclicThread {
            histogram: BTreeMap::from([(3, 1_000), (40, 2), (2_500, 1)]),
            cycles: 1_003,
            ..Default::default()
        };
        let run = CyclicResults {
            rung: "per-llc".into(),
            machine: "</script><b>".into(),
            thread: BTreeMap::from([(0, thread.clone()), (1, thread)]),
            ..CyclicResults::default()
        };
        let page = cyclic_page(&[run]);
        assert_eq!(page.matches("<svg").count(), 2);
        assert_eq!(page.matches("1000 wake-ups").count(), 2);
        assert!(page.contains("1000 µs") && !page.contains("10000 µs"));
        assert!(!page.contains("</script><b>"), "what a machine calls itself is no markup");
    }
}
