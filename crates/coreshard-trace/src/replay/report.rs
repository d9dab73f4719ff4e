//! The results of a replay, with names.

use std::collections::BTreeMap;

use coreshard_sim::Machine;
use serde::Serialize;

use super::accessor::Seen;
use super::advice::{Advice, Sharing};
use super::apart::{SeparateFields, separate};
use super::engine::{LockWaits, ThreadView, ns};
use super::findings::{Finding, findings};
use super::lines::Line;
use super::names::{Names, Thing, ThingKind};
use super::on_line::{OnLine, seen_from};
use super::owners::NOBODY;
use super::plan::{Plan, is_c_library};
use super::proposals::{Fights, Trial};
use super::replayed::{ReplayOptions, Replayed, costliest, run};
use crate::recording::{AccessKind, Recording, RecordingError};
use crate::types::SourcePlace;

/// Locks in a report.
const MOST_LOCKS: usize = 20;
/// Number of findings whose layouts are tried immediately, and the maximum length of a recording for that, in accesses.
/// This takes a few seconds.
const MOST_TRIED: usize = 2;
const MOST_ACCESSES_TRIED: u64 = 2_000_000;
/// Lines that are attributed to objects, the costliest first.
const MOST_OBJECT_LINES: usize = 1 << 17;

/// The predicted effect of a machine's caches on a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// The machine's name.
    pub machine: String,
    /// The length of a line in bytes.
    pub line_bytes: u64,
    /// Accesses of all threads.
    pub accesses: u64,
    /// Duration of the recorded part of the program, in nanoseconds.
    pub virtual_ns: f64,
    /// Time that all threads waited for lines that other threads had, in nanoseconds.
    pub lost_ns: f64,
    /// The part of that time for lines that the threads had held before other threads took them, in nanoseconds. The
    /// rest is for lines that a thread accesses for the first time.
    pub taken_back_ns: f64,
    /// Running time of all threads in nanoseconds: until each ended, without its waits for other threads.
    pub running_ns: f64,
    /// Objects that cost at least a hundredth of that time, the costliest first.
    pub findings: Vec<Finding>,
    /// Number of lines that several threads access and at least one writes.
    pub shared_lines: usize,
    /// The costliest shared lines.
    pub lines: Vec<LineView>,
    /// The same costs by object, for all lines.
    pub objects: Vec<ObjectView>,
    /// Locks that threads waited for, the longest waits first.
    pub locks: Vec<LockView>,
    /// The effect of fields on separate lines, if [`ReplayOptions::apart`] names some.
    pub apart: Option<SeparateFields>,
    /// By thread.
    pub threads: Vec<ThreadView>,
    /// Known gaps of the recording, and other remarks.
    pub notes: Vec<String>,
}

/// A lock that threads waited for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LockView {
    /// The object that contains it.
    pub object: String,
    /// The field that contains it; empty if the lock is the object itself.
    pub field: String,
    /// Number of times that a thread found it held.
    pub waits: u64,
    /// Time that threads waited for it, in nanoseconds.
    pub waited_ns: f64,
    /// Number of times that a thread held it alone.
    pub holds: u64,
    /// Time that threads held it alone, in nanoseconds.
    pub held_ns: f64,
}

/// A line that several threads access.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineView {
    /// Its address in the recorded program.
    pub address: u64,
    /// The object on it.
    pub object: String,
    /// Whether it is a global, heap memory, or a stack.
    pub kind: ThingKind,
    /// True or false sharing, by time.
    pub sharing: Sharing,
    /// The remedy.
    pub advice: Advice,
    /// The same in a sentence.
    pub sentence: &'static str,
    /// Whether it is internal data of the C library.
    pub is_c_library: bool,
    /// Time that accesses waited for it, in nanoseconds.
    pub cost_ns: f64,
    /// Time that threads waited for it after they had held it before, in nanoseconds. A store may wait while its thread
    /// continues.
    pub lost_ns: f64,
    /// The part of its cost for bytes that other threads had written.
    pub true_ns: f64,
    /// The part of its cost for bytes that no other thread had written.
    pub false_ns: f64,
    /// Loads and read-modify-writes that found it modified in the cache of a CPU in another package.
    pub hitm_remote: u64,
    /// The same for another CPU in the same package.
    pub hitm_local: u64,
    /// Stores.
    pub stores: u64,
    /// The accesses to its bytes, with their source positions.
    pub words: Vec<WordView>,
}

