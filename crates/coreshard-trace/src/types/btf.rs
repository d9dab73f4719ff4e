//! BTF, the kernel's format for types (Documentation/bpf/btf.rst): a header, a contiguous list of types, and their
//! names.
//!
//! Each type is 12 bytes, `name, info, size or type`, followed by data that depends on its kind. Type 0 is void, and
//! the first type in the list is 1.

use std::collections::HashMap;

use super::error::TypesError;
use super::table::{
    Global, Keyword, Language, Member, Prototype, Record, Shape, Type, TypeId, TypeTable,
};

pub(super) const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
/// Longest name that is kept, in bytes.
const MOST_NAME_BYTES: usize = 1_024;

struct Reader<'a> {
    bytes: &'a [u8],
    is_big: bool,
    at: usize,
}

impl Reader<'_> {
    fn u32(&mut self) -> Result<u32, TypesError> {
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<4>());
        let Some(bytes) = bytes else {
            return Err(TypesError::btf(self.at, "it ends within a type"));
        };
        self.at += 4;
        Ok(if self.is_big { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) })
    }

    fn skip(&mut self, words: u32) -> Result<(), TypesError> {
        (0..words).try_for_each(|_| self.u32().map(drop))
    }
}

impl TypeTable {
    /// Reads BTF, such as the kernel's in `/sys/kernel/btf/vmlinux`.
    ///
    /// # Errors
    /// If it is not BTF or is truncated. The message names the offset.
    pub fn from_btf(bytes: &[u8]) -> Result<Self, TypesError> {
        if bytes.len() < HEADER_BYTES {
            let what =
                format!("truncated header: expected {HEADER_BYTES} bytes, found {}", bytes.len());
            return Err(TypesError::btf(0, what));
        }
        let magic = u16::from_le_bytes([bytes[0], bytes[1]]);
        let is_big = magic == MAGIC.swap_bytes();
        if magic != MAGIC && !is_big {
            return Err(TypesError::btf(
                0,
                format!("it begins with {magic:#06x} instead of {MAGIC:#06x}"),
            ));
        }
        if bytes[2] != 1 {
            return Err(TypesError::btf(2, format!("unknown version {}: expected 1", bytes[2])));
        }
        let mut header = Reader { bytes, is_big, at: 4 };
        let mut field = || header.u32().map(|number| number as usize);
        let (length, types_at, types_bytes, names_at, names_bytes) =
            (field()?, field()?, field()?, field()?, field()?);
        let part = |at: usize, start: usize, len: usize| {
            let start = length.checked_add(start).filter(|_| length >= HEADER_BYTES);
            let end =
                start.and_then(|start| start.checked_add(len)).filter(|end| *end <= bytes.len());
            let part = start.zip(end).map(|(start, end)| start..end);
            part.ok_or_else(|| TypesError::btf(at, "a part lies beyond the end"))
        };
        let types = part(8, types_at, types_bytes)?;
        let names = &bytes[part(16, names_at, names_bytes)?];
        let mut reader = Reader { bytes: &bytes[..types.end], is_big, at: types.start };
        let mut table = Self::default();
        let mut beside = Beside::default();
        // Void, so that the index of a type is its number.
        table.push(
            Type { name: Some("void".to_owned()), size_bytes: None, shape: Shape::Other },
            Language::C,
        )?;
        while reader.at < reader.bytes.len() {
            let number = table.len() as u32;
            table.push(one(&mut reader, names, number, &mut beside)?, Language::C)?;
        }
        check_references(&table)?;
        beside.add_to(&mut table);
        Ok(table)
    }
}

/// The functions and variables among the types. They refer to one another by number, in any order.
#[derive(Default)]
struct Beside {
    /// By name: the number of its prototype.
    functions: Vec<(String, u32)>,
    prototypes: HashMap<u32, Prototype>,
    variables: HashMap<u32, (String, Option<TypeId>)>,
    /// A section's name, and its variables with their offsets.
    sections: Vec<(String, Vec<(u32, u64)>)>,
}

