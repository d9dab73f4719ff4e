//! Curves over the number of CPUs, as inline SVG.
//!
//! Horizontal positions are percentages and heights are pixels. Curves are drawn as straight segments, as points of a
//! polyline cannot be percentages.

use maud::{Markup, html};

use super::{Scale, Series, element, percent, px};

const PLOT_PX: f64 = 210.0;
const HEAD_PX: f64 = 10.0;
const AXIS_PX: f64 = 24.0;
/// The start and end of the plot, in percent of the width.
const START_PERCENT: f64 = 12.0;
const END_PERCENT: f64 = 97.0;

/// Curves over one horizontal and one vertical axis.
pub(crate) struct Lines {
    /// Unique on its page. IDs of the title and the description are derived from it.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) across: Scale,
    pub(crate) up: Scale,
    /// The labelled positions on the horizontal axis.
    pub(crate) marks: Vec<f64>,
    pub(crate) tick: fn(f64) -> String,
    pub(crate) curves: Vec<Curve>,
}

pub(crate) struct Curve {
    pub(crate) series: Series,
    pub(crate) points: Vec<(f64, f64)>,
    /// Drawn as a thin dashed line.
    pub(crate) fit: Vec<(f64, f64)>,
    /// Shown when the pointer is over the curve.
    pub(crate) tooltip: String,
}

impl Lines {
    /// Draws the chart as an `svg` element.
    pub(crate) fn draw(&self) -> Markup {
        let bottom = HEAD_PX + PLOT_PX;
        let inside = html! {
            g.axis {
                @for tick in self.up.ticks() {
                    @let y = self.y(tick);
                    line.grid x1=(percent(START_PERCENT)) x2=(percent(END_PERCENT)) y1=(y) y2=(y) {}
                    text x=(percent(START_PERCENT)) dx="-6" y=(y) dy="3.8" text-anchor="end" {
                        ((self.tick)(tick))
                    }
                }
                @for mark in &self.marks {
                    text x=(self.x(*mark)) y=(px(bottom + 16.0)) text-anchor="middle" { (mark) }
                }
            }
            @for curve in &self.curves {
                g class={ (curve.series.classes()) " curve" } {
                    title { (curve.tooltip) }
                    g.fit { (self.pieces(&curve.fit)) }
                    (self.pieces(&curve.points))
                    @for (across, up) in &curve.points {
                        circle cx=(self.x(*across)) cy=(self.y(*up)) r="3.2" {}
                    }
                }
            }
        };
        element(&self.id, &self.title, &self.description, bottom + AXIS_PX, &inside)
    }

    fn pieces(&self, points: &[(f64, f64)]) -> Markup {
        html! {
            @for two in points.windows(2) {
                line x1=(self.x(two[0].0)) y1=(self.y(two[0].1))
                    x2=(self.x(two[1].0)) y2=(self.y(two[1].1)) {}
            }
        }
    }

    fn x(&self, value: f64) -> String {
        percent(START_PERCENT + self.across.place(value) * (END_PERCENT - START_PERCENT))
    }

    fn y(&self, value: f64) -> String {
        px(HEAD_PX + (1.0 - self.up.place(value)) * PLOT_PX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Fill;

    #[test]
    fn a_curve_goes_from_corner_to_corner_and_is_well_formed() {
        let lines = Lines {
            id: "test".into(),
            title: "T".into(),
            description: "D".into(),
            across: Scale::Log { low: 1.0, high: 4.0 },
            up: Scale::Linear { top: 10.0 },
            marks: vec![1.0, 2.0, 4.0],
            tick: |value| format!("{value}"),
            curves: vec![Curve {
                series: Series { hue: 1, fill: Fill::Solid },
                points: vec![(1.0, 0.0), (4.0, 10.0)],
                fit: Vec::new(),
                tooltip: "<&>".into(),
            }],
        };
        let text = lines.draw().into_string();
        roxmltree::Document::parse(&text).expect("an SVG is well-formed XML");
        assert!(text.contains(r#"x1="12.00%" y1="220.0" x2="97.00%" y2="10.0""#), "{text}");
        assert!(text.contains("&lt;&amp;&gt;"), "{text}");
    }
}
