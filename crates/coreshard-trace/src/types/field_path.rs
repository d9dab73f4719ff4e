//! Finds the field at an offset of a type.

use super::role::Role;
use super::table::{MOST_STEPS, Member, Shape, TypeId, TypeTable};

/// A field of a field of a type, as the source would write it.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldPath {
    /// Such as `stats[3].issued`; empty for the whole object.
    pub text: String,
    /// The field's offset in bytes from the start of the outermost type.
    pub offset_bytes: u64,
    /// Its size in bytes, if known.
    pub size_bytes: Option<u64>,
    /// Its type, if known.
    pub of: Option<TypeId>,
}

impl FieldPath {
    /// Returns the innermost field of `id` that contains the byte at `offset_bytes`. If the byte is in a hole, returns
    /// the record around the hole.
    ///
    /// In a union, this is the first member that contains the byte. In an enum, it is the first such variant.
    #[must_use]
    pub fn at(types: &TypeTable, id: TypeId, offset_bytes: u64) -> Self {
        let size_bytes = types.size_bytes(id);
        let mut path = Self { text: String::new(), offset_bytes: 0, size_bytes, of: Some(id) };
        let mut at = types.stripped(id);
        let mut within = offset_bytes;
        // The innermost named member so far, or its element.
        let mut inner: Option<TypeId> = None;
        for _ in 0..MOST_STEPS {
            let shape = &types.get(at).shape;
            // The fields inside of an atomic or a lock have names that help no reader, but the elements of an array of locks
            // have indices. An unnamed struct around one has no name itself.
            let is_plain = inner.is_none_or(|inner| Role::of(types, inner) == Role::Plain);
            if !is_plain && !matches!(shape, Shape::Array { .. }) {
                break;
            }
            match shape {
                Shape::Array { of: Some(of), count } => {
                    let Some(size) = types.size_bytes(*of).filter(|size| *size > 0) else { break };
                    let index = within / size;
                    if count.is_some_and(|count| index >= count) {
                        break;
                    }
                    path.text.push_str(&format!("[{index}]"));
                    path.offset_bytes += index * size;
                    path.size_bytes = Some(size);
                    path.of = Some(*of);
                    within %= size;
                    inner = inner.and(Some(*of));
                    at = types.stripped(*of);
                }
                Shape::Record(record) => {
                    let holds = |member: &&Member| holds(types, member, within);
                    // Prefer a field that all variants have.
                    let found = record.members.iter().find(holds);
                    let Some(member) = found.or_else(|| record.variants.iter().find(holds)) else {
                        break;
                    };
                    path.enter(types, member);
                    let (Some(of), None) = (member.of, member.field_bits) else { break };
                    within -= member.offset_bits / 8;
                    at = types.stripped(of);
                    inner = member.name.is_some().then_some(of);
                }
                _ => break,
            }
        }
        path
    }

    fn enter(&mut self, types: &TypeTable, member: &Member) {
        if let Some(name) = &member.name {
            if !self.text.is_empty() {
                self.text.push('.');
            }
            self.text.push_str(name);
        }
        self.offset_bytes += member.offset_bits / 8;
        self.size_bytes = match member.field_bits {
            Some(bits) => Some((member.offset_bits % 8).saturating_add(bits).div_ceil(8)),
            None => member.of.and_then(|of| types.size_bytes(of)),
        };
        self.of = member.of;
    }
}

fn holds(types: &TypeTable, member: &Member, byte: u64) -> bool {
    let start = member.offset_bits / 8;
    let end = match member.field_bits {
        Some(bits) => member.offset_bits.saturating_add(bits).div_ceil(8),
        None => match member.of.and_then(|of| types.size_bytes(of)) {
            // A flexible array has no end.
            Some(0) if types.is_flexible(member) => u64::MAX,
            Some(size) => start.saturating_add(size),
            None => start,
        },
    };
    (start..end).contains(&byte)
}
