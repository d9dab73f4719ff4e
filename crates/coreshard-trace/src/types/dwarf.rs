//! Types and globals out of DWARF, in one walk over all entries.
//!
//! An entry refers to others by their offset in `.debug_info`, also to such that come later. So each type gets a
//! key made of its offset; references are keys during the walk and ids after it.

use std::collections::HashMap;

use gimli::{Attribute, AttributeValue, DebuggingInformationEntry, DwTag, Reader as _};

use super::error::TypesError;
use super::sections::{Dwarf, Slice, Unit};
use super::split::{Reference, SplitFiles};
use super::table::{Global, Keyword, Language, Member, Record, Shape, Type, TypeId, TypeTable};
use super::virtual_bases::{Classes, TABLE};

type Entry = DebuggingInformationEntry<Slice>;

/// Entries that may lie within one another.
const MOST_DEPTH: usize = 512;
/// Bytes of a name that is kept; names of C++ templates and Rust generics have no end.
const MOST_NAME_BYTES: usize = 1_024;
/// Of the names around an entry.
const MOST_SCOPE_BYTES: usize = 4_096;
/// In keys: the entry is in `.debug_types`, or in the file that several debug files share.
const IN_TYPES: u64 = 1 << 62;
const IN_SUPPLEMENT: u64 = 1 << 63;
/// In keys: the number of the split unit that the entry is in, from 1 on; 0 in the program's own file.
const SPLIT_SHIFT: u32 = 40;
const IN_SPLIT: u64 = IN_TYPES - (1 << SPLIT_SHIFT);
/// As many numbers as there are.
const MOST_SPLIT: u64 = IN_SPLIT >> SPLIT_SHIFT;

/// What stands open on the way to an entry.
#[derive(Clone, Default)]
struct Open {
    /// The type that children belong to.
    owner: Option<TypeId>,
    /// Names of namespaces and types around, with a `::` at the end.
    scope: String,
    /// Children are variants, or in one.
    variant: Variant,
    /// The last array's dimensions that came so far belong here.
    is_array: bool,
    /// In a function, whose variables are on the stack but for static ones.
    is_in_function: bool,
}

#[derive(Clone, Default, PartialEq)]
enum Variant {
    #[default]
    None,
    Part,
    One,
}

/// A reference that is still a key.
enum Wants {
    Of(TypeId),
    Class(TypeId),
    VirtualBase { class: TypeId, base: usize },
    Member { record: TypeId, member: usize, is_variant: bool },
    Global(usize),
}

pub(crate) struct Walk {
    table: TypeTable,
    ids: HashMap<u64, TypeId>,
    signatures: HashMap<u64, TypeId>,
    wants: Vec<(Wants, u64)>,
    /// By signature instead of key.
    wants_signature: Vec<(Wants, u64)>,
    globals: Vec<Global>,
    /// What a declaration said that a definition refers to: name and type.
    declared: HashMap<u64, (String, Option<u64>)>,
    /// Bit fields that are counted from the storage's high end: member, bits from there.
    from_high: Vec<(TypeId, usize, u64, Option<u64>)>,
    /// Of each array with several dimensions so far: the one that holds the elements.
    innermost: HashMap<TypeId, TypeId>,
    /// Split units so far.
    split: u64,
    classes: Classes,
}

/// Reads all types and globals; `supplement` and `split` are files that this one refers to.
pub(crate) fn read(
    dwarf: &Dwarf,
    supplement: Option<&Dwarf>,
    split: &SplitFiles,
) -> Result<TypeTable, TypesError> {
    let mut walk = Walk {
        table: TypeTable::default(),
        ids: HashMap::new(),
        signatures: HashMap::new(),
        wants: Vec::new(),
        wants_signature: Vec::new(),
        globals: Vec::new(),
        declared: HashMap::new(),
        from_high: Vec::new(),
        innermost: HashMap::new(),
        split: 0,
        classes: Classes::default(),
    };
    if let Some(supplement) = supplement {
        walk.all(supplement, IN_SUPPLEMENT)?;
    }
    walk.all(dwarf, 0)?;
    walk.all_split(dwarf, split)?;
    walk.finish()
}

