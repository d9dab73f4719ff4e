//! The verdict as a drawing: for each object the bytes of its costliest line, now and with the best layout, coloured by thread.

use coreshard_topology::input;
use coreshard_trace::{Finding, LinePicture, PictureWord, ReplayReport};
use svg::node::element::{Group, Rectangle, Title};

use crate::common::drawing::{FAINT, INK, drawing, text};

const MARGIN: f64 = 20.0;
const LEFT: f64 = 56.0;
const LINE_WIDTH: f64 = 768.0;
const WIDTH: f64 = MARGIN * 2.0 + LEFT + LINE_WIDTH;
const ROW_HEIGHT: f64 = 32.0;
const ROW_GAP: f64 = 6.0;
/// The width of a letter as a share of its font's size.
const LETTER: f64 = 0.58;
const SMALL: f64 = 12.0;
/// Lines of one object that are drawn.
const MOST_ROWS: usize = 16;
/// Threads of one legend.
const MOST_KEYS: usize = 12;

/// Fill and border of words by writer, in the order of the threads.
const WRITERS: [(&str, &str); 6] = [
    ("#a8d0cd", "#5f9794"),
    ("#f6c9a8", "#c97a3c"),
    ("#c9d79f", "#97a365"),
    ("#d5b6e0", "#9a6fb0"),
    ("#ead79a", "#b39b3d"),
    ("#f2b5b5", "#b85454"),
];
const SEVERAL: (&str, &str) = ("#b9c0c6", "#52616e");
const READ: (&str, &str) = ("#ffffff", "#8592bd");
const EMPTY: (&str, &str) = ("#f4f2ed", "#d3cdc0");

/// Draws all findings; `None` if there is none.
pub(super) fn picture(report: &ReplayReport) -> Option<String> {
    let drawn = report.findings.iter().filter_map(|its| its.picture.as_ref().map(|of| (its, of)));
    let (mut group, mut top) = (Group::new(), MARGIN);
    for (finding, picture) in drawn.filter(|(_, picture)| !picture.words.is_empty()) {
        let (one, height) = object(finding, picture, top);
        group = group.add(one);
        top += height + MARGIN;
    }
    if top <= MARGIN {
        return None;
    }
    let page = rectangle(EMPTY, 0.0, 0.0, WIDTH, top).set("fill", "#ffffff").set("rx", 6);
    let document = drawing(WIDTH, top, SMALL).add(page).add(group);
    Some(document.to_string() + "\n")
}

fn rectangle((fill, stroke): (&str, &str), x: f64, y: f64, width: f64, height: f64) -> Rectangle {
    Rectangle::new()
        .set("x", x)
        .set("y", y)
        .set("width", width)
        .set("height", height)
        .set("fill", fill.to_owned())
        .set("stroke", stroke.to_owned())
}

/// An object: its name, the remedy, its lines now and then, and the colours.
fn object(finding: &Finding, picture: &LinePicture, top: f64) -> (Group, f64) {
    let left = MARGIN + LEFT;
    let name = text(&finding.object, left, top + 14.0, INK);
    let share = format!("{:.0} % of the time: {}", finding.share * 100.0, finding.summary);
    let mut group = Group::new().add(name.set("font-size", 16).set("font-weight", 600)).add(text(
        &share,
        left,
        top + 33.0,
        FAINT,
    ));
    let mut y = top + 44.0;
    (group, y) = lines(group, picture, "now", y, |word| word.address);
    if let Some(remedy) = picture.remedy {
        let gain = finding.gain.map_or_else(String::new, |gain| format!("{gain:.2} × as fast: "));
        group = group.add(text(&format!("{gain}{remedy}"), left, y + 14.0, FAINT));
        (group, y) = lines(group, picture, "then", y + 22.0, |word| word.then);
    }
    let (key, height) = legend(picture, y + 6.0);
    (group.add(key), y + 6.0 + height - top)
}

