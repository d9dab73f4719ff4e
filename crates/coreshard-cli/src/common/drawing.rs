//! Parts of drawings for pages and mails.
//!
//! Colours are attributes, because viewers that accept a drawing often ignore style sheets in it.

use coreshard_topology::input;
use svg::Document;
use svg::node::element::Text;

const FONTS: &str = "Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif";
/// The colours of text: of names and figures, and of the rest.
pub(crate) const INK: &str = "#22303c";
pub(crate) const FAINT: &str = "#52616e";

/// Creates a drawing of this size, whose text has this size.
pub(crate) fn drawing(width: f64, height: f64, font_size: f64) -> Document {
    Document::new()
        .set("xmlns", "http://www.w3.org/2000/svg")
        .set("width", width)
        .set("height", height)
        .set("viewBox", (0.0, 0.0, width, height))
        .set("font-family", FONTS)
        .set("font-size", font_size)
}

/// Creates a text that begins at this place. Names of programs are untrusted.
pub(crate) fn text(content: &str, x: f64, y: f64, colour: &str) -> Text {
    Text::new(input::plain(content)).set("x", x).set("y", y).set("fill", colour)
}
