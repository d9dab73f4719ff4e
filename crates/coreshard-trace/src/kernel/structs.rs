//! Offsets of the kernel's own structs, by the names of their fields.

use std::collections::HashMap;

use crate::types::{Record, Shape, TypeId, TypeTable};

/// Unnamed structs and unions within one another.
const MOST_DEPTH: u32 = 8;

/// A kernel's structs by name.
pub(super) struct Structs<'t> {
    pub(super) types: &'t TypeTable,
    by_name: HashMap<&'t str, TypeId>,
}

impl<'t> Structs<'t> {
    pub(super) fn of(types: &'t TypeTable) -> Self {
        let mut by_name = HashMap::new();
        for id in types.records() {
            if let Some(name) = &types.get(id).name {
                by_name.entry(name.as_str()).or_insert(id);
            }
        }
        Self { types, by_name }
    }

    pub(super) fn named(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// Returns the offset of a struct's field in bytes.
    ///
    /// # Errors
    /// If the struct has no such field. The message names both.
    pub(super) fn offset(&self, of: &str, field: &str) -> Result<u64, String> {
        let id = self.named(of).ok_or_else(|| format!("the kernel's types have no struct {of}"))?;
        let Shape::Record(record) = &self.types.get(id).shape else {
            return Err(format!("the kernel's {of} is no struct"));
        };
        let found = self.field(record, field, MOST_DEPTH);
        found.ok_or_else(|| format!("the kernel's struct {of} has no field {field}"))
    }

    fn field(&self, record: &Record, field: &str, depth: u32) -> Option<u64> {
        record.members.iter().find_map(|member| {
            let at = member.offset_bits / 8;
            match &member.name {
                Some(name) => (name == field).then_some(at),
                None => {
                    let inner = self.types.stripped(member.of?);
                    let Shape::Record(inner) = &self.types.get(inner).shape else { return None };
                    Some(at + self.field(inner, field, depth.checked_sub(1)?)?)
                }
            }
        })
    }
}
