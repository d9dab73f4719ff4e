//! The objects on a line, and the threads' accesses to their words.

use std::collections::BTreeMap;

use super::accessor::Seen;
use super::advice::{Judgement, Use, judge};
use super::conflicts::Count;
use super::lines::Line;
use super::names::{Names, Thing};
use super::owners::NOBODY;
use super::plan::Plan;
use super::rows::Row;
use crate::recording::AccessKind;

/// Number of writes that may be an object's initialization.
pub(super) const FEW: u64 = 4;
/// Longer accesses cover several words, as a copy does.
const WORD_BYTES: u16 = 8;

/// A line and the objects that its rows access.
pub(super) struct OnLine<'lines> {
    line: &'lines Line,
    /// The object of the costliest row.
    pub(super) thing: Thing,
    /// For each row, its object if that is not the costliest row's object.
    others: Vec<Option<Thing>>,
}

impl<'lines> OnLine<'lines> {
    pub(super) fn of(line: &'lines Line, names: &mut Names<'_>) -> Self {
        let thing = thing_of(line, names);
        let other = |row: &Row| {
            let address = line.address + u64::from(row.offset);
            if thing.is_whole && thing.holds(address) && row.owner == NOBODY {
                return None;
            }
            let other = names.thing(address, row.seen(), &[row.instruction]);
            (!other.is_same(&thing)).then_some(other)
        };
        let others = line.rows.iter().map(other).collect();
        Self { line, thing, others }
    }

    /// The object of a row.
    pub(super) fn thing_of_row(&self, row: usize) -> &Thing {
        self.others[row].as_ref().unwrap_or(&self.thing)
    }

    /// Whether a row accesses the object of the costliest one.
    pub(super) fn is_of_thing(&self, row: usize) -> bool {
        self.others[row].is_none()
    }

    /// Returns the field that a row accesses. The name of the object is prepended if it is not the costliest row's
    /// object.
    pub(super) fn field(&self, row: usize, names: &mut Names<'_>) -> String {
        let address = self.line.address + u64::from(self.line.rows[row].offset);
        match &self.others[row] {
            None => names.field(&self.thing, address),
            Some(other) => {
                let field = names.field(other, address);
                if field.is_empty() {
                    other.name.clone()
                } else {
                    format!("{}: {field}", other.name)
                }
            }
        }
    }

    pub(super) fn judge(&self, plan: &Plan, names: &mut Names<'_>) -> Judgement {
        judge(&self.uses(plan, names), &plan.lives)
    }

    /// Returns the line's words with the accesses of each.
    fn uses(&self, plan: &Plan, names: &mut Names<'_>) -> Vec<Use> {
        let ranges = ranges(self.line.rows.iter().map(|row| (row.offset, row.size_bytes)));
        let mut words: BTreeMap<u64, Use> = BTreeMap::new();
        let mut others: Vec<&str> = Vec::new();
        for (number, row) in self.line.rows.iter().enumerate() {
            let thing = self.thing_of_row(number);
            let name = if self.is_of_thing(number) || thing.name == self.thing.name {
                0
            } else {
                let known = others.iter().position(|its| *its == thing.name);
                1 + known.unwrap_or_else(|| {
                    others.push(&thing.name);
                    others.len() - 1
                })
            };
            let (start, end) = (u64::from(row.offset), u64::from(row.offset + row.size_bytes));
            for (offset, _) in ranges.iter().filter(|its| start < its.1 && its.0 < end) {
                let address = self.line.address + offset;
                let is_lock = plan.locks.contains(&(address / 8 * 8))
                    || (plan.is_c_library(row.instruction) && plan.is_in_lock(address));
                let word = words.entry(*offset).or_insert_with(|| {
                    let element = element_of(&names.field(thing, address)).to_owned();
                    Use { element: (thing.start, element), name, ..Use::default() }
                });
                word.is_lock |= is_lock;
                word.locked += row.costs().locked;
                let is_load = row.kind == AccessKind::Load;
                if !is_load && row.count <= FEW {
                    continue;
                }
                for (thread, count) in row.counts() {
                    let (reads, writes) = if is_load { (count, 0) } else { (0, count) };
                    word.add(Count { thread, reads, writes });
                }
            }
        }
        words.into_values().collect()
    }
}

/// Returns the bytes that accesses of at most a word have in common, as sorted ranges, and further words for what longer accesses
/// cover besides.
fn ranges(accesses: impl Iterator<Item = (u16, u16)> + Clone) -> Vec<(u64, u64)> {
    let range = |(offset, bytes): (u16, u16)| (u64::from(offset), u64::from(offset + bytes));
    let mut short: Vec<_> = accesses.clone().filter(|its| its.1 <= WORD_BYTES).map(range).collect();
    short.sort_unstable();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (start, end) in short {
        match ranges.last_mut() {
            Some(last) if start < last.1 => last.1 = last.1.max(end),
            _ => ranges.push((start, end)),
        }
    }
    for (start, end) in accesses.filter(|its| its.1 > WORD_BYTES).map(range) {
        for word in start / 8..end.div_ceil(8) {
            let (start, end) = (start.max(word * 8), end.min(word * 8 + 8));
            if !ranges.iter().any(|its| start < its.1 && its.0 < end) {
                ranges.push((start, end));
            }
        }
    }
    ranges.sort_unstable();
    ranges
}

/// Returns the part of a field's path that identifies an element of an array; empty if the path has no index.
fn element_of(field: &str) -> &str {
    &field[..field.rfind(']').map_or(0, |end| end + 1)]
}

/// Returns the object that has the costliest access of a line.
pub(super) fn thing_of(line: &Line, names: &mut Names<'_>) -> Thing {
    let mut rows: Vec<_> = line.rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.costs().cost_ps, row.count)));
    let first = rows.first();
    let address = line.address + first.map_or(0, |row| u64::from(row.offset));
    let seen = first.map_or(Seen { ticket: 0, owner: NOBODY }, |row| row.seen());
    let kind = first.map_or(0, |row| row.owner_kind);
    names.thing(address, seen, &seen_from(&rows, kind))
}

/// Returns the instructions that access a kind of object on a line.
pub(super) fn seen_from(rows: &[&Row], owner_kind: u32) -> Vec<u64> {
    let its = rows.iter().filter(|row| row.owner_kind == owner_kind);
    its.map(|row| row.instruction).collect()
}

#[cfg(test)]
mod tests {
    use super::{element_of, ranges};

    #[test]
    fn words_are_the_bytes_that_accesses_have_in_common() {
        let of = |accesses: &[(u16, u16)]| ranges(accesses.iter().copied());
        assert_eq!(of(&[(1, 1), (0, 1), (0, 1)]), [(0, 1), (1, 2)], "flags side by side");
        assert_eq!(of(&[(0, 4), (4, 4), (0, 8)]), [(0, 8)], "halves that are also read as one");
        assert_eq!(of(&[(0, 32), (8, 4)]), [(0, 8), (8, 12), (16, 24), (24, 32)], "a copy");
    }

    #[test]
    fn an_element_is_named_by_the_last_index_of_a_path() {
        for (field, element) in [
            ("buckets[3].count", "buckets[3]"),
            ("[2]", "[2]"),
            ("a[1][2].b", "a[1][2]"),
            ("a.b", ""),
        ] {
            assert_eq!(element_of(field), element);
        }
    }
}