impl Beside {
    fn add_to(self, table: &mut TypeTable) {
        let count = table.len() as u32;
        let is_there = |id: Option<TypeId>| id.filter(|id| id.0 < count);
        for (name, number) in self.functions {
            let Some(its) = self.prototypes.get(&number) else { continue };
            let parameters = its.parameters.iter().map(|id| is_there(*id)).collect();
            table.push_function(name, Prototype { returns: is_there(its.returns), parameters });
        }
        for (section, variables) in self.sections {
            let known = |(number, offset): (u32, u64)| {
                let (name, of) = self.variables.get(&number)?.clone();
                Some(Global { name, address: offset, of: is_there(of) })
            };
            let globals = variables.into_iter().filter_map(known).collect();
            table.push_section(section, globals);
        }
    }
}

fn check_references(table: &TypeTable) -> Result<(), TypesError> {
    let count = table.len();
    let is_there = |id: &Option<TypeId>| id.is_none_or(|id| (id.0 as usize) < count);
    for (number, of) in table.types().iter().enumerate() {
        let are_there = match &of.shape {
            Shape::Pointer { to } | Shape::Alias { to, .. } => is_there(to),
            Shape::MemberPointer { to, class } => is_there(to) && is_there(class),
            Shape::Array { of, .. } => is_there(of),
            Shape::Record(record) => record.members.iter().all(|member| is_there(&member.of)),
            Shape::Scalar | Shape::Other => true,
        };
        if !are_there {
            let what = format!("type {number} refers to a missing type; there are {count} types");
            return Err(TypesError::btf(0, what));
        }
    }
    Ok(())
}

fn name_at(names: &[u8], at: u32, offset: usize) -> Result<Option<String>, TypesError> {
    let name = names.get(at as usize..).ok_or_else(|| {
        TypesError::btf(offset, format!("a name at {at}, and names have {} bytes", names.len()))
    })?;
    let name = &name[..name.len().min(MOST_NAME_BYTES)];
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok((end > 0).then(|| coreshard_topology::input::plain(&String::from_utf8_lossy(&name[..end]))))
}

fn member(reader: &mut Reader<'_>, names: &[u8], has_bits: bool) -> Result<Member, TypesError> {
    let at = reader.at;
    let (name, of, offset) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let (field_bits, offset) =
        if has_bits { (offset >> 24, offset & 0xff_ffff) } else { (0, offset) };
    Ok(Member {
        name: name_at(names, name, at)?,
        offset_bits: u64::from(offset),
        field_bits: (field_bits > 0).then_some(u64::from(field_bits)),
        of: (of != 0).then_some(TypeId(of)),
        alignment_bytes: None,
        is_virtual_base: false,
    })
}