/// The lines that words lie on, one below the other, each without the lines between them.
fn lines(
    mut group: Group,
    picture: &LinePicture,
    what: &str,
    top: f64,
    place: impl Fn(&PictureWord) -> u64,
) -> (Group, f64) {
    let line_bytes = picture.line_bytes.max(1);
    let mut starts: Vec<u64> =
        picture.words.iter().map(|word| place(word) / line_bytes * line_bytes).collect();
    starts.sort_unstable();
    starts.dedup();
    let left_out = starts.len().saturating_sub(MOST_ROWS);
    starts.truncate(MOST_ROWS);
    let pixels = |bytes: u64| bytes as f64 * LINE_WIDTH / line_bytes as f64;
    let left = MARGIN + LEFT;
    for (row, start) in starts.iter().enumerate() {
        let y = top + row as f64 * (ROW_HEIGHT + ROW_GAP);
        if row == 0 {
            let label = text(what, left - 10.0, y + 20.0, FAINT);
            group = group.add(label.set("text-anchor", "end"));
        }
        let empty = rectangle(EMPTY, left, y, LINE_WIDTH, ROW_HEIGHT);
        group = group.add(empty.set("stroke-dasharray", "3 2"));
        let on_it = |word: &&PictureWord| place(word) / line_bytes * line_bytes == *start;
        for word in picture.words.iter().filter(on_it) {
            let offset = place(word) - start;
            let bytes = word.size_bytes.min(line_bytes - offset);
            group = group.add(one(word, picture, left + pixels(offset), y, pixels(bytes)));
        }
    }
    let mut end = top + starts.len() as f64 * (ROW_HEIGHT + ROW_GAP);
    if left_out > 0 {
        group = group.add(text(&format!("and {left_out} more lines"), left, end + 12.0, FAINT));
        end += 20.0;
    }
    (group, end)
}

/// A word: a box in its writer's colour, with its name if there is room.
fn one(word: &PictureWord, picture: &LinePicture, x: f64, y: f64, width: f64) -> Group {
    let threads = |threads: &[u32]| {
        let shown: Vec<_> = threads.iter().take(8).map(u32::to_string).collect();
        shown.join(", ") + if threads.len() > 8 { " …" } else { "" }
    };
    let mut hover = format!("{}, {} bytes", word.field, word.size_bytes);
    for (did, by) in [("written", &word.writers), ("read", &word.readers)] {
        if !by.is_empty() {
            hover += &format!("; {did} by {}", threads(by));
        }
    }
    let group = Group::new().add(Title::new(input::plain(&hover))).add(
        rectangle(
            colour(word, picture),
            x + 1.0,
            y + 1.0,
            (width - 2.0).max(1.0),
            ROW_HEIGHT - 2.0,
        )
        .set("rx", 2),
    );
    let letters = ((width - 6.0) / (SMALL * LETTER)).max(0.0) as usize;
    let count = word.field.chars().count();
    if letters < 2 {
        return group;
    }
    // The end of a path says more than its begin.
    let name: String = match count > letters {
        true => "…".chars().chain(word.field.chars().skip(count - letters + 1)).collect(),
        false => word.field.clone(),
    };
    group.add(text(&name, x + 5.0, y + 20.0, INK))
}

/// Each writer has a colour, in the order of the threads.
fn colour(word: &PictureWord, picture: &LinePicture) -> (&'static str, &'static str) {
    match word.writers[..] {
        [] => READ,
        [writer] => {
            let place = writers(picture).iter().position(|its| *its == writer).unwrap_or(0);
            WRITERS[place % WRITERS.len()]
        }
        _ => SEVERAL,
    }
}

/// The threads that write a word alone, sorted.
fn writers(picture: &LinePicture) -> Vec<u32> {
    let alone = picture.words.iter().filter(|word| word.writers.len() == 1);
    let mut writers: Vec<_> = alone.map(|word| word.writers[0]).collect();
    writers.sort_unstable();
    writers.dedup();
    writers
}

fn legend(picture: &LinePicture, top: f64) -> (Group, f64) {
    let writers = writers(picture);
    let threads = writers.iter().enumerate().take(MOST_KEYS);
    let mut keys: Vec<_> = threads
        .map(|(place, thread)| {
            (WRITERS[place % WRITERS.len()], format!("written by thread {thread}"))
        })
        .collect();
    let any = |is_it: fn(&PictureWord) -> bool| picture.words.iter().any(is_it);
    if any(|word| word.writers.len() > 1) {
        keys.push((SEVERAL, "by several threads".to_owned()));
    }
    if any(|word| word.writers.is_empty()) {
        keys.push((READ, "only read".to_owned()));
    }
    let (left, right) = (MARGIN + LEFT, MARGIN + LEFT + LINE_WIDTH);
    let (mut group, mut x, mut y) = (Group::new(), left, top);
    for (colour, what) in keys {
        let width = 19.0 + SMALL * LETTER * what.chars().count() as f64 + 14.0;
        if x > left && x + width > right {
            (x, y) = (left, y + 20.0);
        }
        group = group.add(rectangle(colour, x, y, 12.0, 12.0).set("rx", 2)).add(text(
            &what,
            x + 18.0,
            y + 10.0,
            FAINT,
        ));
        x += width;
    }
    (group, y - top + 16.0)
}
