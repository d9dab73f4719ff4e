//! The results of a replay, with names.

use std::collections::BTreeMap;

use coreshard_sim::{Machine, Placement};
use serde::Serialize;

use super::advice::{Advice, Sharing, Use, judge};
use super::engine::{Outcome, Replay, ThreadView, ns};
use super::lines::{Line, Row, Seen};
use super::moved::Moves;
use super::names::{Names, Thing, ThingKind};
use super::owners::NOBODY;
use super::plan::Plan;
use crate::recording::{AccessKind, Recording, RecordingError};
use crate::types::SourcePlace;

/// Writes that an object's making may be.
const FEW: u64 = 4;
/// Lines that count for their objects, the costliest first.
const MOST_OBJECT_LINES: usize = 1 << 17;

/// How a recording is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Which CPUs the threads have.
    pub placement: Placement,
    /// How many threads, one after the other, share a CPU.
    pub threads_per_cpu: usize,
    /// How many lines get names, the costliest first.
    pub most_lines: usize,
    /// Fields that proposed layouts leave where they are: an interface's.
    pub pinned: Vec<String>,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            placement: Placement::default(),
            threads_per_cpu: 1,
            most_lines: 20,
            pinned: Vec::new(),
        }
    }
}

/// What a machine's caches would do to a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// The machine's name.
    pub machine: String,
    /// The length of its lines in bytes.
    pub line_bytes: u64,
    /// Accesses of all threads.
    pub accesses: u64,
    /// How long the program would run, in nanoseconds, as far as was recorded.
    pub virtual_ns: f64,
    /// What all threads together waited for lines that others had, in nanoseconds.
    pub lost_ns: f64,
    /// Lines that several threads touch, and one of them writes.
    pub shared_lines: usize,
    /// The costliest of them.
    pub lines: Vec<LineView>,
    /// The same time by object, of all lines.
    pub objects: Vec<ObjectView>,
    /// By thread.
    pub threads: Vec<ThreadView>,
    /// What the recording lacks, and other remarks.
    pub notes: Vec<String>,
}

/// A line that several threads touch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineView {
    /// Its address in the recorded program.
    pub address: u64,
    /// What lies on it.
    pub object: String,
    /// Whether that is a global, a piece of memory, or a stack.
    pub kind: ThingKind,
    /// True or false sharing, by time.
    pub sharing: Sharing,
    /// What helps.
    pub advice: Advice,
    /// The same in a sentence.
    pub sentence: &'static str,
    /// What accesses waited for it, in nanoseconds.
    pub cost_ns: f64,
    /// The part of it for bytes that others had written.
    pub true_ns: f64,
    /// The part of it for bytes that no other thread had written.
    pub false_ns: f64,
    /// Loads and read-modify-writes that found it modified in a CPU of another package.
    pub hitm_remote: u64,
    /// The same in another CPU of the package.
    pub hitm_local: u64,
    /// Stores.
    pub stores: u64,
    /// What was done to which of its bytes, from where.
    pub words: Vec<WordView>,
}

/// What one place of the source did to some bytes of a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WordView {
    /// Where in the line, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub size_bytes: u64,
    /// The field, as far as it is known.
    pub field: String,
    /// Load, store or both at once.
    pub access: AccessKind,
    /// Whether it is atomic.
    pub is_atomic: bool,
    /// How often.
    pub count: u64,
    /// How often the line was elsewhere.
    pub misses: u64,
    /// What it waited, in nanoseconds.
    pub cost_ns: f64,
    /// By which threads.
    pub threads: Vec<u32>,
    /// From where.
    pub place: SourcePlace,
}

/// Equal objects, or one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectView {
    /// What it is.
    pub object: String,
    /// Whether that is a global, a piece of memory, or a stack.
    pub kind: ThingKind,
    /// Of a global, the file of code that has it; of others, nothing.
    pub file: String,
    /// Lines on which threads waited for it.
    pub lines: usize,
    /// What accesses to it waited, in nanoseconds.
    pub cost_ns: f64,
    /// The part of it for false sharing.
    pub false_ns: f64,
}

/// A replay's outcome with what it takes to give it names.
pub(super) struct Replayed {
    pub(super) plan: Plan,
    pub(super) outcome: Outcome,
}

/// Replays; with moves and the plan of what is not moved, with memory where the former put it.
pub(super) fn run(
    recording: &Recording,
    machine: &Machine,
    options: &ReplayOptions,
    moves: Option<(&Moves, &Plan)>,
) -> Result<Replayed, RecordingError> {
    let mut plan = Plan::of(recording, machine.line_bytes(), moves.map(|(moves, _)| moves))?;
    // The recorded addresses tell which thread had which memory.
    if let Some((_, unmoved)) = moves {
        plan.reuse = std::sync::Arc::clone(&unmoved.reuse);
    }
    let moves = moves.map(|(moves, _)| moves);
    let replay = Replay::new(
        recording,
        &mut plan,
        moves,
        machine,
        &options.placement,
        options.threads_per_cpu,
    );
    let outcome = replay.run()?;
    Ok(Replayed { plan, outcome })
}

