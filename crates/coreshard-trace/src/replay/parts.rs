//! The fields of a contended type: the threads that use them, and their possible offsets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::lines::Line;
use super::moved::FieldMove;
use super::names::{Names, Thing};
use super::rows::Row;
use crate::layout::Layout;
use crate::recording::AccessKind;
use crate::types::{Language, Member, Shape, TypeId, TypeTable};

/// Elements of an array that a layout moves individually.
const MOST_SPREAD: u64 = 1 << 16;

/// A field and the threads that use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldUse {
    /// Its name.
    pub name: String,
    /// Its offset in bytes.
    pub offset_bytes: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Threads that write it more often than its initialization does.
    pub writers: Vec<u32>,
    /// Accesses of it on shared lines, by all threads.
    pub uses: u64,
}

/// A field and its use.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    from: u64,
    bytes: u64,
    writers: BTreeSet<u32>,
    uses: u64,
    freedom: Freedom,
    /// The size of an element if it is an array of several; otherwise 0.
    element_bytes: u64,
}

/// The permitted offsets of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freedom {
    Anywhere,
    /// Its current offset, because it is part of an interface, or because the compiler determines it (a base class, the
    /// pointer to the table of virtual functions).
    Fixed,
    /// After all fields, where the compiler puts virtual bases.
    Behind,
    /// After all other fields, because it extends to the end of its object's memory.
    Last,
}

impl Part {
    fn new(name: String, from: u64, bytes: u64, freedom: Freedom) -> Self {
        Self { name, from, bytes, writers: BTreeSet::new(), uses: 0, freedom, element_bytes: 0 }
    }

    fn end(&self) -> u64 {
        self.from + self.bytes
    }
}

/// A layout of a type.
#[derive(Debug)]
pub(super) struct Arrangement {
    /// A short description.
    pub(super) what: &'static str,
    /// The number and the new offset of each field.
    order: Vec<(usize, u64)>,
    pub(super) size_bytes: u64,
    /// The array whose elements each begin a line, and the new size of an element.
    spread: Option<(usize, u64)>,
}

/// All fields of a type, sorted by offset.
#[derive(Debug)]
pub(super) struct Parts {
    list: Vec<Part>,
    language: Language,
    line_bytes: u64,
}

impl Parts {
    /// Returns the fields of the type of `thing`, or one part for the whole type if it has no fields or if they
    /// overlap, as in a union. `longest_bytes` is the size of the longest object.
    pub(super) fn of(
        thing: &Thing,
        longest_bytes: u64,
        names: &mut Names<'_>,
        line_bytes: u64,
    ) -> Option<Self> {
        let element = || Part::new("element".into(), 0, thing.element_bytes, Freedom::Anywhere);
        let Some((module, of)) = thing.of else {
            // An array with a known element size but an unknown type.
            return Some(Self { list: vec![element()], language: Language::C, line_bytes });
        };
        let types = names.types(module)?;
        let id = types.stripped(of);
        let list = fields(types, id, longest_bytes, line_bytes).unwrap_or_else(|| vec![element()]);
        Some(Self { list, language: types.language(id), line_bytes })
    }

