//! Results as a self-contained HTML file, without scripts, fonts or requests.
//!
//! The page starts with the machine, the main finding, four figures and the charts. The table of all figures, the
//! method and the notes follow. The results are embedded as JSON in the element `results`, so that a page can be
//! compared with a later one.

pub(crate) mod charts;
pub(crate) mod frame;
mod scaling;
mod table;

use coreshard_results::{Mode, QueueMeasurement, QueueResults};
use maud::{Markup, html};

use crate::chart::{self, Chart};
use crate::findings::{Contest, QUARTILES, range_of};
use crate::format;

use charts::legend;
pub use frame::MARK;

const STYLE: &str = include_str!("page.css");

/// Returns the page of a queue benchmark.
///
/// Texts in `results` are escaped. The page follows the reader's light or dark mode, fits a phone, and can be printed.
pub fn queue_page(results: &QueueResults) -> String {
    let results = &format::printable_results(results);
    let body = html! {
        (header(results))
        @if results.results.is_empty() {
            p.card { "No combination of variants was measured." }
        } @else {
            (tiles(results))
            (all_charts(results))
            (scaling::cards(results))
            section.card {
                h2 #figures { "All figures" }
                (table::draw(results))
            }
        }
        (method(results))
    };
    let title = format!("coreshard bench queue · {}", results.machine);
    frame::page(&title, &[chart::STYLE, STYLE], &body, results)
}

