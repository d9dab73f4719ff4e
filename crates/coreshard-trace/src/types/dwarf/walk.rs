//! Reads types and globals from DWARF in one pass over all entries.

use std::collections::HashMap;

use gimli::DebuggingInformationEntry;

use super::entry::Entry;
use super::references::{
    IN_SUPPLEMENT, IN_TYPES, MOST_SPLIT, References, Target, Wants, split_place,
};
use super::sections::{Dwarf, Unit};
use super::split::{Reference, SplitFiles};
use super::virtual_bases::Classes;
use crate::types::error::TypesError;
use crate::types::table::{
    Global, Keyword, Language, Member, Record, Shape, Type, TypeId, TypeTable,
};

/// Nesting depth of entries.
const MOST_DEPTH: usize = 512;
/// Total length of the names around an entry, in bytes.
const MOST_SCOPE_BYTES: usize = 4_096;

/// The context of an entry.
#[derive(Default)]
struct Open {
    /// The type that owns the children.
    owner: Option<TypeId>,
    /// Names of the enclosing namespaces and types, with a `::` at the end.
    scope: String,
    variant: Variant,
    /// Whether children are dimensions of the owner.
    is_array: bool,
}

impl Open {
    fn enter(&mut self, name: Option<&str>) {
        if let (Some(name), true) = (name, self.scope.len() < MOST_SCOPE_BYTES) {
            self.scope.push_str(name);
            self.scope.push_str("::");
        }
    }
}

/// Whether children of an entry are variants, or are inside of one.
#[derive(Default, PartialEq)]
enum Variant {
    #[default]
    None,
    Part,
    One,
}

/// A bit field whose offset is counted from the high end of its word, as in DWARF 3.
struct FromHigh {
    record: TypeId,
    member: usize,
    bits: u64,
    storage_bytes: Option<u64>,
}

/// A unit in a walk.
#[derive(Clone, Copy)]
struct WalkedUnit {
    /// The key of the unit's first byte.
    start: u64,
    language: Language,
}

impl WalkedUnit {
    fn key(self, entry: &Entry<'_>) -> u64 {
        self.start + entry.die.offset().0 as u64
    }

    fn target(self, entry: &Entry<'_>, name: gimli::DwAt) -> Option<Target> {
        Target::of(self.start, &entry.value(name)?)
    }

    /// Prepends the enclosing names if the language has namespaces.
    fn scoped(self, around: &Open, name: Option<String>) -> Option<String> {
        match self.language {
            Language::C => name,
            Language::Cpp | Language::Rust => name.map(|name| format!("{}{name}", around.scope)),
        }
    }
}

#[derive(Default)]
struct Walk {
    table: TypeTable,
    references: References,
    /// Name and type of declarations that definitions refer to.
    declared: HashMap<u64, (String, Option<Target>)>,
    from_high: Vec<FromHigh>,
    /// For each array with several dimensions, the innermost array read so far.
    innermost: HashMap<TypeId, TypeId>,
    classes: Classes,
    /// Number of split units read so far.
    split_units: u64,
}

/// Reads all types and globals. `supplement` and `split` are files that this file refers to.
pub(in crate::types) fn read(
    dwarf: &Dwarf,
    supplement: Option<&Dwarf>,
    split: &SplitFiles,
) -> Result<TypeTable, TypesError> {
    let mut walk = Walk::default();
    if let Some(supplement) = supplement {
        walk.walk_units(supplement, IN_SUPPLEMENT, |_| true)?;
    }
    walk.walk_units(dwarf, 0, |_| true)?;
    walk.walk_split_units(dwarf, split)?;
    walk.finish()
}

fn type_unit(header: &gimli::UnitHeader<super::sections::Slice>) -> Option<(u64, usize)> {
    match header.type_() {
        gimli::UnitType::Type { type_signature, type_offset }
        | gimli::UnitType::SplitType { type_signature, type_offset } => {
            Some((type_signature.0, type_offset.0))
        }
        _ => None,
    }
}

