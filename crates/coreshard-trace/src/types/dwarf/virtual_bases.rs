//! Computes the offsets of virtual bases in C++ classes.
//!
//! DWARF does not have the offset of a virtual base, only an expression that finds it in an object. The offset follows
//! from section 2.4 of the Itanium C++ ABI, which all compilers on Linux implement:
//!
//! 1. A class begins with its non-virtual part: its own fields and non-virtual bases. DWARF has their offsets.
//! 2. Its virtual bases follow in the order of a depth-first walk through all bases. Each is placed once.
//! 3. A base class occupies only its non-virtual part, without the padding at its end. Plain old data keeps its
//!    padding.
//! 4. A virtual base that consists only of a table pointer may share this pointer with the class. It is then the
//!    class's primary base, and has offset 0.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::types::error::TypesError;
use crate::types::table::{MOST_STEPS, Member, Record, Shape, Type, TypeId, TypeTable, WORD_BYTES};

/// Classes that are visited to place the bases of one.
const MOST_VISITS: usize = 20_000;
/// A base of a class.
#[derive(Clone, Copy, Debug)]
enum Base {
    /// A member of the record, by index.
    Member(usize),
    Virtual(Option<TypeId>),
}

/// The classes with bases, in source order.
#[derive(Default)]
pub(super) struct Classes {
    bases: HashMap<TypeId, Vec<Base>>,
    /// Classes with constructors, destructors, virtual functions or fields that are not public.
    not_plain: HashSet<TypeId>,
    known: HashMap<TypeId, Option<Rc<Class>>>,
    visits: usize,
}

/// The base subobject of a class.
#[derive(Debug)]
struct Class {
    bases: Vec<(TypeId, Kind)>,
    /// Size of the non-virtual part.
    size_bytes: u64,
    align_bytes: u64,
    /// The alignment that the source specifies for the class or for a base. DWARF does not distinguish the two.
    asked_bytes: u64,
    /// The class without its virtual bases; the class itself if it has none.
    part: TypeId,
    has_virtual_bases: bool,
    has_table: bool,
    is_empty: bool,
    /// Whether it consists only of a table pointer.
    is_nearly_empty: bool,
    primary: Option<TypeId>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Its offset in bytes.
    At(u64),
    Virtual,
}

/// Properties of a class without its virtual bases.
struct NonVirtualPart {
    has_virtual_bases: bool,
    has_table: bool,
    /// Whether it has a table pointer that none of its non-virtual bases provides.
    may_share_table: bool,
    is_empty: bool,
    is_nearly_empty: bool,
    end_bytes: u64,
}

impl NonVirtualPart {
    /// Returns the size of the table pointer, which is not a field if a virtual base provides it.
    const fn table_bytes(&self) -> u64 {
        if self.has_table { WORD_BYTES } else { 0 }
    }
}

fn end_of(types: &TypeTable, field: &Member) -> u64 {
    match field.field_bits {
        Some(bits) => field.offset_bits.saturating_add(bits).div_ceil(8),
        None => {
            let size = field.of.and_then(|of| types.size_bytes(of)).unwrap_or(0);
            (field.offset_bits / 8).saturating_add(size)
        }
    }
}

/// A placement of the virtual bases of a class.
struct Way {
    placed: Vec<(TypeId, u64)>,
    end_bytes: u64,
    align_bytes: u64,
}

impl Way {
    fn size_bytes(&self) -> Option<u64> {
        self.end_bytes.checked_next_multiple_of(self.align_bytes)
    }
}

impl Classes {
    pub(super) fn push_base(&mut self, class: TypeId, member: usize) {
        self.bases.entry(class).or_default().push(Base::Member(member));
    }

    /// Returns the base's number, for [`Classes::resolve`].
    pub(super) fn push_virtual_base(&mut self, class: TypeId) -> usize {
        let bases = self.bases.entry(class).or_default();
        bases.push(Base::Virtual(None));
        bases.len() - 1
    }

    pub(super) fn resolve(&mut self, class: TypeId, base: usize, id: TypeId) {
        if let Some(base) = self.bases.get_mut(&class).and_then(|bases| bases.get_mut(base)) {
            *base = Base::Virtual(Some(id));
        }
    }

    pub(super) fn set_not_plain(&mut self, class: TypeId) {
        self.not_plain.insert(class);
    }

