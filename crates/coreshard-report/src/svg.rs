//! One chart as an SVG file of its own, for a README or a slide.

use coreshard_results::QueueResults;
use maud::{Markup, PreEscaped, html};

use crate::chart;
use crate::format;
use crate::html::charts::{self, Palette};

/// Width of the drawing, in pixels: that of a page of text.
const WIDTH_PX: f64 = 860.0;
const MARGIN_PX: f64 = 20.0;
/// Room above the chart for the title and the legend.
const HEAD_PX: f64 = 84.0;

/// The chart of items per second, with its title and legend, as an SVG file that needs nothing else.
///
/// `None` where no combination has a figure. The drawing follows the light or dark appearance of the page
/// it stands in, where that page lets it.
pub fn queue_throughput(results: &QueueResults) -> Option<String> {
    let results = &format::printable_results(results);
    let chart = charts::throughput(results)?;
    let height_px = HEAD_PX + chart.height_px() + MARGIN_PX;
    let chart_width_px = WIDTH_PX - 2.0 * MARGIN_PX;
    let drawing = html! {
        svg.chart xmlns="http://www.w3.org/2000/svg" width=(WIDTH_PX) height=(height_px)
            viewBox={ "0 0 " (WIDTH_PX) " " (height_px) } {
            style { (PreEscaped(chart::STYLE)) }
            rect.paper width="100%" height="100%" rx="12" {}
            text.title x=(MARGIN_PX) y="34" { (chart.title) }
            text.remark x=(MARGIN_PX) y="52" { (results.machine) }
            (legend(results))
            svg x=(MARGIN_PX) y=(HEAD_PX) width=(chart_width_px) height=(chart.height_px()) {
                (chart.draw())
            }
        }
    };
    Some(drawing.into_string())
}

/// The legend in one line; a drawing cannot know how wide a text becomes, so the places are estimates that
/// leave room.
fn legend(results: &QueueResults) -> Markup {
    const LETTER_PX: f64 = 7.2;
    const SWATCH_PX: f64 = 24.0;
    const GAP_PX: f64 = 16.0;
    let mut left_px = MARGIN_PX;
    let entries = Palette::of(results).legend().into_iter().map(|entry| {
        let place = left_px;
        left_px += SWATCH_PX + entry.name.chars().count() as f64 * LETTER_PX + GAP_PX;
        (place, entry)
    });
    html! {
        @for (left_px, entry) in entries {
            g.neutral[entry.is_neutral] {
                svg x=(left_px) y="63" width="18" height="12" { (chart::swatch(entry.series)) }
                text x=(left_px + SWATCH_PX) y="73" { (entry.name) }
            }
        }
    }
}
