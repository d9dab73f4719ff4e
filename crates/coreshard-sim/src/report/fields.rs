//! The field and the struct at an address.

use std::collections::BTreeMap;

use crate::memory::Place;

struct Region {
    end: u64,
    name: &'static str,
    fields: &'static [(&'static str, usize)],
}

/// The values that the program has described.
#[derive(Default)]
pub(super) struct FieldNames {
    /// By start; several values may begin at one address (a struct and its first field).
    regions: BTreeMap<u64, Vec<Region>>,
    longest: u64,
}

impl FieldNames {
    pub(super) fn add(
        &mut self,
        start: Place,
        bytes: usize,
        name: &'static str,
        fields: &'static [(&'static str, usize)],
    ) {
        let end = start.0 + bytes as u64;
        // Earlier descriptions inside, or partly inside, are of memory that has a new use: a value is
        // described from the outside in.
        let first = start.0.saturating_sub(self.longest);
        for (known, regions) in self.regions.range_mut(first..end) {
            regions.retain(|region| {
                let around = *known <= start.0 && end <= region.end;
                let apart = region.end <= start.0;
                apart || (around && (*known, region.end) != (start.0, end))
            });
        }
        self.longest = self.longest.max(bytes as u64);
        self.regions.entry(start.0).or_default().push(Region { end, name, fields });
    }

    /// Removes the descriptions of freed memory.
    pub(super) fn forget(&mut self, start: Place, bytes: usize) {
        let end = start.0 + bytes as u64;
        while let Some(described) = self.regions.range(start.0..end).next().map(|(at, _)| *at) {
            self.regions.remove(&described);
        }
    }

    /// Returns the name of an address.
    pub(super) fn name_at(&self, place: Place) -> String {
        self.field_at(place).unwrap_or_else(|| bare_name(place))
    }

    /// Returns the path to an address through the described values around it, from the outermost, as
    /// `Struct.field.field`.
    pub(super) fn field_at(&self, place: Place) -> Option<String> {
        let first = place.0.saturating_sub(self.longest);
        let mut around: Vec<_> = self
            .regions
            .range(first..=place.0)
            .flat_map(|(start, regions)| regions.iter().map(move |region| (*start, region)))
            .filter(|(_, region)| place.0 < region.end)
            .collect();
        around.sort_by_key(|(start, region)| std::cmp::Reverse(region.end - start));
        let mut name = around.first()?.1.name.to_owned();
        for (start, region) in around {
            let offset = (place.0 - start) as usize;
            name.push('.');
            match region.fields.iter().filter(|(_, at)| *at <= offset).max_by_key(|(_, at)| *at) {
                Some((field, _)) => name.push_str(field),
                None => name.push_str(&format!("+{offset}")),
            }
        }
        Some(name)
    }
}

/// Returns the name of memory that the program has not described.
pub(crate) fn bare_name(place: Place) -> String {
    if place.in_arena() {
        format!("arena+{:#x}", place.0)
    } else {
        format!("outside+{:#x}", place.0 - crate::space::ARENA_BYTES as u64)
    }
}