    /// Adds virtual bases to the members of all classes.
    pub(super) fn place_all(mut self, types: &mut TypeTable) -> Result<(), TypesError> {
        let mut all: Vec<_> = self.bases.keys().copied().collect();
        all.sort_unstable();
        // Compute all classes first: a base subobject is a copy of the record without virtual bases.
        let mut found = Vec::new();
        for id in all {
            self.visits = 0;
            let class = self.class(types, id, MOST_STEPS)?;
            found.extend(class.filter(|class| class.has_virtual_bases).map(|class| (id, class)));
        }
        for (id, class) in found {
            self.visits = 0;
            let size_bytes = types.get(id).size_bytes.unwrap_or(0);
            // The size of the class shows whether an alignment belongs to the class or only to a base.
            let mut ways: Vec<_> =
                [false, true].into_iter().filter_map(|own| self.placed(&class, own)).collect();
            // A placement that does not fit follows unknown rules.
            ways.retain(|way| way.end_bytes <= size_bytes);
            let exact = ways.iter().position(|way| way.size_bytes() == Some(size_bytes));
            let Some(way) = ways.get(exact.unwrap_or(0)) else { continue };
            let members: Vec<_> =
                way.placed.iter().map(|(base, offset)| self.member(*base, *offset)).collect();
            if let Some(record) = types.record_mut(id) {
                record.members.extend(members);
            }
        }
        Ok(())
    }

    fn get(&self, id: TypeId) -> Option<&Rc<Class>> {
        self.known.get(&id)?.as_ref()
    }

    fn member(&self, base: TypeId, offset: u64) -> Member {
        Member {
            name: None,
            offset_bits: offset.saturating_mul(8),
            field_bits: None,
            of: Some(self.get(base).map_or(base, |class| class.part)),
            alignment_bytes: None,
            is_virtual_base: true,
        }
    }

    /// Computes a class and all of its bases. Returns none if one of them is unknown.
    fn class(
        &mut self,
        types: &mut TypeTable,
        id: TypeId,
        steps: usize,
    ) -> Result<Option<Rc<Class>>, TypesError> {
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        if steps == 0 {
            return Ok(None);
        }
        // Ends the recursion if a class is its own base, which no compiler writes.
        self.known.insert(id, None);
        let mut bases = Vec::new();
        for base in self.bases.get(&id).cloned().unwrap_or_default() {
            let (of, kind) = match base {
                Base::Virtual(of) => (of, Kind::Virtual),
                Base::Member(member) => {
                    let Shape::Record(record) = &types.get(id).shape else { return Ok(None) };
                    let member = &record.members[member];
                    (member.of, Kind::At(member.offset_bits / 8))
                }
            };
            let Some(of) = of.map(|of| types.stripped(of)) else { return Ok(None) };
            if self.class(types, of, steps - 1)?.is_none() {
                return Ok(None);
            }
            bases.push((of, kind));
        }
        let class = self.class_with(types, id, bases)?.map(Rc::new);
        self.known.insert(id, class.clone());
        Ok(class)
    }

    fn class_with(
        &mut self,
        types: &mut TypeTable,
        id: TypeId,
        bases: Vec<(TypeId, Kind)>,
    ) -> Result<Option<Class>, TypesError> {
        let is_plain = self.is_plain_data(types, id, MOST_STEPS);
        let Some(whole_bytes) = types.get(id).size_bytes else { return Ok(None) };
        let Some(own) = self.non_virtual_part(types, id, &bases) else { return Ok(None) };
        let primary = if own.may_share_table { self.primary(&bases) } else { None };
        let size_bytes = match (own.is_empty, is_plain) {
            (true, _) => 0,
            (false, true) => whole_bytes,
            (false, false) => own.end_bytes,
        };
        let part = match own.has_virtual_bases {
            true => self.part(types, id, &bases, size_bytes)?,
            false => id,
        };
        let asked_bytes = match &types.get(id).shape {
            Shape::Record(record) => record.alignment_bytes.unwrap_or(1),
            _ => 1,
        };
        Ok(Some(Class {
            bases,
            size_bytes,
            align_bytes: types.alignment_bytes(part).max(own.table_bytes()),
            asked_bytes,
            part,
            has_virtual_bases: own.has_virtual_bases,
            has_table: own.has_table,
            is_empty: own.is_empty,
            is_nearly_empty: own.is_nearly_empty,
            primary,
        }))
    }