fn header(results: &QueueResults) -> Markup {
    html! {
        header {
            p.kicker { b { "coreshard" } " bench queue" }
            h1 { (headline(results)) }
            @if results.virtual_topology {
                p.warning {
                    b { "Virtual topology. " }
                    "The pods belong to a described machine and are laid over the CPUs of this one. The figures show that the code works with many pods. They do not predict the speed of the described machine."
                }
            }
            dl.facts {
                (fact("Machine", &results.machine))
                @if let Some(cpu_model) = &results.cpu_model { (fact("CPU", cpu_model)) }
                @if let Some(kernel) = &results.kernel { (fact("Kernel", kernel)) }
                (fact("Platform", &results.platform))
                (fact("Load", &load(results)))
                (fact("Items", &format!(
                    "{} per producer, {}",
                    format::count(results.items_per_thread as f64),
                    format::counted(results.runs, "run"),
                )))
            }
        }
    }
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn load(results: &QueueResults) -> String {
    let producers = format::counted(results.threads, "producer");
    match results.mode {
        Mode::Closed => format!("{producers}, one item outstanding each"),
        Mode::Flood => {
            let outstanding = format::count(results.outstanding as f64);
            format!("{producers}, up to {outstanding} items outstanding each")
        }
    }
}

/// Formats the main finding in one or two sentences that the ranges support.
fn headline(results: &QueueResults) -> Markup {
    let rate = |measurement: &QueueMeasurement| html! { span.figure { (format::si(measurement.items_per_sec)) } };
    let Some(contest) = Contest::of(results) else {
        return match results.best() {
            Some(only) => html! { (variants(only)) " ran " (rate(only)) " items per second." },
            None => html! { "Nothing was measured." },
        };
    };
    let Contest { best, worst, ties } = contest;
    let of = range_of(best);
    html! {
        @if contest.is_decided() && contest.ratio().is_finite() {
            (variants(best)) " ran " (rate(best)) " items per second, "
            span.figure.gain { (format::times(contest.ratio())) }
            " the " (rate(worst)) " of " (variants(worst)) "."
        } @else if contest.is_decided() {
            (variants(best)) " ran " (rate(best)) " items per second; " (variants(worst)) " ran none."
        } @else {
            "No combination stands out: the " (of) " of the fastest, " (variants(best)) " with " (rate(best))
            " items per second, and of the slowest, " (variants(worst)) " with " (rate(worst))
            ", overlap."
        }
        @if contest.is_decided() && ties > 0 {
            " " small {
                @if ties == 1 { "The " (of) " of one other combination reach" }
                @else { "The " (of) " of " (ties) " other combinations reach" }
                (if of == QUARTILES { " those of the best" } else { " the range of the best" })
                ": the difference between them is noise."
            }
        }
    }
}

/// Formats the name of a combination, which breaks only after a dot.
fn variants(measurement: &QueueMeasurement) -> Markup {
    let parts = [format!("{}\u{a0}·", measurement.scope), format!("{}\u{a0}·", measurement.wake)];
    html! {
        span.variants {
            @for part in &parts { span { (part) } " " }
            span { (measurement.intake) }
        }
    }
}

/// Formats the most important figures.
fn tiles(results: &QueueResults) -> Markup {
    let least = |key: fn(&QueueMeasurement) -> Option<f64>| {
        let measured =
            results.results.iter().filter_map(|measurement| Some((key(measurement)?, measurement)));
        measured.filter(|(ns, _)| ns.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let time =
        |(ns, measurement): (f64, &QueueMeasurement)| (format::time_ns(ns), variants(measurement));
    let tiles = [
        (
            "Highest throughput, items/s",
            results
                .best()
                .map(|measurement| (format::si(measurement.items_per_sec), variants(measurement))),
        ),
        ("Shortest call, median", least(|measurement| Some(measurement.p50_ns as f64)).map(time)),
        (
            "Shortest time until run, p99",
            least(|measurement| Some(measurement.end_to_end_p99_ns as f64)).map(time),
        ),
        ("Least lock time per item", least(|c| c.lock_hold_ns_per_item).map(time)),
    ];
    html! {
        div.tiles {
            @for (name, value) in tiles {
                @if let Some((figure, variants)) = value {
                    div.tile {
                        p.name { (name) }
                        p.figure { (figure) }
                        p.by { (variants) }
                    }
                }
            }
        }
    }
}

fn all_charts(results: &QueueResults) -> Markup {
    let percentiles = html! {
        "The dot is the median, the strokes are p90 and p95, and the line ends at p99. "
    };
    html! {
        (card(charts::throughput(results), results, true, html! {
            @if results.best().is_some_and(|best| range_of(best) == QUARTILES) {
                "Bars are the median over the seeds, whiskers the quartiles; ★ is the best median. "
            } @else {
                "Bars are the median over the runs, whiskers the slowest and the fastest run; ★ is the best median. "
            }
        }))
        div.pair {
            (card(charts::comparison_gains(results), results, false, html! {
                "Throughput relative to the oldest variant of the same comparison, all else equal: geometric mean, minimum and maximum."
            }))
            (card(charts::lock_hold(results), results, true, html! {
                "Shorter is better: no other thread can enter the pool meanwhile. "
            }))
        }
        div.pair {
            (card(charts::call_latency(results), results, true, percentiles))
            (card(charts::end_to_end(results), results, true, html! {
                "From before the call until the item ran. The dot is the median, and the line ends at p99. "
            }))
        }
    }
}

fn card(
    chart: Option<Chart>,
    results: &QueueResults,
    with_legend: bool,
    caption: Markup,
) -> Markup {
    html! {
        @if let Some(chart) = chart {
            figure.card {
                figcaption {
                    h2 { (chart.title) }
                    p { (caption) }
                    @if with_legend { (legend(results)) }
                }
                (chart.draw())
            }
        }
    }
}

fn method(results: &QueueResults) -> Markup {
    let producers = format::counted(results.threads, "producer");
    let items = format::count(results.items_per_thread as f64);
    html! {
        section.card.method {
            h2 { "Method" }
            p {
                (producers) ", each a thread pinned to a CPU, start together and queue " (items)
                " items each, "
                @match results.mode {
                    Mode::Closed => { "waiting for every item to run before queueing the next" }
                    Mode::Flood => {
                        "keeping up to " (format::count(results.outstanding as f64))
                        " of them outstanding without waiting for individual items"
                    }
                }
                ". The time of the queueing call and the time until the item ran are measured. Throughput is the \
                 number of items divided by the elapsed time. Each combination has "
                (format::counted(results.runs, "run"))
                ", interleaved so that drift affects all alike. Percentiles are taken from the samples of all runs."
            }
            @if !results.notes.is_empty() {
                h3 { "Notes" }
                ul { @for note in &results.notes { li { (note) } } }
            }
        }
    }
}
