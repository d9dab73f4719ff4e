//! Puts a kernel's BTF and that of its modules into one, and adds globals with their types.
//!
//! A module's BTF continues the kernel's: its types are numbered from the kernel's last one on, and its names lie behind
//! the kernel's. Several modules begin at the same number, so all but the first get other ones.

use std::ops::Range;

use super::btf::MAGIC;
use super::error::TypesError;
use super::table::TypeId;

const HEADER_BYTES: usize = 24;
/// The name of the section of the added globals.
pub(crate) const GLOBALS_SECTION: &str = ".kernel";

/// A global to be added: its name, its offset from the section's start, its size in bytes, and its type.
pub(crate) type TypedGlobal = (String, u32, u32, TypeId);

/// BTF that grows; of this machine's byte order, which is that of the kernels that are booted.
#[derive(Clone, Debug)]
pub(crate) struct MergedBtf {
    types: Vec<u8>,
    names: Vec<u8>,
    /// The number of the next type.
    next: u32,
    /// Those of the kernel alone, which modules refer to.
    kernel_types: u32,
    kernel_names: u32,
}

/// The meaning of a word of a type.
#[derive(Clone, Copy)]
enum Word {
    Name,
    Type,
    Other,
}

/// Whether the third word of a kind of type is a type, what follows the first three words once, and what follows for each
/// of its members.
fn words_of(kind: u32) -> Option<(bool, &'static [Word], &'static [Word])> {
    use Word::{Name, Other, Type};
    Some(match kind {
        1 => (false, &[Other], &[]),
        2 | 8 | 9 | 10 | 11 | 12 | 18 => (true, &[], &[]),
        3 => (false, &[Type, Type, Other], &[]),
        4 | 5 => (false, &[], &[Name, Type, Other]),
        6 => (false, &[], &[Name, Other]),
        7 | 16 => (false, &[], &[]),
        13 => (true, &[], &[Name, Type]),
        14 | 17 => (true, &[Other], &[]),
        15 => (false, &[], &[Type, Other, Other]),
        19 => (false, &[], &[Name, Other, Other]),
        _ => return None,
    })
}

fn word_at(bytes: &[u8], at: usize) -> Result<u32, TypesError> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    let word = word.ok_or_else(|| TypesError::btf(at, "it ends within a type"))?;
    Ok(u32::from_le_bytes(*word))
}

/// Where types and names lie.
fn parts(bytes: &[u8]) -> Result<[Range<usize>; 2], TypesError> {
    if bytes.first_chunk::<2>().map(|mark| u16::from_le_bytes(*mark)) != Some(MAGIC) {
        return Err(TypesError::btf(0, "it does not begin as BTF of this byte order"));
    }
    let length = word_at(bytes, 4)? as usize;
    let part = |at: usize| {
        let start = length.saturating_add(word_at(bytes, at)? as usize);
        let end = start.saturating_add(word_at(bytes, at + 4)? as usize);
        let is_within = end <= bytes.len();
        is_within
            .then_some(start..end)
            .ok_or_else(|| TypesError::btf(at, "a part lies beyond the end"))
    };
    Ok([part(8)?, part(16)?])
}

impl MergedBtf {
    /// Begins with the kernel's own.
    ///
    /// # Errors
    /// If it is not BTF. The message names the offset.
    pub(crate) fn new(kernel: &[u8]) -> Result<Self, TypesError> {
        let [types, names] = parts(kernel)?;
        let mut merged = Self {
            types: kernel[types].to_vec(),
            names: kernel[names].to_vec(),
            next: 1,
            kernel_types: 0,
            kernel_names: 0,
        };
        let mut at = 0;
        while at < merged.types.len() {
            let info = word_at(&merged.types, at + 4)?;
            at += bytes_of(info).ok_or_else(|| unknown(at, info))?;
            merged.next += 1;
        }
        (merged.kernel_types, merged.kernel_names) = (merged.next, merged.names.len() as u32);
        Ok(merged)
    }

    /// Adds a module's.
    ///
    /// # Errors
    /// If it is not BTF. The message names the offset.
    pub(crate) fn add(&mut self, module: &[u8]) -> Result<(), TypesError> {
        let [types, names] = parts(module)?;
        let (types_before, names_before) = (self.next, self.names.len() as u32);
        let new_type = |of: u32| match of.checked_sub(self.kernel_types) {
            Some(own) => types_before + own,
            None => of,
        };
        let new_name = |of: u32| match of.checked_sub(self.kernel_names) {
            Some(own) => names_before + own,
            None => of,
        };
        let bytes = &module[types];
        let mut added = bytes.to_vec();
        let (mut at, mut count) = (0, 0);
        while at < bytes.len() {
            let info = word_at(bytes, at + 4)?;
            let end = at + bytes_of(info).ok_or_else(|| unknown(at, info))?;
            let kind = info >> 24 & 0x1f;
            let (is_type, once, each) = words_of(kind).ok_or_else(|| unknown(at, info))?;
            let mut put = |at: usize, what: Word| -> Result<(), TypesError> {
                let old = word_at(bytes, at)?;
                let new = match what {
                    Word::Name => new_name(old),
                    Word::Type => new_type(old),
                    Word::Other => old,
                };
                added[at..at + 4].copy_from_slice(&new.to_le_bytes());
                Ok(())
            };
            put(at, Word::Name)?;
            put(at + 8, if is_type { Word::Type } else { Word::Other })?;
            let each = each.iter().cycle().take(each.len() * (info & 0xffff) as usize);
            for (number, what) in once.iter().chain(each).enumerate() {
                put(at + 12 + 4 * number, *what)?;
            }
            // A module's sections lie elsewhere than the kernel's of the same name.
            if kind == 15 {
                added[at..at + 4].fill(0);
            }
            at = end;
            count += 1;
        }
        self.types.extend(added);
        self.names.extend(&module[names]);
        self.next += count;
        Ok(())
    }

