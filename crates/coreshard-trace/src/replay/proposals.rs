//! Proposes layouts, and replays the recording with each to measure its benefit.

use std::collections::{BTreeMap, BTreeSet};

use coreshard_sim::Machine;
use serde::Serialize;

use super::engine::{Outcome, ns};
use super::findings::{WORTH, name_of};
use super::lines::Line;
use super::moved::Moves;
use super::names::{Names, Thing};
use super::on_line::{OnLine, thing_of};
use super::owners::NOBODY;
use super::parts::{FieldUse, Parts};
use super::pieces::Piece;
use super::plan::{Allocation, AllocationKind, Plan};
use super::replayed::{self, ReplayOptions, Replayed};
use super::rows::Row;
use crate::recording::{KERNEL_ENGINE, Recording, RecordingError};

/// Types with proposals.
const MOST_TYPES: usize = 3;
/// From the first ticket to the last.
const ALWAYS: (u64, u64) = (0, u64::MAX);
/// Lines whose objects get a new layout.
const MOST_LINES: usize = 4_096;

/// A contended type and proposed layouts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeProposals {
    /// The name of the type or array.
    pub name: String,
    /// Number of its objects with a new layout.
    pub objects: usize,
    /// Current size of one object or element in bytes.
    pub size_bytes: u64,
    /// The length of a line in bytes.
    pub line_bytes: u64,
    /// Its fields in their current layout, with the threads that write them.
    pub fields: Vec<FieldUse>,
    /// The share of its lines' cost that is due to false sharing, from 0 to 1.
    pub false_share: f64,
    /// Duration of the program with the current layout, in nanoseconds.
    pub before_ns: f64,
    /// Time that threads wait for lines with the current layout, in nanoseconds.
    pub lost_before_ns: f64,
    /// Layouts, the best first. Layouts that gain less than a hundredth of the time are omitted, and so are layouts that
    /// take more memory than another one and gain no more.
    pub proposals: Vec<Proposal>,
}

/// A proposed layout.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proposal {
    /// A short description.
    pub what: &'static str,
    /// New size of one object or element in bytes.
    pub size_bytes: u64,
    /// Additional memory of all objects in bytes; negative if they become smaller.
    pub spent_bytes: i64,
    /// Predicted duration of the program in nanoseconds.
    pub after_ns: f64,
    /// Predicted time that threads wait for lines, in nanoseconds.
    pub lost_after_ns: f64,
    /// The fields in their new order, each with its new offset in bytes.
    pub order: Vec<(String, u64)>,
    /// The layout in the source's syntax.
    pub suggestion: String,
}

/// Objects with one name, and the cost of their lines.
#[derive(Default)]
struct Fought<'lines> {
    lost_ps: u64,
    false_ps: u64,
    true_ps: u64,
    /// By the address of their first byte.
    things: BTreeMap<u64, Thing>,
    /// Their kinds, if they are allocations.
    kinds: BTreeSet<AllocationKind>,
    lines: Vec<&'lines Line>,
}

/// Proposes layouts for the types with the costliest false sharing, and replays the recording with each layout. Types
/// and layouts that affect less than a hundredth of the threads' time are omitted.
///
/// # Errors
/// If the recording cannot be read. The message names the offset.
///
/// ```
/// use coreshard_sim::Machine;
/// use coreshard_trace::{About, Ending, Recording, RecordingWriter, ReplayOptions, propose_layouts};
///
/// let mut bytes = Vec::new();
/// RecordingWriter::new(&mut bytes, &About::default())?.finish(&Ending::default())?;
/// let recording = Recording::from_bytes(bytes)?;
/// let proposals = propose_layouts(&recording, &Machine::pocket(), &ReplayOptions::default())?;
/// assert!(proposals.is_empty(), "no threads fight");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn propose_layouts(
    recording: &Recording,
    machine: &Machine,
    options: &ReplayOptions,
) -> Result<Vec<TypeProposals>, RecordingError> {
    let before = replayed::run(recording, machine, options, None)?;
    let mut names = Names::new(&before.plan);
    let least = (before.outcome.running_ps as f64 * WORTH) as u64;
    let fights = Fights::of(&before.outcome, before.plan.line_bytes, &mut names).0.into_iter();
    let mut fought: Vec<_> =
        fights.filter(|(_, its)| its.false_ps > 0 && its.lost_ps > least).collect();
    fought.sort_by_key(|(_, its)| std::cmp::Reverse(its.false_ps));
    let trial = Trial { recording, machine, options, before: &before };
    let mut all = Vec::new();
    for (name, its) in fought.into_iter().take(MOST_TYPES) {
        all.extend(its.proposals(name, &trial, &mut names)?.map(|(found, _)| found));
    }
    Ok(all)
}

