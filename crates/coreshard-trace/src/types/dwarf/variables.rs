//! Finds the records that the variables of a function point to.

use gimli::{AttributeValue, DebuggingInformationEntry, UnitOffset};

use super::entry::Entry;
use super::functions::Functions;
use super::sections::{Dwarf, Slice, Unit};
use super::split::SplitFiles;
use crate::types::table::TypeTable;

/// Variables of one function.
const MOST_VARIABLES: usize = 2_000;
/// Pointers and typedefs that are followed from a variable to its record.
const MOST_STEPS: usize = 6;
/// Types that own a pointer to their first type parameter.
const POINTERS: [&str; 9] =
    ["Box", "Arc", "Rc", "NonNull", "Unique", "unique_ptr", "shared_ptr", "Vec", "vector"];
/// C++ library types that allocate their first type parameter.
const ALLOCATORS: [&str; 3] = ["allocator", "new_allocator", "__new_allocator"];
const ALLOCATE: &str = "allocate";
/// The name of the element's type parameter in Rust's library.
const ELEMENT: &str = "T";

/// The record that a variable's type refers to.
#[derive(PartialEq, Eq)]
pub(crate) struct Variable {
    /// The name of the record.
    pub(crate) name: String,
    /// Whether the variable points to the record, or has a smart pointer to it.
    pub(crate) is_pointer: bool,
    /// For a function that allocates elements of this type, its depth of inlining, from 1 on; otherwise 0.
    pub(crate) allocates: u32,
}

/// Returns records that variables, parameters and generic parameters of the functions at an address have or point to.
pub(in crate::types) fn variables_at(
    functions: &Functions,
    dwarf: &Dwarf,
    split: &SplitFiles,
    types: &TypeTable,
    address: u64,
) -> Option<Vec<Variable>> {
    let its = functions.unit_at(dwarf, split, address)?;
    let dwarf = its.dwarf(dwarf);
    let function = its.function_at(address)?;
    VariableWalk { dwarf, unit: &its.unit, types, address, found: Vec::new() }.of(function)
}

/// A walk over the entries of one function.
struct VariableWalk<'a> {
    dwarf: &'a Dwarf,
    unit: &'a Unit,
    types: &'a TypeTable,
    address: u64,
    found: Vec<Variable>,
}

impl VariableWalk<'_> {
    fn of(mut self, function: UnitOffset) -> Option<Vec<Variable>> {
        let mut entries = self.unit.entries_raw(Some(function)).ok()?;
        let mut die = DebuggingInformationEntry::null();
        // The functions around the address, innermost last: the depth of each, and whether it belongs to an allocator.
        let mut around: Vec<(isize, bool)> = Vec::new();
        let mut top = None;
        while !entries.is_empty() && self.found.len() < MOST_VARIABLES {
            if !entries.read_entry(&mut die).ok()? {
                continue;
            }
            let depth = die.depth();
            if depth <= *top.get_or_insert(depth) && !around.is_empty() {
                break;
            }
            while around.last().is_some_and(|(its, _)| depth <= *its) {
                around.pop();
            }
            self.entry(&die, &mut around);
        }
        self.found.dedup();
        Some(self.found)
    }

    fn entry(&mut self, die: &DebuggingInformationEntry<Slice>, around: &mut Vec<(isize, bool)>) {
        let entry = Entry { dwarf: self.dwarf, unit: self.unit, die };
        let level = around.len() as u32;
        let of = match die.tag() {
            gimli::DW_TAG_subprogram if around.is_empty() => {
                around.push((die.depth(), name_of(&entry).as_deref() == Some(ALLOCATE)));
                entry.value(gimli::DW_AT_type)
            }
            gimli::DW_TAG_inlined_subroutine => {
                let holds = self.dwarf.die_ranges(self.unit, die);
                if holds.is_ok_and(|ranges| holds_address(ranges, self.address)) {
                    around.push((die.depth(), name_of(&entry).as_deref() == Some(ALLOCATE)));
                    self.parameters_of_origin(&entry, level + 1);
                }
                return;
            }
            gimli::DW_TAG_variable
            | gimli::DW_TAG_formal_parameter
            | gimli::DW_TAG_template_type_parameter => type_of_variable(&entry),
            _ => return,
        };
        let Some(of) = of else { return };
        let is_parameter = die.tag() == gimli::DW_TAG_template_type_parameter;
        // Ignore entries in nested blocks that belong to other functions.
        let is_direct = around.last().is_some_and(|(depth, _)| die.depth() == depth + 1);
        let is_allocate = is_direct && around.last().is_some_and(|(_, is_allocate)| *is_allocate);
        if is_allocate && let Some(element) = allocated_by(&entry, &of) {
            self.found.push(Variable { name: element, is_pointer: true, allocates: level });
        }
        if let Some(its) = record_of(&entry, &of, self.types, MOST_STEPS) {
            let is_element = is_direct && is_parameter && entry.name().as_deref() == Some(ELEMENT);
            let allocates = if is_element { level } else { 0 };
            let is_pointer = its.is_pointer || is_parameter;
            self.found.push(Variable { is_pointer, allocates, ..its });
        }
    }

    /// An inlined function's type parameters are at its abstract origin.
    fn parameters_of_origin(&mut self, inlined: &Entry<'_>, level: u32) {
        let Some(AttributeValue::UnitRef(origin)) = inlined.value(gimli::DW_AT_abstract_origin)
        else {
            return;
        };
        let Ok(mut tree) = self.unit.entries_tree(Some(origin)) else { return };
        let Ok(root) = tree.root() else { return };
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            let entry = Entry { die: child.entry(), ..*inlined };
            let is_element = entry.die.tag() == gimli::DW_TAG_template_type_parameter
                && entry.name().as_deref() == Some(ELEMENT);
            let of = is_element.then(|| entry.value(gimli::DW_AT_type)).flatten();
            if let Some(name) = of.and_then(|of| type_name(&entry, &of)) {
                self.found.push(Variable { name, is_pointer: true, allocates: level });
            }
        }
    }
}