    /// Computes the non-virtual part of a class. Returns none if the type is not a record.
    fn non_virtual_part(
        &self,
        types: &TypeTable,
        id: TypeId,
        bases: &[(TypeId, Kind)],
    ) -> Option<NonVirtualPart> {
        let Shape::Record(record) = &types.get(id).shape else { return None };
        let is_base = self.members_that_are_bases(id);
        let fields: Vec<&Member> = (0..)
            .zip(&record.members)
            .filter(|(number, _)| !is_base.contains(number))
            .map(|(_, member)| member)
            .collect();
        let mut classes = Vec::new();
        for (base, kind) in bases {
            classes.push((self.get(*base)?, *kind));
        }
        let non_virtual = || classes.iter().filter(|(_, kind)| *kind != Kind::Virtual);
        let has_virtual_bases =
            classes.iter().any(|(base, kind)| *kind == Kind::Virtual || base.has_virtual_bases);
        let has_table = fields.iter().any(|field| field.is_table_pointer())
            || has_virtual_bases
            || classes.iter().any(|(base, _)| base.has_table);
        let mut part = NonVirtualPart {
            has_virtual_bases,
            has_table,
            may_share_table: has_virtual_bases && !non_virtual().any(|(base, _)| base.has_table),
            is_empty: fields.is_empty()
                && !has_virtual_bases
                && classes.iter().all(|(base, _)| base.is_empty),
            is_nearly_empty: has_table
                && fields.iter().all(|field| field.is_table_pointer())
                && non_virtual().all(|(base, _)| base.is_empty || base.is_nearly_empty),
            end_bytes: 0,
        };
        let ends = fields.iter().map(|field| end_of(types, field));
        let base_ends = classes.iter().filter_map(|(base, kind)| match kind {
            Kind::At(offset) if !base.is_empty => Some(offset.saturating_add(base.size_bytes)),
            _ => None,
        });
        part.end_bytes = ends.chain(base_ends).max().unwrap_or(0).max(part.table_bytes());
        Some(part)
    }

    fn members_that_are_bases(&self, id: TypeId) -> HashSet<usize> {
        let all = self.bases.get(&id).into_iter().flatten();
        all.filter_map(|base| match base {
            Base::Member(member) => Some(*member),
            Base::Virtual(_) => None,
        })
        .collect()
    }

    /// Whether a class is plain old data: it has no constructor, no base and no table, and its fields are plain old
    /// data.
    fn is_plain_data(&mut self, types: &TypeTable, id: TypeId, steps: usize) -> bool {
        self.visits += 1;
        if self.visits > MOST_VISITS || steps == 0 {
            return false;
        }
        let id = types.stripped(id);
        match &types.get(id).shape {
            Shape::Array { of: Some(of), .. } => self.is_plain_data(types, *of, steps - 1),
            Shape::Record(record) => {
                !self.not_plain.contains(&id)
                    && !self.bases.contains_key(&id)
                    && record
                        .members
                        .iter()
                        .filter_map(|member| member.of)
                        .all(|of| self.is_plain_data(types, of, steps - 1))
            }
            _ => true,
        }
    }

    /// Returns the type of a class as a base: without its virtual bases, and with non-virtual bases of the same form.
    fn part(
        &self,
        types: &mut TypeTable,
        id: TypeId,
        bases: &[(TypeId, Kind)],
        size_bytes: u64,
    ) -> Result<TypeId, TypesError> {
        let members = self.members_that_are_bases(id);
        let Shape::Record(record) = &types.get(id).shape else { return Ok(id) };
        let stripped: Vec<_> =
            record.members.iter().map(|member| member.of.map(|of| types.stripped(of))).collect();
        if let Some(record) = types.record_mut(id) {
            for (number, member) in record.members.iter_mut().enumerate() {
                let at = Kind::At(member.offset_bits / 8);
                let is_it =
                    |(base, kind): &&(TypeId, Kind)| *kind == at && Some(*base) == stripped[number];
                if members.contains(&number)
                    && let Some(class) =
                        bases.iter().find(is_it).and_then(|(base, _)| self.get(*base))
                {
                    member.of = Some(class.part);
                }
            }
        }
        let Type { name, shape, .. } = types.get(id).clone();
        let Shape::Record(record) = shape else { return Ok(id) };
        // gcc repeats the specified alignment of a base in the derived class.
        let of_base = |(base, _): &(TypeId, Kind)| match &types.get(*base).shape {
            Shape::Record(record) => record.alignment_bytes,
            _ => None,
        };
        let inherited = bases.iter().filter_map(of_base).max();
        let alignment_bytes = record.alignment_bytes.filter(|its| Some(*its) > inherited);
        // The table pointer is not a field if a virtual base provides it, so its alignment is added here.
        let alignment_bytes = alignment_bytes.max(Some(WORD_BYTES));
        let shape = Shape::Record(Record { is_base_part: true, alignment_bytes, ..record });
        let language = types.language(id);
        types.push(Type { name, size_bytes: Some(size_bytes), shape }, language)
    }