/// Replays a recording on a machine.
///
/// ```
/// use coreshard_sim::Machine;
/// use coreshard_trace::{About, Ending, Recording, RecordingWriter, ReplayOptions, replay};
///
/// let mut bytes = Vec::new();
/// RecordingWriter::new(&mut bytes, &About::default())?.finish(&Ending::default())?;
/// let recording = Recording::from_bytes(bytes)?;
/// let report = replay(&recording, &Machine::pocket(), &ReplayOptions::default())?;
/// assert_eq!(report.accesses, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the recording cannot be read; the text names the offset.
pub fn replay(
    recording: &Recording,
    machine: &Machine,
    options: &ReplayOptions,
) -> Result<ReplayReport, RecordingError> {
    let Replayed { plan, outcome } = run(recording, machine, options, None)?;
    let mut notes: Vec<String> =
        recording.lacks().iter().map(|lack| format!("the recording lacks {lack}")).collect();
    notes.extend(plan.notes.iter().cloned());
    if recording.about().engine == "qemu" && plan.has_recorder() {
        notes.push(
            "the program was built for the engine tsan, whose recorder's own accesses are here, too: build it without \
             those flags for emulation"
                .to_owned(),
        );
    }
    if outcome.edges_broken > 0 {
        notes.push(format!(
            "{} waits ended without what they waited for, which was not recorded",
            outcome.edges_broken
        ));
    }
    if outcome.lines_left_out > 0 {
        notes
            .push(format!("{} accesses of more lines than are told apart", outcome.lines_left_out));
    }
    if outcome.pieces_moved > 0 {
        notes.push(format!(
            "memory that one thread gave back and another took has another place where both have it at once here: {} of {} such \
             pieces",
            outcome.pieces_moved, outcome.pieces_reused
        ));
    }
    let mut names = Names::new(&plan);
    let shared_lines = outcome.lines.iter().filter(|line| !line.rows.is_empty()).count();
    let costliest = costliest(&outcome.lines, options.most_lines);
    let lines: Vec<_> = costliest.iter().map(|line| view(line, &plan, &mut names)).collect();
    let objects = objects(&outcome.lines, &mut names);
    notes.append(&mut names.notes);
    Ok(ReplayReport {
        machine: machine.topology().name().to_owned(),
        line_bytes: machine.line_bytes() as u64,
        accesses: plan.accesses,
        virtual_ns: ns(outcome.virtual_ps),
        lost_ns: outcome.threads.iter().map(|thread| thread.lost_ns).sum(),
        shared_lines,
        objects,
        lines,
        threads: outcome.threads,
        notes,
    })
}

/// The lines that cost most; of equal ones, that of the lower address.
pub(super) fn costliest(lines: &[Line], most: usize) -> Vec<&Line> {
    let mut all: Vec<_> = lines.iter().filter(|line| line.true_ps + line.false_ps > 0).collect();
    all.sort_by(|a, b| b.cost_ps.cmp(&a.cost_ps).then(a.address.cmp(&b.address)));
    all.truncate(most);
    all
}

/// What lies where a line's costliest access was.
pub(super) fn thing_of(line: &Line, names: &mut Names<'_>) -> Thing {
    let mut rows: Vec<_> = line.rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.cost_ps, row.count)));
    let first = rows.first();
    let address = line.address + first.map_or(0, |row| u64::from(row.offset));
    let seen = first.map_or(Seen { ticket: 0, owner: NOBODY }, |row| row.seen());
    let kind = first.map_or(0, |row| row.owner_kind);
    names.thing(address, seen, &seen_from(&rows, kind))
}

/// The instructions that access what is of this kind on a line.
fn seen_from(rows: &[&Row], owner_kind: u32) -> Vec<u64> {
    let its = rows.iter().filter(|row| row.owner_kind == owner_kind);
    its.map(|row| row.instruction).collect()
}

fn view(line: &Line, plan: &Plan, names: &mut Names<'_>) -> LineView {
    let thing = thing_of(line, names);
    let words = uses(line, plan, &thing);
    let (sharing, advice) = judge(line.true_ps, line.false_ps, &words);
    let mut rows: Vec<_> = line.rows.iter().collect();
    rows.sort_by_key(|row| (row.offset, std::cmp::Reverse(row.cost_ps), row.instruction));
    let words = rows.iter().map(|row| word(line, row, &thing, names)).collect();
    LineView {
        address: line.address,
        object: thing.name.clone(),
        kind: thing.kind,
        sharing,
        advice,
        sentence: advice.sentence(),
        cost_ns: ns(line.cost_ps),
        true_ns: ns(line.true_ps),
        false_ns: ns(line.false_ps),
        hitm_remote: line.rows.iter().map(|row| row.hitm_remote).sum(),
        hitm_local: line.rows.iter().map(|row| row.hitm_local).sum(),
        stores: line.stores,
        words,
    }
}

