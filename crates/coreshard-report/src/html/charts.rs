//! The charts of a queue benchmark: axes, order and colours.
//!
//! In all charts, colour stands for the wake policy, fill for the intake, and groups for scopes.

use coreshard_results::{QueueMeasurement, QueueResults};
use maud::{Markup, html};

use crate::chart::{Chart, Fill, Group, Margins, Mark, Row, Scale, Series, swatch};
use crate::findings::{Comparison, Gain, combination, gains, range_of};
use crate::format;

/// Bars start at the edge, with the figure after them.
const BARS: Margins = Margins { start_percent: 0.0, end_percent: 16.0 };
/// A span has a figure at each end.
const SPANS: Margins = Margins { start_percent: 15.0, end_percent: 15.0 };
/// The names of the variants precede the spans.
const NAMED: Margins = Margins { start_percent: 29.0, end_percent: 14.0 };

/// Height of a row in charts with a row per combination.
const DENSE_PX: f64 = 15.0;
/// Height of a row in charts with few rows.
const ROOMY_PX: f64 = 24.0;

/// The colours and fills of the combinations in one set of results.
pub(crate) struct Palette<'a> {
    /// All wake policies, by colour number.
    known: &'a [String],
    wakes: Vec<&'a str>,
    intakes: Vec<&'a str>,
}

impl<'a> Palette<'a> {
    pub(crate) fn of(results: &'a QueueResults) -> Self {
        Self {
            known: &results.wakes,
            wakes: Comparison::Wake.variants(results),
            intakes: Comparison::Intake.variants(results),
        }
    }

    pub(crate) fn series(&self, measurement: &QueueMeasurement) -> Series {
        Series { hue: self.hue(&measurement.wake), fill: fill(&measurement.intake) }
    }

    /// Returns the colour of a variant. It does not depend on which variants were measured, so that pages can be
    /// compared.
    fn hue(&self, wake: &str) -> usize {
        let unknown = || self.wakes.iter().position(|name| *name == wake).unwrap_or(0);
        let known = self.known.iter().position(|name| name == wake);
        known.unwrap_or_else(|| self.known.len() + unknown())
    }
}

/// Draws the legend of colours and fills, or nothing if there is only one combination.
pub(super) fn legend(results: &QueueResults) -> Markup {
    let palette = Palette::of(results);
    html! {
        ul.legend {
            @if palette.wakes.len() > 1 {
                @for wake in &palette.wakes {
                    li { (swatch(Series { hue: palette.hue(wake), fill: Fill::Solid })) (wake) }
                }
            }
            @if palette.intakes.len() > 1 {
                @for intake in &palette.intakes {
                    li.neutral { (swatch(Series { hue: 0, fill: fill(intake) })) (intake) }
                }
            }
        }
    }
}

/// The oldest intake is hollow and later ones are solid.
fn fill(intake: &str) -> Fill {
    if intake == "locked" { Fill::Outline } else { Fill::Solid }
}

/// Draws items per second of each combination as bars.
pub(crate) fn throughput(results: &QueueResults) -> Option<Chart> {
    let reach = |measurement: &QueueMeasurement| [measurement.items_per_sec, measurement.range().1];
    let scale = Scale::linear(results.results.iter().flat_map(reach))?;
    let best = results.best();
    let groups = grouped(results, |measurement| {
        let (low, high) = measurement.range();
        let whole = finite_range(low, high);
        let of = range_of(measurement);
        let is_best = best.is_some_and(|best| std::ptr::eq(best, measurement));
        let figure = format::si(measurement.items_per_sec);
        Some(Row {
            mark: match measurement.items_per_sec.is_finite() {
                true => Mark::Bar { value: measurement.items_per_sec, range: whole },
                false => Mark::Absent,
            },
            after: if is_best { format!("{figure} ★") } else { figure },
            tooltip: format!(
                "{} items/s, {of} from {} to {}",
                format::count(measurement.items_per_sec),
                format::count(low),
                format::count(high),
            ),
            emphasised: is_best,
            ..Row::default()
        })
    });
    Some(Chart {
        id: "throughput",
        title: "Items per second in each affinity scope".into(),
        description: describe(results, "median items per second", |measurement| {
            format::si(measurement.items_per_sec)
        }),
        tick: format::si_tick,
        ..dense(scale, BARS, groups)
    })
}

