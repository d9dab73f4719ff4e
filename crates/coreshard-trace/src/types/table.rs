//! The table of types.
//!
//! Types refer to one another by [`TypeId`], so recursive ones need no care. All code that follows references does
//! it with a bound ([`MOST_STEPS`]), since a hostile file may have circles that no compiler writes.

use std::collections::HashMap;

use super::error::TypesError;

/// References that are followed one after the other: typedefs of typedefs, structs in structs.
pub(super) const MOST_STEPS: usize = 64;
/// The size of an address, which is that of the programs that are read.
pub(super) const WORD_BYTES: u64 = 8;
/// Types that are looked at to tell the alignment of one.
const MOST_VISITS: usize = 20_000;
/// Types of one program: Chromium has some ten million.
const MOST_TYPES: usize = 32 << 20;

/// A type of a [`TypeTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub(crate) u32);

/// One type.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// Its name, with its namespaces; none if it has none.
    pub name: Option<String>,
    /// Its size in bytes; none if it is only declared, or follows from the type that it stands for.
    pub size_bytes: Option<u64>,
    /// What it is.
    pub shape: Shape,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A number, a character, a truth value, or a C enum.
    Scalar,
    /// An address.
    Pointer {
        /// What lies there.
        to: Option<TypeId>,
    },
    /// C++'s pointer to a member of a class.
    MemberPointer {
        /// The member's type.
        to: Option<TypeId>,
        /// The class.
        class: Option<TypeId>,
    },
    /// Another name, or another right to use, of a type.
    Alias {
        /// That type.
        to: Option<TypeId>,
        /// It is C's `_Atomic`.
        is_atomic: bool,
    },
    /// Equal things one after another.
    Array {
        /// One of them.
        of: Option<TypeId>,
        /// How many there are; none for a flexible tail.
        count: Option<u64>,
    },
    /// Members side by side, or on top of one another.
    Record(Record),
    /// A function, or what has no form in memory.
    Other,
}

/// A struct, a union, a class, or a Rust enum.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The keyword of the source's language.
    pub keyword: Keyword,
    /// What is always there; in a union, what may be.
    pub members: Vec<Member>,
    /// What is there in one variant of a Rust enum each, and overlaps what others have.
    pub variants: Vec<Member>,
    /// Its alignment, where the source asks for one.
    pub alignment_bytes: Option<u64>,
    /// It is a C++ class as it is in a class derived from it: without its virtual bases. It has no objects of its own.
    pub is_base_part: bool,
}

impl Record {
    pub(super) fn new(keyword: Keyword) -> Self {
        Self {
            keyword,
            members: Vec::new(),
            variants: Vec::new(),
            alignment_bytes: None,
            is_base_part: false,
        }
    }

    pub(super) fn list_mut(&mut self, is_variant: bool) -> &mut Vec<Member> {
        if is_variant { &mut self.variants } else { &mut self.members }
    }
}

/// The word for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyword {
    /// Members side by side.
    Struct,
    /// Members on top of one another.
    Union,
    /// C++'s struct with another default.
    Class,
    /// Rust's, with data in its variants.
    Enum,
}

impl Keyword {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Struct => "struct",
            Self::Union => "union",
            Self::Class => "class",
            Self::Enum => "enum",
        }
    }
}

/// A member of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name; none for an unnamed struct or union within, or a base class.
    pub name: Option<String>,
    /// Where it begins, counted from the record's start in the order of memory, in bits.
    pub offset_bits: u64,
    /// Of a bit field, how many bits it has.
    pub field_bits: Option<u64>,
    /// Its type.
    pub of: Option<TypeId>,
    /// Its alignment in bytes, where the source asks for one.
    pub alignment_bytes: Option<u64>,
    /// It is a virtual base of a C++ class.
    pub is_virtual_base: bool,
}

impl Member {
    /// Whether it is the address of a class's table of virtual functions.
    pub(crate) fn is_table_pointer(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with("_vptr"))
    }
}

/// A variable that has an address for as long as the program runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Global {
    /// Its name, with its namespaces.
    pub name: String,
    /// Its address in the file.
    pub address: u64,
    /// Its type.
    pub of: Option<TypeId>,
}

/// The language that a type was written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// C, and what has no known syntax of its own here.
    #[default]
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
}

