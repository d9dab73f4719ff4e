//! Finds the records that the variables of a function point to.

use gimli::{AttributeValue, DebuggingInformationEntry};

use super::entry::Entry;
use super::sections::{Dwarf, Slice, Unit};
use super::split::SplitFiles;
use crate::types::table::TypeTable;

/// Variables of one function.
const MOST_VARIABLES: usize = 2_000;
/// Pointers and other names that are followed from a variable to its record.
const MOST_STEPS: usize = 6;
/// Types that hold a pointer to what their first parameter names.
const POINTERS: [&str; 9] =
    ["Box", "Arc", "Rc", "NonNull", "Unique", "unique_ptr", "shared_ptr", "Vec", "vector"];

/// The record that a variable's type names.
#[derive(PartialEq, Eq)]
pub(crate) struct Variable {
    /// Of the record.
    pub(crate) name: String,
    /// The variable points to it, or holds what does.
    pub(crate) is_pointer: bool,
}

/// Records that variables, parameters and generic parameters of the functions at an address have, or point to.
pub(in crate::types) fn variables_at(
    dwarf: &Dwarf,
    split: &SplitFiles,
    types: &TypeTable,
    address: u64,
) -> Option<Vec<Variable>> {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let Ok(ranges) = dwarf.unit_ranges(&unit) else { continue };
        if !holds(ranges, address) {
            continue;
        }
        return match split.unit_behind(dwarf, &unit) {
            Some((dwarf, unit)) => variables_of(&dwarf, &unit, types, address),
            None => variables_of(dwarf, &unit, types, address),
        };
    }
    None
}

fn holds(mut ranges: gimli::RangeIter<Slice>, address: u64) -> bool {
    while let Ok(Some(range)) = ranges.next() {
        if (range.begin..range.end).contains(&address) {
            return true;
        }
    }
    false
}

fn variables_of(
    dwarf: &Dwarf,
    unit: &Unit,
    types: &TypeTable,
    address: u64,
) -> Option<Vec<Variable>> {
    let mut entries = unit.entries_raw(None).ok()?;
    let mut die = DebuggingInformationEntry::null();
    let mut found: Vec<Variable> = Vec::new();
    // The depth of the function around, while in one that holds the address.
    let mut inside: Option<isize> = None;
    while !entries.is_empty() && found.len() < MOST_VARIABLES {
        if !entries.read_entry(&mut die).ok()? {
            continue;
        }
        if inside.is_some_and(|depth| die.depth() <= depth) {
            inside = None;
        }
        let entry = Entry { dwarf, unit, die: &die };
        let of = match die.tag() {
            gimli::DW_TAG_subprogram if inside.is_none() => {
                if !holds(dwarf.die_ranges(unit, &die).ok()?, address) {
                    continue;
                }
                inside = Some(die.depth());
                entry.value(gimli::DW_AT_type)
            }
            gimli::DW_TAG_variable
            | gimli::DW_TAG_formal_parameter
            | gimli::DW_TAG_template_type_parameter
                if inside.is_some() =>
            {
                type_of_variable(&entry)
            }
            _ => continue,
        };
        let named = of.and_then(|of| record_of(&entry, &of, types, MOST_STEPS));
        let is_parameter = die.tag() == gimli::DW_TAG_template_type_parameter;
        found.extend(
            named.map(|its| Variable { is_pointer: its.is_pointer || is_parameter, ..its }),
        );
    }
    found.dedup();
    Some(found)
}

fn type_of_variable(entry: &Entry<'_>) -> Option<AttributeValue<Slice>> {
    entry.value(gimli::DW_AT_type).or_else(|| {
        // The entry in an inlined function refers to the one that has the type.
        let AttributeValue::UnitRef(origin) = entry.value(gimli::DW_AT_abstract_origin)? else {
            return None;
        };
        entry.unit.entry(origin).ok()?.attr_value(gimli::DW_AT_type)
    })
}

/// The record that a type in the unit of `entry` is, or points to.
fn record_of(
    entry: &Entry<'_>,
    of: &AttributeValue<Slice>,
    types: &TypeTable,
    steps: usize,
) -> Option<Variable> {
    let offset = match of {
        _ if steps == 0 => return None,
        AttributeValue::UnitRef(offset) => *offset,
        // The type is in a type unit.
        AttributeValue::DebugTypesRef(signature) => {
            return named(types.get(types.with_signature(signature.0)?).name.clone()?);
        }
        _ => return None,
    };
    let die = entry.unit.entry(offset).ok()?;
    let of = Entry { die: &die, ..*entry };
    let further = |name| record_of(&of, &of.value(name)?, types, steps - 1);
    match die.tag() {
        gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
            further(gimli::DW_AT_signature).or_else(|| named(of.name()?))
        }
        gimli::DW_TAG_typedef => further(gimli::DW_AT_type)
            .or_else(|| Some(Variable { name: of.name()?, is_pointer: false })),
        tag => {
            let mut variable = further(gimli::DW_AT_type)?;
            variable.is_pointer |= matches!(
                tag,
                gimli::DW_TAG_pointer_type
                    | gimli::DW_TAG_reference_type
                    | gimli::DW_TAG_rvalue_reference_type
            );
            Some(variable)
        }
    }
}

/// A record by its name; one that holds a pointer stands for what that points to.
fn named(name: String) -> Option<Variable> {
    let pointer = name
        .split_once('<')
        .filter(|(outer, _)| POINTERS.contains(&outer.rsplit("::").next().unwrap_or(outer)));
    let inner = pointer.map(|(_, inner)| inner.split([',', '>']).next().unwrap_or(inner).trim());
    match inner {
        Some(inner) => Some(Variable { name: inner.to_owned(), is_pointer: true }),
        None => Some(Variable { name, is_pointer: false }),
    }
}
