//! What colours and fillings mean in the charts of a page.

use coreshard_results::QueueResults;
use maud::{Markup, html};

use super::charts::Palette;
use crate::chart::swatch;

/// What the colours and fillings mean; nothing where there is one combination only.
pub(super) fn legend(results: &QueueResults) -> Markup {
    html! {
        ul.legend {
            @for entry in Palette::of(results).legend() {
                li.neutral[entry.is_neutral] { (swatch(entry.series)) (entry.name) }
            }
        }
    }
}
