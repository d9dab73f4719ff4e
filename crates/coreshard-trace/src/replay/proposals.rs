//! Layouts that would help, and what each is worth: the recording is replayed with the type's fields elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coreshard_sim::Machine;
use serde::Serialize;

use super::lines::{Line, Row};
use super::moved::{FieldMove, Moves};
use super::names::{Names, Thing, ThingKind};
use super::owners::NOBODY;
use super::plan::{Allocation, AllocationKind, Plan};
use super::report::{self, ReplayOptions, Replayed};
use crate::layout::Layout;
use crate::recording::{AccessKind, Recording, RecordingError};
use crate::types::{Language, Shape};

/// Types that proposals are made for.
const MOST_TYPES: usize = 3;
/// From the first ticket to the last.
const ALWAYS: (u64, u64) = (0, u64::MAX);
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
    /// The length of a line in bytes.
    pub line_bytes: u64,
    /// Its fields as they lie now, and who writes them.
    pub fields: Vec<FieldUse>,
    /// The part of the time that its lines cost which is for false sharing, from 0 to 1.
    pub false_share: f64,
    /// How long the program runs as it is, in nanoseconds.
    pub before_ns: f64,
    /// What its threads wait for lines as it is, in nanoseconds.
    pub lost_before_ns: f64,
    /// What could be done, the best first.
    pub proposals: Vec<Proposal>,
}

/// A field, and what threads do with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldUse {
    /// Its name.
    pub name: String,
    /// Where it begins, in bytes.
    pub offset_bytes: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Threads that write it, more than its making takes.
    pub writers: Vec<u32>,
    /// Accesses of shared lines, by all threads.
    pub uses: u64,
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
    place: Place,
}

/// Where a field may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Anywhere,
    /// It stays.
    Pinned,
    /// Behind all others: it is as long as its object's memory.
    Last,
}

/// Objects of one name, and what their lines cost.
#[derive(Default)]
struct Fought<'lines> {
    false_ps: u64,
    true_ps: u64,
    /// By their first byte.
    things: BTreeMap<u64, Thing>,
    /// Of which kinds these are, where they are pieces of memory.
    kinds: BTreeSet<AllocationKind>,
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
        let is_known = thing.of.is_some() || thing.element_bytes > 1;
        if !is_known || !matches!(thing.kind, ThingKind::Global | ThingKind::Heap) {
            continue;
        }
        let entry = by_name.entry(thing.name.clone()).or_default();
        entry.false_ps += line.false_ps;
        entry.true_ps += line.true_ps;
        entry.kinds.extend(thing.allocated);
        entry.things.insert(thing.start, thing);
        entry.lines.push(line);
    }
    let mut fought: Vec<_> = by_name.into_iter().filter(|(_, its)| its.false_ps > 0).collect();
    fought.sort_by_key(|(_, its)| std::cmp::Reverse(its.false_ps));
    let mut all = Vec::new();
    for (name, its) in fought.into_iter().take(MOST_TYPES) {
        let Fought { false_ps, true_ps, mut things, kinds, lines } = its;
        let Some(first) = things.values().next().cloned() else { continue };
        let lives = lives(&plan, &lines, &kinds, &first, &mut things);
        // What other things did there at other times is not done to these.
        let is_its = |row: &Row| {
            row.owner == NOBODY
                || plan
                    .allocations
                    .get(row.owner as usize)
                    .is_some_and(|its| kinds.contains(&its.kind()))
        };
        let rows: Vec<_> = lines
            .iter()
            .flat_map(|line| line.rows.iter().map(|row| (line.address, row)))
            .filter(|(_, row)| is_its(row))
            .collect();
        let Some((mut parts, language)) = parts(&first, &things, &rows, &mut names, line_bytes)
        else {
            continue;
        };
        let has_tail = parts.iter().any(|part| part.place == Place::Last);
        let size_bytes = match has_tail {
            true => things.values().map(|thing| thing.bytes).max().unwrap_or(1),
            false => first.element_bytes.max(1),
        };
        for pinned in parts.iter_mut().filter(|part| options.pinned.contains(&part.name)) {
            pinned.place = Place::Pinned;
        }
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
                let element_bytes = if has_tail { thing.bytes } else { size_bytes };
                for lives in lives.get(&thing.start).map_or(&[ALWAYS][..], Vec::as_slice) {
                    moves.add(thing.start, thing.bytes, element_bytes, &moved, new_bytes, *lives);
                }
                elements += thing.bytes.div_ceil(element_bytes.max(1));
            }
            let after = report::run(recording, machine, options, Some((&moves, &plan)))?.outcome;
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
            line_bytes,
            fields: parts.iter().map(Part::shown).collect(),
            false_share: false_ps as f64 / (false_ps + true_ps).max(1) as f64,
            before_ns,
            lost_before_ns,
            proposals,
        });
    }
    Ok(all)
}