/// The replay that proposals are compared with.
pub(super) struct Trial<'r> {
    pub(super) recording: &'r Recording,
    pub(super) machine: &'r Machine,
    pub(super) options: &'r ReplayOptions,
    pub(super) before: &'r Replayed,
}

/// Objects whose lines threads wait for, by name.
pub(super) struct Fights<'lines>(BTreeMap<String, Fought<'lines>>);

impl<'lines> Fights<'lines> {
    pub(super) fn of(outcome: &'lines Outcome, line_bytes: u64, names: &mut Names<'_>) -> Self {
        let mut by_name: BTreeMap<String, Fought<'_>> = BTreeMap::new();
        for line in replayed::costliest(&outcome.lines, MOST_LINES) {
            let mut thing = thing_of(line, names);
            if !thing.has_elements() {
                // Its name in the verdict.
                let name = name_of(&OnLine::of(line, names), line, names);
                thing = thing.of_line(name, line.address, line_bytes);
            }
            let fought = by_name.entry(thing.name.clone()).or_default();
            fought.false_ps += line.false_ps;
            fought.true_ps += line.true_ps;
            fought.lost_ps += line.lost_ps;
            fought.kinds.extend(thing.allocated);
            fought.things.insert(thing.start, thing);
            fought.lines.push(line);
        }
        Self(by_name)
    }

    /// Returns the speed-up of the program with the best layout of an object, or none if no layout can be tried.
    pub(super) fn gain(
        &mut self,
        object: &str,
        trial: &Trial<'_>,
        names: &mut Names<'_>,
    ) -> Result<Option<Gain>, RecordingError> {
        let Some(its) = self.0.remove(object) else { return Ok(None) };
        let found = its.proposals(object.to_owned(), trial, names)?;
        Ok(found.map(|(found, moves)| {
            let best = found.proposals.first();
            let gain = best.map_or(1.0, |best| found.before_ns / best.after_ns.max(1.0));
            Gain { gain, best: best.map(|best| best.what).zip(moves) }
        }))
    }
}

