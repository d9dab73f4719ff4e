//! The layout of a record in memory: fields, holes and cache lines.

mod rank;

pub use rank::{Mixed, Wasted, most_mixed, most_wasteful};

use serde::Serialize;

use crate::types::{Keyword, Member, Role, Shape, TypeId, TypeTable};

/// The layout of a record in memory.
///
/// ```
/// use coreshard_trace::{Layout, TypeTable};
///
/// # let mut btf = vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
/// # btf.extend([0; 12]);
/// # btf.extend([1, 0, 0, 0, 0]);
/// let types = TypeTable::from_btf(&btf)?;
/// let layouts: Vec<Layout> = types.records().filter_map(|id| Layout::of(&types, id, 64)).collect();
/// assert!(layouts.is_empty());
/// # Ok::<(), coreshard_trace::TypesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Layout {
    /// Struct, union, class or enum.
    pub keyword: &'static str,
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The alignment in bytes that its members require.
    pub alignment_bytes: u64,
    /// The length of a line in bytes.
    pub line_bytes: u64,
    /// The number of lines it occupies if it starts at the beginning of one.
    pub lines: u64,
    /// Its members, in the order of the source.
    pub fields: Vec<Field>,
    /// Gaps between members.
    pub holes: Vec<Hole>,
    /// Bytes after the last member.
    pub padding_bytes: u64,
    /// Bits that belong to no member, in bytes that other bit fields use.
    pub spare_bits: u64,
}

/// A member of a record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Field {
    /// Its name, or a description in parentheses if it has none.
    pub name: String,
    /// Its type, as the source writes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its offset in bytes.
    pub offset_bytes: u64,
    /// Its size in bytes. For a bit field, the size of the word that contains it.
    pub size_bytes: u64,
    /// For a bit field: its first bit, counted from `offset_bytes`, and its number of bits.
    pub bits: Option<(u64, u64)>,
    /// Its role, as the name of its type suggests.
    pub role: Role,
    /// Whether only one variant of an enum has it.
    pub is_variant: bool,
    /// Whether it is a flexible array at the end of the struct. Its size is then not part of the struct's size.
    pub is_flexible: bool,
}

impl Field {
    /// The first byte after it.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.size_bytes)
    }
}

/// Bytes of a record that belong to no member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hole {
    /// Its offset in bytes.
    pub offset_bytes: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
}

impl Layout {
    /// Returns the layout of a record on lines of `line_bytes`, or none if the type is not a record or is only
    /// declared.
    #[must_use]
    pub fn of(types: &TypeTable, id: TypeId, line_bytes: u64) -> Option<Self> {
        let id = types.stripped(id);
        let of = types.get(id);
        let (Shape::Record(record), Some(size_bytes)) = (&of.shape, of.size_bytes) else {
            return None;
        };
        let members = record.members.iter().map(|member| (member, false));
        let variants = record.variants.iter().map(|member| (member, true));
        let fields: Vec<_> = members
            .chain(variants)
            .map(|(member, is_variant)| field(types, member, is_variant))
            .collect();
        let (holes, padding_bytes) = match record.keyword {
            Keyword::Union => (Vec::new(), size_bytes.saturating_sub(end_of(&fields))),
            _ => holes(&fields, size_bytes),
        };
        Some(Self {
            keyword: record.keyword.as_str(),
            name: of.name.clone().unwrap_or_else(|| "(unnamed)".to_owned()),
            size_bytes,
            alignment_bytes: types.alignment_bytes(id),
            line_bytes,
            lines: size_bytes.div_ceil(line_bytes.max(1)),
            fields,
            holes,
            padding_bytes,
            spare_bits: if record.keyword == Keyword::Union { 0 } else { spare_bits(record) },
        })
    }

    /// Bytes in holes and at the end.
    #[must_use]
    pub fn wasted_bytes(&self) -> u64 {
        self.holes
            .iter()
            .map(|hole| hole.size_bytes)
            .sum::<u64>()
            .saturating_add(self.padding_bytes)
    }
}

fn spare_bits(record: &crate::types::Record) -> u64 {
    let mut used: std::collections::BTreeMap<u64, u8> = std::collections::BTreeMap::new();
    for member in &record.members {
        // No language has wider bit fields.
        for bit in 0..member.field_bits.unwrap_or(0).min(1 << 10) {
            let bit = member.offset_bits.saturating_add(bit);
            *used.entry(bit / 8).or_default() |= 1 << (bit % 8);
        }
    }
    used.values().map(|bits| u64::from(bits.count_zeros())).sum()
}

fn end_of(fields: &[Field]) -> u64 {
    fields.iter().map(Field::end_bytes).max().unwrap_or(0)
}

fn field(types: &TypeTable, member: &Member, is_variant: bool) -> Field {
    let base = member.of.filter(|_| types.is_base(member));
    let base = base.and_then(|of| types.get(types.stripped(of)).name.as_ref());
    let name = match (&member.name, base) {
        (Some(name), _) => name.clone(),
        (None, Some(base)) if member.is_virtual_base => format!("(virtual base {base})"),
        (None, Some(base)) => format!("(base {base})"),
        (None, None) => "(unnamed)".to_owned(),
    };
    let size_bytes = member.of.and_then(|of| types.size_bytes(of)).unwrap_or(0);
    let is_flexible = types.is_flexible(member) && size_bytes == 0;
    let (offset_bytes, size_bytes, bits) = match member.field_bits {
        Some(bits) => {
            // Use the word of the declared type if the bit field fits into one.
            let (size_bytes, bits) = (size_bytes.min(64), bits.min(512));
            let word_bits = (size_bytes * 8).max(8);
            let start = member.offset_bits / word_bits * word_bits;
            let fits = member.offset_bits - start + bits <= word_bits;
            let start = if fits { start } else { member.offset_bits / 8 * 8 };
            let size =
                if fits { word_bits / 8 } else { (member.offset_bits - start + bits).div_ceil(8) };
            (start / 8, size, Some((member.offset_bits - start, bits)))
        }
        None => (member.offset_bits / 8, size_bytes, None),
    };
    Field {
        name,
        type_name: types.describe(member.of),
        offset_bytes,
        size_bytes,
        bits,
        role: member.of.map_or(Role::Plain, |of| Role::of(types, of)),
        is_variant,
        is_flexible,
    }
}

/// Returns the gaps between members, and the number of bytes after the last. A byte that contains part of a bit field
/// is not a gap.
fn holes(fields: &[Field], size_bytes: u64) -> (Vec<Hole>, u64) {
    let range = |field: &Field| match field.bits {
        Some((first, count)) => {
            let start = field.offset_bytes + first / 8;
            (start, field.offset_bytes + (first + count).div_ceil(8))
        }
        None => (field.offset_bytes, field.end_bytes()),
    };
    let mut ranges: Vec<_> = fields.iter().map(range).filter(|(start, end)| start < end).collect();
    // A flexible array has no size, but the bytes before it can be a hole.
    ranges.extend(
        fields
            .iter()
            .filter(|field| field.size_bytes == 0)
            .map(|field| (field.offset_bytes, field.offset_bytes)),
    );
    ranges.sort_unstable();
    let mut holes = Vec::new();
    let mut end = 0;
    for (start, its_end) in ranges {
        if start > end && start <= size_bytes {
            holes.push(Hole { offset_bytes: end, size_bytes: start - end });
        }
        end = end.max(its_end);
    }
    (holes, size_bytes.saturating_sub(end))
}
