//! The table of types.
//!
//! Types refer to one another by [`TypeId`], so recursive types need no special handling. All code that follows
//! references has a bound ([`MOST_STEPS`]), because a hostile file may have cycles that no compiler writes.

use std::collections::HashMap;

use super::error::TypesError;

/// References that are followed in sequence: typedefs of typedefs, structs in structs.
pub(super) const MOST_STEPS: usize = 64;
/// The size of an address. Only 64-bit programs are read.
pub(super) const WORD_BYTES: u64 = 8;
/// Types that are visited to compute the alignment of one.
const MOST_VISITS: usize = 20_000;
/// Types of one program. Chromium has about ten million.
const MOST_TYPES: usize = 32 << 20;

/// A type of a [`TypeTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub(crate) u32);

/// One type.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// Its name with its namespaces; none for an unnamed type.
    pub name: Option<String>,
    /// Its size in bytes; none if the type is only declared, or has the size of the type that it refers to.
    pub size_bytes: Option<u64>,
    /// Its shape.
    pub shape: Shape,
}

/// The shape of a type.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A number, a character, a boolean, or a C enum.
    Scalar,
    /// An address.
    Pointer {
        /// The type at that address.
        to: Option<TypeId>,
    },
    /// A C++ pointer to a member of a class.
    MemberPointer {
        /// The member's type.
        to: Option<TypeId>,
        /// The class.
        class: Option<TypeId>,
    },
    /// A typedef or a qualified type.
    Alias {
        /// The underlying type.
        to: Option<TypeId>,
        /// Whether it is C's `_Atomic`.
        is_atomic: bool,
    },
    /// An array.
    Array {
        /// The type of an element.
        of: Option<TypeId>,
        /// The number of elements; none for a flexible array.
        count: Option<u64>,
    },
    /// Members side by side, or on top of one another.
    Record(Record),
    /// A function, or another type without a representation in memory.
    Other,
}

/// A struct, a union, a class, or a Rust enum.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The keyword of the source's language.
    pub keyword: Keyword,
    /// Members of every object. In a union, they overlap.
    pub members: Vec<Member>,
    /// Members of single variants of a Rust enum, which overlap.
    pub variants: Vec<Member>,
    /// Its alignment in bytes, if the source specifies one.
    pub alignment_bytes: Option<u64>,
    /// Whether it is the base subobject of a C++ class: the class without its virtual bases. No complete object has
    /// this type.
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

/// The keyword of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyword {
    /// Members one after another.
    Struct,
    /// Members at the same offset.
    Union,
    /// A C++ struct with private members by default.
    Class,
    /// A Rust enum with data in its variants.
    Enum,
}

impl Keyword {
    /// Returns the keyword as text.
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
    /// Its name; none for an unnamed struct or union in a record, and for a base class.
    pub name: Option<String>,
    /// Its offset in bits, in memory order.
    pub offset_bits: u64,
    /// For a bit field, its number of bits.
    pub field_bits: Option<u64>,
    /// Its type.
    pub of: Option<TypeId>,
    /// Its alignment in bytes, if the source specifies one.
    pub alignment_bytes: Option<u64>,
    /// Whether it is a virtual base of a C++ class.
    pub is_virtual_base: bool,
}

impl Member {
    /// Whether it is the pointer to a class's table of virtual functions.
    pub(crate) fn is_table_pointer(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with("_vptr"))
    }
}

/// A variable with a static address.
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
    /// C, and every language without special support here.
    #[default]
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
}

/// All types and globals of a program.
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
    /// The types of type units, by signature.
    by_signature: HashMap<u64, TypeId>,
    globals: Vec<Global>,
    missing_files: Vec<String>,
    /// Functions by name, as BTF has them.
    functions: HashMap<String, Prototype>,
    /// Globals whose addresses are offsets in a section, with the section's name.
    sections: Vec<(String, Vec<Global>)>,
}

/// The types that a function takes and returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prototype {
    /// Its result; none if it has none.
    pub(crate) returns: Option<TypeId>,
    /// Its parameters in their order.
    pub(crate) parameters: Vec<Option<TypeId>>,
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

    /// Returns the type of a type unit.
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

    /// Adds a function; the first of a name stays.
    pub(super) fn push_function(&mut self, name: String, of: Prototype) {
        self.functions.entry(name).or_insert(of);
    }

    /// Returns the types of a function, if BTF has them.
    pub(crate) fn function(&self, name: &str) -> Option<&Prototype> {
        self.functions.get(name)
    }

    /// Adds globals whose addresses are offsets in a section.
    pub(super) fn push_section(&mut self, name: String, globals: Vec<Global>) {
        self.sections.push((name, globals));
    }

    /// Gives the globals of a section their addresses.
    pub(crate) fn place_section(&mut self, name: &str, start: u64) {
        for (_, globals) in self.sections.iter().filter(|(its, _)| its == name) {
            self.globals.extend(globals.iter().map(|global| Global {
                address: global.address.wrapping_add(start),
                ..global.clone()
            }));
        }
        self.sort_globals();
    }

    pub(super) fn sort_globals(&mut self) {
        self.globals.sort_by_key(|global| global.address);
        self.globals.dedup_by(|a, b| a.address == b.address && a.name == b.name);
    }

    pub(super) fn push_missing_file(&mut self, text: String) {
        self.missing_files.push(text);
    }

    /// Returns a type by its number.
    #[must_use]
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// Returns the language that a type was written in.
    #[must_use]
    pub fn language(&self, id: TypeId) -> Language {
        self.languages[id.0 as usize]
    }

    /// Returns the number of types.
    #[must_use]
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Returns the variables with a static address, sorted by address.
    #[must_use]
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// Returns the files with split debug information that were not read, with the reasons. The table does not have
    /// their types.
    #[must_use]
    pub fn missing_files(&self) -> &[String] {
        &self.missing_files
    }

    /// Returns a sentence about the files that were not read, if any.
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

    /// Returns the records that have a name and a size. A type that several units define in the same way appears once.
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

    /// Returns the other types that an array in memory may consist of: numbers, and names of unnamed records.
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

    /// Returns the records with a name, with or without namespaces and with or without `struct `.
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

    /// Resolves typedefs and qualifiers.
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

    /// Returns the size of a type in bytes, if known.
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
                // A pointer to a data member is an offset. A pointer to a member function is an address and an offset.
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

    /// Whether a member is an array without a length at the end of a C struct.
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

    /// Whether a member is a class without fields.
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

    /// Returns the alignment in bytes that a type's members require. DWARF has it only if the source specifies it.
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
                // The members of a packed struct are not aligned.
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

    /// Returns the type in the source's notation, as far as the table has the information.
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