fn wrong(unit: &Unit, at: gimli::UnitOffset, error: gimli::Error) -> TypesError {
    let start = unit.header.debug_info_offset().map_or(0, |offset| offset.0);
    TypesError::dwarf(start + at.0, error)
}

fn language_of(entry: &Entry) -> Language {
    match entry.attr_value(gimli::DW_AT_language) {
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

pub(crate) fn text(dwarf: &Dwarf, unit: &Unit, value: AttributeValue<Slice>) -> Option<String> {
    let bytes = dwarf.attr_string(unit, value).ok()?;
    let bytes = bytes.to_slice().ok()?;
    let bytes = &bytes[..bytes.len().min(MOST_NAME_BYTES)];
    let text = String::from_utf8_lossy(bytes);
    let plain = |letter| {
        if coreshard_topology::input::is_plain(letter) {
            letter
        } else {
            char::REPLACEMENT_CHARACTER
        }
    };
    (!text.is_empty()).then(|| text.chars().map(plain).collect())
}

fn number(value: Option<AttributeValue<Slice>>) -> Option<u64> {
    value.and_then(|value| value.udata_value().or_else(|| value.sdata_value().map(|it| it as u64)))
}

fn is_set(value: Option<AttributeValue<Slice>>) -> bool {
    matches!(value, Some(AttributeValue::Flag(true)))
}

fn is_virtual(value: Option<AttributeValue<Slice>>) -> bool {
    matches!(value, Some(AttributeValue::Virtuality(its)) if its != gimli::DW_VIRTUALITY_none)
}

/// Whether a member is not public; of a class, none is that does not say so.
fn is_hidden(value: Option<AttributeValue<Slice>>, keyword: Keyword) -> bool {
    match value {
        Some(AttributeValue::Accessibility(its)) => its != gimli::DW_ACCESS_public,
        _ => keyword == Keyword::Class,
    }
}

/// Whether a function of a class makes it one that is no plain old data: a constructor, a destructor or an assignment that
/// the source has.
fn is_special(entry: &Entry, name: &str, class: &str) -> bool {
    let constructor = constructor_of(class);
    let is_defaulted = matches!(
        entry.attr_value(gimli::DW_AT_defaulted),
        Some(value) if number(Some(value.clone())).is_some_and(|its| its == 1)
    );
    (name == constructor || name.starts_with('~') || name == "operator=")
        && !is_set(entry.attr_value(gimli::DW_AT_artificial))
        && !is_defaulted
}

/// The name of a class without namespaces and template arguments.
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

/// Where a member begins, in bytes; older compilers write a small program.
fn location_bytes(unit: &Unit, value: AttributeValue<Slice>) -> Option<u64> {
    if let Some(number) = number(Some(value.clone())) {
        return Some(number);
    }
    let mut operations = value.exprloc_value()?.operations(unit.encoding());
    match operations.next().ok()?? {
        gimli::Operation::PlusConstant { value } | gimli::Operation::UnsignedConstant { value } => {
            Some(value)
        }
        _ => None,
    }
}

/// The address of a variable, where it has one that never changes.
fn address(dwarf: &Dwarf, unit: &Unit, value: AttributeValue<Slice>) -> Option<u64> {
    let mut operations = value.exprloc_value()?.operations(unit.encoding());
    let address = match operations.next().ok()?? {
        gimli::Operation::Address { address } => address,
        gimli::Operation::AddressIndex { index } => dwarf.address(unit, index).ok()?,
        _ => return None,
    };
    operations.next().ok()?.is_none().then_some(address)
}

impl Walk {
    fn all(&mut self, dwarf: &Dwarf, place: u64) -> Result<(), TypesError> {
        self.units(dwarf, place, |_| true)
    }

    /// Walks the units that `select` returns true for; it may change them before.
    fn units(
        &mut self,
        dwarf: &Dwarf,
        place: u64,
        mut select: impl FnMut(&mut Unit) -> bool,
    ) -> Result<(), TypesError> {
        let mut units = dwarf.units();
        loop {
            let header = units.next().map_err(|error| TypesError::dwarf(0, error))?;
            let Some(header) = header else { break };
            let start = header.debug_info_offset().map_or(0, |offset| offset.0);
            let mut unit = dwarf.unit(header).map_err(|error| TypesError::dwarf(start, error))?;
            if select(&mut unit) {
                self.unit(dwarf, &unit, place | start as u64)?;
            }
        }
        let mut units = dwarf.type_units();
        loop {
            let header = units.next().map_err(|error| TypesError::dwarf(0, error))?;
            let Some(header) = header else { break };
            let start = header.debug_types_offset().map_or(0, |offset| offset.0);
            let mut unit = dwarf.unit(header).map_err(|error| TypesError::dwarf(start, error))?;
            if select(&mut unit) {
                self.unit(dwarf, &unit, place | IN_TYPES | start as u64)?;
            }
        }
        Ok(())
    }

    /// Walks the units that others stand for, and the types that they refer to.
    fn all_split(&mut self, program: &Dwarf, files: &SplitFiles) -> Result<(), TypesError> {
        let mut is_any = false;
        let mut units = program.units();
        while let Ok(Some(header)) = units.next() {
            let start = header.debug_info_offset().map_or(0, |offset| offset.0);
            let skeleton = program.unit(header).map_err(|error| TypesError::dwarf(start, error))?;
            let Some(reference) = Reference::of(program, &skeleton) else { continue };
            is_any = true;
            match files.find(program, &reference) {
                Ok(dwarf) => self
                    .split(&dwarf, Some((&skeleton, reference.id)))
                    .map_err(|error| error.in_file(&reference.file()))?,
                Err(why) => self.table.push_missing_file(why),
            }
        }
        let Some(package) = files.package().filter(|_| is_any) else { return Ok(()) };
        for row in 1..=package.tu_index.unit_count() {
            let wrong = |error| TypesError::dwarf(0, error);
            self.split(&package.tu_sections(row, program).map_err(wrong)?, None)?;
        }
        Ok(())
    }

    /// Walks a split unit's sections. A file may hold the units of other skeletons too, which are left to these.
    fn split(
        &mut self,
        dwarf: &Dwarf,
        of: Option<(&Unit, gimli::DwoId)>,
    ) -> Result<(), TypesError> {
        self.split += 1;
        if self.split > MOST_SPLIT {
            return Err(TypesError::too_many(MOST_SPLIT as usize));
        }
        let place = self.split << SPLIT_SHIFT;
        let is_its = |unit: &Unit| {
            unit.dwo_id.is_none() || of.is_some_and(|(_, id)| unit.dwo_id == Some(id))
        };
        self.units(dwarf, place, |unit| {
            if let Some((skeleton, _)) = of {
                unit.copy_relocated_attributes(skeleton);
            }
            is_its(unit)
        })
    }

    fn unit(&mut self, dwarf: &Dwarf, unit: &Unit, start: u64) -> Result<(), TypesError> {
        let mut language = Language::C;
        let mut open: Vec<Open> = vec![Open::default()];
        let at = unit.header.root_offset();
        let mut entries = unit.entries_raw(None).map_err(|error| wrong(unit, at, error))?;
        let mut entry = Entry::null();
        while !entries.is_empty() {
            let at = entries.next_offset();
            let is_there =
                entries.read_entry(&mut entry).map_err(|error| wrong(unit, at, error))?;
            let depth = usize::try_from(entry.depth()).unwrap_or(0);
            if depth >= MOST_DEPTH {
                return Err(TypesError::dwarf(
                    start as usize + at.0,
                    "entries lie too deep in one another",
                ));
            }
            open.truncate(depth + 1);
            if !is_there {
                continue;
            }
            if depth == 0 {
                language = language_of(&entry);
            }
            let around = open.last().cloned().unwrap_or_default();
            let within = self.entry(dwarf, unit, start, &entry, &around, language)?;
            open.push(within);
        }
        if let Some((signature, offset)) = match unit.header.type_() {
            gimli::UnitType::Type { type_signature, type_offset }
            | gimli::UnitType::SplitType { type_signature, type_offset } => {
                Some((type_signature, type_offset))
            }
            _ => None,
        } && let Some(id) = self.ids.get(&(start + offset.0 as u64))
        {
            self.signatures.insert(signature.0, *id);
        }
        Ok(())
    }

    /// The key of what an attribute refers to.
    fn want(&mut self, wants: Wants, start: u64, value: Option<AttributeValue<Slice>>) {
        let place = start & (IN_SUPPLEMENT | IN_SPLIT);
        match value {
            Some(AttributeValue::UnitRef(offset)) => {
                self.wants.push((wants, start + offset.0 as u64))
            }
            Some(AttributeValue::DebugInfoRef(offset)) => {
                self.wants.push((wants, place | offset.0 as u64))
            }
            Some(AttributeValue::DebugInfoRefSup(offset)) => {
                self.wants.push((wants, IN_SUPPLEMENT | offset.0 as u64));
            }
            Some(AttributeValue::DebugTypesRef(signature)) => {
                self.wants_signature.push((wants, signature.0));
            }
            _ => {}
        }
    }

    fn key(start: u64, value: Option<AttributeValue<Slice>>) -> Option<u64> {
        match value? {
            AttributeValue::UnitRef(offset) => Some(start + offset.0 as u64),
            AttributeValue::DebugInfoRef(offset) => {
                Some((start & (IN_SUPPLEMENT | IN_SPLIT)) | offset.0 as u64)
            }
            AttributeValue::DebugInfoRefSup(offset) => Some(IN_SUPPLEMENT | offset.0 as u64),
            _ => None,
        }
    }

    fn entry(
        &mut self,
        dwarf: &Dwarf,
        unit: &Unit,
        start: u64,
        entry: &Entry,
        around: &Open,
        language: Language,
    ) -> Result<Open, TypesError> {
        let value = |name| entry.attr(name).map(Attribute::value);
        let its_name = || value(gimli::DW_AT_name).and_then(|name| text(dwarf, unit, name));
        let mut within = Open {
            scope: around.scope.clone(),
            is_in_function: around.is_in_function,
            ..Open::default()
        };
        let size_bytes = || number(value(gimli::DW_AT_byte_size));
        let key = start + entry.offset().0 as u64;
        let scoped = |name: Option<String>| match language {
            Language::C => name,
            _ => name.map(|name| format!("{}{name}", around.scope)),
        };
        let tag = entry.tag();
        let signature = value(gimli::DW_AT_signature);
        match tag {
            // It stands for the type in a type unit.
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_enumeration_type
                if signature.is_some() =>
            {
                let name = its_name();
                if let (Some(name), true) = (&name, within.scope.len() < MOST_SCOPE_BYTES) {
                    within.scope.push_str(name);
                    within.scope.push_str("::");
                }
                let shape = Shape::Alias { to: None, is_atomic: false };
                let id =
                    self.type_at(key, Type { name: None, size_bytes: None, shape }, language)?;
                self.want(Wants::Of(id), start, signature);
            }
            gimli::DW_TAG_namespace | gimli::DW_TAG_module => {
                if let Some(name) = its_name().filter(|_| within.scope.len() < MOST_SCOPE_BYTES) {
                    within.scope.push_str(&name);
                    within.scope.push_str("::");
                }
            }
            gimli::DW_TAG_subprogram => {
                within.is_in_function = true;
                if let Some(owner) = around.owner
                    && let Some(class) = self.table.get(owner).name.as_deref()
                    && its_name().is_some_and(|name| is_special(entry, &name, class))
                {
                    self.classes.set_not_plain(owner);
                }
            }
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_interface_type => {
                let name = its_name();
                let has_scope = language != Language::C && within.scope.len() < MOST_SCOPE_BYTES;
                if let (Some(name), true) = (&name, has_scope) {
                    within.scope.push_str(name);
                    within.scope.push_str("::");
                }
                let record = Record {
                    keyword: keyword(tag),
                    members: Vec::new(),
                    variants: Vec::new(),
                    alignment_bytes: number(value(gimli::DW_AT_alignment)),
                    is_base_part: false,
                };
                let is_declared = is_set(value(gimli::DW_AT_declaration));
                let size_bytes = size_bytes().filter(|_| !is_declared);
                let shape = Shape::Record(record);
                within.owner = Some(self.type_at(
                    key,
                    Type { name: scoped(name), size_bytes, shape },
                    language,
                )?);
            }
            gimli::DW_TAG_member | gimli::DW_TAG_inheritance => {
                self.member(dwarf, unit, start, entry, around);
            }
            gimli::DW_TAG_variant_part => {
                within.owner = around.owner;
                within.variant = Variant::Part;
                if let Some(owner) = around.owner
                    && let Shape::Record(record) = &mut self.table.get_mut(owner).shape
                {
                    record.keyword = Keyword::Enum;
                }
            }
            gimli::DW_TAG_variant => {
                within.owner = around.owner;
                within.variant = Variant::One;
            }
            gimli::DW_TAG_array_type => {
                let size_bytes = size_bytes();
                let shape = Shape::Array { of: None, count: None };
                let id = self.type_at(key, Type { name: None, size_bytes, shape }, language)?;
                self.want(Wants::Of(id), start, value(gimli::DW_AT_type));
                within.owner = Some(id);
                within.is_array = true;
            }
            gimli::DW_TAG_subrange_type if around.is_array => {
                let count = number(value(gimli::DW_AT_count)).or_else(|| {
                    let upper = number(value(gimli::DW_AT_upper_bound))?;
                    // −1 is how some say that there are none.
                    (upper < u64::MAX >> 8).then(|| upper + 1)
                });
                self.dimension(around.owner, count, language)?;
            }
            gimli::DW_TAG_base_type | gimli::DW_TAG_enumeration_type => {
                let of = Type {
                    name: scoped(its_name()),
                    size_bytes: size_bytes(),
                    shape: Shape::Scalar,
                };
                self.type_at(key, of, language)?;
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => {
                let address_bytes = u64::from(unit.encoding().address_size);
                let size_bytes = Some(size_bytes().unwrap_or(address_bytes));
                let of = Type { name: its_name(), size_bytes, shape: Shape::Pointer { to: None } };
                let id = self.type_at(key, of, language)?;
                self.want(Wants::Of(id), start, value(gimli::DW_AT_type));
            }
            gimli::DW_TAG_ptr_to_member_type => {
                let size_bytes = size_bytes();
                let shape = Shape::MemberPointer { to: None, class: None };
                let id = self.type_at(key, Type { name: None, size_bytes, shape }, language)?;
                self.want(Wants::Of(id), start, value(gimli::DW_AT_type));
                self.want(Wants::Class(id), start, value(gimli::DW_AT_containing_type));
            }
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => {
                let is_atomic = tag == gimli::DW_TAG_atomic_type;
                let name = if is_atomic { None } else { scoped(its_name()) };
                let shape = Shape::Alias { to: None, is_atomic };
                let id = self.type_at(key, Type { name, size_bytes: None, shape }, language)?;
                self.want(Wants::Of(id), start, value(gimli::DW_AT_type));
            }
            gimli::DW_TAG_subroutine_type | gimli::DW_TAG_unspecified_type => {
                let name = its_name();
                // C++'s null pointer is the one such type with a form in memory.
                let shape = match &name {
                    Some(name) if name == "decltype(nullptr)" => Shape::Pointer { to: None },
                    _ => Shape::Other,
                };
                let size_bytes = size_bytes();
                self.type_at(key, Type { name, size_bytes, shape }, language)?;
            }
            gimli::DW_TAG_variable => self.variable(dwarf, unit, start, entry, around),
            // Variables within are static ones, if they have an address.
            _ => {
                within.scope = around.scope.clone();
            }
        }
        Ok(within)
    }

    fn type_at(&mut self, key: u64, of: Type, language: Language) -> Result<TypeId, TypesError> {
        let id = self.table.push(of, language)?;
        self.ids.insert(key, id);
        Ok(id)
    }

    /// A further dimension of an array is an array in its element's place.
    fn dimension(
        &mut self,
        owner: Option<TypeId>,
        count: Option<u64>,
        language: Language,
    ) -> Result<(), TypesError> {
        let Some(owner) = owner else { return Ok(()) };
        let Some(inner) = self.innermost.get(&owner).copied() else {
            self.innermost.insert(owner, owner);
            if let Shape::Array { count: its, .. } = &mut self.table.get_mut(owner).shape {
                *its = count;
            }
            return Ok(());
        };
        let shape = Shape::Array { of: None, count };
        let further = self.table.push(Type { name: None, size_bytes: None, shape }, language)?;
        self.innermost.insert(owner, further);
        if let Shape::Array { of, .. } = &mut self.table.get_mut(inner).shape {
            *of = Some(further);
        }
        // Who wanted the element's type is the innermost array now.
        if let Some((wants, _)) = self
            .wants
            .iter_mut()
            .rev()
            .take(16)
            .find(|(wants, _)| matches!(wants, Wants::Of(id) if *id == inner))
        {
            *wants = Wants::Of(further);
        }
        Ok(())
    }

    fn member(&mut self, dwarf: &Dwarf, unit: &Unit, start: u64, entry: &Entry, around: &Open) {
        let value = |name| entry.attr(name).map(Attribute::value);
        // A static member is a variable elsewhere.
        if is_set(value(gimli::DW_AT_declaration)) || is_set(value(gimli::DW_AT_external)) {
            return;
        }
        let Some(owner) = around.owner else { return };
        let is_base = entry.tag() == gimli::DW_TAG_inheritance;
        if is_base && is_virtual(value(gimli::DW_AT_virtuality)) {
            let base = self.classes.push_virtual_base(owner);
            self.want(Wants::VirtualBase { class: owner, base }, start, value(gimli::DW_AT_type));
            return;
        }
        let location = value(gimli::DW_AT_data_member_location);
        let field_bits = number(value(gimli::DW_AT_bit_size));
        let bytes = match location {
            Some(location) => match location_bytes(unit, location) {
                Some(bytes) => bytes,
                // A place that only a running program has.
                None => return,
            },
            None => 0,
        };
        let offset_bits = match number(value(gimli::DW_AT_data_bit_offset)) {
            Some(bits) => bits,
            None => match bytes.checked_mul(8) {
                Some(bits) => bits,
                None => return,
            },
        };
        let from_high = number(value(gimli::DW_AT_bit_offset));
        let storage = number(value(gimli::DW_AT_byte_size));
        let name = value(gimli::DW_AT_name).and_then(|name| text(dwarf, unit, name));
        let is_variant = around.variant != Variant::None;
        let name = match (name, &around.variant) {
            (None, Variant::Part) => Some("(discriminant)".to_owned()),
            (name, _) => name,
        };
        let is_table = name.as_deref().is_some_and(|name| name.starts_with(TABLE));
        let member = Member {
            name,
            offset_bits,
            field_bits,
            of: None,
            alignment_bytes: number(value(gimli::DW_AT_alignment)),
            is_virtual_base: false,
        };
        let Shape::Record(record) = &mut self.table.get_mut(owner).shape else { return };
        let keyword = record.keyword;
        let list = if is_variant { &mut record.variants } else { &mut record.members };
        list.push(member);
        let member = list.len() - 1;
        if is_base {
            self.classes.push_base(owner, member);
        }
        if is_hidden(value(gimli::DW_AT_accessibility), keyword) || is_table {
            self.classes.set_not_plain(owner);
        }
        if let (Some(from_high), Some(_)) = (from_high, field_bits) {
            self.from_high.push((owner, member, from_high, storage));
        }
        self.want(
            Wants::Member { record: owner, member, is_variant },
            start,
            value(gimli::DW_AT_type),
        );
    }

    fn variable(&mut self, dwarf: &Dwarf, unit: &Unit, start: u64, entry: &Entry, around: &Open) {
        let value = |name| entry.attr(name).map(Attribute::value);
        let name = value(gimli::DW_AT_name).and_then(|name| text(dwarf, unit, name));
        let origin = Self::key(
            start,
            value(gimli::DW_AT_specification).or_else(|| value(gimli::DW_AT_abstract_origin)),
        );
        let declared = origin.and_then(|key| self.declared.get(&key)).cloned();
        let full = name.map(|name| format!("{}{name}", around.scope));
        let full = full.or_else(|| declared.as_ref().map(|(name, _)| name.clone()));
        let key = start + entry.offset().0 as u64;
        let of = value(gimli::DW_AT_type);
        let place = value(gimli::DW_AT_location).and_then(|value| address(dwarf, unit, value));
        match (place, full) {
            (Some(address), Some(name)) => {
                self.globals.push(Global { name, address, of: None });
                let wants = Wants::Global(self.globals.len() - 1);
                match (of, declared) {
                    (None, Some((_, Some(key)))) => self.wants.push((wants, key)),
                    (of, _) => self.want(wants, start, of),
                }
            }
            (None, Some(name)) => {
                drop(self.declared.insert(key, (name, Self::key(start, of))));
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Result<TypeTable, TypesError> {
        let wants = std::mem::take(&mut self.wants);
        for (wants, key) in wants {
            if let Some(id) = self.ids.get(&key).copied() {
                self.resolve(&wants, id);
            }
        }
        for (wants, signature) in std::mem::take(&mut self.wants_signature) {
            if let Some(id) = self.signatures.get(&signature).copied() {
                self.resolve(&wants, id);
            }
        }
        for (record, member, from_high, storage) in std::mem::take(&mut self.from_high) {
            self.count_from_low(record, member, from_high, storage);
        }
        for global in std::mem::take(&mut self.globals) {
            self.table.push_global(global);
        }
        self.table.sort_globals();
        std::mem::take(&mut self.classes).place_all(&mut self.table)?;
        Ok(self.table)
    }

    fn resolve(&mut self, wants: &Wants, id: TypeId) {
        match *wants {
            Wants::Of(wanting) => match &mut self.table.get_mut(wanting).shape {
                Shape::Pointer { to }
                | Shape::MemberPointer { to, .. }
                | Shape::Alias { to, .. } => *to = Some(id),
                Shape::Array { of, .. } => *of = Some(id),
                _ => {}
            },
            Wants::VirtualBase { class, base } => self.classes.resolve(class, base, id),
            Wants::Class(wanting) => {
                if let Shape::MemberPointer { class, .. } = &mut self.table.get_mut(wanting).shape {
                    *class = Some(id);
                }
            }
            Wants::Member { record, member, is_variant } => {
                let Shape::Record(record) = &mut self.table.get_mut(record).shape else { return };
                let list = if is_variant { &mut record.variants } else { &mut record.members };
                list[member].of = Some(id);
            }
            Wants::Global(at) => self.globals[at].of = Some(id),
        }
    }

    /// DWARF 3 counts a bit field's place from the high end of the word that holds it.
    fn count_from_low(
        &mut self,
        record: TypeId,
        member: usize,
        from_high: u64,
        storage: Option<u64>,
    ) {
        let Shape::Record(its) = &self.table.get(record).shape else { return };
        let Some(found) = its.members.get(member) else { return };
        let storage = storage.or_else(|| found.of.and_then(|of| self.table.size_bytes(of)));
        let place = storage
            .and_then(|bytes| bytes.checked_mul(8))
            .and_then(|bits| bits.checked_sub(from_high)?.checked_sub(found.field_bits?))
            .and_then(|bits| bits.checked_add(found.offset_bits));
        if let (Some(place), Shape::Record(its)) = (place, &mut self.table.get_mut(record).shape) {
            its.members[member].offset_bits = place;
        }
    }
}

fn keyword(tag: DwTag) -> Keyword {
    match tag {
        gimli::DW_TAG_union_type => Keyword::Union,
        gimli::DW_TAG_class_type => Keyword::Class,
        _ => Keyword::Struct,
    }
}