/// The accesses of one source position to some bytes of a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WordView {
    /// The offset in the line in bytes.
    pub offset: u64,
    /// The number of bytes.
    pub size_bytes: u64,
    /// The field, if known.
    pub field: String,
    /// Load, store or read-modify-write.
    pub access: AccessKind,
    /// Whether it is atomic.
    pub is_atomic: bool,
    /// The number of accesses.
    pub count: u64,
    /// The number of misses.
    pub misses: u64,
    /// Time that the accesses waited, in nanoseconds.
    pub cost_ns: f64,
    /// Time that threads waited here for a line that they had held before, in nanoseconds.
    pub lost_ns: f64,
    /// The threads that made the accesses.
    pub threads: Vec<u32>,
    /// The source position.
    pub place: SourcePlace,
}

/// One object, or all objects of a kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectView {
    /// The name of the object.
    pub object: String,
    /// Whether it is a global, heap memory, or a stack.
    pub kind: ThingKind,
    /// For a global, the executable or library that contains it; otherwise empty.
    pub file: String,
    /// Number of lines on which threads waited for it.
    pub lines: usize,
    /// Time that accesses to it waited, in nanoseconds.
    pub cost_ns: f64,
    /// The part of that time that is due to false sharing.
    pub false_ns: f64,
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
/// If the recording cannot be read. The message names the offset.
pub fn replay(
    recording: &Recording,
    machine: &Machine,
    options: &ReplayOptions,
) -> Result<ReplayReport, RecordingError> {
    let before = run(recording, machine, options, None)?;
    let Replayed { plan, outcome } = &before;
    let mut names = Names::new(plan);
    let shared_lines = outcome.lines.iter().filter(|line| !line.rows.is_empty()).count();
    let costliest = costliest(&outcome.lines, options.most_lines);
    let lines: Vec<_> = costliest.iter().map(|line| view(line, plan, &mut names)).collect();
    let objects = objects(&outcome.lines, &mut names);
    let mut findings = findings(outcome, plan, &mut names);
    predict(&mut findings, recording, machine, options, &before, &mut names)?;
    let apart = match &options.apart[..] {
        [] => None,
        _ => Some(separate(recording, machine, options, &before, &mut names)?),
    };
    let mut notes = notes_of(recording, &before);
    let locks = locks(&outcome.locks, &mut names);
    notes.append(&mut names.notes);
    Ok(ReplayReport {
        machine: machine.topology().name().to_owned(),
        line_bytes: machine.line_bytes() as u64,
        accesses: plan.accesses,
        virtual_ns: ns(outcome.virtual_ps),
        lost_ns: outcome.threads.iter().map(|thread| thread.lost_ns).sum(),
        taken_back_ns: ns(outcome.lines.iter().map(|line| line.lost_ps).sum()),
        running_ns: ns(outcome.running_ps),
        findings,
        shared_lines,
        objects,
        lines,
        locks,
        apart,
        threads: outcome.threads.clone(),
        notes,
    })
}

/// Returns the first locks with their names.
fn locks(waits: &[(u64, LockWaits)], names: &mut Names<'_>) -> Vec<LockView> {
    let named = |(address, waits): &(u64, LockWaits)| {
        let seen = Seen { ticket: u64::MAX, owner: NOBODY };
        let thing = names.thing(*address, seen, &[]);
        LockView {
            field: names.field(&thing, *address),
            object: thing.name,
            waits: waits.count,
            waited_ns: ns(waits.waited_ps),
            holds: waits.held_count,
            held_ns: ns(waits.held_ps),
        }
    };
    waits.iter().take(MOST_LOCKS).map(named).collect()
}

