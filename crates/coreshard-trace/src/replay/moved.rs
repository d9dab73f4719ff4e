//! Addresses of objects under a proposed layout.

use super::pages::PageMap;

/// Start of a part of the address space that no program uses.
const FRESH_START: u64 = 1 << 56;

/// Whether an address is that of a moved object. A kernel's own addresses are higher.
pub(super) const fn is_fresh(address: u64) -> bool {
    address >> 56 == 1
}

/// A field's new offset in its element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldMove {
    /// Its current offset.
    pub(crate) from: u64,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// Its new offset.
    pub(crate) to: u64,
}

/// Consecutive elements of one type that get a new layout.
#[derive(Clone, Debug)]
struct Moved {
    start: u64,
    end: u64,
    element_bytes: u64,
    /// Sorted by current offset.
    fields: std::sync::Arc<[FieldMove]>,
    new_start: u64,
    new_element_bytes: u64,
    /// The ticket at which the object was allocated, or 0 if no other object had the address.
    taken: u64,
    given_back: u64,
}

/// New addresses of some objects. All other objects keep theirs, except for a common shift.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    objects: Vec<Moved>,
    /// For each page, indices into `objects`.
    by_page: PageMap<Vec<u32>>,
    next: u64,
    /// The shift of all objects that are not moved individually.
    shift: u64,
}

impl Moves {
    /// Shifts all data. The boundaries between lines change relative to the data, and nothing else does.
    pub(crate) fn shifted(bytes: u64) -> Self {
        Self { shift: bytes, ..Self::default() }
    }

    pub(crate) const fn shift(&self) -> u64 {
        self.shift
    }

    /// Changes the layout of the object at `start` between two tickets. Each element of `element_bytes` becomes an
    /// element of `new_element_bytes` with its fields moved as in `fields`.
    pub(crate) fn add(
        &mut self,
        start: u64,
        bytes: u64,
        element_bytes: u64,
        fields: &std::sync::Arc<[FieldMove]>,
        new_element_bytes: u64,
        (taken, given_back): (u64, u64),
    ) {
        if element_bytes == 0 || bytes == 0 {
            return;
        }
        let elements = bytes.div_ceil(element_bytes);
        let room = elements.saturating_mul(new_element_bytes);
        let new_start = FRESH_START + self.next;
        self.next = (self.next.saturating_add(room)).next_multiple_of(4_096);
        let number = self.objects.len() as u32;
        let end = start.saturating_add(bytes);
        for page in start >> 12..=(end - 1) >> 12 {
            self.by_page.entry(page).or_default().push(number);
        }
        self.objects.push(Moved {
            start,
            end,
            element_bytes,
            fields: std::sync::Arc::clone(fields),
            new_start,
            new_element_bytes,
            taken,
            given_back,
        });
    }

    /// Returns the new address of the byte at `address`, for a thread whose last ticket was `ticket`.
    #[inline]
    pub(crate) fn of(&self, address: u64, ticket: u64) -> u64 {
        match self.by_page.get(&(address >> 12)) {
            None => address.wrapping_add(self.shift),
            Some(numbers) => self.among(address, ticket, numbers),
        }
    }

    fn among(&self, address: u64, ticket: u64, numbers: &[u32]) -> u64 {
        // Freed memory may have been allocated again, and several objects then have the address.
        let found = numbers.iter().rev().map(|number| &self.objects[*number as usize]);
        let mut found = found.filter(|its| {
            (its.start..its.end).contains(&address)
                && (its.taken..=its.given_back).contains(&ticket)
        });
        let Some(its) = found.next() else { return address.wrapping_add(self.shift) };
        let (element, within) =
            ((address - its.start) / its.element_bytes, (address - its.start) % its.element_bytes);
        let at = its.fields.partition_point(|field| field.from <= within);
        let place = match at.checked_sub(1).map(|at| its.fields[at]) {
            Some(field) if within < field.from + field.bytes => field.to + (within - field.from),
            // Holes, and bytes that no field describes, keep their offset.
            _ => within,
        };
        its.new_start + element * its.new_element_bytes + place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_go_where_they_are_told_and_the_rest_stays() {
        let fields: std::sync::Arc<[FieldMove]> =
            [FieldMove { from: 0, bytes: 8, to: 64 }, FieldMove { from: 8, bytes: 8, to: 0 }]
                .into();
        let mut moves = Moves::default();
        moves.add(0x1000, 32, 16, &fields, 128, (10, 20));
        let of = |address| moves.of(address, 15);
        let base = of(0x1008);
        assert_eq!(of(0x1000), base + 64);
        assert_eq!(of(0x1004), base + 68);
        assert_eq!(of(0x1018), base + 128, "the second element's second field");
        assert_eq!(of(0x1020), 0x1020);
        assert_eq!(of(0xfff), 0xfff);
        assert_eq!(moves.of(0x1008, 25), 0x1008, "something else is there then");
    }
}