impl Part {
    fn new(name: String, from: u64, bytes: u64, place: Place) -> Self {
        Self { name, from, bytes, writers: BTreeSet::new(), uses: 0, place }
    }

    fn shown(&self) -> FieldUse {
        FieldUse {
            name: self.name.clone(),
            offset_bytes: self.from,
            size_bytes: self.bytes,
            writers: self.writers.iter().copied().collect(),
            uses: self.uses,
        }
    }
}

/// When pieces of memory of these kinds were there, by their first byte, on these lines; all of them become `things` like
/// `first`. Where nothing else was, that is always, and has no entry.
fn lives(
    plan: &Plan,
    lines: &[&Line],
    kinds: &BTreeSet<AllocationKind>,
    first: &Thing,
    things: &mut BTreeMap<u64, Thing>,
) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let mut lives: BTreeMap<u64, BTreeSet<(u64, u64)>> = BTreeMap::new();
    let mut divided = BTreeSet::new();
    for line in lines {
        let Some(numbers) = plan.on_line.get(&line.address) else { continue };
        let all: Vec<_> = numbers.iter().map(|number| plan.allocations[*number as usize]).collect();
        let end = |its: &Allocation| its.address.saturating_add(its.bytes);
        for its in all.iter().filter(|its| kinds.contains(&its.kind())) {
            let others = all.iter().any(|other| {
                (other.address != its.address || other.kind() != its.kind())
                    && other.address < end(its)
                    && its.address < end(other)
            });
            if others {
                divided.insert(its.address);
            }
            lives.entry(its.address).or_default().insert((its.taken, its.given_back));
            things.entry(its.address).or_insert_with(|| Thing {
                start: its.address,
                bytes: its.bytes,
                ..first.clone()
            });
        }
    }
    lives.retain(|start, _| divided.contains(start));
    lives.into_iter().map(|(start, its)| (start, its.into_iter().collect())).collect()
}

