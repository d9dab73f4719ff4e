//! Layouts that would help, and what each is worth: the recording is replayed with the type's fields elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coreshard_sim::Machine;
use serde::Serialize;

use super::lines::Line;
use super::moved::{FieldMove, Moves};
use super::names::{Names, Thing, ThingKind};
use super::report::{self, ReplayOptions, Replayed};
use crate::layout::Layout;
use crate::recording::{AccessKind, Recording, RecordingError};
use crate::types::{Language, Shape};

/// Types that proposals are made for.
const MOST_TYPES: usize = 3;
/// Lines whose objects are laid out anew.
const MOST_LINES: usize = 4_096;

/// A type that threads fight for, and what could be done about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeProposals {
    /// The type, or the array's name.
    pub name: String,
    /// Objects of it that were laid out anew.
    pub objects: usize,
    /// Size of one object or element now, in bytes.
    pub size_bytes: u64,
    /// The part of the time that its lines cost which is for false sharing, from 0 to 1.
    pub false_share: f64,
    /// How long the program runs as it is, in nanoseconds.
    pub before_ns: f64,
    /// What its threads wait for lines as it is, in nanoseconds.
    pub lost_before_ns: f64,
    /// What could be done, the best first.
    pub proposals: Vec<Proposal>,
}

/// A layout.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proposal {
    /// What is done, in a few words.
    pub what: &'static str,
    /// Size of one object or element then, in bytes.
    pub size_bytes: u64,
    /// How much memory all objects take more, in bytes; less than 0 where they take less.
    pub spent_bytes: i64,
    /// How long the program would run, in nanoseconds.
    pub after_ns: f64,
    /// What its threads would wait for lines, in nanoseconds.
    pub lost_after_ns: f64,
    /// The fields in their new order, each with its new place in bytes.
    pub order: Vec<(String, u64)>,
    /// The same in the source's syntax.
    pub suggestion: String,
}

/// A field, and who uses it.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    from: u64,
    bytes: u64,
    writers: BTreeSet<u32>,
    uses: u64,
}

/// Objects of one name, and what their lines cost.
#[derive(Default)]
struct Fought<'lines> {
    false_ps: u64,
    true_ps: u64,
    /// By their first byte.
    things: BTreeMap<u64, Thing>,
    lines: Vec<&'lines Line>,
}

