//! Charts of grouped rows, as inline SVG that follows the page's style.
//!
//! Plotting crates fix colours and text sizes when they draw. These pages must be readable at night, on phones and on
//! paper. Positions along the axis are therefore percentages and everything else is in pixels, so that text keeps its
//! size at any width. Colours are classes with values for light, dark and print in the style sheet.
//!
//! A [`Chart`] consists of grouped rows over one horizontal axis. Its caller chooses the meaning, texts and colours.

pub(crate) mod lines;
mod scale;

use maud::{Markup, html};

pub(crate) use scale::Scale;

/// Style of the marks, and the colours of both appearances.
pub(crate) const STYLE: &str = include_str!("chart.css");

const BAR_PX: f64 = 10.0;
const GROUP_HEAD_PX: f64 = 20.0;
const GROUP_GAP_PX: f64 = 11.0;
const AXIS_PX: f64 = 24.0;

/// Rows in groups over one axis.
pub(crate) struct Chart {
    /// Unique on its page. IDs of the title and the description are derived from it.
    pub(crate) id: &'static str,
    /// The title, which is also the image's name for screen readers.
    pub(crate) title: String,
    /// The content in a sentence.
    pub(crate) description: String,
    pub(crate) scale: Scale,
    /// The label of a tick.
    pub(crate) tick: fn(f64) -> String,
    /// A figure for comparison, drawn as a line.
    pub(crate) reference: Option<f64>,
    pub(crate) margins: Margins,
    pub(crate) row_height_px: f64,
    pub(crate) groups: Vec<Group>,
}

/// The start and end of the axis in percent of the width. The rest is for text.
#[derive(Clone, Copy)]
pub(crate) struct Margins {
    pub(crate) start_percent: f64,
    pub(crate) end_percent: f64,
}

pub(crate) struct Group {
    pub(crate) name: String,
    /// Shown after the name in a lighter style.
    pub(crate) remark: String,
    pub(crate) rows: Vec<Row>,
}

#[derive(Default)]
pub(crate) struct Row {
    pub(crate) series: Series,
    /// Shown at the left edge, in the margin.
    pub(crate) name: String,
    pub(crate) mark: Mark,
    /// Shown before the mark; may be empty.
    pub(crate) before: String,
    /// Shown after the mark.
    pub(crate) after: String,
    /// Shown when the pointer is over the row.
    pub(crate) tooltip: String,
    /// Whether the row is emphasised.
    pub(crate) emphasised: bool,
}

/// The colour and fill of a row's marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Series {
    /// The colour number, modulo [`Series::HUES`].
    pub(crate) hue: usize,
    pub(crate) fill: Fill,
}

/// The fill, which distinguishes series of the same colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fill {
    Outline,
    #[default]
    Solid,
}

impl Series {
    /// Number of colours in the style sheet.
    pub(crate) const HUES: usize = 6;

    /// Returns the CSS classes of the series' marks.
    pub(crate) fn classes(self) -> String {
        let fill = match self.fill {
            Fill::Outline => "outline",
            Fill::Solid => "solid",
        };
        format!("mark hue{} {fill}", self.hue % Self::HUES)
    }
}

/// The drawing in a row.
#[derive(Default)]
pub(crate) enum Mark {
    /// A bar from the start of the axis, with a range.
    Bar { value: f64, range: Option<(f64, f64)> },
    /// A line over a range, with a dot and strokes.
    Span { range: (f64, f64), dot: f64, strokes: Vec<f64> },
    /// No figure.
    #[default]
    Absent,
}

/// Draws a mark for the legend, as an SVG of fixed size.
pub(crate) fn swatch(series: Series) -> Markup {
    html! {
        svg.swatch width="18" height="12" aria-hidden="true" {
            rect class=(series.classes()) x="1" y="1" width="16" height="10" rx="2" {}
        }
    }
}

impl Chart {
    /// Returns the chart's height in pixels. The width adapts to the page.
    pub(crate) fn height_px(&self) -> f64 {
        self.groups.iter().map(|group| self.group_height_px(group)).sum::<f64>() + AXIS_PX
    }

