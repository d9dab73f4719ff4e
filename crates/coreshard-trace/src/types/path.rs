//! Which field lies at an offset of a type.

use super::contended::Role;
use super::table::{MOST_STEPS, Member, Shape, TypeId, TypeTable};

/// A field of a field of a type, as the source would write it.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldPath {
    /// Such as `stats[3].issued`; empty for the whole.
    pub text: String,
    /// Where the field begins, in bytes from the start of the outermost type.
    pub offset_bytes: u64,
    /// Its size in bytes, if known.
    pub size_bytes: Option<u64>,
    /// Its type, if known.
    pub of: Option<TypeId>,
}

impl TypeTable {
    /// The innermost field of `id` that holds the byte at `offset_bytes`; the nearest outer one where a hole is there.
    ///
    /// A union's first member that holds the byte stands for all; so does the first variant of an enum.
    #[must_use]
    pub fn field_at(&self, id: TypeId, offset_bytes: u64) -> FieldPath {
        let mut path = FieldPath {
            text: String::new(),
            offset_bytes: 0,
            size_bytes: self.size_bytes(id),
            of: Some(id),
        };
        let mut at = self.stripped(id);
        let mut within = offset_bytes;
        for _ in 0..MOST_STEPS {
            match &self.get(at).shape {
                Shape::Array { of: Some(of), count } => {
                    let Some(size) = self.size_bytes(*of).filter(|size| *size > 0) else { break };
                    let index = within / size;
                    if count.is_some_and(|count| index >= count) {
                        break;
                    }
                    path.text.push_str(&format!("[{index}]"));
                    path.offset_bytes += index * size;
                    path.size_bytes = Some(size);
                    path.of = Some(*of);
                    within %= size;
                    at = self.stripped(*of);
                }
                Shape::Record(record) => {
                    let all = record.variants.iter().chain(&record.members);
                    let holds = |member: &&Member| self.holds(member, within);
                    // What every variant has is the better name.
                    let found =
                        record.members.iter().find(holds).or_else(|| all.clone().find(holds));
                    let Some(member) = found else { break };
                    if let Some(name) = &member.name {
                        if !path.text.is_empty() {
                            path.text.push('.');
                        }
                        path.text.push_str(name);
                    }
                    let start = member.offset_bits / 8;
                    path.offset_bytes += start;
                    path.size_bytes = match member.field_bits {
                        Some(bits) => {
                            Some((member.offset_bits % 8).saturating_add(bits).div_ceil(8))
                        }
                        None => member.of.and_then(|of| self.size_bytes(of)),
                    };
                    path.of = member.of;
                    let (Some(of), None) = (member.of, member.field_bits) else { break };
                    within -= start;
                    at = self.stripped(of);
                    // The words of an atomic or a lock have names that nobody knows.
                    if self.role(of) != Role::Plain {
                        break;
                    }
                }
                _ => break,
            }
        }
        path
    }

    fn holds(&self, member: &Member, byte: u64) -> bool {
        let start = member.offset_bits / 8;
        let end = match member.field_bits {
            Some(bits) => member.offset_bits.saturating_add(bits).div_ceil(8),
            None => match member.of.and_then(|of| self.size_bytes(of)) {
                // A flexible tail has no end.
                Some(0) if self.is_flexible(member) => u64::MAX,
                Some(size) => start.saturating_add(size),
                None => start,
            },
        };
        (start..end).contains(&byte)
    }

    /// Whether a member is C's array without a length, at the end of its struct.
    pub(crate) fn is_flexible(&self, member: &Member) -> bool {
        let shape = member.of.map(|of| &self.get(self.stripped(of)).shape);
        matches!(shape, Some(Shape::Array { count: None | Some(0), .. }))
    }
}