/// What is done with a type's fields.
type Rearrangement = (&'static str, Vec<(usize, u64)>, u64);

/// Proposes layouts for the types that cost most by false sharing, and replays the recording with each.
///
/// # Errors
/// Where the recording cannot be read; the text names the offset.
///
/// ```
/// use coreshard_sim::Machine;
/// use coreshard_trace::{About, Ending, Recording, RecordingWriter, ReplayOptions, propose_layouts};
///
/// let mut bytes = Vec::new();
/// RecordingWriter::new(&mut bytes, &About::default())?.finish(&Ending::default())?;
/// let recording = Recording::from_bytes(bytes)?;
/// let proposals = propose_layouts(&recording, &Machine::pocket(), &ReplayOptions::default())?;
/// assert!(proposals.is_empty(), "nobody fights");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn propose_layouts(
    recording: &Recording,
    machine: &Machine,
    options: &ReplayOptions,
) -> Result<Vec<TypeProposals>, RecordingError> {
    let Replayed { plan, outcome } = report::run(recording, machine, options, None)?;
    let line_bytes = machine.line_bytes() as u64;
    let before_ns = report::ns(outcome.virtual_ps);
    let lost = |threads: &[super::engine::ThreadOutcome]| {
        report::ns(threads.iter().map(|thread| thread.lost_ps).sum())
    };
    let lost_before_ns = lost(&outcome.threads);
    let mut names = Names::new(&plan);
    // By name: the things, and their lines.
    let mut by_name: BTreeMap<String, Fought<'_>> = BTreeMap::new();
    for line in report::costliest(&outcome.lines, MOST_LINES) {
        let thing = report::thing_of(line, &mut names);
        if thing.of.is_none() || !matches!(thing.kind, ThingKind::Global | ThingKind::Heap) {
            continue;
        }
        let entry = by_name.entry(thing.name.clone()).or_default();
        entry.false_ps += line.false_ps;
        entry.true_ps += line.true_ps;
        entry.things.insert(thing.start, thing);
        entry.lines.push(line);
    }
    let mut fought: Vec<_> = by_name.into_iter().filter(|(_, its)| its.false_ps > 0).collect();
    fought.sort_by_key(|(_, its)| std::cmp::Reverse(its.false_ps));
    let mut all = Vec::new();
    for (name, its) in fought.into_iter().take(MOST_TYPES) {
        let Fought { false_ps, true_ps, things, lines } = its;
        let Some(first) = things.values().next() else { continue };
        let Some((parts, language)) = parts(first, &things, &lines, &mut names, line_bytes) else {
            continue;
        };
        let size_bytes = first.element_bytes.max(1);
        let mut proposals = Vec::new();
        for (what, order, new_bytes) in plans(&parts, size_bytes, line_bytes) {
            let mut moved: Vec<_> = order
                .iter()
                .map(|(part, to)| FieldMove {
                    from: parts[*part].from,
                    bytes: parts[*part].bytes,
                    to: *to,
                })
                .collect();
            moved.sort_by_key(|field| field.from);
            let moved: Arc<[FieldMove]> = moved.into();
            let (mut moves, mut elements) = (Moves::default(), 0);
            for thing in things.values() {
                moves.add(thing.start, thing.bytes, size_bytes, &moved, new_bytes, 0);
                elements += thing.bytes.div_ceil(size_bytes);
            }
            let after = report::run(recording, machine, options, Some(&moves))?.outcome;
            proposals.push(Proposal {
                what,
                size_bytes: new_bytes,
                spent_bytes: (new_bytes as i64 - size_bytes as i64).saturating_mul(elements as i64),
                after_ns: report::ns(after.virtual_ps),
                lost_after_ns: lost(&after.threads),
                suggestion: suggestion(language, &parts, &order, line_bytes),
                order: order.iter().map(|(part, to)| (parts[*part].name.clone(), *to)).collect(),
            });
        }
        proposals.sort_by(|a, b| {
            a.after_ns.total_cmp(&b.after_ns).then(a.spent_bytes.cmp(&b.spent_bytes))
        });
        all.push(TypeProposals {
            name,
            objects: things.len(),
            size_bytes,
            false_share: false_ps as f64 / (false_ps + true_ps).max(1) as f64,
            before_ns,
            lost_before_ns,
            proposals,
        });
    }
    Ok(all)
}

/// The type's fields with who writes them; one part where an element has no fields. None for unions and what overlaps.
fn parts(
    first: &Thing,
    things: &BTreeMap<u64, Thing>,
    lines: &[&Line],
    names: &mut Names<'_>,
    line_bytes: u64,
) -> Option<(Vec<Part>, Language)> {
    let (module, of) = first.of?;
    let types = names.types(module)?;
    let id = types.stripped(of);
    let language = types.language(id);
    let mut parts = match (&types.get(id).shape, Layout::of(types, id, line_bytes)) {
        (Shape::Record(record), Some(layout))
            if record.variants.is_empty() && layout.keyword != "union" =>
        {
            let mut fields = layout.fields;
            // Bit fields stay together, and so does what overlaps otherwise.
            fields.sort_by_key(|field| field.offset_bytes);
            let mut parts: Vec<Part> = Vec::new();
            for field in fields.into_iter().filter(|field| field.size_bytes > 0) {
                match parts.last_mut() {
                    Some(last) if field.offset_bytes < last.from + last.bytes => {
                        last.bytes = last.bytes.max(field.end_bytes() - last.from);
                    }
                    _ => parts.push(Part {
                        name: field.name,
                        from: field.offset_bytes,
                        bytes: field.size_bytes,
                        writers: BTreeSet::new(),
                        uses: 0,
                    }),
                }
            }
            parts
        }
        (Shape::Record(_), _) => return None,
        _ => {
            let part = Part {
                name: "element".into(),
                from: 0,
                bytes: first.element_bytes,
                writers: BTreeSet::new(),
                uses: 0,
            };
            vec![part]
        }
    };
    for line in lines {
        for row in &line.rows {
            let address = line.address + u64::from(row.offset);
            let Some((start, thing)) = things.range(..=address).next_back() else { continue };
            if address >= start.saturating_add(thing.bytes) {
                continue;
            }
            let within = (address - start) % first.element_bytes.max(1);
            let part =
                parts.iter_mut().find(|part| (part.from..part.from + part.bytes).contains(&within));
            let Some(part) = part else { continue };
            part.uses += row.count;
            // What is written a time or two when the object is made does not count.
            if row.kind != AccessKind::Load && row.count > 4 {
                part.writers.extend(&row.threads);
            }
        }
    }
    Some((parts, language))
}

