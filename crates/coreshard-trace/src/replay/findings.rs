//! The objects that cost the program most, with the lines of each object combined.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::advice::{Advice, Sharing, of_lines};
use super::engine::{Outcome, ns};
use super::lines::Line;
use super::names::{Names, ThingKind};
use super::on_line::{FEW, OnLine};
use super::picture::LinePicture;
use super::plan::{Plan, is_c_library};
use super::rows::Row;
use crate::recording::AccessKind;
use crate::types::SourcePlace;

/// Smallest share of the threads' running time that makes an object a finding.
pub(super) const WORTH: f64 = 0.01;
/// Lines that are attributed to objects, the costliest first.
const MOST_LINES: usize = 1 << 17;
/// Findings in one replay.
const MOST_FINDINGS: usize = 20;
/// Fields of a finding, and other objects on its lines.
const MOST_FIELDS: usize = 4;
/// Fields with a smaller share of their object's loss are not listed.
const LEAST_FIELD: f64 = 0.05;

/// An object whose lines threads wait for. Objects with the same type and allocation site are combined.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The variable, or the type and its allocation site.
    pub object: String,
    /// Whether it is a global, heap memory, or a stack.
    pub kind: ThingKind,
    /// For a global, the executable or library that contains it; otherwise empty.
    pub file: String,
    /// Whether it is internal data of the C library.
    pub is_c_library: bool,
    /// Other objects on the same lines that cost time as well.
    pub beside: Vec<String>,
    /// The costliest fields, in descending order.
    pub fields: Vec<FindingField>,
    /// The source line that loses most time.
    pub place: SourcePlace,
    /// Time that threads waited for lines that they had held before, in nanoseconds.
    pub lost_ns: f64,
    /// That time as a share of the running time of all threads, from 0 to 1.
    pub share: f64,
    /// True or false sharing, by time.
    pub sharing: Sharing,
    /// The remedy.
    pub advice: Advice,
    /// Cause and remedy in a few words.
    pub summary: &'static str,
    /// The speed-up of the program with the best layout that was tried; none if none was tried.
    pub gain: Option<f64>,
    /// The words of its costliest line, for a drawing.
    #[serde(skip)]
    pub picture: Option<LinePicture>,
}

/// A field of a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FindingField {
    /// Its path in the object or element; empty if the object is one word.
    pub field: String,
    /// The threads that write it, or the threads that read it if none writes it.
    pub threads: Vec<u32>,
}

/// The costs of one object's lines.
#[derive(Default)]
struct ObjectCost {
    lost_ps: u64,
    true_ps: u64,
    false_ps: u64,
    kind: Option<ThingKind>,
    picture: Option<LinePicture>,
    /// The lines' weight and lost time by advice.
    advice: BTreeMap<Advice, (f64, u64)>,
    fields: BTreeMap<String, FieldCost>,
    beside: BTreeMap<String, u64>,
    /// Lost time by instruction.
    places: BTreeMap<u64, u64>,
}

#[derive(Default)]
struct FieldCost {
    lost_ps: u64,
    readers: BTreeSet<u32>,
    writers: BTreeSet<u32>,
}

impl ObjectCost {
    fn add(&mut self, line: &Line, on_line: &OnLine<'_>, plan: &Plan, names: &mut Names<'_>) {
        self.lost_ps += line.lost_ps;
        self.true_ps += line.true_ps;
        self.false_ps += line.false_ps;
        self.kind = Some(on_line.thing.kind);
        // The costliest line comes first.
        self.picture.get_or_insert_with(|| LinePicture::of(line, on_line, plan.line_bytes, names));
        let judged = on_line.judge(plan, names);
        let advice = self.advice.entry(judged.advice).or_default();
        advice.0 += judged.weight;
        advice.1 += line.lost_ps;
        for (number, row) in line.rows.iter().enumerate() {
            *self.places.entry(row.instruction).or_default() += row.costs().lost_ps;
            if !on_line.is_of_thing(number) {
                let other = on_line.thing_of_row(number);
                if other.name != on_line.thing.name {
                    *self.beside.entry(other.name.clone()).or_default() += row.costs().lost_ps;
                    continue;
                }
            }
            let address = line.address + u64::from(row.offset);
            let field = names.field(on_line.thing_of_row(number), address);
            self.fields.entry(without_indices(&field)).or_default().add(row);
        }
    }