/// The best layout of an object.
pub(super) struct Gain {
    /// The speed-up of the program.
    pub(super) gain: f64,
    /// A short description, and the new addresses; none if no layout gains.
    pub(super) best: Option<(&'static str, Moves)>,
}

/// Returns how long the program takes: until its last thread ends. Of a kernel, whose CPUs have different work, how long an
/// average CPU takes.
fn time_ns(recording: &Recording, outcome: &Outcome) -> f64 {
    match recording.about().engine == KERNEL_ENGINE {
        true => outcome.mean_ns(),
        false => ns(outcome.virtual_ps),
    }
}

impl Fought<'_> {
    /// Replays each layout of the type. Returns none if its fields are unknown.
    fn proposals(
        mut self,
        name: String,
        trial: &Trial<'_>,
        names: &mut Names<'_>,
    ) -> Result<Option<(TypeProposals, Option<Moves>)>, RecordingError> {
        let Trial { recording, machine, options, before } = *trial;
        let line_bytes = machine.line_bytes() as u64;
        let before_ns = time_ns(recording, &before.outcome);
        let Some(first) = self.things.values().next().cloned() else { return Ok(None) };
        let lives = self.lives(&before.plan, &first);
        let longest_bytes = self.things.values().map(|thing| thing.bytes).max().unwrap_or(1);
        let mut parts = if first.has_elements() && first.is_whole {
            match Parts::of(&first, longest_bytes, names, line_bytes) {
                Some(parts) => parts,
                None => return Ok(None),
            }
        } else {
            Parts::of_words(self.lines.iter().copied(), line_bytes)
        };
        let has_tail = parts.has_tail();
        let size_bytes = if has_tail { longest_bytes } else { first.element_bytes.max(1) };
        let element_bytes = |thing: &Thing| if has_tail { thing.bytes } else { size_bytes };
        self.note_uses(&mut parts, &before.plan, element_bytes);
        parts.pin(&options.pinned);
        let mut proposals: Vec<(Proposal, Moves)> = Vec::new();
        for arranged in parts.arrangements(size_bytes) {
            let moved = parts.moves(&arranged);
            let (new_bytes, mut moves, mut elements) = (arranged.size_bytes, Moves::default(), 0);
            for thing in self.things.values() {
                let element_bytes = element_bytes(thing);
                for lives in lives.get(&thing.start).map_or(&[ALWAYS][..], Vec::as_slice) {
                    moves.add(thing.start, thing.bytes, element_bytes, &moved, new_bytes, *lives);
                }
                elements += thing.bytes.div_ceil(element_bytes.max(1));
            }
            let after = replayed::run(recording, machine, options, Some((&moves, &before.plan)))?;
            let after = after.outcome;
            let after_ns = time_ns(recording, &after);
            if after_ns > (1.0 - WORTH) * before_ns {
                continue;
            }
            let proposal = Proposal {
                what: arranged.what,
                size_bytes: new_bytes,
                spent_bytes: (new_bytes as i64 - size_bytes as i64).saturating_mul(elements as i64),
                after_ns,
                lost_after_ns: ns(after.lost_ps),
                suggestion: parts.suggestion(&arranged),
                order: parts.order(&arranged),
            };
            proposals.push((proposal, moves));
        }
        proposals.sort_by(|(a, _), (b, _)| {
            a.after_ns.total_cmp(&b.after_ns).then(a.spent_bytes.cmp(&b.spent_bytes))
        });
        // A larger layout has to be faster.
        let all: Vec<_> =
            proposals.iter().map(|(its, _)| (its.spent_bytes, its.after_ns)).collect();
        proposals.retain(|(its, _)| {
            let is_better = |(spent_bytes, after_ns): &(i64, f64)| {
                *spent_bytes < its.spent_bytes && *after_ns <= (1.0 + WORTH) * its.after_ns
            };
            !all.iter().any(is_better)
        });
        let (proposals, moves): (Vec<_>, Vec<_>) = proposals.into_iter().unzip();
        let found = TypeProposals {
            name,
            objects: self.things.len(),
            size_bytes,
            line_bytes,
            fields: parts.uses(),
            false_share: self.false_ps as f64 / (self.false_ps + self.true_ps).max(1) as f64,
            before_ns,
            lost_before_ns: ns(before.outcome.lost_ps),
            proposals,
        };
        Ok(Some((found, moves.into_iter().next())))
    }

    /// Records the threads that use the fields. Other objects that had the same address at other times are ignored.
    fn note_uses(&self, parts: &mut Parts, plan: &Plan, element_bytes: impl Fn(&Thing) -> u64) {
        let is_its = |row: &&Row| {
            let owner = plan.allocations.get(row.owner as usize);
            self.kinds.is_empty()
                || row.owner == NOBODY
                || owner.is_some_and(|its| self.kinds.contains(&its.kind()))
        };
        for line in &self.lines {
            for row in line.rows.iter().filter(is_its) {
                let address = line.address + u64::from(row.offset);
                let Some((_, thing)) = self.things.range(..=address).next_back() else { continue };
                let within = address - thing.start;
                if within < thing.bytes {
                    parts.note(within % element_bytes(thing).max(1), row);
                }
            }
        }
    }

    /// Returns the lifetimes of allocations of these kinds by their first byte, and adds all such allocations on these
    /// lines to the objects, as copies of `first`. An allocation whose memory no other object had is treated as
    /// permanent and omitted.
    fn lives(&mut self, plan: &Plan, first: &Thing) -> BTreeMap<u64, Vec<(u64, u64)>> {
        let mut lives: BTreeMap<u64, BTreeSet<(u64, u64)>> = BTreeMap::new();
        let mut divided = BTreeSet::new();
        for line in &self.lines {
            let Some(numbers) = plan.on_line.get(&line.address) else { continue };
            let all: Vec<_> =
                numbers.iter().map(|number| plan.allocations[*number as usize]).collect();
            for its in all.iter().filter(|its| self.kinds.contains(&its.kind())) {
                let Piece { start, taken, given_back, .. } = its.piece;
                let is_other =
                    |other: &&Allocation| other.piece.start != start || other.kind() != its.kind();
                if all.iter().filter(is_other).any(|other| other.piece.overlaps(&its.piece)) {
                    divided.insert(start);
                }
                lives.entry(start).or_default().insert((taken, given_back));
                let alike = || Thing { start, bytes: its.bytes, ..first.clone() };
                self.things.entry(start).or_insert_with(alike);
            }
        }
        lives.retain(|start, _| divided.contains(start));
        lives.into_iter().map(|(start, its)| (start, its.into_iter().collect())).collect()
    }
}