impl Walk {
    /// Walks the units that `select` accepts. It may modify them first.
    fn walk_units(
        &mut self,
        dwarf: &Dwarf,
        place: u64,
        mut select: impl FnMut(&mut Unit) -> bool,
    ) -> Result<(), TypesError> {
        let mut walk = |header: gimli::UnitHeader<_>, start: usize, place: u64| {
            let mut unit = dwarf.unit(header).map_err(|error| TypesError::dwarf(start, error))?;
            if select(&mut unit) {
                self.walk_unit(dwarf, &unit, place | start as u64)
            } else {
                Ok(())
            }
        };
        let wrong = |error| TypesError::dwarf(0, error);
        let mut units = dwarf.units();
        while let Some(header) = units.next().map_err(wrong)? {
            let start = header.debug_info_offset().map_or(0, |offset| offset.0);
            walk(header, start, place)?;
        }
        let mut units = dwarf.type_units();
        while let Some(header) = units.next().map_err(wrong)? {
            let start = header.debug_types_offset().map_or(0, |offset| offset.0);
            walk(header, start, place | IN_TYPES)?;
        }
        Ok(())
    }

    /// Walks the split units of all skeletons, and the types that they refer to.
    fn walk_split_units(&mut self, program: &Dwarf, files: &SplitFiles) -> Result<(), TypesError> {
        let mut is_any = false;
        let mut units = program.units();
        while let Ok(Some(header)) = units.next() {
            let start = header.debug_info_offset().map_or(0, |offset| offset.0);
            let skeleton = program.unit(header).map_err(|error| TypesError::dwarf(start, error))?;
            let Some(reference) = Reference::of(program, &skeleton) else { continue };
            is_any = true;
            match files.sections_of(program, &reference) {
                Ok(dwarf) => self
                    .walk_split(&dwarf, Some((&skeleton, reference.id)))
                    .map_err(|error| error.in_file(&reference.file()))?,
                Err(why) => self.table.push_missing_file(why),
            }
        }
        let Some(package) = files.package().filter(|_| is_any) else { return Ok(()) };
        for row in 1..=package.tu_index.unit_count() {
            let wrong = |error| TypesError::dwarf(0, error);
            self.walk_split(&package.tu_sections(row, program).map_err(wrong)?, None)?;
        }
        Ok(())
    }

    /// Walks a split unit's sections. If the file also has the units of other skeletons, they are walked as well.
    fn walk_split(
        &mut self,
        dwarf: &Dwarf,
        of: Option<(&Unit, gimli::DwoId)>,
    ) -> Result<(), TypesError> {
        self.split_units += 1;
        if self.split_units > MOST_SPLIT {
            return Err(TypesError::too_many(MOST_SPLIT as usize));
        }
        self.walk_units(dwarf, split_place(self.split_units), |unit| {
            if let Some((skeleton, _)) = of {
                unit.copy_relocated_attributes(skeleton);
            }
            unit.dwo_id.is_none() || of.is_some_and(|(_, id)| unit.dwo_id == Some(id))
        })
    }