    fn into_finding(
        self,
        (object, file): (String, String),
        running_ps: u64,
        names: &mut Names<'_>,
    ) -> Finding {
        let advice = of_lines(&self.advice);
        let least = (self.lost_ps as f64 * LEAST_FIELD) as u64;
        let mut fields: Vec<_> =
            self.fields.into_iter().filter(|(_, its)| its.lost_ps > least).collect();
        fields.sort_by_key(|(_, its)| std::cmp::Reverse(its.lost_ps));
        let fields = fields.into_iter().take(MOST_FIELDS).map(|(field, its)| {
            let threads = if its.writers.is_empty() { its.readers } else { its.writers };
            FindingField { field, threads: threads.into_iter().collect() }
        });
        let mut beside: Vec<_> =
            self.beside.into_iter().filter(|(_, lost_ps)| *lost_ps > least).collect();
        beside.sort_by_key(|(_, lost_ps)| std::cmp::Reverse(*lost_ps));
        let place = self.places.into_iter().max_by_key(|(_, lost_ps)| *lost_ps);
        Finding {
            kind: self.kind.unwrap_or(ThingKind::Unknown),
            is_c_library: is_c_library(&file),
            beside: beside.into_iter().take(MOST_FIELDS).map(|(name, _)| name).collect(),
            fields: fields.collect(),
            place: place.map_or_else(SourcePlace::default, |(at, _)| names.place(at)),
            lost_ns: ns(self.lost_ps),
            share: self.lost_ps as f64 / running_ps.max(1) as f64,
            sharing: Sharing::of(self.true_ps, self.false_ps),
            advice,
            summary: advice.summary(),
            gain: None,
            picture: self.picture,
            object,
            file,
        }
    }
}

impl FieldCost {
    fn add(&mut self, row: &Row) {
        self.lost_ps += row.costs().lost_ps;
        if row.kind == AccessKind::Load {
            self.readers.extend(row.threads());
        } else if row.count > FEW {
            self.writers.extend(row.threads());
        }
    }
}

/// Returns a field's path without the object's index and with empty brackets for other indices, so that it is the same
/// for all elements.
fn without_indices(field: &str) -> String {
    let own = field.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let rest = own.map_or(field, |(_, rest)| rest.strip_prefix('.').unwrap_or(rest));
    let mut path = String::with_capacity(rest.len());
    let mut is_index = false;
    for letter in rest.chars() {
        is_index &= letter != ']';
        if !is_index {
            path.push(letter);
        }
        is_index |= letter == '[';
    }
    path
}

/// Returns an object's name. For stacks and memory of unknown origin, it includes the code that loses most time there.
pub(super) fn name_of(on_line: &OnLine<'_>, line: &Line, names: &mut Names<'_>) -> String {
    let own = &on_line.thing.name;
    let row = line.rows.iter().max_by_key(|row| row.costs().lost_ps);
    let Some(place) = row.map(|row| names.place(row.instruction)) else { return own.clone() };
    let file = place.file.rsplit('/').next().unwrap_or_default();
    let at = if place.line > 0 { format!(" at {file}:{}", place.line) } else { String::new() };
    match on_line.thing.kind {
        ThingKind::Unknown => format!("memory that {} uses{at}", place.function),
        ThingKind::Stack => format!("{own}, used by {}{at}", place.function),
        ThingKind::Global | ThingKind::Heap => own.clone(),
    }
}

/// Returns the objects that cost at least [`WORTH`] of the threads' running time, the costliest first. Objects of the C
/// library come last.
pub(super) fn findings(outcome: &Outcome, plan: &Plan, names: &mut Names<'_>) -> Vec<Finding> {
    let mut lines: Vec<_> = outcome.lines.iter().filter(|line| line.lost_ps > 0).collect();
    lines.sort_by_key(|line| (std::cmp::Reverse(line.lost_ps), line.address));
    lines.truncate(MOST_LINES);
    let mut by_object: BTreeMap<(String, String), ObjectCost> = BTreeMap::new();
    for line in lines {
        let on_line = OnLine::of(line, names);
        let key = (name_of(&on_line, line, names), on_line.thing.file.clone());
        by_object.entry(key).or_default().add(line, &on_line, plan, names);
    }
    let least = (outcome.running_ps as f64 * WORTH) as u64;
    let worth = by_object.into_iter().filter(|(_, cost)| cost.lost_ps > least);
    let mut found: Vec<_> =
        worth.map(|(key, cost)| cost.into_finding(key, outcome.running_ps, names)).collect();
    found.sort_by(|a, b| a.is_c_library.cmp(&b.is_c_library).then(b.lost_ns.total_cmp(&a.lost_ns)));
    found.truncate(MOST_FINDINGS);
    found
}

#[cfg(test)]
mod tests {
    use super::without_indices;

    #[test]
    fn elements_of_an_array_have_one_field() {
        for (field, name) in [
            ("[3].hits", "hits"),
            ("[12]", ""),
            ("[12][3]", "[]"),
            ("a[1].b[20]", "a[].b[]"),
            ("hits", "hits"),
            ("", ""),
        ] {
            assert_eq!(without_indices(field), name);
        }
    }
}