    /// Returns the words that are used on lines whose fields are unknown. Words that overlap are one.
    pub(super) fn of_words<'lines>(
        lines: impl Iterator<Item = &'lines Line>,
        line_bytes: u64,
    ) -> Self {
        let rows = lines.flat_map(|line| line.rows.iter());
        let mut words: Vec<_> = rows
            .map(|row| (u64::from(row.offset), u64::from(row.offset + row.size_bytes)))
            .collect();
        words.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, end) in words {
            match merged.last_mut() {
                Some(last) if from < last.1 => last.1 = last.1.max(end),
                _ => merged.push((from, end)),
            }
        }
        let part = |(from, end): (u64, u64)| {
            let name = format!("bytes {from}–{}", end.saturating_sub(1));
            Part::new(name, from, end - from, Freedom::Anywhere)
        };
        let list = merged.into_iter().map(part).collect();
        Self { list, language: Language::C, line_bytes }
    }

    /// Whether the last field extends to the end of its object's memory.
    pub(super) fn has_tail(&self) -> bool {
        self.numbers(Freedom::Last).next().is_some()
    }

    /// Fixes the offsets of the fields with these names.
    pub(super) fn pin(&mut self, names: &[String]) {
        for pinned in self.list.iter_mut().filter(|part| names.contains(&part.name)) {
            pinned.freedom = Freedom::Fixed;
        }
    }

    /// Records accesses of the byte at an offset.
    pub(super) fn note(&mut self, offset: u64, row: &Row) {
        let holds = |part: &&mut Part| (part.from..part.end()).contains(&offset);
        let Some(part) = self.list.iter_mut().find(holds) else { return };
        part.uses += row.count;
        // A few stores are probably the initialization of the object. A read-modify-write is not an initialization.
        if row.kind == AccessKind::Modify || (row.kind == AccessKind::Store && row.count > 4) {
            part.writers.extend(row.threads());
        }
    }

    pub(super) fn uses(&self) -> Vec<FieldUse> {
        let shown = |part: &Part| FieldUse {
            name: part.name.clone(),
            offset_bytes: part.from,
            size_bytes: part.bytes,
            writers: part.writers.iter().copied().collect(),
            uses: part.uses,
        };
        self.list.iter().map(shown).collect()
    }

    fn numbers(&self, freedom: Freedom) -> impl Iterator<Item = usize> + '_ {
        (0..self.list.len()).filter(move |part| self.list[*part].freedom == freedom)
    }

    /// Returns possible layouts of the fields.
    pub(super) fn arrangements(&self, size_bytes: u64) -> Vec<Arrangement> {
        let all: Vec<usize> = (0..self.list.len()).collect();
        let mut found = vec![Arrangement {
            what: "each object begins a line and shares its lines with no other object",
            order: all.iter().map(|part| (*part, self.list[*part].from)).collect(),
            size_bytes: size_bytes.next_multiple_of(self.line_bytes),
            spread: None,
        }];
        // Fields without writers first, then the fields of each set of writers.
        let mut by_writers: BTreeMap<&BTreeSet<u32>, Vec<usize>> = BTreeMap::new();
        for part in &all {
            by_writers.entry(&self.list[*part].writers).or_default().push(*part);
        }
        if by_writers.len() > 1 {
            let groups: Vec<_> = by_writers.into_values().collect();
            found.push(self.arranged(
                "fields with the same writers are together, each group on separate lines",
                &groups,
            ));
        }
        let (hot, cold): (Vec<usize>, Vec<usize>) =
            all.iter().partition(|part| !self.list[**part].writers.is_empty());
        if hot.len() > 1 {
            let mut groups = vec![cold.clone()];
            groups.extend(hot.iter().map(|part| vec![*part]));
            found.push(self.arranged("each written field is on a separate line", &groups));
        }
        if !hot.is_empty() && !cold.is_empty() {
            let groups = [cold, hot];
            found.push(self.arranged("written fields are apart from read fields", &groups));
        }
        found.extend(all.iter().filter_map(|part| self.spread(*part)));
        found.dedup_by(|a, b| a.order == b.order && a.size_bytes == b.size_bytes);
        found
    }

    /// Keeps fixed fields and puts the groups after them, each at the beginning of a line. Only a group without writers
    /// may share the line of fixed fields without writers. Virtual bases and a tail come last.
    fn arranged(&self, what: &'static str, groups: &[Vec<usize>]) -> Arrangement {
        let mut order: Vec<_> =
            self.numbers(Freedom::Fixed).map(|part| (part, self.list[part].from)).collect();
        let mut at = order.iter().map(|(part, _)| self.list[*part].end()).max().unwrap_or(0);
        let mut put = |part: usize, at: &mut u64| {
            let Part { from, bytes, .. } = self.list[part];
            let alignment = from.trailing_zeros().min(bytes.max(1).trailing_zeros()).min(4);
            *at = at.next_multiple_of(1 << alignment);
            order.push((part, *at));
            *at += bytes;
        };
        let is_read = |part: usize| self.list[part].writers.is_empty();
        let mut may_share = self.numbers(Freedom::Fixed).all(is_read);
        let is_free = |part: &&usize| self.list[**part].freedom == Freedom::Anywhere;
        let free = groups.iter().map(|group| group.iter().filter(is_free).copied().collect());
        for group in free.filter(|group: &Vec<usize>| !group.is_empty()) {
            if !may_share || !group.iter().all(|part| is_read(*part)) {
                at = at.next_multiple_of(self.line_bytes);
            }
            may_share = false;
            group.into_iter().for_each(|part| put(part, &mut at));
        }
        self.numbers(Freedom::Behind).for_each(|part| put(part, &mut at));
        for part in self.numbers(Freedom::Last) {
            at = at.next_multiple_of(self.line_bytes);
            put(part, &mut at);
        }
        let size_bytes = at.next_multiple_of(self.line_bytes);
        Arrangement { what, order, size_bytes, spread: None }
    }

    /// Lets each element of an array with several writers begin a line. The fields after the array move accordingly.
    fn spread(&self, array: usize) -> Option<Arrangement> {
        let its = &self.list[array];
        let elements = its.bytes.checked_div(its.element_bytes)?;
        let new_bytes = its.element_bytes.next_multiple_of(self.line_bytes);
        let is_apart = its.element_bytes == new_bytes && its.from.is_multiple_of(self.line_bytes);
        let behind = self.list.iter().filter(|part| part.from > its.from);
        let all_follow = behind.clone().all(|part| part.freedom == Freedom::Anywhere);
        if its.writers.len() < 2 || elements > MOST_SPREAD || is_apart || !all_follow {
            return None;
        }
        let mut order: Vec<_> = (0..array).map(|part| (part, self.list[part].from)).collect();
        let start = its.from.next_multiple_of(self.line_bytes);
        order.push((array, start));
        let shift = start + elements * new_bytes - its.end();
        order.extend((array + 1..self.list.len()).map(|part| (part, self.list[part].from + shift)));
        let end = order.last().map_or(0, |(part, at)| at + self.list[*part].bytes);
        let end = end.max(start + elements * new_bytes);
        Some(Arrangement {
            what: "each element of an array in it begins a line",
            order,
            size_bytes: end.next_multiple_of(self.line_bytes),
            spread: Some((array, new_bytes)),
        })
    }

    /// Returns the fields in their new order, each with its new offset.
    pub(super) fn order(&self, arranged: &Arrangement) -> Vec<(String, u64)> {
        let order = arranged.order.iter();
        order.map(|(part, to)| (self.list[*part].name.clone(), *to)).collect()
    }

    /// Returns the new offset of each field, sorted by current offset.
    pub(super) fn moves(&self, arranged: &Arrangement) -> Arc<[FieldMove]> {
        let moved = arranged.order.iter().flat_map(|(part, to)| {
            let Part { from, bytes, element_bytes, .. } = self.list[*part];
            let (step, new_step) = match arranged.spread {
                Some((array, new_bytes)) if array == *part => (element_bytes, new_bytes),
                _ => (bytes, bytes),
            };
            (0..bytes / step.max(1)).map(move |at| FieldMove {
                from: from + at * step,
                bytes: step,
                to: to + at * new_step,
            })
        });
        let mut moved: Vec<_> = moved.collect();
        moved.sort_by_key(|field| field.from);
        moved.into()
    }

    /// Returns the alignment of fields in the source's syntax.
    pub(super) fn suggestion(&self, arranged: &Arrangement) -> String {
        let line_bytes = self.line_bytes;
        if let Some((array, _)) = arranged.spread {
            let name = &self.list[array].name;
            return match self.language {
                Language::C => {
                    format!("_Alignas({line_bytes}) on the first field of each element of: {name}")
                }
                Language::Cpp => {
                    format!("alignas({line_bytes}) on the type of the elements of: {name}")
                }
                Language::Rust => {
                    format!("#[repr(align({line_bytes}))] on the type of the elements of: {name}")
                }
            };
        }
        let begins = |(part, to): &&(usize, u64)| {
            let is_placed = matches!(self.list[*part].freedom, Freedom::Anywhere | Freedom::Last);
            is_placed && to.is_multiple_of(line_bytes)
        };
        let begin = arranged.order.iter().filter(begins);
        let mut begin: Vec<_> = begin.map(|(part, _)| self.list[*part].name.as_str()).collect();
        begin.dedup();
        let names = begin.join(", ");
        match self.language {
            Language::C => format!(
                "_Alignas({line_bytes}) (in the kernel ____cacheline_aligned_in_smp) before: {names}"
            ),
            Language::Cpp => format!("alignas({line_bytes}) before: {names}"),
            Language::Rust => format!(
                "#[repr(align({line_bytes}))] on a type around each of, or crossbeam's CachePadded: {names}"
            ),
        }
    }
}