    /// Returns all virtual bases in the order of a depth-first walk, and the bases whose table pointer another base
    /// shares. Returns none if there are too many.
    fn virtual_bases(
        &mut self,
        bases: &[(TypeId, Kind)],
    ) -> Option<(Vec<TypeId>, HashSet<TypeId>)> {
        let (mut found, mut shared) = (Vec::new(), HashSet::new());
        let mut seen = HashSet::new();
        self.walk(bases, MOST_STEPS, &mut |base, kind, class| {
            shared.extend(class.primary);
            if kind == Kind::Virtual && seen.insert(base) {
                found.push(base);
            }
        })?;
        Some((found, shared))
    }

    /// Calls `visit` for all bases, each before its own bases. Returns none if there are too many.
    fn walk(
        &mut self,
        bases: &[(TypeId, Kind)],
        steps: usize,
        visit: &mut dyn FnMut(TypeId, Kind, &Class),
    ) -> Option<()> {
        for (base, kind) in bases {
            self.visits += 1;
            if self.visits > MOST_VISITS || steps == 0 {
                return None;
            }
            let class = Rc::clone(self.get(*base)?);
            visit(*base, *kind, &class);
            self.walk(&class.bases, steps - 1, visit)?;
        }
        Some(())
    }

    /// Returns the primary base of a class: the first virtual base that is not the primary base of another class, or
    /// else the first.
    fn primary(&mut self, bases: &[(TypeId, Kind)]) -> Option<TypeId> {
        let (mut all, shared) = self.virtual_bases(bases)?;
        all.retain(|base| self.get(*base).is_some_and(|class| class.is_nearly_empty));
        all.iter().find(|base| !shared.contains(base)).or(all.first()).copied()
    }

    /// Computes the offsets of a class's virtual bases. With `own`, an ambiguous alignment belongs to the class itself.
    fn placed(&mut self, class: &Class, own: bool) -> Option<Way> {
        let align =
            |its: &Class| if own { its.align_bytes.max(its.asked_bytes) } else { its.align_bytes };
        let (all, shared) = self.virtual_bases(&class.bases)?;
        let mut placed = HashMap::new();
        self.share(class, 0, &mut placed, MOST_STEPS)?;
        let mut end_bytes = class.size_bytes;
        let mut align_bytes = class.align_bytes.max(class.asked_bytes);
        for base in &all {
            let its = Rc::clone(self.get(*base)?);
            align_bytes = align_bytes.max(align(&its));
            if placed.contains_key(base) || shared.contains(base) {
                continue;
            }
            let next = end_bytes.checked_next_multiple_of(align(&its))?;
            let offset = if its.is_empty { 0 } else { next };
            placed.insert(*base, offset);
            self.share(&its, offset, &mut placed, MOST_STEPS)?;
            end_bytes = end_bytes.max(offset.checked_add(its.size_bytes)?);
        }
        let placed: Option<Vec<_>> =
            all.into_iter().map(|base| Some((base, *placed.get(&base)?))).collect();
        Some(Way { placed: placed?, end_bytes, align_bytes })
    }

    /// Places the primary bases of the class at `offset` and of its non-virtual bases.
    fn share(
        &mut self,
        class: &Class,
        offset: u64,
        placed: &mut HashMap<TypeId, u64>,
        steps: usize,
    ) -> Option<()> {
        self.visits += 1;
        if self.visits > MOST_VISITS || steps == 0 {
            return None;
        }
        if let Some(primary) = class.primary
            && !placed.contains_key(&primary)
        {
            placed.insert(primary, offset);
            let its = Rc::clone(self.get(primary)?);
            self.share(&its, offset, placed, steps - 1)?;
        }
        for (base, kind) in &class.bases {
            if let Kind::At(at) = kind {
                let its = Rc::clone(self.get(*base)?);
                self.share(&its, offset.checked_add(*at)?, placed, steps - 1)?;
            }
        }
        Some(())
    }
}
