//! The first lines of a replay: the objects that cost the program time, the remedies, and the next command.

use std::path::Path;

use coreshard_topology::input;
use coreshard_trace::{Finding, Lack, Recording, ReplayReport, ThingKind};

use super::table::lock_name;
use crate::common::shell_word;

/// Width of a terminal.
const COLUMNS: usize = 80;
/// Findings with cause and remedy. Further findings are shown by name only.
const MOST_SHOWN: usize = 2;
/// Maximum number of lines.
const MOST_LINES: usize = 5;
/// Waits for a lock are shown from this share of all threads' time on.
const LEAST_WAITING: f64 = 0.05;

/// Returns at most five lines, none wider than a terminal.
pub(super) fn verdict(report: &ReplayReport, recording: &Recording) -> Vec<String> {
    let findings = &report.findings;
    let lock = waiting(report);
    if findings.is_empty() {
        return lock.map_or_else(|| vec![nothing(report, recording)], |line| vec![line]);
    }
    let mut lines = Vec::new();
    for (number, finding) in (1..).zip(findings.iter().take(MOST_SHOWN)) {
        lines.push(headline(number, finding));
        lines.push(format!("   {}", remedy(finding)));
    }
    if let Some(rest @ [first, ..]) = findings.get(MOST_SHOWN..) {
        let share: f64 = rest.iter().map(|finding| finding.share).sum();
        let names = match rest.len() {
            1 => format!("3. {}: {}", percent(share), name(first, false)),
            count => {
                format!("and {count} more objects, {}: {}, …", percent(share), name(first, false))
            }
        };
        lines.push(cut(&names, COLUMNS));
    }
    lines.extend(lock.filter(|_| lines.len() < MOST_LINES));
    lines
}

/// Formats the lock that threads wait for most, if the waits are significant.
fn waiting(report: &ReplayReport) -> Option<String> {
    let lock = report.locks.first()?;
    let all: f64 = report.threads.iter().map(|thread| thread.ended_ns).sum();
    let share = lock.waited_ns / all.max(1.0);
    let text = format!("waiting for a lock, {} of the time: {}", percent(share), lock_name(lock));
    (share >= LEAST_WAITING).then(|| cut(&input::plain(&text), COLUMNS))
}

/// Explains the absence of findings.
fn nothing(report: &ReplayReport, recording: &Recording) -> String {
    if report.accesses == 0 {
        return "nothing was recorded, so there is nothing to report".to_owned();
    }
    let text = "no object costs 1 % of the threads' time".to_owned();
    if recording.threads().len() < 2 {
        return text + ": only one thread was recorded";
    }
    let is_part = recording.lacks().iter().any(|lack| !matches!(lack, Lack::Uninstrumented));
    if is_part { text + ", in the part that was recorded" } else { text }
}

/// `1. 22 % of the time: struct device, taken at device.c:24: issued, done`
fn headline(number: usize, finding: &Finding) -> String {
    let start = format!("{number}. {} of the time: ", percent(finding.share));
    let room = COLUMNS - start.chars().count();
    let names = [name(finding, true), name(finding, false)];
    let count = finding.fields.len();
    let few = (0..=count).rev().map(|most| fields(finding, most, false));
    let ends: Vec<_> = [fields(finding, count, true)].into_iter().chain(few).collect();
    // Both names in full, or else one name with as many fields as fit.
    for (name, ends) in [(&names[0], &ends[..2]), (&names[1], &ends[..])] {
        let fits = |end: &&String| name.chars().count() + end.chars().count() <= room;
        if let Some(end) = ends.iter().find(fits) {
            return format!("{start}{name}{end}");
        }
    }
    format!("{start}{}", cut_before_place(&names[1], room))
}

/// Returns the object's name and, if `with_beside` is set, the names of objects on the same lines.
fn name(finding: &Finding, with_beside: bool) -> String {
    let mut name = input::plain(&finding.object);
    for other in finding.beside.iter().filter(|_| with_beside) {
        name = format!("{name} and {}", input::plain(other));
    }
    if finding.is_c_library { format!("{name} (of the C library)") } else { name }
}

/// Returns the first fields. If `with_threads` is set, a field that one thread uses has the thread's number.
fn fields(finding: &Finding, most: usize, with_threads: bool) -> String {
    let named: Vec<_> = finding.fields.iter().filter(|field| !field.field.is_empty()).collect();
    let each: Vec<_> = named
        .iter()
        .take(most)
        .map(|field| match field.threads[..] {
            [thread] if with_threads => format!("{} (thread {thread})", input::plain(&field.field)),
            _ => input::plain(&field.field),
        })
        .collect();
    let rest = if each.len() < named.len() { ", …" } else { "" };
    if each.is_empty() { String::new() } else { format!(": {}{rest}", each.join(", ")) }
}

/// Returns the cause and the remedy, with the predicted gain. Without a gain, there is no remedy.
fn remedy(finding: &Finding) -> String {
    let gain = match finding.gain {
        Some(gain) if gain >= 1.01 => format!("; {gain:.2} × as fast"),
        Some(_) => {
            let cause = finding.summary.split(':').next().unwrap_or_default();
            return format!("{cause}, but no layout that was tried gains 1 %");
        }
        // Layouts are not tried here if there are too many accesses.
        None if finding.advice.is_of_layout() && !finding.is_c_library => {
            "; layout --replay predicts the gain".to_owned()
        }
        None => String::new(),
    };
    format!("{}{gain}", finding.summary)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Cuts a text at its end and marks the cut.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Cuts a name before the allocation site, which is more useful than the end of a long type name.
fn cut_before_place(text: &str, most: usize) -> String {
    let Some(at) = text.rfind(", taken at ") else { return cut(text, most) };
    let (object, place) = text.split_at(at);
    match most.checked_sub(place.chars().count()) {
        Some(room) if room >= 8 => format!("{}{place}", cut(object, room)),
        _ => cut(text, most),
    }
}

/// Returns a useful next command.
pub(super) fn next_command(report: &ReplayReport, file: &Path, options: &str) -> Option<String> {
    if report.accesses == 0 {
        return None;
    }
    // A path that is not UTF-8 cannot be printed as part of a command.
    let file = shell_word(file.to_str()?);
    let is_known = |kind| matches!(kind, ThingKind::Global | ThingKind::Heap);
    let worth = |finding: &Finding| {
        finding.advice.is_of_layout() && is_known(finding.kind) && !finding.is_c_library
    };
    let more = match report.findings.iter().any(worth) {
        true => "",
        // No layout can be tried. A page shows the bytes of the lines.
        false if !report.findings.is_empty() => {
            return Some(format!("coreshard replay {file}{options} --html replay.html"));
        }
        false => " --latent",
    };
    Some(format!("coreshard layout --replay {file}{options}{more}"))
}

#[cfg(test)]
mod tests {
    use super::{cut, cut_before_place};

    #[test]
    fn long_names_keep_the_place_of_the_allocation() {
        let name = "std::map<long, std::vector<int>>, taken at pool.cc:12";
        assert_eq!(cut_before_place(name, 40), "std::map<long, std…, taken at pool.cc:12");
        assert_eq!(cut_before_place(name, 80), name);
        assert_eq!(cut("counters", 5), "coun…");
    }
}
