//! A type as a drawing: a row for each cache line, a box for each field, as wide as it has bytes.

use coreshard_topology::input;
use coreshard_trace::{Field, Layout, Role};
use svg::Document;
use svg::node::element::{Group, Rectangle, Style, Text, Title};

const MARGIN: f64 = 24.0;
const LINE_WIDTH: f64 = 768.0;
const ROW_HEIGHT: f64 = 34.0;
const ROW_GAP: f64 = 10.0;
const HEAD: f64 = 48.0;
const LEFT: f64 = 56.0;
/// Lines of one type that are drawn; the kernel has structs of a megabyte.
const MOST_LINES: u64 = 256;
/// Width of a letter over its font's size.
const LETTER: f64 = 0.56;

const STYLE: &str = "
text { font-family: Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif; fill: #22303c; font-size: 11px; }
.page { fill: #ffffff; }
.title { font-size: 17px; font-weight: 600; }
.offset { fill: #52616e; text-anchor: end; }
.hole { fill: #f1efe9; stroke: #d3cdc0; stroke-dasharray: 3 2; }
.plain { fill: #d5dcf0; stroke: #8592bd; }
.atomic { fill: #f6c9a8; stroke: #c97a3c; }
.lock { fill: #f2b5b5; stroke: #b85454; }
.remark { fill: #52616e; font-size: 12px; }
";

/// The layouts, one below the other.
pub(super) fn layouts(layouts: &[Layout]) -> String {
    let mut group = Group::new();
    let mut top = MARGIN;
    for layout in layouts {
        let (drawn, height) = one(layout, top);
        group = group.add(drawn);
        top += height + MARGIN;
    }
    let width = MARGIN * 2.0 + LEFT + LINE_WIDTH;
    Document::new()
        .set("xmlns", "http://www.w3.org/2000/svg")
        .set("width", width)
        .set("height", top)
        .set("viewBox", (0.0, 0.0, width, top))
        .add(Style::new(STYLE))
        .add(Rectangle::new().set("class", "page").set("width", "100%").set("height", "100%"))
        .add(group)
        .to_string()
        + "\n"
}

fn one(layout: &Layout, top: f64) -> (Group, f64) {
    let left = MARGIN + LEFT;
    let name = format!("{} {}", layout.keyword, input::plain(&layout.name));
    let sizes = format!(
        "{} bytes, {} lines of {} bytes, {} bytes unused",
        layout.size_bytes,
        layout.lines,
        layout.line_bytes,
        layout.wasted_bytes()
    );
    let mut group = Group::new()
        .add(Text::new(name).set("class", "title").set("x", left).set("y", top + 14.0))
        .add(Text::new(sizes).set("class", "remark").set("x", left).set("y", top + 32.0));
    let lines = layout.lines.clamp(1, MOST_LINES);
    for line in 0..lines {
        let y = row_top(top, line);
        let offset = line * layout.line_bytes;
        let width = layout.size_bytes.saturating_sub(offset).min(layout.line_bytes);
        group = group
            .add(
                Text::new(offset.to_string())
                    .set("class", "offset")
                    .set("x", left - 8.0)
                    .set("y", y + 21.0),
            )
            .add(
                Rectangle::new()
                    .set("class", "hole")
                    .set("x", left)
                    .set("y", y)
                    .set("width", pixels(layout, width))
                    .set("height", ROW_HEIGHT),
            );
    }
    for field in &layout.fields {
        group = boxes(group, layout, field, top, lines);
    }
    (group, HEAD + lines as f64 * (ROW_HEIGHT + ROW_GAP))
}

fn row_top(top: f64, line: u64) -> f64 {
    top + HEAD + line as f64 * (ROW_HEIGHT + ROW_GAP)
}

fn pixels(layout: &Layout, bytes: u64) -> f64 {
    bytes as f64 * LINE_WIDTH / layout.line_bytes as f64
}

/// A field is a box on each line that it has bytes on.
fn boxes(mut group: Group, layout: &Layout, field: &Field, top: f64, lines: u64) -> Group {
    let class = match field.role {
        Role::Plain => "plain",
        Role::Atomic => "atomic",
        Role::Lock => "lock",
    };
    let end = field.end_bytes().min(lines * layout.line_bytes);
    let mut start = field.offset_bytes;
    while start < end {
        let line = start / layout.line_bytes;
        let until = end.min((line + 1) * layout.line_bytes);
        let (x, width) = (pixels(layout, start % layout.line_bytes), pixels(layout, until - start));
        let (x, y) = (MARGIN + LEFT + x, row_top(top, line));
        let hover = format!(
            "{} at {}, {} bytes: {}",
            field.name, field.offset_bytes, field.size_bytes, field.type_name
        );
        let rectangle = Rectangle::new()
            .set("class", class)
            .set("x", x + 0.5)
            .set("y", y)
            .set("width", (width - 1.0).max(1.0))
            .set("height", ROW_HEIGHT)
            .set("rx", 2);
        group = group.add(Group::new().add(Title::new(input::plain(&hover))).add(rectangle));
        let letters = (width / (11.0 * LETTER)) as usize;
        let name: String =
            input::plain(&field.name).chars().take(letters.saturating_sub(1)).collect();
        if letters > 2 && start == field.offset_bytes {
            group = group.add(Text::new(name).set("x", x + 4.0).set("y", y + 21.0));
        }
        start = until;
    }
    group
}
