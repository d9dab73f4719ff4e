//! Scaling curves: as lines of a table, as charts of a page.

use std::fmt::Write as _;

use coreshard_results::{QueueCell, QueueResults, ScalingCurve, Usl};
use maud::{Markup, html};

use crate::chart::Scale;
use crate::chart::lines::{Curve, Lines};
use crate::format;
use crate::html::charts::Palette;

/// Points of a fitted curve that are drawn.
const FIT_POINTS: u32 = 24;

fn counts(curves: &[ScalingCurve]) -> Vec<usize> {
    let mut counts: Vec<usize> =
        curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.cpus)).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn at(curve: &ScalingCurve, cpus: usize) -> String {
    let point = curve.points.iter().find(|point| point.cpus == cpus);
    point.map_or_else(|| format::ABSENT.to_owned(), |point| format::si(point.items_per_sec))
}

/// Where the fitted curve turns: beyond the largest number that was measured, it is a guess.
fn peak(usl: &Usl, most: usize) -> String {
    match usl.peak_cpus() {
        Some(peak) if peak <= most as f64 => format!("{peak:.0} CPUs"),
        _ => format!("> {most}"),
    }
}

/// The curves as a table of text; nothing where there are none.
pub(crate) fn table(results: &QueueResults) -> String {
    let curves = &results.curves;
    if curves.is_empty() {
        return String::new();
    }
    let counts = counts(curves);
    let most = counts.last().copied().unwrap_or(0);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut head = vec!["scope".to_owned(), "wake".into(), "intake".into()];
    head.extend(
        counts.iter().map(|cpus| format!("{cpus} CPU{}", if *cpus == 1 { "" } else { "s" })),
    );
    head.extend(["σ", "κ", "fit ±", "peak"].map(str::to_owned));
    rows.push(head);
    for curve in curves {
        let mut row = vec![curve.scope.clone(), curve.wake.clone(), curve.intake.clone()];
        row.extend(counts.iter().map(|cpus| at(curve, *cpus)));
        match &curve.usl {
            Some(usl) => row.extend([
                format!("{:.4}", usl.sigma),
                format!("{:.6}", usl.kappa),
                format::percent(usl.error),
                peak(usl, most),
            ]),
            None => row.extend(std::iter::repeat_n(format::ABSENT.to_owned(), 4)),
        }
        rows.push(row);
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text =
        String::from("\nItems per second by number of CPUs, and the universal scalability law\n");
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            // Writing to a text does not fail.
            let _ = match column {
                0..=2 => write!(line, "{cell}{pad}  "),
                _ => write!(line, "{pad}{cell}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(
        "σ: the part that is serial; κ: what each CPU costs each other; fit ±: how far the points are \
         from the fit\n",
    );
    text
}

/// The charts, one for each scope, and the table of parameters; nothing where there are no curves.
pub(crate) fn cards(results: &QueueResults) -> Markup {
    let curves = &results.curves;
    let scopes: Vec<&[ScalingCurve]> = curves.chunk_by(|a, b| a.scope == b.scope).collect();
    html! {
        @if !curves.is_empty() {
            section.card {
                h2 { "Scaling" }
                p { "Items per second by number of CPUs, a producer on each; both axes are logarithmic. \
                     Dashed: the universal scalability law, fitted." }
                (crate::html::legend(results))
                div.pair {
                    @for curves in &scopes {
                        @if let Some(lines) = lines(results, curves) {
                            div { h3 { (curves[0].scope) } (lines.draw()) }
                        }
                    }
                }
                (parameters(curves))
            }
        }
    }
}

/// The counts that are labelled: the last, and those that are not too close to the one after them.
fn marks(counts: &[usize], most: usize) -> Vec<f64> {
    const ROOM: f64 = 0.07;
    let place = |cpus: usize| (cpus as f64).ln() / (most as f64).ln();
    let mut kept: Vec<usize> = Vec::new();
    for cpus in counts.iter().rev() {
        if kept.last().is_none_or(|next| place(*next) - place(*cpus) >= ROOM) {
            kept.push(*cpus);
        }
    }
    kept.into_iter().rev().map(|cpus| cpus as f64).collect()
}

fn lines(results: &QueueResults, curves: &[ScalingCurve]) -> Option<Lines> {
    let palette = Palette::of(results);
    let all = || results.curves.iter().flat_map(|curve| &curve.points);
    let most = all().map(|point| point.cpus).max()?;
    let up = Scale::log(all().map(|point| point.items_per_sec))?;
    let scope = &curves[0].scope;
    let curve = |curve: &ScalingCurve| {
        let like = QueueCell {
            wake: curve.wake.clone(),
            intake: curve.intake.clone(),
            ..QueueCell::default()
        };
        let finite = curve.points.iter().filter(|point| point.items_per_sec.is_finite());
        let fit = curve.usl.map_or_else(Vec::new, |usl| {
            let place = |step: u32| (most as f64).powf(f64::from(step) / f64::from(FIT_POINTS));
            (0..=FIT_POINTS).map(place).map(|cpus| (cpus, usl.throughput(cpus))).collect()
        });
        let law = curve
            .usl
            .map_or_else(String::new, |usl| format!("; σ {:.4}, κ {:.6}", usl.sigma, usl.kappa));
        Curve {
            series: palette.series(&like),
            points: finite.map(|point| (point.cpus as f64, point.items_per_sec)).collect(),
            fit,
            tooltip: format!("{} · {} · {}{law}", curve.scope, curve.wake, curve.intake),
        }
    };
    Some(Lines {
        id: format!("scaling-{scope}"),
        title: format!("Items per second by number of CPUs, scope {scope}"),
        description: "Throughput of each combination on more and more CPUs.".into(),
        across: Scale::Log { low: 1.0, high: (most as f64).max(2.0) },
        up,
        marks: marks(&counts(curves), most),
        tick: format::si_tick,
        curves: curves.iter().map(curve).collect(),
    })
}

fn parameters(curves: &[ScalingCurve]) -> Markup {
    let counts = counts(curves);
    let most = counts.last().copied().unwrap_or(0);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Scaling, all figures" {
            table {
                thead { tr {
                    th scope="col" { "Combination" }
                    @for cpus in &counts { th scope="col" { (cpus) " CPU" @if *cpus != 1 { "s" } } }
                    @for name in ["σ", "κ", "fit ±", "peak"] { th scope="col" { (name) } }
                } }
                tbody {
                    @for curve in curves {
                        tr {
                            th scope="row" { (curve.scope) " · " (curve.wake) " · " (curve.intake) }
                            @for cpus in &counts { td { (at(curve, *cpus)) } }
                            @if let Some(usl) = &curve.usl {
                                td { (format!("{:.4}", usl.sigma)) }
                                td { (format!("{:.6}", usl.kappa)) }
                                td { (format::percent(usl.error)) }
                                td { (peak(usl, most)) }
                            } @else {
                                @for _ in 0..4 { td { (format::ABSENT) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use coreshard_results::ScalingPoint;

    use super::*;

    fn results() -> QueueResults {
        let law = Usl { lambda: 1e6, sigma: 0.05, kappa: 0.001, error: 0.02 };
        let point = |cpus: usize| ScalingPoint {
            cpus,
            items_per_sec: law.throughput(cpus as f64),
            ..ScalingPoint::default()
        };
        let curve = |scope: &str, usl| ScalingCurve {
            scope: scope.into(),
            wake: "coalesced".into(),
            intake: "lock-free".into(),
            points: [1, 8, 64, 72].map(point).to_vec(),
            usl,
        };
        QueueResults {
            curves: vec![curve("cache", Some(law)), curve("system", None)],
            ..QueueResults::default()
        }
    }

    #[test]
    fn the_table_has_a_row_a_curve_and_a_dash_where_nothing_was_fitted() {
        let text = table(&results());
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("lock-free")).collect();
        assert!(rows[0].contains("0.0500") && rows[0].contains("0.001000"), "{text}");
        assert!(rows[0].ends_with("31 CPUs"), "where the law has its peak: {text}");
        assert!(rows[1].ends_with(format::ABSENT), "{text}");
        assert_eq!(table(&QueueResults::default()), "");
    }

    #[test]
    fn labels_that_would_lie_over_one_another_are_left_out() {
        assert_eq!(marks(&[1, 8, 64, 72], 72), [1.0, 8.0, 72.0]);
        assert_eq!(marks(&[1], 1), [1.0]);
    }

    #[test]
    fn there_is_a_chart_for_each_scope_and_none_without_curves() {
        let cards = cards(&results()).into_string();
        assert_eq!(cards.matches("<svg class=\"chart\"").count(), 2, "{cards}");
        assert!(super::cards(&QueueResults::default()).into_string().is_empty());
    }
}