fn one(
    reader: &mut Reader<'_>,
    names: &[u8],
    number: u32,
    beside: &mut Beside,
) -> Result<Type, TypesError> {
    let start = reader.at;
    let (name, info, value) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let name = name_at(names, name, start)?;
    let (kind, count, flag) = ((info >> 24) & 0x1f, info & 0xffff, info >> 31 == 1);
    // 0 is void, and no member is void.
    let to = (value != 0).then_some(TypeId(value));
    let sized = u64::from(value);
    // Skip words that do not affect the layout.
    reader.skip(match kind {
        1 | 17 => 1,
        6 => 2 * count,
        19 => 3 * count,
        _ => 0,
    })?;
    let text = || name.clone().unwrap_or_default();
    match kind {
        12 => beside.functions.push((text(), value)),
        13 => {
            let mut parameters = Vec::new();
            for _ in 0..count {
                let (_name, of) = (reader.u32()?, reader.u32()?);
                parameters.push((of != 0).then_some(TypeId(of)));
            }
            beside.prototypes.insert(number, Prototype { returns: to, parameters });
        }
        14 => {
            let _linkage = reader.u32()?;
            beside.variables.insert(number, (text(), to));
        }
        15 => {
            let mut variables = Vec::new();
            for _ in 0..count {
                let (of, offset, _size) = (reader.u32()?, reader.u32()?, reader.u32()?);
                variables.push((of, u64::from(offset)));
            }
            beside.sections.push((text(), variables));
        }
        _ => {}
    }
    let (size_bytes, shape) = match kind {
        // Integers, enums, floating-point numbers.
        1 | 6 | 16 | 19 => (Some(sized), Shape::Scalar),
        2 => (Some(8), Shape::Pointer { to }),
        3 => {
            let (of, _index, count) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let of = (of != 0).then_some(TypeId(of));
            (None, Shape::Array { of, count: Some(u64::from(count)) })
        }
        4 | 5 => {
            let keyword = if kind == 4 { Keyword::Struct } else { Keyword::Union };
            let mut record = Record::new(keyword);
            for _ in 0..count {
                record.members.push(member(reader, names, flag)?);
            }
            (Some(sized), Shape::Record(record))
        }
        // A declaration without a body, a function and its type, a variable, a section of data, a tag.
        7 | 12 | 13 | 14 | 15 | 17 => (None, Shape::Other),
        // Typedef, volatile, const, restrict, a tag of a type.
        8 | 9 | 10 | 11 | 18 => (None, Shape::Alias { to, is_atomic: false }),
        other => return Err(TypesError::btf(start + 4, format!("kind {other} is not known"))),
    };
    let name = name.filter(|_| !matches!(kind, 9 | 10 | 11 | 18));
    Ok(Type { name, size_bytes, shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct pair { int a : 3; int b : 5; char *c; }`, and an array of two of them.
    pub(crate) fn sample() -> Vec<u8> {
        let names = b"\0int\0pair\0a\0b\0c\0";
        let mut types: Vec<u32> = Vec::new();
        types.extend([1, 1 << 24, 4, 0x0100_0020]); // 1: int
        types.extend([0, 2 << 24, 1]); // 2: int *
        types.extend([5, (1 << 31) | (4 << 24) | 3, 16]); // 3: struct pair
        types.extend([10, 1, 3 << 24, 12, 1, (5 << 24) | 3, 14, 2, 64]);
        types.extend([0, 3 << 24, 0, 3, 1, 2]); // 4: struct pair[2]
        let types: Vec<u8> = types.into_iter().flat_map(u32::to_le_bytes).collect();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types.len(), types.len(), names.len()] {
            bytes.extend((word as u32).to_le_bytes());
        }
        bytes.extend(types);
        bytes.extend(names);
        bytes
    }

    #[test]
    fn a_struct_with_bit_fields_is_read() {
        let table = TypeTable::from_btf(&sample()).unwrap();
        let found = table.named("struct pair");
        assert_eq!(found.len(), 1);
        let Shape::Record(record) = &table.get(found[0]).shape else { panic!("a struct") };
        let told: Vec<_> = record
            .members
            .iter()
            .map(|member| (member.name.as_deref(), member.offset_bits, member.field_bits))
            .collect();
        assert_eq!(told, [(Some("a"), 0, Some(3)), (Some("b"), 3, Some(5)), (Some("c"), 64, None)]);
        assert_eq!(table.size_bytes(TypeId(4)), Some(32));
        assert_eq!(table.describe(Some(TypeId(4))), "struct pair[2]");
        assert_eq!(table.alignment_bytes(found[0]), 8);
    }

    #[test]
    fn what_is_cut_or_foreign_is_an_error_with_its_offset() {
        let whole = sample();
        for length in 0..whole.len() {
            let error = TypeTable::from_btf(&whole[..length]).unwrap_err().to_string();
            assert!(error.starts_with("BTF at offset "), "{length}: {error}");
        }
        let mut foreign = whole.clone();
        // The struct's second member has a type that does not exist.
        let at = foreign.windows(4).rposition(|four| four == 12u32.to_le_bytes()).unwrap();
        foreign[at + 4] = 77;
        assert!(TypeTable::from_btf(&foreign).unwrap_err().to_string().contains("missing type"));
        foreign[2] = 9;
        assert!(
            TypeTable::from_btf(&foreign)
                .unwrap_err()
                .to_string()
                .contains("offset 2: unknown version 9")
        );
    }
}