    fn walk_unit(&mut self, dwarf: &Dwarf, unit: &Unit, start: u64) -> Result<(), TypesError> {
        let wrong = |at: gimli::UnitOffset, error: gimli::Error| {
            let start = unit.header.debug_info_offset().map_or(0, |offset| offset.0);
            TypesError::dwarf(start + at.0, error)
        };
        let mut place = WalkedUnit { start, language: Language::C };
        let mut open: Vec<Open> = vec![Open::default()];
        let at = unit.header.root_offset();
        let mut entries = unit.entries_raw(None).map_err(|error| wrong(at, error))?;
        let mut die = DebuggingInformationEntry::null();
        while !entries.is_empty() {
            let at = entries.next_offset();
            let is_there = entries.read_entry(&mut die).map_err(|error| wrong(at, error))?;
            let depth = usize::try_from(die.depth()).unwrap_or(0);
            if depth >= MOST_DEPTH {
                let what = "entries lie too deep in one another";
                return Err(TypesError::dwarf(start as usize + at.0, what));
            }
            open.truncate(depth + 1);
            if !is_there {
                continue;
            }
            let entry = Entry { dwarf, unit, die: &die };
            if depth == 0 {
                place.language = entry.language();
            }
            let mut within = match open.last() {
                Some(around) => Open { scope: around.scope.clone(), ..Open::default() },
                None => Open::default(),
            };
            if let Some(around) = open.last() {
                self.visit(place, &entry, around, &mut within)?;
            }
            open.push(within);
        }
        if let Some((signature, offset)) = type_unit(&unit.header)
            && let Some(id) = self.references.id_of(start + offset as u64)
        {
            self.table.set_signature(signature, id);
        }
        Ok(())
    }

