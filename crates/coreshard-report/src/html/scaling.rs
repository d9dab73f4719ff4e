//! Scaling charts and the table of their parameters.

use coreshard_results::{QueueMeasurement, QueueResults, ScalingCurve};
use maud::{Markup, html};

use super::charts::{Palette, legend};
use crate::chart::Scale;
use crate::chart::lines::{Curve, Lines};
use crate::format;
use crate::scaling::{LAW, counts, figures};

/// Points drawn per fitted curve.
const FIT_POINTS: u32 = 24;

/// Returns the charts, one per scope, and the table of parameters, or nothing without curves.
pub(super) fn cards(results: &QueueResults) -> Markup {
    let curves = &results.curves;
    let scopes: Vec<&[ScalingCurve]> = curves.chunk_by(|a, b| a.scope == b.scope).collect();
    html! {
        @if !curves.is_empty() {
            section.card {
                h2 { "Scaling" }
                p { "Items per second by number of CPUs, a producer on each. Both axes are logarithmic. \
                     Dashed: the universal scalability law, fitted." }
                (legend(results))
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

/// Returns the counts to label: the last, and those with enough distance to the next.
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
        let like = QueueMeasurement {
            wake: curve.wake.clone(),
            intake: curve.intake.clone(),
            ..QueueMeasurement::default()
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
        description: "Throughput of each combination by number of CPUs.".into(),
        across: Scale::Log { low: 1.0, high: (most as f64).max(2.0) },
        up,
        marks: marks(&counts(curves), most),
        tick: format::si_tick,
        curves: curves.iter().map(curve).collect(),
    })
}

fn parameters(curves: &[ScalingCurve]) -> Markup {
    let counts = counts(curves);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Scaling, all figures" {
            table {
                thead { tr {
                    th scope="col" { "Combination" }
                    @for cpus in &counts { th scope="col" { (cpus) " CPU" @if *cpus != 1 { "s" } } }
                    @for name in LAW { th scope="col" { (name) } }
                } }
                tbody {
                    @for curve in curves {
                        tr {
                            th scope="row" { (curve.scope) " · " (curve.wake) " · " (curve.intake) }
                            @for figure in figures(curve, &counts) { td { (figure) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::tests::results;

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