/// All types of a program, and its globals.
///
/// ```
/// use coreshard_trace::{Keyword, Layout, TypeTable};
///
/// // BTF's smallest file: a header, and no type.
/// let mut btf = vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
/// btf.extend([0; 12]);
/// btf.extend([1, 0, 0, 0, 0]);
/// let types = TypeTable::from_btf(&btf)?;
/// assert_eq!(types.records().count(), 0);
/// # Ok::<(), coreshard_trace::TypesError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TypeTable {
    types: Vec<Type>,
    languages: Vec<Language>,
    /// The types of type units.
    by_signature: HashMap<u64, TypeId>,
    globals: Vec<Global>,
    missing_files: Vec<String>,
}

impl TypeTable {
    pub(super) fn push(&mut self, of: Type, language: Language) -> Result<TypeId, TypesError> {
        if self.types.len() >= MOST_TYPES {
            return Err(TypesError::too_many(MOST_TYPES));
        }
        self.types.push(of);
        self.languages.push(language);
        Ok(TypeId(self.types.len() as u32 - 1))
    }

    pub(super) fn types(&self) -> &[Type] {
        &self.types
    }

    pub(super) fn get_mut(&mut self, id: TypeId) -> &mut Type {
        &mut self.types[id.0 as usize]
    }

    pub(super) fn record_mut(&mut self, id: TypeId) -> Option<&mut Record> {
        match &mut self.get_mut(id).shape {
            Shape::Record(record) => Some(record),
            _ => None,
        }
    }

    pub(super) fn set_signature(&mut self, signature: u64, id: TypeId) {
        self.by_signature.insert(signature, id);
    }

    /// The type of a type unit.
    pub(super) fn with_signature(&self, signature: u64) -> Option<TypeId> {
        self.by_signature.get(&signature).copied()
    }

    /// Returns the number of the global, for [`TypeTable::set_global_type`].
    pub(super) fn push_global(&mut self, global: Global) -> usize {
        self.globals.push(global);
        self.globals.len() - 1
    }

    pub(super) fn set_global_type(&mut self, at: usize, of: TypeId) {
        self.globals[at].of = Some(of);
    }

    pub(super) fn sort_globals(&mut self) {
        self.globals.sort_by_key(|global| global.address);
        self.globals.dedup_by(|a, b| a.address == b.address && a.name == b.name);
    }

    pub(super) fn push_missing_file(&mut self, text: String) {
        self.missing_files.push(text);
    }

    /// A type by its id.
    #[must_use]
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// The language that a type was written in.
    #[must_use]
    pub fn language(&self, id: TypeId) -> Language {
        self.languages[id.0 as usize]
    }

    /// How many types there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether there is no type.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Variables with an address, by address.
    #[must_use]
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// The files with split debug information that were not read, with the reason. Their types are not in the table.
    #[must_use]
    pub fn missing_files(&self) -> &[String] {
        &self.missing_files
    }

    /// A sentence on the files that were not read, if there are any.
    #[must_use]
    pub fn missing_note(&self) -> Option<String> {
        let first = self.missing_files.first()?;
        let others = match self.missing_files.len() - 1 {
            0 => String::new(),
            1 => " (and 1 other file)".to_owned(),
            others => format!(" (and {others} other files)"),
        };
        Some(format!("split debug information is incomplete: {first}{others}"))
    }

