//! The results as one self-contained page. The bars show throughput if a load has one, and otherwise
//! the 99th percentile of the latency.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::peer::FLOOR;
use crate::results::{Results, Row, Verdict};
use crate::table::{columns, groups, measured, params, ratio, remarks, si, time_ns};

pub(crate) fn render(results: &Results) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Coreshard beside other executors" }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                header {
                    h1 { "Coreshard beside other executors" }
                    p { (results.machine) ". " (results.runs) " runs, the peers taking turns." }
                    @for note in &results.notes { p { (note) } }
                }
                nav {
                    @for (at, group) in groups(results).enumerate() {
                        a href={ "#load" (at) } { (title(&group[0])) }
                    }
                }
                @for (at, group) in groups(results).enumerate() { (section(at, group)) }
            }
        }
    };
    page.into_string()
}

fn title(row: &Row) -> String {
    format!("{} {}", row.workload, params(row))
}

/// The quantity that a group's bars show.
#[derive(Clone, Copy)]
enum Shown {
    Throughput,
    Latency,
}

impl Shown {
    fn of(group: &[Row]) -> Self {
        if group.iter().any(|row| row.items_per_sec.is_some()) {
            Self::Throughput
        } else {
            Self::Latency
        }
    }

    fn value(self, row: &Row) -> Option<f64> {
        match self {
            Self::Throughput => row.items_per_sec,
            Self::Latency => row.end_to_end_p99_ns.map(|value| value as f64),
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Self::Throughput => format!("{} items/s", si(value)),
            Self::Latency => time_ns(value),
        }
    }

    const fn caption(self) -> &'static str {
        match self {
            Self::Throughput => {
                "Items per second, median: longer is better. × tells how many times a peer's throughput Coreshard has, run by run."
            }
            Self::Latency => "End to end, 99th percentile: shorter is better.",
        }
    }
}

fn section(at: usize, group: &[Row]) -> Markup {
    let shown = Shown::of(group);
    let mut rows: Vec<(&Row, f64)> =
        measured(group).filter_map(|row| Some((row, shown.value(row)?))).collect();
    rows.sort_by(|(_, a), (_, b)| match shown {
        Shown::Throughput => b.total_cmp(a),
        Shown::Latency => a.total_cmp(b),
    });
    let largest = rows.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    html! {
        section id={ "load" (at) } {
            h2 { (title(&group[0])) }
            p class="what" { (shown.caption()) }
            div class="bars" {
                @for (row, value) in &rows {
                    div class={ "name " (class(row)) } { (row.peer) }
                    div class={ "track " (class(row)) } {
                        div class="bar" style=(format!("width:{:.1}%", share(*value, largest))) {}
                        span class="value" {
                            (shown.text(*value))
                            @if let Some(ratio) = ratio(row) {
                                " · " span class=(verdict_class(row)) { (ratio) }
                            }
                        }
                    }
                }
            }
            details {
                summary { "All figures" }
                div class="scroll" { (table(group)) }
            }
            ul class="remarks" {
                @for (peers, remark) in remarks(group) {
                    li { (peers.join(", ")) ": " (remark) }
                }
            }
        }
    }
}

/// The bar's width in percent; the rest of the line is for its label.
fn share(value: f64, largest: f64) -> f64 {
    if largest > 0.0 { 60.0 * value / largest } else { 0.0 }
}

fn class(row: &Row) -> &'static str {
    match row.peer.as_str() {
        "coreshard" => "own",
        FLOOR => "floor",
        _ => "peer",
    }
}

fn verdict_class(row: &Row) -> &'static str {
    match row.coreshard_ratio.map(crate::results::Ratio::verdict) {
        Some(Verdict::Ahead) => "ahead",
        Some(Verdict::Behind) => "behind",
        _ => "even",
    }
}

fn table(group: &[Row]) -> Markup {
    let columns = columns(group);
    html! {
        table {
            thead { tr { @for column in &columns { th { (column.title) } } } }
            tbody {
                @for row in measured(group) {
                    tr { @for column in &columns { td { ((column.text)(row).unwrap_or_else(|| "–".to_owned())) } } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::sample;

    #[test]
    fn the_page_stands_alone_and_names_every_peer() {
        let results = sample();
        let page = render(&results);
        for row in &results.results {
            assert!(page.contains(&row.peer), "{} is missing", row.peer);
        }
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "the page loads something by {outside}");
        }
    }

    #[test]
    fn texts_are_escaped() {
        let mut results = sample();
        results.machine = "<script>".to_owned();
        let page = render(&results);
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"));
    }

    #[test]
    fn the_longest_bar_leaves_room_for_its_label() {
        assert_eq!(share(5.0, 5.0), 60.0);
        assert_eq!(share(0.0, 0.0), 0.0);
    }
}
