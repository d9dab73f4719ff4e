//! The functions of a program by address. The ranges of units are read on the first use, and the functions of a unit on
//! the first use of that unit.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use gimli::{DebuggingInformationEntry, UnitHeader, UnitOffset};

use super::sections::{Dwarf, Slice, Unit};
use super::split::SplitFiles;

/// Ranges of all units, or of one unit's functions.
const MOST_RANGES: usize = 8 << 20;

/// Maps addresses to functions.
pub(in crate::types) struct Functions {
    headers: Vec<UnitHeader<Slice>>,
    /// Sorted ranges: start, end, and the number of the unit.
    ranges: Vec<(u64, u64, u32)>,
    /// By the number of the unit.
    read: RefCell<HashMap<u32, Option<Rc<UnitFunctions>>>>,
}

/// The functions of one unit.
pub(super) struct UnitFunctions {
    /// For a split unit, the sections that contain it.
    split: Option<Dwarf>,
    pub(super) unit: Unit,
    /// Sorted ranges: start, end, and the function's entry.
    ranges: Vec<(u64, u64, UnitOffset)>,
}

impl Functions {
    pub(in crate::types) fn of(dwarf: &Dwarf) -> Self {
        let (mut headers, mut ranges) = (Vec::new(), Vec::new());
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let Ok(unit) = dwarf.unit(header.clone()) else { continue };
            let Ok(mut its) = dwarf.unit_ranges(&unit) else { continue };
            while let (Ok(Some(range)), true) = (its.next(), ranges.len() < MOST_RANGES) {
                ranges.push((range.begin, range.end, headers.len() as u32));
            }
            headers.push(header);
        }
        ranges.sort_unstable();
        Self { headers, ranges, read: RefCell::default() }
    }

    /// Returns the unit at an address, with its functions.
    pub(super) fn unit_at(
        &self,
        dwarf: &Dwarf,
        split: &SplitFiles,
        address: u64,
    ) -> Option<Rc<UnitFunctions>> {
        let number = *holding(&self.ranges, address).next()?;
        let mut read = self.read.borrow_mut();
        let of = || UnitFunctions::of(dwarf, split, self.headers[number as usize].clone());
        read.entry(number).or_insert_with(|| of().map(Rc::new)).clone()
    }
}

impl UnitFunctions {
    fn of(dwarf: &Dwarf, split: &SplitFiles, header: UnitHeader<Slice>) -> Option<Self> {
        let skeleton = dwarf.unit(header).ok()?;
        let (split, unit) = match split.unit_behind(dwarf, &skeleton) {
            Some((dwarf, unit)) => (Some(dwarf), unit),
            None => (None, skeleton),
        };
        let mut ranges = Vec::new();
        let dwarf = split.as_ref().unwrap_or(dwarf);
        let mut entries = unit.entries_raw(None).ok()?;
        let mut die = DebuggingInformationEntry::null();
        while !entries.is_empty() && ranges.len() < MOST_RANGES {
            let offset = entries.next_offset();
            if !entries.read_entry(&mut die).ok()? || die.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            let Ok(mut its) = dwarf.die_ranges(&unit, &die) else { continue };
            while let Ok(Some(range)) = its.next() {
                ranges.push((range.begin, range.end, offset));
            }
        }
        drop(entries);
        ranges.sort_unstable();
        Some(Self { split, unit, ranges })
    }

    /// Returns the sections that contain the unit.
    pub(super) fn dwarf<'its>(&'its self, program: &'its Dwarf) -> &'its Dwarf {
        self.split.as_ref().unwrap_or(program)
    }

    /// Returns the entry of the function at an address.
    pub(super) fn function_at(&self, address: u64) -> Option<UnitOffset> {
        holding(&self.ranges, address).next().copied()
    }
}

/// Returns the nearby ranges that contain an address.
fn holding<T>(ranges: &[(u64, u64, T)], address: u64) -> impl Iterator<Item = &T> {
    const MOST_LOOKED_AT: usize = 64;
    let after = ranges.partition_point(|(begin, ..)| *begin <= address);
    let before = ranges[..after].iter().rev().take(MOST_LOOKED_AT);
    before.filter(move |(_, end, _)| address < *end).map(|(.., of)| of)
}