    /// The records that have a name and a size, each once: a type that several units of a program define in
    /// the same way is one.
    pub fn records(&self) -> impl Iterator<Item = TypeId> + '_ {
        let mut seen: HashMap<(&str, u64), Vec<TypeId>> = HashMap::new();
        (0..self.types.len() as u32).map(TypeId).filter(move |id| {
            let of = self.get(*id);
            let (Some(name), Some(size), Shape::Record(record)) =
                (&of.name, of.size_bytes, &of.shape)
            else {
                return false;
            };
            if record.is_base_part {
                return false;
            }
            let known = seen.entry((name, size)).or_default();
            let same = |other: &TypeId| match &self.get(*other).shape {
                Shape::Record(other) => self.are_alike(record, other),
                _ => false,
            };
            let is_new = !known.iter().any(same);
            if is_new {
                known.push(*id);
            }
            is_new
        })
    }

    /// Types that memory may hold one after the other and that are no records with a name: numbers, and other names of records
    /// without one.
    pub(crate) fn other_elements(&self) -> impl Iterator<Item = TypeId> + '_ {
        (0..self.types.len() as u32).map(TypeId).filter(|id| match self.get(*id).shape {
            Shape::Scalar => true,
            Shape::Alias { .. } => {
                let of = self.get(self.stripped(*id));
                of.name.is_none() && matches!(of.shape, Shape::Record(_))
            }
            _ => false,
        })
    }

    /// The records of a name: the whole one, or what stands after its last `::`, with or without `struct `.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<TypeId> {
        let name = ["struct ", "union ", "class ", "enum "]
            .iter()
            .find_map(|word| name.strip_prefix(word))
            .unwrap_or(name);
        let is_it = |id: &TypeId| {
            let full = self.get(*id).name.as_deref().unwrap_or_default();
            full == name
                || full.strip_suffix(name).is_some_and(|before| before.ends_with("::"))
                || full.split('<').next().is_some_and(|bare| {
                    bare == name
                        || bare.strip_suffix(name).is_some_and(|before| before.ends_with("::"))
                })
        };
        let mut found: Vec<_> = self.records().filter(is_it).collect();
        // `typedef struct { … } name;`
        if found.is_empty() {
            let aliases = (0..self.types.len() as u32).map(TypeId).filter(|id| {
                self.get(*id).name.as_deref() == Some(name)
                    && matches!(self.get(*id).shape, Shape::Alias { .. })
            });
            for alias in aliases {
                let record = self.stripped(alias);
                let is_record = matches!(self.get(record).shape, Shape::Record(_))
                    && self.get(record).size_bytes.is_some();
                let is_known =
                    |other: &TypeId| match (&self.get(*other).shape, &self.get(record).shape) {
                        (Shape::Record(a), Shape::Record(b)) => self.are_alike(a, b),
                        _ => false,
                    };
                if is_record && !found.iter().any(is_known) {
                    found.push(record);
                }
            }
        }
        found
    }

    fn are_alike(&self, one: &Record, other: &Record) -> bool {
        let alike = |a: &[Member], b: &[Member]| {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| {
                    a.name == b.name
                        && a.offset_bits == b.offset_bits
                        && a.field_bits == b.field_bits
                })
        };
        one.keyword == other.keyword
            && alike(&one.members, &other.members)
            && alike(&one.variants, &other.variants)
    }

    /// What a type is once other names of it are taken off.
    #[must_use]
    pub fn stripped(&self, id: TypeId) -> TypeId {
        let mut at = id;
        for _ in 0..MOST_STEPS {
            match self.get(at).shape {
                Shape::Alias { to: Some(to), .. } => at = to,
                _ => break,
            }
        }
        at
    }

    /// The size of a type in bytes; none if nothing says it.
    #[must_use]
    pub fn size_bytes(&self, id: TypeId) -> Option<u64> {
        let (mut at, mut times) = (id, 1u64);
        for _ in 0..MOST_STEPS {
            let of = self.get(at);
            if let Some(size) = of.size_bytes {
                return size.checked_mul(times);
            }
            match &of.shape {
                Shape::Alias { to: Some(to), .. } => at = *to,
                Shape::Array { of: Some(element), count } => {
                    times = times.checked_mul((*count).unwrap_or(0))?;
                    at = *element;
                }
                Shape::Pointer { .. } => return times.checked_mul(WORD_BYTES),
                // A data member is an offset. A member function is its address and an offset.
                Shape::MemberPointer { to, .. } => {
                    let words = if to.is_some_and(|to| self.is_function(to)) { 2 } else { 1 };
                    return times.checked_mul(words * WORD_BYTES);
                }
                _ => return None,
            }
        }
        None
    }

    fn is_function(&self, id: TypeId) -> bool {
        let of = self.get(self.stripped(id));
        of.shape == Shape::Other && of.name.is_none()
    }

    /// Whether a member is C's array without a length, at the end of its struct.
    pub(crate) fn is_flexible(&self, member: &Member) -> bool {
        let shape = member.of.map(|of| &self.get(self.stripped(of)).shape);
        matches!(shape, Some(Shape::Array { count: None | Some(0), .. }))
    }

    /// Whether a member is a base class.
    pub(crate) fn is_base(&self, member: &Member) -> bool {
        let of = member.of.map(|of| self.get(self.stripped(of)));
        let is_class =
            of.is_some_and(|of| matches!(of.shape, Shape::Record(_)) && of.name.is_some());
        member.name.is_none() && is_class
    }

    /// Whether a member is of a class without fields.
    pub(crate) fn is_empty_class(&self, member: &Member) -> bool {
        let mut at = member.of;
        for _ in 0..MOST_STEPS {
            let Some(of) = at else { return false };
            match &self.get(self.stripped(of)).shape {
                Shape::Record(record) => match &record.members[..] {
                    [] => return record.variants.is_empty(),
                    [base] if self.is_base(base) => at = base.of,
                    _ => return false,
                },
                _ => return false,
            }
        }
        false
    }

    /// What alignment a type needs in bytes, as its members tell: DWARF says it only if the source does.
    #[must_use]
    pub fn alignment_bytes(&self, id: TypeId) -> u64 {
        let mut visits = MOST_VISITS;
        self.alignment_within(id, MOST_STEPS / 4, &mut visits)
    }

    fn alignment_within(&self, id: TypeId, steps: usize, visits: &mut usize) -> u64 {
        if steps == 0 || *visits == 0 {
            return 1;
        }
        *visits -= 1;
        let mut inner =
            |of: Option<TypeId>| of.map_or(1, |of| self.alignment_within(of, steps - 1, visits));
        match &self.get(self.stripped(id)).shape {
            Shape::Array { of, .. } => inner(*of),
            Shape::Record(record) => {
                let of_member = |member: &Member| {
                    let its =
                        member.alignment_bytes.unwrap_or_else(|| inner(member.of)).min(1 << 32);
                    (member.offset_bits, its, member.field_bits.is_some())
                };
                let all = record.members.iter().chain(&record.variants).take(1_000);
                let members: Vec<_> = all.map(of_member).collect();
                let most = members.iter().map(|(_, its, _)| *its).max().unwrap_or(1);
                let most = most.max(record.alignment_bytes.unwrap_or(1));
                let size = self.get(self.stripped(id)).size_bytes.unwrap_or(0);
                // A packed struct has members where their alignment does not put them.
                let fits = |align: &u64| {
                    let fits = |(offset, its, is_field): &(u64, u64, bool)| {
                        *is_field || offset.is_multiple_of(8 * (*its).min(*align).max(1))
                    };
                    *align <= 1
                        || (record.is_base_part || size.is_multiple_of(*align))
                            && members.iter().all(fits)
                };
                (0..64).map(|bit| most >> bit).find(fits).unwrap_or(1).max(1)
            }
            Shape::Scalar | Shape::Pointer { .. } => {
                let size = self.size_bytes(id).unwrap_or(1).clamp(1, 16);
                1 << size.ilog2()
            }
            Shape::MemberPointer { .. } => WORD_BYTES,
            _ => 1,
        }
    }

    /// How the source writes a type, as far as the table tells.
    #[must_use]
    pub fn describe(&self, id: Option<TypeId>) -> String {
        self.describe_within(id, 12)
    }

    fn describe_within(&self, id: Option<TypeId>, steps: usize) -> String {
        let Some(id) = id else { return "void".to_owned() };
        let of = self.get(id);
        if steps == 0 {
            return "…".to_owned();
        }
        match (&of.name, &of.shape) {
            (Some(name), Shape::Record(record)) if self.language(id) == Language::C => {
                format!("{} {name}", record.keyword.as_str())
            }
            (Some(name), _) => name.clone(),
            (None, Shape::Pointer { to }) => {
                let to = self.describe_within(*to, steps - 1);
                if to.ends_with('*') { format!("{to}*") } else { format!("{to} *") }
            }
            (None, Shape::MemberPointer { to, class }) => {
                let to = self.describe_within(*to, steps - 1);
                format!("{to} {}::*", self.describe_within(*class, steps - 1))
            }
            (None, Shape::Alias { to, .. }) => self.describe_within(*to, steps - 1),
            (None, Shape::Array { of, count }) => {
                let of = self.describe_within(*of, steps - 1);
                let (base, rest) = match of.find('[') {
                    Some(at) => of.split_at(at),
                    None => (of.as_str(), ""),
                };
                match count {
                    Some(count) => format!("{base}[{count}]{rest}"),
                    None => format!("{base}[]{rest}"),
                }
            }
            (None, Shape::Record(record)) => format!("{} {{…}}", record.keyword.as_str()),
            (None, Shape::Scalar) => "enum {…}".to_owned(),
            (None, Shape::Other) => "function".to_owned(),
        }
    }
}