    /// Adds globals as variables of one section.
    pub(crate) fn add_globals(&mut self, globals: &[TypedGlobal]) {
        // A section has at most as many as a type may have members.
        for globals in globals.chunks(0xffff) {
            let mut entries = Vec::new();
            for (name, offset, bytes, of) in globals {
                let name = self.name(name);
                self.push(&[name, 14 << 24, of.0, 1]);
                entries.extend([self.next - 1, *offset, *bytes]);
            }
            let name = self.name(GLOBALS_SECTION);
            let head = [name, 15 << 24 | globals.len() as u32, u32::MAX];
            self.push(&[&head[..], &entries].concat());
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        let at = self.names.len() as u32;
        self.names.extend(name.bytes().filter(|byte| *byte != 0).chain([0]));
        at
    }

    fn push(&mut self, words: &[u32]) {
        self.types.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self.next += 1;
    }

    /// Returns all of it as one.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([1, 0]);
        let (types, names) = (self.types.len() as u32, self.names.len() as u32);
        for word in [HEADER_BYTES as u32, 0, types, types, names] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(&self.types);
        bytes.extend(&self.names);
        bytes
    }
}

fn unknown(at: usize, info: u32) -> TypesError {
    TypesError::btf(at, format!("kind {} is unknown", info >> 24 & 0x1f))
}

fn bytes_of(info: u32) -> Option<usize> {
    let (_, once, each) = words_of(info >> 24 & 0x1f)?;
    Some(4 * (3 + once.len() + each.len() * (info & 0xffff) as usize))
}

#[cfg(test)]
mod tests {
    use super::super::table::{Shape, TypeTable};
    use super::*;

    fn btf(names: &[u8], types: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, 4 * types.len(), 4 * types.len(), names.len()] {
            bytes.extend((word as u32).to_le_bytes());
        }
        bytes.extend(types.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(names);
        bytes
    }

    /// The kernel has `int` and `struct base { int a; }`; each module a struct that begins with it.
    fn merged() -> MergedBtf {
        let kernel = [1, 1 << 24, 4, 0x20, 5, 4 << 24 | 1, 4, 10, 1, 0];
        let mut merged = MergedBtf::new(&btf(b"\0int\0base\0a\0", &kernel)).unwrap();
        // Names from 12 on and types from 3 on are the module's.
        let one = [12, 4 << 24 | 1, 8, 16, 4, 0, 0, 2 << 24, 2];
        merged.add(&btf(b"one\0field\0", &one)).unwrap();
        let two = [12, 4 << 24 | 1, 8, 16, 4, 0, 0, 2 << 24, 3];
        merged.add(&btf(b"two\0other\0", &two)).unwrap();
        merged
    }

    #[test]
    fn modules_keep_their_own_types_and_share_the_kernels() {
        let table = TypeTable::from_btf(&merged().bytes()).unwrap();
        let pointed_to = |name: &str| {
            let id = table.named(name)[0];
            let Shape::Record(record) = &table.get(id).shape else { panic!("a struct") };
            let Shape::Pointer { to } = table.get(record.members[0].of.unwrap()).shape else {
                panic!("a pointer")
            };
            (record.members[0].name.clone().unwrap(), table.get(to.unwrap()).name.clone().unwrap())
        };
        assert_eq!(pointed_to("one"), ("field".to_owned(), "base".to_owned()));
        assert_eq!(pointed_to("two"), ("other".to_owned(), "two".to_owned()), "its own");
    }

    #[test]
    fn added_globals_have_their_types() {
        let mut merged = merged();
        merged.add_globals(&[("here".to_owned(), 0x40, 4, TypeId(2))]);
        let mut table = TypeTable::from_btf(&merged.bytes()).unwrap();
        table.place_section(GLOBALS_SECTION, 0x1000);
        let found = &table.globals()[0];
        assert_eq!((found.name.as_str(), found.address), ("here", 0x1040));
        assert_eq!(table.describe(found.of), "struct base");
    }

    #[test]
    fn what_is_cut_is_an_error() {
        let kernel = btf(b"\0int\0", &[1, 1 << 24, 4, 0x20]);
        for length in 0..kernel.len() {
            let error = MergedBtf::new(&kernel[..length]).map(drop);
            assert!(error.is_err(), "{length}");
        }
        let mut merged = merged();
        assert!(merged.add(&btf(b"\0", &[0, 31 << 24, 0])).is_err());
    }
}