    /// Draws the chart as an `svg` element.
    pub(crate) fn draw(&self) -> Markup {
        let plot_px = self.height_px() - AXIS_PX;
        let mut tops = Vec::new();
        let mut top = 0.0;
        for group in &self.groups {
            tops.push(top);
            top += self.group_height_px(group);
        }
        let inside = html! {
            (self.draw_axis(plot_px))
            @for (group, top) in self.groups.iter().zip(tops) {
                (self.draw_group(group, top))
            }
        };
        element(self.id, &self.title, &self.description, self.height_px(), &inside)
    }

    fn draw_axis(&self, plot_px: f64) -> Markup {
        let ticks = self.scale.ticks();
        html! {
            g.axis {
                @for tick in &ticks {
                    @let x = self.x(*tick);
                    line.grid x1=(x) x2=(x) y1="0" y2=(px(plot_px)) {}
                    text x=(x) y=(px(plot_px + 16.0)) text-anchor=(self.anchor(*tick)) {
                        ((self.tick)(*tick))
                    }
                }
                @if let Some(reference) = self.reference {
                    @let x = self.x(reference);
                    line.reference x1=(x) x2=(x) y1="0" y2=(px(plot_px)) {}
                }
            }
        }
    }

    /// Centres labels on their ticks, except at the edges, where they would be cut off.
    fn anchor(&self, tick: f64) -> &'static str {
        if self.margins.start_percent == 0.0 && self.scale.place(tick) == 0.0 {
            "start"
        } else {
            "middle"
        }
    }

    fn draw_group(&self, group: &Group, top: f64) -> Markup {
        html! {
            g.group {
                text.name x="0" y=(px(top + 13.0)) {
                    (group.name)
                    @if !group.remark.is_empty() {
                        tspan.remark dx="8" { (group.remark) }
                    }
                }
                @for (index, row) in group.rows.iter().enumerate() {
                    @let above = (index as f64 + 0.5) * self.row_height_px;
                    (self.draw_row(row, top + GROUP_HEAD_PX + above))
                }
            }
        }
    }

    fn draw_row(&self, row: &Row, middle: f64) -> Markup {
        let (from, to) = match &row.mark {
            Mark::Bar { value, range } => (0.0, range.map_or(*value, |(_, high)| high.max(*value))),
            Mark::Span { range, .. } => *range,
            Mark::Absent => (f64::NAN, f64::NAN),
        };
        let baseline = px(middle + 3.8);
        html! {
            g class=(if row.emphasised { "row emphasised" } else { "row" }) {
                title { (row.tooltip) }
                // Show the tooltip anywhere in the row.
                rect.hit x="0" y=(px(middle - self.row_height_px / 2.0)) width="100%"
                    height=(self.row_height_px) {}
                @if !row.name.is_empty() {
                    text.variant x="0" y=(baseline) { (row.name) }
                }
                (self.draw_mark(row, middle))
                @if !row.before.is_empty() {
                    text.figure x=(self.x(from)) dx="-8" y=(baseline) text-anchor="end" { (row.before) }
                }
                text.figure x=(self.x(to)) dx="8" y=(baseline) { (row.after) }
            }
        }
    }

    fn draw_mark(&self, row: &Row, middle: f64) -> Markup {
        let classes = row.series.classes();
        let stroke = |at: f64, half_px: f64| {
            let x = self.x(at);
            html! { line x1=(x) x2=(x) y1=(px(middle - half_px)) y2=(px(middle + half_px)) {} }
        };
        let line = |(from, to): (f64, f64)| {
            let y = px(middle);
            html! { line x1=(self.x(from)) x2=(self.x(to)) y1=(y) y2=(y) {} }
        };
        html! {
            @match &row.mark {
                Mark::Bar { value, range } => {
                    rect class=(classes) x=(percent(self.margins.start_percent))
                        y=(px(middle - BAR_PX / 2.0)) width=(percent(self.length_percent(*value)))
                        height=(BAR_PX) rx="1.5" {}
                    @if let Some(range) = range {
                        // Drawn twice, first wider and in the background colour, to be visible on any bar.
                        @for class in ["whisker halo", "whisker"] {
                            g class=(class) {
                                (line(*range)) (stroke(range.0, 3.0)) (stroke(range.1, 3.0))
                            }
                        }
                    }
                }
                Mark::Span { range, dot, strokes } => {
                    g class={ (classes) " span" } {
                        (line(*range))
                        @for at in strokes { (stroke(*at, 3.0)) }
                        (stroke(range.1, 4.5))
                        circle cx=(self.x(*dot)) cy=(px(middle)) r="4" {}
                    }
                }
                Mark::Absent => {}
            }
        }
    }

    fn group_height_px(&self, group: &Group) -> f64 {
        GROUP_HEAD_PX + group.rows.len() as f64 * self.row_height_px + GROUP_GAP_PX
    }

    /// Returns the horizontal position of `value`.
    fn x(&self, value: f64) -> String {
        percent(self.margins.start_percent + self.length_percent(value))
    }

    /// Returns the distance of `value` from the start of the axis.
    fn length_percent(&self, value: f64) -> f64 {
        let axis = 100.0 - self.margins.start_percent - self.margins.end_percent;
        self.scale.place(value) * axis
    }
}