fn holds_address(mut ranges: gimli::RangeIter<Slice>, address: u64) -> bool {
    while let Ok(Some(range)) = ranges.next() {
        if (range.begin..range.end).contains(&address) {
            return true;
        }
    }
    false
}

/// Returns a function's name, which may be at its abstract origin or at the declaration that it completes.
fn name_of(entry: &Entry<'_>) -> Option<String> {
    if let Some(name) = entry.name() {
        return Some(name);
    }
    let further = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
    let offset = further.into_iter().find_map(|name| match entry.value(name)? {
        AttributeValue::UnitRef(offset) => Some(offset),
        _ => None,
    })?;
    let die = entry.unit.entry(offset).ok()?;
    let of = Entry { die: &die, ..*entry };
    of.name().or_else(|| {
        let AttributeValue::UnitRef(offset) = of.value(gimli::DW_AT_specification)? else {
            return None;
        };
        let die = entry.unit.entry(offset).ok()?;
        Entry { die: &die, ..*entry }.name()
    })
}

/// Returns the name of the element that a C++ allocator's member function allocates, given the type of its object.
fn allocated_by(entry: &Entry<'_>, of: &AttributeValue<Slice>) -> Option<String> {
    let AttributeValue::UnitRef(mut offset) = *of else { return None };
    for _ in 0..MOST_STEPS {
        let die = entry.unit.entry(offset).ok()?;
        let of = Entry { die: &die, ..*entry };
        if matches!(die.tag(), gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type) {
            let name = of.name()?;
            let bare = name.split('<').next().unwrap_or(&name);
            if !ALLOCATORS.contains(&bare.rsplit("::").next().unwrap_or(bare)) {
                return None;
            }
            let mut tree = entry.unit.entries_tree(Some(offset)).ok()?;
            let mut children = tree.root().ok()?.children();
            while let Ok(Some(child)) = children.next() {
                let entry = Entry { die: child.entry(), ..*entry };
                if entry.die.tag() == gimli::DW_TAG_template_type_parameter {
                    return type_name(&entry, &entry.value(gimli::DW_AT_type)?);
                }
            }
            return None;
        }
        let AttributeValue::UnitRef(next) = of.value(gimli::DW_AT_type)? else { return None };
        offset = next;
    }
    None
}

/// Returns the name of a type, which may be a number or a record.
fn type_name(entry: &Entry<'_>, of: &AttributeValue<Slice>) -> Option<String> {
    let AttributeValue::UnitRef(mut offset) = *of else { return None };
    for _ in 0..MOST_STEPS {
        let die = entry.unit.entry(offset).ok()?;
        let of = Entry { die: &die, ..*entry };
        if !matches!(die.tag(), gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type) {
            return of.name();
        }
        let AttributeValue::UnitRef(next) = of.value(gimli::DW_AT_type)? else { return None };
        offset = next;
    }
    None
}

fn type_of_variable(entry: &Entry<'_>) -> Option<AttributeValue<Slice>> {
    entry.value(gimli::DW_AT_type).or_else(|| {
        // An entry in an inlined function refers to its abstract origin, which has the type.
        let AttributeValue::UnitRef(origin) = entry.value(gimli::DW_AT_abstract_origin)? else {
            return None;
        };
        entry.unit.entry(origin).ok()?.attr_value(gimli::DW_AT_type)
    })
}

/// Returns the record that a type in the unit of `entry` is or points to.
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
        gimli::DW_TAG_typedef => {
            further(gimli::DW_AT_type).or_else(|| Some(variable(of.name()?, false)))
        }
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

/// Returns a record by name. A smart pointer is replaced by its target.
fn named(name: String) -> Option<Variable> {
    let pointer = name
        .split_once('<')
        .filter(|(outer, _)| POINTERS.contains(&outer.rsplit("::").next().unwrap_or(outer)));
    match pointer.map(|(_, inner)| first_parameter(inner).to_owned()) {
        Some(inner) => Some(variable(inner, true)),
        None => Some(variable(name, false)),
    }
}

const fn variable(name: String, is_pointer: bool) -> Variable {
    Variable { name, is_pointer, allocates: 0 }
}

/// Returns the first element of a list of type parameters, which may have parameters themselves.
fn first_parameter(list: &str) -> &str {
    let mut depth = 0;
    let end = list.find(|letter| match letter {
        '<' | '(' | '[' => {
            depth += 1;
            false
        }
        '>' | ')' | ']' if depth > 0 => {
            depth -= 1;
            false
        }
        ',' | '>' => depth == 0,
        _ => false,
    });
    list[..end.unwrap_or(list.len())].trim()
}

#[cfg(test)]
mod tests {
    use super::first_parameter;

    #[test]
    fn a_parameter_has_all_of_its_own_parameters() {
        for (list, first) in [
            ("long int, std::allocator<long int> >", "long int"),
            ("std::pair<int, long>, std::less<int> >", "std::pair<int, long>"),
            ("[(u8, u16)], alloc::alloc::Global>", "[(u8, u16)]"),
            ("T>", "T"),
            ("", ""),
        ] {
            assert_eq!(first_parameter(list), first);
        }
    }
}