/// Predicts the gain of the first findings if the recording is short.
fn predict(
    findings: &mut [Finding],
    recording: &Recording,
    machine: &Machine,
    options: &ReplayOptions,
    before: &Replayed,
    names: &mut Names<'_>,
) -> Result<(), RecordingError> {
    if before.plan.accesses > MOST_ACCESSES_TRIED {
        return Ok(());
    }
    let trial = Trial { recording, machine, options, before };
    let mut fights = None;
    let its = findings.iter_mut().filter(|its| its.advice.is_of_layout() && !its.is_c_library);
    for finding in its.take(MOST_TRIED) {
        let fights = fights
            .get_or_insert_with(|| Fights::of(&before.outcome, before.plan.line_bytes, names));
        let Some(found) = fights.gain(&finding.object, &trial, names)? else { continue };
        finding.gain = Some(found.gain);
        if let (Some(picture), Some((what, moves))) = (&mut finding.picture, &found.best) {
            picture.lay_out(what, moves);
        }
    }
    Ok(())
}

/// Returns the gaps of the recording and of its replay.
fn notes_of(recording: &Recording, replayed: &Replayed) -> Vec<String> {
    let mut notes: Vec<String> =
        recording.lacks().iter().map(|lack| format!("the recording lacks {lack}")).collect();
    notes.extend(replayed.plan.notes.iter().cloned());
    if recording.about().engine == "qemu" && replayed.plan.has_recorder() {
        notes.push(
            "the program was built for the engine tsan, whose recorder's own accesses are here, too: build it without \
             those flags for emulation"
                .to_owned(),
        );
    }
    if replayed.outcome.edges_broken > 0 {
        notes.push(format!(
            "{} waits ended early, because the event that they waited for was not recorded",
            replayed.outcome.edges_broken
        ));
    }
    if replayed.outcome.lines_left_out > 0 {
        notes.push(format!(
            "{} accesses of lines beyond the maximum number were not counted",
            replayed.outcome.lines_left_out
        ));
    }
    if replayed.outcome.pieces_moved > 0 {
        notes.push(format!(
            "memory that one thread gave back and another took has another place where both have it at once here: {} of {} such \
             pieces",
            replayed.outcome.pieces_moved, replayed.outcome.pieces_reused
        ));
    }
    notes
}

fn view(line: &Line, plan: &Plan, names: &mut Names<'_>) -> LineView {
    let on_line = OnLine::of(line, names);
    let advice = on_line.judge(plan, names).advice;
    let mut rows: Vec<_> = (0..line.rows.len()).collect();
    rows.sort_by_key(|row| {
        let row = &line.rows[*row];
        (row.offset, std::cmp::Reverse(row.costs().cost_ps), row.instruction)
    });
    let words = rows.into_iter().map(|row| word(line, row, &on_line, names)).collect();
    LineView {
        address: line.address,
        sharing: Sharing::of(line.true_ps, line.false_ps),
        advice,
        sentence: advice.sentence(),
        cost_ns: ns(line.cost_ps),
        lost_ns: ns(line.lost_ps),
        true_ns: ns(line.true_ps),
        false_ns: ns(line.false_ps),
        hitm_remote: line.rows.iter().map(|row| row.costs().hitm_remote).sum(),
        hitm_local: line.rows.iter().map(|row| row.costs().hitm_local).sum(),
        stores: line.stores,
        words,
        is_c_library: is_c_library(&on_line.thing.file),
        kind: on_line.thing.kind,
        object: on_line.thing.name,
    }
}

fn word(line: &Line, number: usize, on_line: &OnLine<'_>, names: &mut Names<'_>) -> WordView {
    let row = &line.rows[number];
    WordView {
        offset: u64::from(row.offset),
        size_bytes: u64::from(row.size_bytes),
        field: on_line.field(number, names),
        access: row.kind,
        is_atomic: row.is_atomic,
        count: row.count,
        misses: row.costs().misses,
        cost_ns: ns(row.costs().cost_ps),
        lost_ns: ns(row.costs().lost_ps),
        threads: row.threads().collect(),
        place: names.place(row.instruction),
    }
}

/// Returns the cost of each object on all of its lines. Other objects on the same lines are counted separately.
fn objects(lines: &[Line], names: &mut Names<'_>) -> Vec<ObjectView> {
    let mut by_name: BTreeMap<(String, String), ObjectView> = BTreeMap::new();
    for line in costliest(lines, MOST_OBJECT_LINES) {
        let mut things: Vec<(Thing, u64, u64)> = Vec::new();
        let rows: Vec<_> = line.rows.iter().collect();
        for row in rows.iter().filter(|row| row.costs().cost_ps > 0) {
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
            things[at].1 += row.costs().cost_ps;
            things[at].2 += row.costs().false_ps;
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