    /// Adds the type or global of an entry. `within` is the context of its children.
    fn visit(
        &mut self,
        place: WalkedUnit,
        entry: &Entry<'_>,
        around: &Open,
        within: &mut Open,
    ) -> Result<(), TypesError> {
        let tag = entry.die.tag();
        match tag {
            gimli::DW_TAG_namespace | gimli::DW_TAG_module => {
                within.enter(entry.name().as_deref());
            }
            gimli::DW_TAG_subprogram => self.function(entry, around),
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_enumeration_type => self.user_type(place, entry, around, within)?,
            gimli::DW_TAG_member | gimli::DW_TAG_inheritance => self.member(place, entry, around),
            gimli::DW_TAG_variant_part => {
                within.owner = around.owner;
                within.variant = Variant::Part;
                if let Some(record) = around.owner.and_then(|owner| self.table.record_mut(owner)) {
                    record.keyword = Keyword::Enum;
                }
            }
            gimli::DW_TAG_variant => {
                within.owner = around.owner;
                within.variant = Variant::One;
            }
            gimli::DW_TAG_array_type => {
                let shape = Shape::Array { of: None, count: None };
                within.owner = Some(self.referring(place, entry, None, shape)?);
                within.is_array = true;
            }
            gimli::DW_TAG_subrange_type if around.is_array => {
                self.dimension(place, entry, around.owner)?;
            }
            gimli::DW_TAG_base_type => {
                let name = place.scoped(around, entry.name());
                self.add_type(place, entry, name, Shape::Scalar)?;
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => {
                let id = self.referring(place, entry, entry.name(), Shape::Pointer { to: None })?;
                let address_bytes = u64::from(entry.unit.encoding().address_size);
                self.table.get_mut(id).size_bytes.get_or_insert(address_bytes);
            }
            gimli::DW_TAG_ptr_to_member_type => {
                let shape = Shape::MemberPointer { to: None, class: None };
                let id = self.referring(place, entry, None, shape)?;
                let class = place.target(entry, gimli::DW_AT_containing_type);
                self.references.want(Wants::Class(id), class);
            }
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => {
                let is_atomic = tag == gimli::DW_TAG_atomic_type;
                let name = if is_atomic { None } else { place.scoped(around, entry.name()) };
                self.referring(place, entry, name, Shape::Alias { to: None, is_atomic })?;
            }
            gimli::DW_TAG_subroutine_type | gimli::DW_TAG_unspecified_type => {
                let name = entry.name();
                // C++'s null pointer is the only unspecified type with a representation in memory.
                let shape = match name.as_deref() {
                    Some("decltype(nullptr)") => Shape::Pointer { to: None },
                    _ => Shape::Other,
                };
                self.add_type(place, entry, name, shape)?;
            }
            gimli::DW_TAG_variable => self.variable(place, entry, around),
            _ => {}
        }
        Ok(())
    }

    fn function(&mut self, entry: &Entry<'_>, around: &Open) {
        if let Some(owner) = around.owner
            && let Some(class) = self.table.get(owner).name.as_deref()
            && entry.is_special(class)
        {
            self.classes.set_not_plain(owner);
        }
    }

    fn add_type(
        &mut self,
        place: WalkedUnit,
        entry: &Entry<'_>,
        name: Option<String>,
        shape: Shape,
    ) -> Result<TypeId, TypesError> {
        // An alias has the size of its target.
        let size_bytes = match shape {
            Shape::Alias { .. } => None,
            _ => entry.number(gimli::DW_AT_byte_size),
        };
        let id = self.table.push(Type { name, size_bytes, shape }, place.language)?;
        self.references.define(place.key(entry), id);
        Ok(id)
    }

    /// Adds a type that refers to another one.
    fn referring(
        &mut self,
        place: WalkedUnit,
        entry: &Entry<'_>,
        name: Option<String>,
        shape: Shape,
    ) -> Result<TypeId, TypesError> {
        let id = self.add_type(place, entry, name, shape)?;
        self.references.want(Wants::Of(id), place.target(entry, gimli::DW_AT_type));
        Ok(id)
    }

    /// Adds a record or an enum.
    fn user_type(
        &mut self,
        place: WalkedUnit,
        entry: &Entry<'_>,
        around: &Open,
        within: &mut Open,
    ) -> Result<(), TypesError> {
        let name = entry.name();
        let tag = entry.die.tag();
        // A signature refers to the type in a type unit.
        let stands_for = place.target(entry, gimli::DW_AT_signature);
        let is_enum = tag == gimli::DW_TAG_enumeration_type;
        if place.language != Language::C && (stands_for.is_some() || !is_enum) {
            within.enter(name.as_deref());
        }
        if stands_for.is_some() {
            let id =
                self.add_type(place, entry, None, Shape::Alias { to: None, is_atomic: false })?;
            self.references.want(Wants::Of(id), stands_for);
            return Ok(());
        }
        let name = place.scoped(around, name);
        if is_enum {
            self.add_type(place, entry, name, Shape::Scalar)?;
            return Ok(());
        }
        let keyword = match tag {
            gimli::DW_TAG_union_type => Keyword::Union,
            gimli::DW_TAG_class_type => Keyword::Class,
            _ => Keyword::Struct,
        };
        let alignment_bytes = entry.number(gimli::DW_AT_alignment);
        let record = Record { alignment_bytes, ..Record::new(keyword) };
        let id = self.add_type(place, entry, name, Shape::Record(record))?;
        if entry.is_set(gimli::DW_AT_declaration) {
            self.table.get_mut(id).size_bytes = None;
        }
        within.owner = Some(id);
        Ok(())
    }

    /// Adds a dimension to an array. The element of an array with several dimensions is an array.
    fn dimension(
        &mut self,
        place: WalkedUnit,
        entry: &Entry<'_>,
        owner: Option<TypeId>,
    ) -> Result<(), TypesError> {
        let Some(owner) = owner else { return Ok(()) };
        let count = entry.number(gimli::DW_AT_count).or_else(|| {
            let upper = entry.number(gimli::DW_AT_upper_bound)?;
            // Some compilers write −1 for an unknown length.
            (upper < u64::MAX >> 8).then(|| upper + 1)
        });
        let Some(outer) = self.innermost.get(&owner).copied() else {
            self.innermost.insert(owner, owner);
            if let Shape::Array { count: its, .. } = &mut self.table.get_mut(owner).shape {
                *its = count;
            }
            return Ok(());
        };
        let shape = Shape::Array { of: None, count };
        let inner =
            self.table.push(Type { name: None, size_bytes: None, shape }, place.language)?;
        self.innermost.insert(owner, inner);
        if let Shape::Array { of, .. } = &mut self.table.get_mut(outer).shape {
            *of = Some(inner);
        }
        self.references.pass_on(outer, inner);
        Ok(())
    }

    fn member(&mut self, place: WalkedUnit, entry: &Entry<'_>, around: &Open) {
        // A static member is a variable, which has its own entry.
        if entry.is_set(gimli::DW_AT_declaration) || entry.is_set(gimli::DW_AT_external) {
            return;
        }
        let Some(owner) = around.owner else { return };
        let of = place.target(entry, gimli::DW_AT_type);
        let is_base = entry.die.tag() == gimli::DW_TAG_inheritance;
        if is_base && entry.is_virtual() {
            let base = self.classes.push_virtual_base(owner) as u32;
            self.references.want(Wants::VirtualBase { class: owner, base }, of);
            return;
        }
        let Some(offset_bits) = entry.offset_bits() else { return };
        let member = Member {
            name: match (entry.name(), &around.variant) {
                (None, Variant::Part) => Some("(discriminant)".to_owned()),
                (name, _) => name,
            },
            offset_bits,
            field_bits: entry.number(gimli::DW_AT_bit_size),
            of: None,
            alignment_bytes: entry.number(gimli::DW_AT_alignment),
            is_virtual_base: false,
        };
        let (is_table, is_field) = (member.is_table_pointer(), member.field_bits.is_some());
        let Some(record) = self.table.record_mut(owner) else { return };
        let is_hidden = entry.is_hidden(record.keyword);
        let is_variant = around.variant != Variant::None;
        let list = record.list_mut(is_variant);
        list.push(member);
        let member = list.len() - 1;
        if is_base {
            self.classes.push_base(owner, member);
        }
        if is_hidden || is_table {
            self.classes.set_not_plain(owner);
        }
        if let (Some(bits), true) = (entry.number(gimli::DW_AT_bit_offset), is_field) {
            let storage_bytes = entry.number(gimli::DW_AT_byte_size);
            self.from_high.push(FromHigh { record: owner, member, bits, storage_bytes });
        }
        let wants = Wants::Member { record: owner, member: member as u32, is_variant };
        self.references.want(wants, of);
    }

    fn variable(&mut self, place: WalkedUnit, entry: &Entry<'_>, around: &Open) {
        let origin = place
            .target(entry, gimli::DW_AT_specification)
            .or_else(|| place.target(entry, gimli::DW_AT_abstract_origin));
        let declared = match origin {
            Some(Target::Entry(key)) => self.declared.get(&key).cloned(),
            _ => None,
        };
        let of = place.target(entry, gimli::DW_AT_type);
        let own = entry.name().map(|name| (format!("{}{name}", around.scope), None));
        let Some((name, _)) = own.as_ref().or(declared.as_ref()) else { return };
        match entry.fixed_address() {
            Some(address) => {
                let at = self.table.push_global(Global { name: name.clone(), address, of: None });
                let of = of.or(declared.and_then(|(_, of)| of));
                self.references.want(Wants::Global(at as u32), of);
            }
            None => drop(self.declared.insert(place.key(entry), (name.clone(), of))),
        }
    }

    fn finish(mut self) -> Result<TypeTable, TypesError> {
        self.references.resolve(&mut self.table, &mut self.classes);
        for field in &self.from_high {
            field.count_from_low(&mut self.table);
        }
        self.table.sort_globals();
        self.classes.place_all(&mut self.table)?;
        Ok(self.table)
    }
}

impl FromHigh {
    fn count_from_low(&self, table: &mut TypeTable) {
        let Shape::Record(record) = &table.get(self.record).shape else { return };
        let Some(found) = record.members.get(self.member) else { return };
        let storage = self.storage_bytes.or_else(|| table.size_bytes(found.of?));
        let place = storage
            .and_then(|bytes| bytes.checked_mul(8)?.checked_sub(self.bits))
            .and_then(|bits| bits.checked_sub(found.field_bits?)?.checked_add(found.offset_bits));
        if let (Some(place), Some(record)) = (place, table.record_mut(self.record)) {
            record.members[self.member].offset_bits = place;
        }
    }
}
