//! A replay as text.

use std::fmt::Write as _;

use crate::common::counted;
use coreshard_topology::input;
use coreshard_trace::{
    AccessKind, LineView, LockView, Recording, ReplayReport, Sharing, ThreadView, WordView,
};

/// Words of a line in the output.
const MOST_WORDS: usize = 16;
/// Locks in the output.
const MOST_LOCKS: usize = 5;
/// Threads in the output.
const MOST_THREADS: usize = 8;

/// Lines that cost less than this fraction of the first line's cost are omitted by default.
const NEGLIGIBLE: f64 = 100.0;

/// Number of accesses by one line of code that may be an object's initialization.
const FEW: u64 = 4;

/// Options for the output of lines.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// Whether to use the columns of `coreshard c2c`.
    pub(super) is_c2c: bool,
    /// Whether to show negligible lines, and accesses that happened only once.
    pub(super) all_lines: bool,
}

pub(super) fn report(report: &ReplayReport, recording: &Recording, shown: Shown) -> String {
    let command = recording.about().command.join(" ");
    let share = |ns: f64| (ns / report.running_ns.max(1.0) * 100.0).abs();
    let mut text = format!(
        "{} on {}\n{} threads, {} accesses, {} of virtual time\n{:.1} % of the threads' time is lost to lines that other threads took, \
         {:.1} % to lines that a thread touches first\n{}\n",
        input::quoted(&command),
        report.machine,
        report.threads.len(),
        report.accesses,
        time(report.virtual_ns),
        share(report.taken_back_ns),
        share(report.lost_ns - report.taken_back_ns),
        match report.shared_lines {
            1 => "1 line is shared".to_owned(),
            lines => format!("{lines} lines are shared"),
        },
    );
    for lack in recording.lacks().iter().filter(|lack| lack.is_sample()) {
        let _ = writeln!(text, "sampled: the recording lacks {lack}");
    }
    let least = report.lines.first().map_or(0.0, |line| line.cost_ns / NEGLIGIBLE);
    // Without a finding, details would only distract from that.
    let is_clean = report.findings.is_empty() && !shown.all_lines && !shown.is_c2c;
    let counts = |line: &&LineView| shown.all_lines || !is_clean && line.cost_ns >= least;
    let mut lines: Vec<_> = report.lines.iter().filter(counts).collect();
    lines.sort_by_key(|line| line.is_c_library);
    for (number, line) in lines.iter().enumerate() {
        text.push('\n');
        one(&mut text, number, line, shown);
    }
    if lines.len() < report.lines.len() {
        let omitted = if is_clean {
            "the costliest lines are left out, since none matters"
        } else {
            "each of the others costs less than a hundredth of the first"
        };
        let _ = writeln!(text, "\n{omitted}; --lines {} shows them", report.lines.len());
    }
    if report.lines.len() > 1 && !is_clean {
        text.push_str("\nby object\n       cost   false  lines  object\n");
        for object in report.objects.iter().take(report.lines.len()) {
            let share = object.false_ns / object.cost_ns.max(1.0) * 100.0;
            let _ = writeln!(
                text,
                "  {:>9}  {share:>4.0} %  {:>5}  {}",
                time(object.cost_ns),
                object.lines,
                object.object
            );
        }
    }
    if !report.locks.is_empty() {
        text.push_str("\nby lock\n     waited      waits  lock\n");
        for lock in report.locks.iter().take(MOST_LOCKS) {
            let _ = writeln!(
                text,
                "  {:>9}  {:>9}  {}",
                time(lock.waited_ns),
                lock.waits,
                lock_name(lock)
            );
        }
    }
    if let Some(its) = &report.apart {
        let _ = writeln!(
            text,
            "\n{} of {} on separate lines: the lines of these objects cost {} instead of {}, and an average thread takes {} instead of {}",
            counted(its.fields, "field"),
            counted(its.objects, "object"),
            time(its.cost_after_ns),
            time(its.cost_before_ns),
            time(its.mean_after_ns),
            time(its.mean_before_ns),
        );
    }
    if !report.threads.is_empty() {
        text.push_str("\nby thread\n       lost     waited      ended   accesses  thread  CPU\n");
        for thread in most_lost(report).into_iter().take(MOST_THREADS) {
            let _ = writeln!(
                text,
                "  {:>9}  {:>9}  {:>9}  {:>9}  {:>6}  {:>3}",
                time(thread.lost_ns),
                time(thread.waited_ns),
                time(thread.ended_ns),
                thread.accesses,
                thread.thread,
                thread.cpu,
            );
        }
    }
    if !report.notes.is_empty() {
        text.push('\n');
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Returns a lock's object and field.
pub(super) fn lock_name(lock: &LockView) -> String {
    let dot = if lock.field.is_empty() || lock.field.starts_with('[') { "" } else { "." };
    // The field comes before the object's allocation site.
    match lock.object.split_once(", taken at ") {
        Some((object, place)) => format!("{object}{dot}{}, taken at {place}", lock.field),
        None => format!("{}{dot}{}", lock.object, lock.field),
    }
}

/// Returns the threads, sorted by the time that they lose to lines.
pub(super) fn most_lost(report: &ReplayReport) -> Vec<&ThreadView> {
    let mut threads: Vec<_> = report.threads.iter().collect();
    threads.sort_by(|a, b| b.lost_ns.total_cmp(&a.lost_ns).then(a.thread.cmp(&b.thread)));
    threads
}

fn one(text: &mut String, number: usize, line: &LineView, shown: Shown) {
    let sharing = match line.sharing {
        Sharing::False => "false",
        Sharing::True => "true",
        Sharing::Both => "true and false",
    };
    let known = (line.true_ns + line.false_ns).max(1.0);
    let _ = writeln!(
        text,
        "line {number}  {:#x}  {}  {sharing} sharing ({:.0} % false)  HITM remote {} local {}  stores {}\n  {}\n  {}",
        line.address,
        time(line.cost_ns),
        line.false_ns / known * 100.0,
        line.hitm_remote,
        line.hitm_local,
        line.stores,
        line.object,
        line.sentence,
    );
    let mut words: Vec<&WordView> = line.words.iter().collect();
    let is_again = |word: &&WordView| word.count > FEW || word.lost_ns > 0.0;
    if !shown.all_lines && words.iter().any(is_again) {
        words.retain(is_again);
    }
    if words.len() > MOST_WORDS {
        words.sort_by(|a, b| b.cost_ns.total_cmp(&a.cost_ns));
        words.truncate(MOST_WORDS);
        words.sort_by_key(|word| word.offset);
    }
    if shown.is_c2c {
        let _ = writeln!(
            text,
            "  {:>6} {:>9} {:>9} {:>10}  {:<17}  {:<12}  {:<24}  function",
            "offset", "records", "misses", "cost", "access", "threads", "field"
        );
    }
    for word in words {
        let (access, place) = (access(word), place(word));
        let field = if word.field.is_empty() { "-" } else { &word.field };
        let threads = threads(&word.threads);
        let _ = if shown.is_c2c {
            writeln!(
                text,
                "  {:>#6x} {:>9} {:>9} {:>10}  {access:<17}  {threads:<12}  {field:<24}  {place}",
                word.offset,
                word.count,
                word.misses,
                time(word.cost_ns)
            )
        } else {
            writeln!(
                text,
                "  {:>#6x} {:<24} {:>9} × {access}, {} missed, by {threads}, {place}",
                word.offset, field, word.count, word.misses
            )
        };
    }
}

/// Returns the kind of an access in one or two words.
pub(super) const fn access(word: &WordView) -> &'static str {
    match (word.access, word.is_atomic) {
        (AccessKind::Load, false) => "load",
        (AccessKind::Load, true) => "load (atomic)",
        (AccessKind::Store, false) => "store",
        (AccessKind::Store, true) => "store (atomic)",
        (AccessKind::Modify, _) => "read-modify-write",
    }
}

/// Returns the source position of an access.
pub(super) fn place(word: &WordView) -> String {
    let file = word.place.file.rsplit('/').next().unwrap_or_default();
    match word.place.line {
        0 => word.place.function.clone(),
        at => format!("{} ({file}:{at})", word.place.function),
    }
}

/// Formats a short list of threads.
fn threads(threads: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for thread in threads {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *thread => *last = *thread,
            _ => ranges.push((*thread, *thread)),
        }
    }
    let all: Vec<_> = ranges
        .iter()
        .map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    format!("thread {}", all.join(","))
}

/// Formats a time with about three digits.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.2} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.1} µs", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}
