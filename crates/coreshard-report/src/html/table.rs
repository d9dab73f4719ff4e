//! The table of all figures in the page.

use coreshard_results::{QueueCell, QueueResults};
use maud::{Markup, html};

use crate::chart::swatch;
use crate::findings;
use crate::format;

use super::charts::Palette;

/// Headers of the columns after the combination, under the header they share.
const COLUMNS: [(&str, &[&str]); 6] = [
    ("Items per second", &["median", "slowest run", "fastest run", "spread"]),
    ("Queueing call", &["p50", "p90", "p95", "p99", "max"]),
    ("Until the item ran", &["p50", "p99"]),
    ("Lock held", &["per item", "longest"]),
    ("Wake-ups", &["per item"]),
    ("Pods", &[""]),
];

/// The table of all cells, inside a box that scrolls where the page is narrower.
pub(super) fn draw(results: &QueueResults) -> Markup {
    let palette = Palette::of(results);
    let best = results.best();
    let scopes = results.results.chunk_by(|a, b| a.scope == b.scope);
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby="figures" {
            table {
                thead {
                    tr {
                        th scope="col" rowspan="2" { "Combination" }
                        @for (group, columns) in COLUMNS {
                            th.group scope="colgroup" colspan=(columns.len()) { (group) }
                        }
                    }
                    tr {
                        @for (_, columns) in COLUMNS {
                            @for (index, column) in columns.iter().enumerate() {
                                th.first[index == 0] scope="col" { (column) }
                            }
                        }
                    }
                }
                @for scope in scopes {
                    tbody {
                        @for cell in scope {
                            (row(cell, &palette, best))
                        }
                    }
                }
            }
        }
    }
}

fn row(cell: &QueueCell, palette: &Palette<'_>, best: Option<&QueueCell>) -> Markup {
    let is_best = best.is_some_and(|best| std::ptr::eq(best, cell));
    let is_tie = best.is_some_and(|best| findings::ties_with(cell, best)) && !is_best;
    let time = |ns: u64| format::time_ns(ns as f64);
    let absent = || format::ABSENT.to_owned();
    let groups: [Vec<String>; 6] = [
        vec![
            format::count(cell.items_per_sec),
            format::count(cell.items_per_sec_min),
            format::count(cell.items_per_sec_max),
            format::percent(findings::spread(cell)),
        ],
        [cell.p50_ns, cell.p90_ns, cell.p95_ns, cell.p99_ns, cell.max_ns].map(time).into(),
        [cell.end_to_end_p50_ns, cell.end_to_end_p99_ns].map(time).into(),
        vec![
            cell.lock_hold_ns_per_item.map_or_else(absent, format::time_ns),
            cell.lock_hold_max_ns.map_or_else(absent, time),
        ],
        vec![cell.wakeups_per_item.map_or_else(absent, format::plain)],
        vec![if cell.pods == 0 { absent() } else { format::count(cell.pods as f64) }],
    ];
    html! {
        tr.best[is_best] {
            th scope="row" {
                (swatch(palette.series(cell)))
                b { (cell.scope) } " " span.rung { (cell.wake) " · " (cell.intake) }
                @if is_best { " " span.badge { "best" } }
                @if is_tie { " " span.tie title="its runs reach the range of the best" { "≈ best" } }
            }
            @for group in &groups {
                @for (index, figure) in group.iter().enumerate() {
                    td.first[index == 0] { (figure) }
                }
            }
        }
    }
}