/// Returns a chart's `svg` element, which adapts to the width of the page.
fn element(id: &str, title: &str, description: &str, height_px: f64, inside: &Markup) -> Markup {
    html! {
        svg.chart role="img" width="100%" height=(height_px)
            aria-labelledby={ (id) "-title " (id) "-description" } {
            title id={ (id) "-title" } { (title) }
            desc id={ (id) "-description" } { (description) }
            (inside)
        }
    }
}

/// Formats a length in percent, with sufficient precision for any screen.
fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

/// Formats a length in pixels, to a tenth.
fn px(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(mark: Mark) -> Chart {
        Chart {
            id: "test",
            title: "T".into(),
            description: "D".into(),
            scale: Scale::Linear { top: 100.0 },
            tick: |value| format!("{value}"),
            reference: None,
            margins: Margins { start_percent: 0.0, end_percent: 20.0 },
            row_height_px: 15.0,
            groups: vec![Group {
                name: "G".into(),
                remark: String::new(),
                rows: vec![Row {
                    series: Series { hue: 7, fill: Fill::Outline },
                    name: String::new(),
                    mark,
                    before: String::new(),
                    after: "A".into(),
                    tooltip: "<&>".into(),
                    emphasised: false,
                }],
            }],
        }
    }

    fn draw(mark: Mark) -> String {
        let text = chart(mark).draw().into_string();
        roxmltree::Document::parse(&text).expect("an SVG is well-formed XML");
        text
    }

    #[test]
    fn a_bar_is_as_long_as_its_figure() {
        let text = draw(Mark::Bar { value: 50.0, range: Some((25.0, 75.0)) });
        assert!(text.contains(r#"class="mark hue1 outline" x="0.00%" y="#), "{text}");
        assert!(text.contains(r#"width="40.00%""#), "half of the 80 % the axis has: {text}");
        assert!(text.contains(r#"x1="20.00%" x2="60.00%""#), "the whisker: {text}");
        assert!(text.contains("&lt;&amp;&gt;"), "{text}");
    }

    #[test]
    fn a_figure_beyond_the_axis_stays_on_the_chart() {
        let text = draw(Mark::Span { range: (-5.0, 1e9), dot: 50.0, strokes: vec![60.0] });
        assert!(text.contains(r#"x1="0.00%" x2="80.00%""#), "{text}");
        assert!(text.contains(r#"cx="40.00%""#), "{text}");
    }

    #[test]
    fn an_absent_figure_draws_no_mark() {
        let text = draw(Mark::Absent);
        assert!(!text.contains("mark"), "{text}");
        assert!(!text.contains("NaN"), "{text}");
    }
}
