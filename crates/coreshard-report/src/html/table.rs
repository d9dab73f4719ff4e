//! The table of all figures in the page.

use coreshard_results::column::{Column, Group, Heading, Row};
use coreshard_results::{QueueMeasurement, QueueResults};
use maud::{Markup, html};

use crate::chart::swatch;
use crate::findings;
use crate::format;

use super::charts::Palette;

/// A column after the combination.
type Figure = (&'static Column<QueueMeasurement>, Heading);

/// Returns the columns, grouped by common header.
fn groups() -> Vec<(Group, Vec<Figure>)> {
    let mut groups: Vec<(Group, Vec<Figure>)> = Vec::new();
    let shown =
        QueueMeasurement::COLUMNS.iter().filter_map(|column| Some((column, column.heading?)));
    for (column, heading) in shown.filter(|(_, heading)| !heading.group.long.is_empty()) {
        match groups.last_mut().filter(|(group, _)| *group == heading.group) {
            Some((_, columns)) => columns.push((column, heading)),
            None => groups.push((heading.group, vec![(column, heading)])),
        }
    }
    groups
}

/// Draws the table of all measurements, in a scrolling box.
pub(super) fn draw(results: &QueueResults) -> Markup {
    let palette = Palette::of(results);
    let best = results.best();
    let groups = groups();
    let scopes = results.results.chunk_by(|a, b| a.scope == b.scope);
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby="figures" {
            table {
                thead {
                    tr {
                        th scope="col" rowspan="2" { "Combination" }
                        @for (group, columns) in &groups {
                            th.group scope="colgroup" colspan=(columns.len()) { (group.long) }
                        }
                    }
                    tr {
                        @for (_, columns) in &groups {
                            @for (index, (column, heading)) in columns.iter().enumerate() {
                                th.first[index == 0] scope="col" title=[meaning(column)] {
                                    (heading.name)
                                }
                            }
                        }
                    }
                }
                @for scope in scopes {
                    tbody {
                        @for measurement in scope {
                            (row(measurement, &groups, &palette, best))
                        }
                    }
                }
            }
        }
    }
}

/// Returns the tooltip of a header.
fn meaning(column: &Column<QueueMeasurement>) -> Option<&'static str> {
    Some(column.meaning.trim()).filter(|meaning| !meaning.is_empty())
}

fn row(
    measurement: &QueueMeasurement,
    groups: &[(Group, Vec<Figure>)],
    palette: &Palette<'_>,
    best: Option<&QueueMeasurement>,
) -> Markup {
    let is_best = best.is_some_and(|best| std::ptr::eq(best, measurement));
    let is_tie = best.is_some_and(|best| findings::ties_with(measurement, best)) && !is_best;
    html! {
        tr.best[is_best] {
            th scope="row" {
                (swatch(palette.series(measurement)))
                b { (measurement.scope) } " " span.variant { (measurement.wake) " · " (measurement.intake) }
                @if is_best { " " span.badge { "best" } }
                @if is_tie { " " span.tie title="its range reaches that of the best" { "≈ best" } }
            }
            @for (_, columns) in groups {
                @for (index, (column, _)) in columns.iter().enumerate() {
                    td.first[index == 0] {
                        (format::value(column.unit, (column.value)(measurement, measurement)))
                    }
                }
            }
        }
    }
}