/// Returns the size of an array's element.
fn element_bytes(types: &TypeTable, member: &Member) -> Option<u64> {
    match types.get(types.stripped(member.of?)).shape {
        Shape::Array { of, .. } => types.size_bytes(of?).filter(|size| *size > 0),
        _ => None,
    }
}

/// Returns the fields of a record, or none for a union or an enum with data.
fn fields(types: &TypeTable, id: TypeId, longest_bytes: u64, line_bytes: u64) -> Option<Vec<Part>> {
    let Shape::Record(record) = &types.get(id).shape else { return None };
    let layout = Layout::of(types, id, line_bytes)?;
    if !record.variants.is_empty() || layout.keyword == "union" {
        return None;
    }
    let is_cpp = types.language(id) == Language::Cpp;
    let mut members: Vec<_> = record.members.iter().zip(layout.fields).collect();
    members.sort_by_key(|(_, field)| field.offset_bytes);
    let own = members.iter().filter(|(member, _)| !member.is_virtual_base);
    let own_end = own.map(|(_, field)| field.end_bytes()).max().unwrap_or(0);
    let mut parts: Vec<Part> = Vec::new();
    for (member, field) in members {
        let end = field.end_bytes();
        let freedom = if field.is_flexible {
            Freedom::Last
        } else if member.is_virtual_base && field.offset_bytes >= own_end.max(1) {
            Freedom::Behind
        } else if is_cpp && (types.is_base(member) || member.is_table_pointer()) {
            // This includes a virtual base at offset 0 that consists only of a table pointer.
            Freedom::Fixed
        } else {
            Freedom::Anywhere
        };
        let bytes = match freedom {
            Freedom::Last => longest_bytes.saturating_sub(field.offset_bytes),
            _ => field.size_bytes,
        };
        match parts.last_mut() {
            _ if freedom == Freedom::Last => {}
            // An empty base takes no space.
            _ if bytes == 0 || (freedom != Freedom::Anywhere && types.is_empty_class(member)) => {
                continue;
            }
            // Bit fields and other overlapping fields stay together.
            Some(last) if field.offset_bytes < last.end() => {
                last.bytes = last.bytes.max(end - last.from);
                if freedom == Freedom::Fixed {
                    last.freedom = freedom;
                }
                continue;
            }
            _ => {}
        }
        let mut part = Part::new(field.name, field.offset_bytes, bytes, freedom);
        part.element_bytes = element_bytes(types, member).filter(|size| *size < bytes).unwrap_or(0);
        parts.push(part);
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, from: u64, writers: &[u32]) -> Part {
        let mut part = Part::new(name.into(), from, 8, Freedom::Anywhere);
        part.writers.extend(writers);
        part
    }

    fn parts(list: Vec<Part>) -> Parts {
        Parts { list, language: Language::C, line_bytes: 64 }
    }

    #[test]
    fn fields_of_different_writers_come_to_different_lines() {
        let parts =
            parts(vec![part("queue", 0, &[]), part("issued", 8, &[2]), part("done", 16, &[3])]);
        let all = parts.arrangements(24);
        let found =
            all.iter().find(|its| its.what.starts_with("fields with the same writers")).unwrap();
        assert_eq!(found.order, [(0, 0), (1, 64), (2, 128)]);
        assert_eq!(found.size_bytes, 192);
        let text = parts.suggestion(found);
        assert!(text.contains("_Alignas(64)") && text.ends_with("queue, issued, done"), "{text}");
    }

    #[test]
    fn the_elements_of_an_array_that_several_threads_write_may_begin_a_line_each() {
        let mut list = vec![part("size", 0, &[]), part("hits", 8, &[2, 3]), part("name", 32, &[])];
        (list[1].bytes, list[1].element_bytes) = (24, 8);
        let parts = parts(list);
        let all = parts.arrangements(40);
        let found = all.iter().find(|its| its.spread.is_some()).unwrap();
        assert_eq!(found.order, [(0, 0), (1, 64), (2, 256)]);
        assert_eq!(found.size_bytes, 320);
        let moves = parts.moves(found);
        let places: Vec<_> = moves.iter().map(|its| (its.from, its.bytes, its.to)).collect();
        assert_eq!(places, [(0, 8, 0), (8, 8, 64), (16, 8, 128), (24, 8, 192), (32, 8, 256)]);
        assert!(parts.suggestion(found).ends_with("each element of: hits"));
    }

    #[test]
    fn what_is_pinned_stays_and_a_tail_is_last() {
        let mut list = vec![
            part("queue", 0, &[]),
            part("issued", 8, &[2]),
            part("done", 16, &[3]),
            part("failed", 24, &[2]),
            part("text", 32, &[]),
        ];
        (list[4].freedom, list[4].bytes) = (Freedom::Last, 100);
        let mut parts = parts(list);
        parts.pin(&["issued".to_owned()]);
        let all = parts.arrangements(132);
        for Arrangement { what, order, size_bytes, .. } in &all[1..] {
            let at = |part| order.iter().find(|(its, _)| *its == part).unwrap().1;
            assert_eq!(at(1), 8, "{what}");
            assert!(at(4) > (0..4).map(at).max().unwrap(), "{what}: {order:?}");
            assert!(*size_bytes >= at(4) + 100, "{what}");
            assert_ne!(at(2) / 64, at(1) / 64, "{what}: {order:?}");
        }
        assert_eq!(all.len(), 4, "{all:?}");
    }

    #[test]
    fn fields_without_writers_may_follow_a_fixed_field_and_virtual_bases_come_behind() {
        let mut list = vec![
            part("_vptr.Whole", 0, &[]),
            part("name", 8, &[]),
            part("one", 16, &[1]),
            part("(virtual base V)", 24, &[]),
        ];
        list[0].freedom = Freedom::Fixed;
        list[3].freedom = Freedom::Behind;
        let all = parts(list).arrangements(32);
        let found = all.last().unwrap();
        assert_eq!(found.order, [(0, 0), (1, 8), (2, 64), (3, 72)]);
    }
}