/// What can be done with the parts of a type: each with their new places, and the new size.
fn plans(parts: &[Part], size_bytes: u64, line_bytes: u64) -> Vec<Rearrangement> {
    let place = |groups: &[Vec<usize>]| {
        let (mut order, mut at) = (Vec::new(), 0u64);
        for group in groups.iter().filter(|group| !group.is_empty()) {
            at = at.next_multiple_of(line_bytes);
            for part in group {
                let align = 1u64
                    << parts[*part]
                        .from
                        .trailing_zeros()
                        .min(parts[*part].bytes.max(1).trailing_zeros())
                        .min(4);
                at = at.next_multiple_of(align);
                order.push((*part, at));
                at += parts[*part].bytes;
            }
        }
        (order, at.next_multiple_of(line_bytes))
    };
    let all: Vec<usize> = (0..parts.len()).collect();
    let as_it_is: Vec<_> = all.iter().map(|part| (*part, parts[*part].from)).collect();
    let mut plans: Vec<Rearrangement> = vec![(
        "each object begins a line, and has its lines for itself",
        as_it_is,
        size_bytes.next_multiple_of(line_bytes),
    )];
    // What nobody writes first, then what each set of threads writes.
    let mut by_writers: BTreeMap<&BTreeSet<u32>, Vec<usize>> = BTreeMap::new();
    for part in &all {
        by_writers.entry(&parts[*part].writers).or_default().push(*part);
    }
    if by_writers.len() > 1 {
        let groups: Vec<_> = by_writers.into_values().collect();
        let (order, bytes) = place(&groups);
        plans.push((
            "what the same threads write lies together, on lines of its own",
            order,
            bytes,
        ));
    }
    let (hot, cold): (Vec<usize>, Vec<usize>) =
        all.iter().partition(|part| !parts[**part].writers.is_empty());
    if hot.len() > 1 {
        let mut groups = vec![cold.clone()];
        groups.extend(hot.iter().map(|part| vec![*part]));
        let (order, bytes) = place(&groups);
        plans.push(("each field that is written has a line of its own", order, bytes));
    }
    if !hot.is_empty() && !cold.is_empty() {
        let (order, bytes) = place(&[cold, hot]);
        plans.push(("what is written lies apart from what is read", order, bytes));
    }
    plans.dedup_by(|a, b| a.1 == b.1 && a.2 == b.2);
    plans
}

/// The fields that are to begin a line, in the source's syntax.
fn suggestion(
    language: Language,
    parts: &[Part],
    order: &[(usize, u64)],
    line_bytes: u64,
) -> String {
    let begin = order.iter().filter(|(_, to)| to.is_multiple_of(line_bytes));
    let mut begin: Vec<_> = begin.map(|(part, _)| parts[*part].name.as_str()).collect();
    begin.dedup();
    let names = begin.join(", ");
    match language {
        Language::C => format!(
            "_Alignas({line_bytes}) (in the kernel ____cacheline_aligned_in_smp) before: {names}"
        ),
        Language::Cpp => format!("alignas({line_bytes}) before: {names}"),
        Language::Rust => format!(
            "#[repr(align({line_bytes}))] on a type around each of, or crossbeam's CachePadded: {names}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, from: u64, writers: &[u32]) -> Part {
        Part {
            name: name.into(),
            from,
            bytes: 8,
            writers: writers.iter().copied().collect(),
            uses: 1,
        }
    }

    #[test]
    fn fields_of_different_writers_come_to_different_lines() {
        let parts = [part("queue", 0, &[]), part("issued", 8, &[2]), part("done", 16, &[3])];
        let plans = plans(&parts, 24, 64);
        let (_, order, bytes) =
            plans.iter().find(|(what, ..)| what.starts_with("what the same")).unwrap();
        assert_eq!(order, &[(0, 0), (1, 64), (2, 128)]);
        assert_eq!(*bytes, 192);
        let text = suggestion(Language::C, &parts, order, 64);
        assert!(text.contains("_Alignas(64)") && text.ends_with("queue, issued, done"), "{text}");
    }
}
