//! A type as a drawing: a row for each cache line, and a box for each field whose width is its size in bytes.

use coreshard_topology::input;
use coreshard_trace::{Field, Layout, Role, TypeProposals};
use svg::Document;
use svg::node::element::{Group, Rectangle, Style, Text, Title};

use crate::replay::time;

const MARGIN: f64 = 24.0;
const LINE_WIDTH: f64 = 768.0;
const ROW_HEIGHT: f64 = 34.0;
const ROW_GAP: f64 = 10.0;
const HEAD: f64 = 48.0;
const LEFT: f64 = 56.0;
/// Lines of one type in a drawing. The kernel has structs of a megabyte.
const MOST_LINES: u64 = 256;
/// The size of a box in the legend, and the distance between rows.
const KEY: f64 = 13.0;
const KEY_HEIGHT: f64 = 22.0;
/// Entries in one legend.
const MOST_KEYS: usize = 24;
/// Width of a letter relative to the font size.
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
.w0 { fill: #a8d0cd; stroke: #5f9794; }
.w1 { fill: #f6c9a8; stroke: #c97a3c; }
.w2 { fill: #c9d79f; stroke: #97a365; }
.w3 { fill: #d5b6e0; stroke: #9a6fb0; }
.w4 { fill: #ead79a; stroke: #b39b3d; }
.w5 { fill: #f2b5b5; stroke: #b85454; }
.several { fill: #8f979e; stroke: #52616e; }
";

/// Number of colours for writing threads.
const WRITER_COLOURS: usize = 6;

/// Draws layouts, one below the other.
pub(super) fn layouts(layouts: &[Layout]) -> String {
    let by_role = |field: &Field| match field.role {
        Role::Plain => ("plain".to_owned(), String::new()),
        Role::Atomic => ("atomic".to_owned(), String::new()),
        Role::Lock => ("lock".to_owned(), String::new()),
    };
    let key = [("plain", "field"), ("atomic", "atomic"), ("lock", "lock"), ("hole", "no field")];
    let key = key.map(|(class, what)| (class.to_owned(), what.to_owned()));
    let mut group = Group::new();
    let mut top = MARGIN;
    for layout in layouts {
        let (drawn, height) = one(layout, top, &sizes(layout), &by_role);
        group = group.add(drawn);
        top += height + MARGIN;
    }
    let (drawn, height) = legend(&key, top);
    document(group.add(drawn), top + height)
}

/// Draws contended types with their current layout and the best proposal. The colour of a field shows its writers.
pub(super) fn proposals(types: &[TypeProposals]) -> String {
    let mut group = Group::new();
    let mut top = MARGIN;
    for of in types {
        // A colour for each set of writers, in the order of the fields.
        let mut sets: Vec<&[u32]> = Vec::new();
        for field in of.fields.iter().filter(|field| !field.writers.is_empty()) {
            if !sets.contains(&&*field.writers) {
                sets.push(&field.writers);
            }
        }
        let by_writer = |field: &Field| {
            let its = of.fields.iter().find(|its| its.name == field.name);
            match its.map_or(&[][..], |its| &its.writers) {
                [] => ("plain".to_owned(), "never written".to_owned()),
                writers => {
                    let set = sets.iter().position(|set| *set == writers).unwrap_or(0);
                    let class = match writers {
                        [_] => format!("w{}", set % WRITER_COLOURS),
                        _ => "several".to_owned(),
                    };
                    let shown: Vec<_> = writers.iter().take(8).map(u32::to_string).collect();
                    let more = if writers.len() > 8 { " …" } else { "" };
                    (class, format!("written by thread {}{more}", shown.join(", ")))
                }
            }
        };
        let now: Vec<_> = of
            .fields
            .iter()
            .map(|field| (field.name.clone(), field.offset_bytes, field.size_bytes))
            .collect();
        let remark = format!("now: {}", time(of.before_ns));
        let (drawn, height) = one(&plain_layout(of, &now, of.size_bytes), top, &remark, &by_writer);
        group = group.add(drawn);
        top += height + MARGIN;
        let Some(best) = of.proposals.first() else { continue };
        let size = |name: &str| {
            of.fields.iter().find(|field| field.name == name).map_or(0, |field| field.size_bytes)
        };
        let then: Vec<_> =
            best.order.iter().map(|(name, at)| (name.clone(), *at, size(name))).collect();
        let remark =
            format!("{}: {}, {:+} bytes", best.what, time(best.after_ns), best.spent_bytes);
        let then = plain_layout(of, &then, best.size_bytes);
        let (drawn, height) = one(&then, top, &remark, &by_writer);
        group = group.add(drawn);
        top += height;
        let mut key: Vec<_> = then.fields.iter().map(by_writer).collect();
        key.sort();
        key.dedup();
        key.push(("hole".to_owned(), "no field".to_owned()));
        let (drawn, height) = legend(&key, top);
        group = group.add(drawn);
        top += height + MARGIN;
    }
    document(group, top)
}

/// Draws a box and a description for each class.
fn legend(key: &[(String, String)], top: f64) -> (Group, f64) {
    let mut group = Group::new();
    let (left, right) = (MARGIN + LEFT, MARGIN + LEFT + LINE_WIDTH);
    let (mut x, mut y) = (left, top);
    for (class, what) in key.iter().take(MOST_KEYS) {
        let width = KEY + 6.0 + 12.0 * LETTER * what.chars().count() as f64 + 16.0;
        if x > left && x + width > right {
            (x, y) = (left, y + KEY_HEIGHT);
        }
        let square = Rectangle::new().set("class", class.clone()).set("x", x).set("y", y);
        let square = square.set("width", KEY).set("height", KEY).set("rx", 2);
        let text = Text::new(input::plain(what)).set("class", "remark");
        group = group.add(square).add(text.set("x", x + KEY + 6.0).set("y", y + KEY - 2.0));
        x += width;
    }
    (group, y - top + KEY_HEIGHT)
}

/// Creates a layout from the names, offsets and sizes of fields.
fn plain_layout(of: &TypeProposals, fields: &[(String, u64, u64)], size_bytes: u64) -> Layout {
    let field = |(name, offset_bytes, size_bytes): &(String, u64, u64)| Field {
        name: name.clone(),
        type_name: String::new(),
        offset_bytes: *offset_bytes,
        size_bytes: *size_bytes,
        bits: None,
        role: Role::Plain,
        is_variant: false,
        is_flexible: false,
    };
    Layout {
        keyword: "",
        name: of.name.clone(),
        size_bytes,
        alignment_bytes: of.line_bytes,
        line_bytes: of.line_bytes,
        lines: size_bytes.div_ceil(of.line_bytes.max(1)),
        fields: fields.iter().map(field).collect(),
        holes: Vec::new(),
        padding_bytes: 0,
        spare_bits: 0,
    }
}

fn sizes(layout: &Layout) -> String {
    format!(
        "{} bytes, {} lines of {} bytes, {} bytes unused",
        layout.size_bytes,
        layout.lines,
        layout.line_bytes,
        layout.wasted_bytes()
    )
}

fn document(group: Group, top: f64) -> String {
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

/// Returns a field's class, and the text shown on hovering.
type Paint<'a> = &'a dyn Fn(&Field) -> (String, String);

fn one(layout: &Layout, top: f64, remark: &str, paint: Paint<'_>) -> (Group, f64) {
    let left = MARGIN + LEFT;
    let name = format!("{} {}", layout.keyword, input::plain(&layout.name));
    let name = name.trim_start().to_owned();
    let mut group = Group::new()
        .add(Text::new(name).set("class", "title").set("x", left).set("y", top + 14.0))
        .add(Text::new(remark).set("class", "remark").set("x", left).set("y", top + 32.0));
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
        group = boxes(group, layout, field, top, lines, paint);
    }
    (group, HEAD + lines as f64 * (ROW_HEIGHT + ROW_GAP))
}

fn row_top(top: f64, line: u64) -> f64 {
    top + HEAD + line as f64 * (ROW_HEIGHT + ROW_GAP)
}

fn pixels(layout: &Layout, bytes: u64) -> f64 {
    bytes as f64 * LINE_WIDTH / layout.line_bytes as f64
}

/// Draws a box for a field on each of its lines.
fn boxes(
    mut group: Group,
    layout: &Layout,
    field: &Field,
    top: f64,
    lines: u64,
    paint: Paint<'_>,
) -> Group {
    let (class, said) = paint(field);
    let what = if said.is_empty() { &field.type_name } else { &said };
    let end = field.end_bytes().min(lines * layout.line_bytes);
    let mut start = field.offset_bytes;
    while start < end {
        let line = start / layout.line_bytes;
        let until = end.min((line + 1) * layout.line_bytes);
        let (x, width) = (pixels(layout, start % layout.line_bytes), pixels(layout, until - start));
        let (x, y) = (MARGIN + LEFT + x, row_top(top, line));
        let hover = format!(
            "{} at {}, {} bytes: {}",
            field.name, field.offset_bytes, field.size_bytes, what
        );
        let rectangle = Rectangle::new()
            .set("class", class.clone())
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