/// Draws percentiles of the queueing call.
pub(crate) fn call_latency(results: &QueueResults) -> Option<Chart> {
    let percentiles = |measurement: &QueueMeasurement| {
        [measurement.p50_ns, measurement.p90_ns, measurement.p95_ns, measurement.p99_ns]
            .map(|ns| ns as f64)
    };
    latency(results, "call", "Time of the queueing call", percentiles)
}

/// Draws percentiles of the time from before the queueing call until the item ran.
pub(crate) fn end_to_end(results: &QueueResults) -> Option<Chart> {
    let percentiles = |measurement: &QueueMeasurement| {
        let [p50, p99] =
            [measurement.end_to_end_p50_ns, measurement.end_to_end_p99_ns].map(|ns| ns as f64);
        [p50, p50, p99, p99]
    };
    latency(results, "end-to-end", "Time until the item ran", percentiles)
}

fn latency(
    results: &QueueResults,
    id: &'static str,
    title: &str,
    percentiles: impl Fn(&QueueMeasurement) -> [f64; 4],
) -> Option<Chart> {
    let scale = Scale::log(results.results.iter().flat_map(&percentiles))?;
    let groups = grouped(results, |measurement| {
        let [p50, p90, p95, p99] = percentiles(measurement);
        let strokes: Vec<f64> = if p90 > p50 || p95 < p99 { vec![p90, p95] } else { Vec::new() };
        let between = strokes
            .iter()
            .zip(["p90", "p95"])
            .map(|(ns, name)| format!(", {name} {}", format::time_ns(*ns)));
        Some(Row {
            before: format::time_ns(p50),
            after: format::time_ns(p99),
            tooltip: format!(
                "p50 {}{}, p99 {}",
                format::time_ns(p50),
                between.collect::<String>(),
                format::time_ns(p99)
            ),
            mark: Mark::Span { range: (p50, p99), dot: p50, strokes },
            ..Row::default()
        })
    });
    Some(Chart {
        id,
        title: title.to_owned(),
        description: describe(results, "median and 99th percentile", |measurement| {
            let [p50, _, _, p99] = percentiles(measurement);
            format!("{} and {}", format::time_ns(p50), format::time_ns(p99))
        }),
        ..dense(scale, SPANS, groups)
    })
}

/// Draws the lock hold time per item, if measured.
pub(crate) fn lock_hold(results: &QueueResults) -> Option<Chart> {
    let held = |measurement: &QueueMeasurement| {
        measurement.lock_hold_ns_per_item.filter(|ns| ns.is_finite())
    };
    let scale = Scale::linear(results.results.iter().filter_map(held))?;
    let groups = grouped(results, |measurement| {
        let ns = held(measurement)?;
        let longest = measurement.lock_hold_max_ns.map_or_else(String::new, |ns| {
            format!(", at most {} at a time", format::time_ns(ns as f64))
        });
        Some(Row {
            mark: Mark::Bar { value: ns, range: None },
            after: format::time_ns(ns),
            tooltip: format!("lock held {} per item{longest}", format::time_ns(ns)),
            ..Row::default()
        })
    });
    Some(Chart {
        id: "lock-hold",
        title: "Lock hold time per item".into(),
        description: describe(results, "lock held per item", |measurement| {
            held(measurement).map_or_else(|| "not measured".to_owned(), format::time_ns)
        }),
        ..dense(scale, BARS, groups)
    })
}

