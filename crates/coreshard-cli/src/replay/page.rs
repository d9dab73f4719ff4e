//! A replay as a self-contained page: each line has a strip with its bytes, and a table of the words below.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use coreshard_report::html;
use coreshard_topology::input;
use coreshard_trace::{AccessKind, LineView, Recording, ReplayReport, Sharing};

use super::table::{access, most_lost, place, time};
use super::verdict::verdict;

/// Objects and threads in a table, the costliest first.
const MOST_ROWS: usize = 64;

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 15px/1.5 Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .3rem; }
p { margin: .3rem 0; }
table { border-collapse: collapse; font-size: .86rem; width: 100%; }
td, th { padding: .2rem .5rem; text-align: left; border-bottom: 1px solid #8884; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
svg { display: block; height: auto; margin: .5rem 0; width: 100%; }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin: 0 .3rem 0 .6rem; vertical-align: -1px; }
.false { color: #b4551d; } .true { color: #3a5fb0; } .both { color: #7a4a9e; }
";

/// Colours of threads, by thread number.
const COLOURS: [&str; 8] =
    ["#5f9794", "#c97a3c", "#8592bd", "#b85454", "#97a365", "#9a6fb0", "#b39b3d", "#5f7f9f"];

/// Colours of words that several threads write, and of words that no thread writes.
const SEVERAL: &str = "#333c";
const READ: &str = "#8886";

pub(super) fn page(report: &ReplayReport, recording: &Recording) -> String {
    let mut body = String::new();
    let _ = write!(
        body,
        "<h1>Lines that threads take from one another</h1><pre>{}</pre><p>{} on {}: {} threads, {} accesses, {} of virtual time; all threads \
         together lose {} to lines that others have.</p>",
        escaped(&verdict(report, recording).join("\n")),
        escaped(&input::quoted(&recording.about().command.join(" ")).to_string()),
        escaped(&report.machine),
        report.threads.len(),
        report.accesses,
        time(report.virtual_ns),
        time(report.lost_ns),
    );
    body.push_str(&super::picture::picture(report).unwrap_or_default());
    body.push_str(&legend(report));
    for (number, line) in report.lines.iter().enumerate() {
        one(&mut body, number, line, report.line_bytes);
    }
    by_object(&mut body, report);
    by_thread(&mut body, report);
    for note in &report.notes {
        let _ = write!(body, "<p>{}</p>", escaped(note));
    }
    let json = serde_json::to_string(report).unwrap_or_default().replace('<', "\\u003c");
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">{}<title>coreshard replay</title><style>{STYLE}</style></head>\
         <body>{body}<script type=\"application/json\" id=\"results\">{json}</script></body></html>\n",
        html::MARK
    )
}

fn one(body: &mut String, number: usize, line: &LineView, line_bytes: u64) {
    let sharing = match line.sharing {
        Sharing::False => "false",
        Sharing::True => "true",
        Sharing::Both => "both",
    };
    let _ = write!(
        body,
        "<h2>{number}. {}</h2><p><strong class=\"{sharing}\">{}</strong>: {}, {} of it for false sharing. {}.</p>{}",
        escaped(&line.object),
        if sharing == "both" {
            "true and false sharing".to_owned()
        } else {
            format!("{sharing} sharing")
        },
        time(line.cost_ns),
        time(line.false_ns),
        escaped(&advice(line.sentence)),
        strip(line, line_bytes),
    );
    let rows = line.words.iter().map(|word| {
        let threads: Vec<_> = word.threads.iter().take(8).map(ToString::to_string).collect();
        let more = if word.threads.len() > 8 { " …" } else { "" };
        vec![
            word.offset.to_string(),
            escaped(&word.field),
            access(word).to_owned(),
            word.count.to_string(),
            word.misses.to_string(),
            time(word.cost_ns),
            format!("{}{more}", threads.join(" ")),
            escaped(&place(word)),
        ]
    });
    let head = ["#offset", "field", "access", "#times", "#missed", "#cost", "threads", "from"];
    table(body, &head, rows);
}

/// Formats a table. Columns whose headings begin with `#` contain numbers.
fn table(body: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let class = |head: &str| if head.starts_with('#') { " class=\"n\"" } else { "" };
    body.push_str("<table>");
    let row = |body: &mut String, tag: &str, texts: &mut dyn Iterator<Item = &str>| {
        body.push_str("<tr>");
        for (head, text) in head.iter().zip(texts) {
            let _ = write!(body, "<{tag}{}>{text}</{tag}>", class(head));
        }
        body.push_str("</tr>");
    };
    row(body, "th", &mut head.iter().map(|head| head.trim_start_matches('#')));
    rows.for_each(|texts| row(body, "td", &mut texts.iter().map(String::as_str)));
    body.push_str("</table>");
}

