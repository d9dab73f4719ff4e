//! Offsets of the kernel's own structs, by the names of their fields.

use std::collections::HashMap;

use crate::types::{Record, Shape, TypeId, TypeTable};

/// Unnamed structs and unions within one another.
const MOST_DEPTH: u32 = 8;

/// Globals and the names of their structs, from the kernel's source. BTF has all types, but of globals only per-CPU
/// variables.
const NAMED: [(&str, &str); 2] =
    [("timekeeper_data", "tk_data"), ("def_rt_bandwidth", "rt_bandwidth")];
/// Globals of unnamed structs, and a field that no other unnamed struct has.
const UNNAMED: [(&str, &str); 2] = [("nohz", "idle_cpus_mask"), ("tk_core", "timekeeper")];

/// A kernel's structs by name.
pub(super) struct Structs<'t> {
    pub(super) types: &'t TypeTable,
    by_name: HashMap<&'t str, TypeId>,
    numbers: HashMap<&'t str, TypeId>,
    /// Unnamed structs by the names of their fields; none if several have a field of that name.
    by_field: HashMap<&'t str, Option<TypeId>>,
    holders: Holders,
}

/// By a struct: the structs that have one, and where.
type Holders = HashMap<TypeId, Vec<(TypeId, u64)>>;

/// Adds a struct to the holders of those in `part`, which is the struct itself or an unnamed part of it, with its offset.
fn add_holder(
    types: &TypeTable,
    holder: TypeId,
    part: (TypeId, u64),
    depth: u32,
    holders: &mut Holders,
) {
    let (Shape::Record(record), true) = (&types.get(part.0).shape, depth > 0) else { return };
    for member in &record.members {
        let Some(of) = member.of.map(|of| types.stripped(of)) else { continue };
        if matches!(types.get(of).shape, Shape::Record(_)) {
            let at = part.1 + member.offset_bits / 8;
            holders.entry(of).or_default().push((holder, at));
            if member.name.is_none() {
                add_holder(types, holder, (of, at), depth - 1, holders);
            }
        }
    }
}

impl<'t> Structs<'t> {
    pub(super) fn of(types: &'t TypeTable) -> Self {
        let mut by_name = HashMap::new();
        for id in types.records() {
            if let Some(name) = &types.get(id).name {
                by_name.entry(name.as_str()).or_insert(id);
            }
        }
        let (mut numbers, mut by_field) = (HashMap::new(), HashMap::new());
        for id in (0..types.len() as u32).map(TypeId) {
            let its = types.get(id);
            match (&its.shape, &its.name) {
                (Shape::Scalar, Some(name)) => {
                    numbers.entry(name.as_str()).or_insert(id);
                }
                (Shape::Record(record), None) => {
                    for name in record.members.iter().filter_map(|member| member.name.as_deref()) {
                        by_field.entry(name).and_modify(|its| *its = None).or_insert(Some(id));
                    }
                }
                _ => {}
            }
        }
        let mut holders = HashMap::new();
        for holder in by_name.values() {
            add_holder(types, *holder, (*holder, 0), MOST_DEPTH, &mut holders);
        }
        Self { types, by_name, numbers, by_field, holders }
    }

    /// Returns true if a struct ends with an array without a length.
    pub(super) fn has_open_end(&self, of: TypeId) -> bool {
        match &self.types.get(of).shape {
            Shape::Record(record) => {
                record.members.last().is_some_and(|last| self.types.is_flexible(last))
            }
            _ => false,
        }
    }

    /// Returns the structs that have a struct, and the offset of that in them.
    pub(super) fn holders_of(&self, of: TypeId) -> &[(TypeId, u64)] {
        self.holders.get(&of).map_or(&[], |found| &found[..])
    }

    /// Returns the type of numbers of this name.
    pub(super) fn number(&self, name: &str) -> Option<TypeId> {
        self.numbers.get(name).copied()
    }

    /// Returns true if a type has fields.
    pub(super) fn is_record(&self, of: TypeId) -> bool {
        matches!(self.types.get(of).shape, Shape::Record(_))
    }

    /// Returns the struct of a global: the one of its name, or the one that the kernel's source gives it.
    pub(super) fn of_global(&self, global: &str) -> Option<TypeId> {
        let of = |known: &[(&str, &'static str)]| {
            known.iter().find(|(its, _)| *its == global).map(|(_, hint)| *hint)
        };
        let by_name = self.named(of(&NAMED).unwrap_or(global));
        by_name.or_else(|| *self.by_field.get(of(&UNNAMED)?)?)
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
