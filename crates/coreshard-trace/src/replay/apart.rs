//! Predicts what fields on separate lines would gain, whatever their type looks like otherwise.

use std::collections::BTreeMap;

use coreshard_sim::Machine;
use serde::Serialize;

use super::engine::{Outcome, ns};
use super::moved::{FieldMove, Moves, is_fresh};
use super::names::Names;
use super::on_line::OnLine;
use super::replayed::{self, ReplayOptions, Replayed, costliest};
use crate::recording::{Recording, RecordingError};

/// Lines whose fields are looked at.
const MOST_LINES: usize = 4_096;

/// Fields on separate lines, and the predicted effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SeparateFields {
    /// Number of fields that get a line each, of all objects.
    pub fields: usize,
    /// Number of objects that have them.
    pub objects: usize,
    /// Time that accesses to the lines of these objects wait, in nanoseconds.
    pub cost_before_ns: f64,
    /// The same with the fields on separate lines.
    pub cost_after_ns: f64,
    /// How long an average thread takes, in nanoseconds.
    pub mean_before_ns: f64,
    /// The same with the fields on separate lines.
    pub mean_after_ns: f64,
    /// The paths of [`ReplayOptions::apart`] that no object of the costliest lines has. If there are any, nothing was predicted.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

/// An object, extended to whole lines: its end, and its fields by their offset.
#[derive(Default)]
struct Separated {
    end: u64,
    fields: BTreeMap<u64, u64>,
}

/// Replays a recording with the fields of these paths on lines of their own.
pub(super) fn separate(
    recording: &Recording,
    machine: &Machine,
    options: &ReplayOptions,
    before: &Replayed,
    names: &mut Names<'_>,
) -> Result<SeparateFields, RecordingError> {
    let line_bytes = before.plan.line_bytes;
    let mut objects: BTreeMap<u64, Separated> = BTreeMap::new();
    let mut unknown: Vec<&String> = options.apart.iter().collect();
    for line in costliest(&before.outcome.lines, MOST_LINES) {
        let on_line = OnLine::of(line, names);
        for (number, row) in line.rows.iter().enumerate() {
            let thing = on_line.thing_of_row(number).clone();
            let address = line.address + u64::from(row.offset);
            let field = names.field(&thing, address);
            if thing.is_whole && options.apart.iter().any(|wanted| is_at(&field, wanted)) {
                unknown.retain(|wanted| !is_at(&field, wanted));
                let start = thing.start & !(line_bytes - 1);
                let end = thing.start.saturating_add(thing.bytes).next_multiple_of(line_bytes);
                let its = objects.entry(start).or_default();
                its.end = its.end.max(end);
                let bytes = its.fields.entry(address - start).or_default();
                *bytes = (*bytes).max(u64::from(row.size_bytes));
            }
        }
    }
    if !unknown.is_empty() {
        let unknown = unknown.into_iter().cloned().collect();
        return Ok(SeparateFields { unknown, ..SeparateFields::default() });
    }
    let mut moves = Moves::default();
    for (start, its) in &objects {
        let bytes = its.end - start;
        let fields: Vec<_> = its.fields.iter().zip(0..).collect();
        let to = |place: u64| bytes + place * line_bytes;
        let moved = fields.iter().map(|((from, bytes), place)| FieldMove {
            from: **from,
            bytes: **bytes,
            to: to(*place),
        });
        let moved: Vec<_> = moved.collect();
        let new_bytes = to(moved.len() as u64);
        moves.add(*start, bytes, bytes, &moved.into(), new_bytes, (0, u64::MAX));
    }
    let after = replayed::run(recording, machine, options, Some((&moves, &before.plan)))?;
    let was_its = |address: u64| {
        let object = objects.range(..=address).next_back();
        object.is_some_and(|(_, its)| address < its.end)
    };
    Ok(SeparateFields {
        fields: objects.values().map(|its| its.fields.len()).sum(),
        objects: objects.len(),
        cost_before_ns: cost_ns(&before.outcome, was_its),
        cost_after_ns: cost_ns(&after.outcome, is_fresh),
        mean_before_ns: before.outcome.mean_ns(),
        mean_after_ns: after.outcome.mean_ns(),
        unknown: Vec::new(),
    })
}

fn cost_ns(outcome: &Outcome, is_its: impl Fn(u64) -> bool) -> f64 {
    let its = outcome.lines.iter().filter(|line| is_its(line.address));
    ns(its.map(|line| line.cost_ps).sum())
}

/// Whether a field's path ends with the wanted one, whatever the indices in `[]` are.
fn is_at(field: &str, wanted: &str) -> bool {
    let mut path = String::new();
    let mut is_index = false;
    for letter in field.chars() {
        is_index = (is_index || letter == '[') && letter != ']';
        if !is_index || letter == '[' {
            path.push(letter);
        }
    }
    let rest =
        if wanted.contains("[]") { path.strip_suffix(wanted) } else { field.strip_suffix(wanted) };
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::is_at;

    #[test]
    fn a_path_is_known_by_its_end() {
        let field = "cpupri.pri_to_cpu[99].mask";
        for wanted in [field, "mask", "pri_to_cpu[].mask", "pri_to_cpu[99].mask"] {
            assert!(is_at(field, wanted), "{wanted}");
        }
        for wanted in ["sk", "cpu[].mask", "pri_to_cpu[9].mask", "count"] {
            assert!(!is_at(field, wanted), "{wanted}");
        }
        assert!(is_at("iodone_cnt", "iodone_cnt"));
    }
}