/// Draws the gain of each variant over the oldest of its comparison, all else equal.
pub(crate) fn comparison_gains(results: &QueueResults) -> Option<Chart> {
    let all: Vec<(Comparison, Vec<Gain<'_>>)> = Comparison::ALL
        .into_iter()
        .map(|comparison| (comparison, gains(results, comparison)))
        .filter(|(_, gains)| !gains.is_empty())
        .collect();
    let reach = all.iter().flat_map(|(_, gains)| gains).flat_map(|gain| [gain.min, gain.max]);
    let scale = Scale::log(reach)?;
    let groups = all.iter().map(|(comparison, gains)| Group {
        name: comparison.title().to_owned(),
        remark: gains
            .iter()
            .find(|gain| gain.is_baseline)
            .map_or_else(String::new, |gain| format!("compared with {}", gain.variant)),
        rows: gains.iter().map(gain_row).collect(),
    });
    let sentence = |(comparison, gains): &(Comparison, Vec<Gain<'_>>)| {
        let variants: Vec<String> = gains
            .iter()
            .map(|gain| format!("{} {}", gain.variant, format::times(gain.mean)))
            .collect();
        format!("{}: {}.", comparison.title(), variants.join(", "))
    };
    Some(Chart {
        id: "gains",
        title: "Gain of each variant, all else equal".into(),
        description: all.iter().map(sentence).collect::<Vec<_>>().join(" "),
        scale,
        tick: format::times_tick,
        reference: Some(1.0),
        margins: NAMED,
        row_height_px: ROOMY_PX,
        groups: groups.collect(),
    })
}

fn gain_row(gain: &Gain<'_>) -> Row {
    Row {
        series: Series { hue: 1, fill: if gain.is_baseline { Fill::Outline } else { Fill::Solid } },
        name: gain.variant.to_owned(),
        mark: Mark::Span { range: (gain.min, gain.max), dot: gain.mean, strokes: vec![gain.min] },
        after: format::times(gain.mean),
        tooltip: format!(
            "{}: {} the throughput on average over {}, from {} to {}",
            gain.variant,
            format::times(gain.mean),
            format::counted(gain.pairs, "pair"),
            format::times(gain.min),
            format::times(gain.max),
        ),
        ..Row::default()
    }
}

/// Returns a chart of many rows, without texts.
fn dense(scale: Scale, margins: Margins, groups: Vec<Group>) -> Chart {
    Chart {
        id: "",
        title: String::new(),
        description: String::new(),
        scale,
        tick: format::time_tick,
        reference: None,
        margins,
        row_height_px: DENSE_PX,
        groups,
    }
}

/// Returns one group per scope, with a row for each measurement if `draw` returns a mark for it. Scopes without rows
/// are dropped. This function adds names and colours.
fn grouped(results: &QueueResults, draw: impl Fn(&QueueMeasurement) -> Option<Row>) -> Vec<Group> {
    let palette = Palette::of(results);
    let row = |measurement: &QueueMeasurement| {
        let drawn = draw(measurement)?;
        let tooltip = format!("{}: {}", combination(measurement), drawn.tooltip);
        Some(Row { series: palette.series(measurement), tooltip, ..drawn })
    };
    let group = |scope: &str| {
        let measurements =
            || results.results.iter().filter(|measurement| measurement.scope == scope);
        let rows: Vec<Row> = measurements().filter_map(row).collect();
        let remark = measurements().next().map_or_else(String::new, pods);
        (!rows.is_empty()).then(|| Group { name: scope.to_owned(), remark, rows })
    };
    Comparison::Scope.variants(results).into_iter().filter_map(group).collect()
}

/// Describes the pods of a measurement's scope: `1 pod, the same as cache`.
fn pods(measurement: &QueueMeasurement) -> String {
    let pods = match measurement.pods {
        0 => String::new(),
        pods => format::counted(pods, "pod"),
    };
    match &measurement.same_pods_as {
        Some(scope) if pods.is_empty() => format!("the same as {scope}"),
        Some(scope) => format!("{pods}, the same as {scope}"),
        None => pods,
    }
}

/// Lists the figures of all measurements in a sentence, for screen readers.
fn describe(
    results: &QueueResults,
    what: &str,
    figure: impl Fn(&QueueMeasurement) -> String,
) -> String {
    let figures: Vec<String> = results
        .results
        .iter()
        .map(|measurement| format!("{}: {}", combination(measurement), figure(measurement)))
        .collect();
    format!("For each combination, {what}. {}.", figures.join("; "))
}

fn finite_range(low: f64, high: f64) -> Option<(f64, f64)> {
    (low.is_finite() && high.is_finite()).then_some((low, high))
}