/// The type's fields with who writes them; one part where an element has no fields, and where they overlap, as a union's do.
fn parts(
    first: &Thing,
    things: &BTreeMap<u64, Thing>,
    rows: &[(u64, &Row)],
    names: &mut Names<'_>,
    line_bytes: u64,
) -> Option<(Vec<Part>, Language)> {
    let Some((module, of)) = first.of else {
        // An array whose taking told how long its elements are.
        let element = Part::new("element".into(), 0, first.element_bytes, Place::Anywhere);
        return Some((vec![element], Language::C));
    };
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
            for field in fields {
                if field.is_flexible {
                    let longest = things.values().map(|thing| thing.bytes).max().unwrap_or(0);
                    let bytes = longest.saturating_sub(field.offset_bytes);
                    parts.push(Part::new(field.name, field.offset_bytes, bytes, Place::Last));
                    continue;
                }
                match parts.last_mut() {
                    _ if field.size_bytes == 0 => {}
                    Some(last) if field.offset_bytes < last.from + last.bytes => {
                        last.bytes = last.bytes.max(field.end_bytes() - last.from);
                    }
                    _ => parts.push(Part::new(
                        field.name,
                        field.offset_bytes,
                        field.size_bytes,
                        Place::Anywhere,
                    )),
                }
            }
            parts
        }
        _ => vec![Part::new("element".into(), 0, first.element_bytes, Place::Anywhere)],
    };
    let has_tail = parts.iter().any(|part| part.place == Place::Last);
    for (line, row) in rows {
        let address = line + u64::from(row.offset);
        let Some((start, thing)) = things.range(..=address).next_back() else { continue };
        if address >= start.saturating_add(thing.bytes) {
            continue;
        }
        let within = match has_tail {
            true => address - start,
            false => (address - start) % first.element_bytes.max(1),
        };
        let part =
            parts.iter_mut().find(|part| (part.from..part.from + part.bytes).contains(&within));
        let Some(part) = part else { continue };
        part.uses += row.count;
        // What is stored a time or two when the object is made does not count; nothing is made by reading it.
        if row.kind == AccessKind::Modify || (row.kind == AccessKind::Store && row.count > 4) {
            part.writers.extend(&row.threads);
        }
    }
    Some((parts, language))
}

/// The groups one after the other, each from the begin of a line on; and the size of it all. What is pinned stays, and others
/// come after it; a tail comes last.
fn placed(parts: &[Part], groups: &[Vec<usize>], line_bytes: u64) -> (Vec<(usize, u64)>, u64) {
    let of = |wanted: Place| -> Vec<usize> {
        (0..parts.len()).filter(|part| parts[*part].place == wanted).collect()
    };
    let mut order: Vec<_> =
        of(Place::Pinned).into_iter().map(|part| (part, parts[part].from)).collect();
    let mut at = order.iter().map(|(part, to)| to + parts[*part].bytes).max().unwrap_or(0);
    let is_free = |part: &&usize| parts[**part].place == Place::Anywhere;
    let free = groups.iter().map(|group| group.iter().filter(is_free).copied().collect());
    for group in free.chain([of(Place::Last)]).filter(|group: &Vec<usize>| !group.is_empty()) {
        at = at.next_multiple_of(line_bytes);
        for part in group {
            let Part { from, bytes, .. } = parts[part];
            let alignment = from.trailing_zeros().min(bytes.max(1).trailing_zeros()).min(4);
            at = at.next_multiple_of(1 << alignment);
            order.push((part, at));
            at += bytes;
        }
    }
    (order, at.next_multiple_of(line_bytes))
}

/// What can be done with the parts of a type: each with their new places, and the new size.
fn plans(parts: &[Part], size_bytes: u64, line_bytes: u64) -> Vec<Rearrangement> {
    let place = |groups: &[Vec<usize>]| placed(parts, groups, line_bytes);
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
        let mut part = Part::new(name.into(), from, 8, Place::Anywhere);
        part.writers.extend(writers);
        part
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

    #[test]
    fn what_is_pinned_stays_and_a_tail_is_last() {
        let mut parts = [
            part("queue", 0, &[]),
            part("issued", 8, &[2]),
            part("done", 16, &[3]),
            part("failed", 24, &[2]),
            part("text", 32, &[]),
        ];
        (parts[4].place, parts[4].bytes) = (Place::Last, 100);
        parts[1].place = Place::Pinned;
        let plans = plans(&parts, 132, 64);
        for (what, order, bytes) in &plans[1..] {
            let at = |part| order.iter().find(|(its, _)| *its == part).unwrap().1;
            assert_eq!(at(1), 8, "{what}");
            assert!(at(4) > (0..4).map(at).max().unwrap(), "{what}: {order:?}");
            assert!(*bytes >= at(4) + 100, "{what}");
            assert_ne!(at(2) / 64, at(1) / 64, "{what}: {order:?}");
        }
        assert_eq!(plans.len(), 4, "{plans:?}");
    }
}