/// Returns the remedy as a sentence. The page has already named the kind of sharing.
fn advice(sentence: &str) -> String {
    let advice = sentence.strip_prefix("false sharing: ").unwrap_or(sentence);
    let mut letters = advice.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn by_object(body: &mut String, report: &ReplayReport) {
    body.push_str("<h2>By object</h2>");
    let rows = report.objects.iter().take(MOST_ROWS).map(|of| {
        vec![escaped(&of.object), of.lines.to_string(), time(of.cost_ns), time(of.false_ns)]
    });
    table(body, &["object", "#lines", "#cost", "#of it for false sharing"], rows);
}

fn by_thread(body: &mut String, report: &ReplayReport) {
    body.push_str("<h2>By thread</h2>");
    let rows = most_lost(report).into_iter().take(MOST_ROWS).map(|of| {
        vec![
            of.thread.to_string(),
            of.cpu.to_string(),
            of.accesses.to_string(),
            time(of.lost_ns),
            time(of.waited_ns),
            time(of.ended_ns),
        ]
    });
    let head =
        ["#thread", "#CPU", "#accesses", "#lost to lines", "#waited for threads", "#ended at"];
    table(body, &head, rows);
}

fn colour_of(thread: u32) -> &'static str {
    COLOURS[thread as usize % COLOURS.len()]
}

/// Formats the colours of the strips. Only threads that write have one.
fn legend(report: &ReplayReport) -> String {
    let words = report.lines.iter().flat_map(|line| &line.words);
    let alone = words.filter(|word| word.access != AccessKind::Load && word.threads.len() == 1);
    let writers: BTreeSet<u32> = alone.map(|word| word.threads[0]).collect();
    let mut key = String::new();
    let mut entry = |colour: &str, what: &str| {
        let _ = write!(key, " <span class=\"key\" style=\"background:{colour}\"></span>{what}");
    };
    for thread in writers.iter().take(COLOURS.len()) {
        entry(colour_of(*thread), &format!("thread {thread}"));
    }
    entry(SEVERAL, "several threads");
    entry(READ, "no thread: the word is only read");
    let more = if writers.len() > COLOURS.len() {
        " Further threads have these colours again."
    } else {
        ""
    };
    format!(
        "<p>A strip is a line; the colour of a box is that of the thread that writes it most:{key}.{more}</p>"
    )
}

/// Draws the line's bytes as boxes. The colour of a box shows its writers.
fn strip(line: &LineView, line_bytes: u64) -> String {
    const WIDTH: f64 = 768.0;
    let pixels = |bytes: u64| bytes as f64 * WIDTH / line_bytes as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} 34\" width=\"{WIDTH}\" height=\"34\" role=\"img\"><rect width=\"{WIDTH}\" height=\"34\" fill=\"#8882\"/>"
    );
    let mut drawn = Vec::new();
    // Draw written words first. Words that are only read fill the remaining space.
    let by_writes = |is_read: bool| {
        line.words.iter().filter(move |word| (word.access == AccessKind::Load) == is_read)
    };
    let mut writes: Vec<_> = by_writes(false).collect();
    writes.sort_by_key(|word| std::cmp::Reverse(word.count));
    for word in writes.into_iter().chain(by_writes(true)) {
        if drawn.contains(&word.offset) {
            continue;
        }
        drawn.push(word.offset);
        let is_read = word.access == AccessKind::Load;
        let colour = match (&word.threads[..], is_read) {
            (_, true) => READ,
            ([one], false) => colour_of(*one),
            _ => SEVERAL,
        };
        let letters = (pixels(word.size_bytes) / 7.0) as usize;
        let name: String = word.field.chars().take(letters).collect();
        let _ = write!(
            svg,
            "<g><title>{}</title><rect x=\"{}\" width=\"{}\" height=\"34\" rx=\"2\" fill=\"{colour}\" stroke=\"#fff\"/><text x=\"{}\" y=\"21\" font-size=\"11\" fill=\"currentColor\">{}</text></g>",
            escaped(&word.field),
            pixels(word.offset),
            pixels(word.size_bytes),
            pixels(word.offset) + 3.0,
            escaped(&name),
        );
    }
    svg + "</svg>"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
