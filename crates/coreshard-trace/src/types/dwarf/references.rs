//! References from types to the entries of other types.
//!
//! An entry may refer to a later entry. Each entry therefore has a key, made of its offset. References are keys during
//! the walk, and are resolved to numbers of types after it.

use std::collections::HashMap;

use gimli::AttributeValue;

use super::sections::Slice;
use super::virtual_bases::Classes;
use crate::types::table::{Shape, TypeId, TypeTable};

/// Bit of a key: the entry is in `.debug_types`, or in the file that several debug files share.
pub(super) const IN_TYPES: u64 = 1 << 62;
pub(super) const IN_SUPPLEMENT: u64 = 1 << 63;
/// Position in a key of the split unit's number. Numbers begin with 1; 0 stands for the program's own file.
const SPLIT_SHIFT: u32 = 40;
const IN_SPLIT: u64 = IN_TYPES - (1 << SPLIT_SHIFT);
/// Split units that keys can distinguish.
pub(super) const MOST_SPLIT: u64 = IN_SPLIT >> SPLIT_SHIFT;

/// Returns the part of a key that all entries of a split unit share.
pub(super) const fn split_place(number: u64) -> u64 {
    number << SPLIT_SHIFT
}

/// The holder of a reference to a type.
pub(super) enum Wants {
    Of(TypeId),
    Class(TypeId),
    VirtualBase { class: TypeId, base: u32 },
    Member { record: TypeId, member: u32, is_variant: bool },
    Global(u32),
}

/// The target of a reference.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// An entry, by key.
    Entry(u64),
    /// The type of a type unit, by its signature.
    Signature(u64),
}

impl Target {
    /// Reads an attribute of an entry in the unit that begins at `start`.
    pub(super) fn of(start: u64, value: &AttributeValue<Slice>) -> Option<Self> {
        match value {
            AttributeValue::UnitRef(offset) => Some(Self::Entry(start + offset.0 as u64)),
            AttributeValue::DebugInfoRef(offset) => {
                Some(Self::Entry((start & (IN_SUPPLEMENT | IN_SPLIT)) | offset.0 as u64))
            }
            AttributeValue::DebugInfoRefSup(offset) => {
                Some(Self::Entry(IN_SUPPLEMENT | offset.0 as u64))
            }
            AttributeValue::DebugTypesRef(signature) => Some(Self::Signature(signature.0)),
            _ => None,
        }
    }
}

#[derive(Default)]
pub(super) struct References {
    ids: HashMap<u64, TypeId>,
    wants: Vec<(Wants, Target)>,
}

impl References {
    /// Records that the entry with this key defines this type.
    pub(super) fn define(&mut self, key: u64, id: TypeId) {
        self.ids.insert(key, id);
    }

    pub(super) fn id_of(&self, key: u64) -> Option<TypeId> {
        self.ids.get(&key).copied()
    }

    pub(super) fn want(&mut self, wants: Wants, target: Option<Target>) {
        self.wants.extend(target.map(|target| (wants, target)));
    }

    /// Moves the reference of an array to its element type on to `inner`, its latest dimension.
    pub(super) fn pass_on(&mut self, outer: TypeId, inner: TypeId) {
        let mut latest = self.wants.iter_mut().rev().take(16);
        let is_its = |(wants, _): &&mut (Wants, _)| matches!(wants, Wants::Of(id) if *id == outer);
        if let Some((wants, _)) = latest.find(is_its) {
            *wants = Wants::Of(inner);
        }
    }

    /// Resolves all references whose targets were found.
    pub(super) fn resolve(self, table: &mut TypeTable, classes: &mut Classes) {
        for (wants, target) in self.wants {
            let id = match target {
                Target::Entry(key) => self.ids.get(&key).copied(),
                Target::Signature(signature) => table.with_signature(signature),
            };
            if let Some(id) = id {
                set(table, classes, &wants, id);
            }
        }
    }
}

fn set(table: &mut TypeTable, classes: &mut Classes, wants: &Wants, id: TypeId) {
    match *wants {
        Wants::Of(wanting) => match &mut table.get_mut(wanting).shape {
            Shape::Pointer { to } | Shape::MemberPointer { to, .. } | Shape::Alias { to, .. } => {
                *to = Some(id);
            }
            Shape::Array { of, .. } => *of = Some(id),
            _ => {}
        },
        Wants::VirtualBase { class, base } => classes.resolve(class, base as usize, id),
        Wants::Class(wanting) => {
            if let Shape::MemberPointer { class, .. } = &mut table.get_mut(wanting).shape {
                *class = Some(id);
            }
        }
        Wants::Member { record, member, is_variant } => {
            if let Some(record) = table.record_mut(record) {
                record.list_mut(is_variant)[member as usize].of = Some(id);
            }
        }
        Wants::Global(at) => table.set_global_type(at as usize, id),
    }
}