fn word(line: &Line, row: &Row, thing: &Thing, names: &mut Names<'_>) -> WordView {
    let address = line.address + u64::from(row.offset);
    let other = match thing.is_whole && thing.holds(address) && row.owner == NOBODY {
        true => None,
        false => Some(names.thing(address, row.seen(), &[row.instruction])),
    };
    let field = match other.filter(|other| !other.is_same(thing)) {
        None => names.field(thing, address),
        // Its neighbour is another object, or another object was there at another time.
        Some(other) => {
            let field = names.field(&other, address);
            if field.is_empty() { other.name } else { format!("{}: {field}", other.name) }
        }
    };
    WordView {
        offset: u64::from(row.offset),
        size_bytes: u64::from(row.size_bytes),
        field,
        access: row.kind,
        is_atomic: row.is_atomic,
        count: row.count,
        misses: row.misses,
        cost_ns: ns(row.cost_ps),
        threads: row.threads.clone(),
        place: names.place(row.instruction),
    }
}

/// A line's words, each with all that was done to it.
fn uses(line: &Line, plan: &Plan, thing: &Thing) -> Vec<Use> {
    let mut words: BTreeMap<u64, (Use, Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for row in &line.rows {
        let offset = u64::from(row.offset) / 8 * 8;
        let address = line.address + offset;
        let within = address.saturating_sub(thing.start);
        let is_lock = plan.locks.contains(&(address / 8 * 8))
            || (plan.is_c_library(row.instruction) && plan.is_in_lock(address));
        // Of what is no array, all is one element.
        let element = within.checked_div(thing.element_bytes).unwrap_or(0);
        let (word, readers, writers) = words.entry(offset).or_insert_with(|| {
            let word = Use { is_lock, element, ..Use::default() };
            (word, Vec::new(), Vec::new())
        });
        word.is_lock |= is_lock;
        word.locked += row.locked;
        word.misses += row.misses;
        let threads = if row.kind == AccessKind::Load {
            word.reads += row.count;
            readers
        } else {
            word.writes += row.count;
            // A thread that writes it a time or two when it is made does not count as a writer.
            if row.count <= FEW {
                continue;
            }
            writers
        };
        threads.extend(&row.threads);
        threads.sort_unstable();
        threads.dedup();
    }
    let counted = |(word, readers, writers): (Use, Vec<u32>, Vec<u32>)| Use {
        readers: readers.len(),
        writers: writers.len(),
        ..word
    };
    words.into_values().map(counted).collect()
}

/// What all accesses to an object cost, on however many lines: what lies beside it on one of them is another object.
fn objects(lines: &[Line], names: &mut Names<'_>) -> Vec<ObjectView> {
    let mut by_name: BTreeMap<(String, String), ObjectView> = BTreeMap::new();
    for line in costliest(lines, MOST_OBJECT_LINES) {
        let mut things: Vec<(Thing, u64, u64)> = Vec::new();
        let rows: Vec<_> = line.rows.iter().collect();
        for row in rows.iter().filter(|row| row.cost_ps > 0) {
            let address = line.address + u64::from(row.offset);
            let at = match row.owner {
                NOBODY => things.iter().position(|(its, ..)| its.is_whole && its.holds(address)),
                _ => None,
            };
            let at = at.unwrap_or_else(|| {
                let from = seen_from(&rows, row.owner_kind);
                let its = names.thing(address, row.seen(), &from);
                things.iter().position(|(thing, ..)| thing.is_same(&its)).unwrap_or_else(|| {
                    things.push((its, 0, 0));
                    things.len() - 1
                })
            });
            things[at].1 += row.cost_ps;
            things[at].2 += row.false_ps;
        }
        for (thing, cost_ps, false_ps) in things {
            let key = (thing.name.clone(), thing.file.clone());
            let its = by_name.entry(key).or_insert(ObjectView {
                object: thing.name,
                kind: thing.kind,
                file: thing.file,
                lines: 0,
                cost_ns: 0.0,
                false_ns: 0.0,
            });
            its.lines += 1;
            its.cost_ns += ns(cost_ps);
            its.false_ns += ns(false_ps);
        }
    }
    let mut objects: Vec<_> = by_name.into_values().collect();
    objects.sort_by(|a, b| b.cost_ns.total_cmp(&a.cost_ns));
    objects
}
