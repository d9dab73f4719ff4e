//! Reads the attributes of one entry.

use coreshard_topology::input;
use gimli::{AttributeValue, DebuggingInformationEntry, Reader as _};

use super::sections::{Dwarf, Slice, Unit};
use crate::types::table::{Keyword, Language};

/// Longest name that is kept, in bytes. Names of C++ templates and Rust generics are unbounded.
const MOST_NAME_BYTES: usize = 1_024;

/// An entry and its unit.
pub(super) struct Entry<'a> {
    pub(super) dwarf: &'a Dwarf,
    pub(super) unit: &'a Unit,
    pub(super) die: &'a DebuggingInformationEntry<Slice>,
}

impl Entry<'_> {
    pub(super) fn value(&self, name: gimli::DwAt) -> Option<AttributeValue<Slice>> {
        self.die.attr_value(name)
    }

    pub(super) fn number(&self, name: gimli::DwAt) -> Option<u64> {
        number(&self.value(name)?)
    }

    pub(super) fn is_set(&self, name: gimli::DwAt) -> bool {
        matches!(self.value(name), Some(AttributeValue::Flag(true)))
    }

    pub(super) fn name(&self) -> Option<String> {
        let name = self.dwarf.attr_string(self.unit, self.value(gimli::DW_AT_name)?).ok()?;
        let bytes = name.to_slice().ok()?;
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_NAME_BYTES)]);
        let plain = |letter| match input::is_plain(letter) {
            true => letter,
            false => char::REPLACEMENT_CHARACTER,
        };
        (!text.is_empty()).then(|| text.chars().map(plain).collect())
    }

    /// Returns the language of a unit, given its first entry.
    pub(super) fn language(&self) -> Language {
        match self.value(gimli::DW_AT_language) {
            Some(AttributeValue::Language(
                gimli::DW_LANG_C_plus_plus
                | gimli::DW_LANG_C_plus_plus_03
                | gimli::DW_LANG_C_plus_plus_11
                | gimli::DW_LANG_C_plus_plus_14
                | gimli::DW_LANG_C_plus_plus_17
                | gimli::DW_LANG_C_plus_plus_20,
            )) => Language::Cpp,
            Some(AttributeValue::Language(gimli::DW_LANG_Rust)) => Language::Rust,
            _ => Language::C,
        }
    }

    pub(super) fn is_virtual(&self) -> bool {
        matches!(
            self.value(gimli::DW_AT_virtuality),
            Some(AttributeValue::Virtuality(its)) if its != gimli::DW_VIRTUALITY_none
        )
    }

    /// Whether a member is not public. Members of a class are private by default.
    pub(super) fn is_hidden(&self, keyword: Keyword) -> bool {
        match self.value(gimli::DW_AT_accessibility) {
            Some(AttributeValue::Accessibility(its)) => its != gimli::DW_ACCESS_public,
            _ => keyword == Keyword::Class,
        }
    }

    /// Whether a function prevents its class from being plain old data: a user-provided constructor, destructor or
    /// assignment.
    pub(super) fn is_special(&self, class: &str) -> bool {
        self.name().is_some_and(|name| {
            name == constructor_of(class) || name.starts_with('~') || name == "operator="
        }) && !self.is_set(gimli::DW_AT_artificial)
            && self.number(gimli::DW_AT_defaulted) != Some(1)
    }

    /// Returns the offset of a member in bits, or none if it is known only at run time.
    pub(super) fn offset_bits(&self) -> Option<u64> {
        let bytes = match self.value(gimli::DW_AT_data_member_location) {
            Some(location) => self.location_bytes(&location)?,
            None => 0,
        };
        self.number(gimli::DW_AT_data_bit_offset).or_else(|| bytes.checked_mul(8))
    }

    /// Older compilers describe the offset of a member by a small program.
    fn location_bytes(&self, location: &AttributeValue<Slice>) -> Option<u64> {
        if let Some(bytes) = number(location) {
            return Some(bytes);
        }
        match location.exprloc_value()?.operations(self.unit.encoding()).next().ok()?? {
            gimli::Operation::PlusConstant { value }
            | gimli::Operation::UnsignedConstant { value } => Some(value),
            _ => None,
        }
    }

    /// Returns the address of a variable if it is static.
    pub(super) fn fixed_address(&self) -> Option<u64> {
        let location = self.value(gimli::DW_AT_location)?.exprloc_value()?;
        let mut operations = location.operations(self.unit.encoding());
        let address = match operations.next().ok()?? {
            gimli::Operation::Address { address } => address,
            gimli::Operation::AddressIndex { index } => {
                self.dwarf.address(self.unit, index).ok()?
            }
            _ => return None,
        };
        operations.next().ok()?.is_none().then_some(address)
    }
}

fn number(value: &AttributeValue<Slice>) -> Option<u64> {
    value.udata_value().or_else(|| value.sdata_value().map(|it| it as u64))
}

/// Returns the name of a class without namespaces and template arguments.
fn constructor_of(class: &str) -> &str {
    let mut depth = 0;
    let mut end = class.len();
    for (at, letter) in class.char_indices().rev() {
        match letter {
            '>' => depth += 1,
            '<' => {
                depth -= 1;
                end = at;
            }
            _ if depth <= 0 => break,
            _ => {}
        }
    }
    class[..end].rsplit("::").next().unwrap_or_default()
}
