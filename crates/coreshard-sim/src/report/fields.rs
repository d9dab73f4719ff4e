//! Which field of which struct lies at an address.

use std::collections::BTreeMap;

use crate::memory::Place;

struct Region {
    end: u64,
    name: &'static str,
    fields: &'static [(&'static str, usize)],
    /// Later descriptions of the same memory replace earlier ones.
    turn: u64,
}

/// What the program has described.
#[derive(Default)]
pub(super) struct Names {
    /// By start; several values may begin at one address (a struct and its first field).
    regions: BTreeMap<u64, Vec<Region>>,
    longest: u64,
    turn: u64,
}

impl Names {
    pub(super) fn add(
        &mut self,
        start: Place,
        bytes: usize,
        name: &'static str,
        fields: &'static [(&'static str, usize)],
    ) {
        self.turn += 1;
        let region = Region { end: start.0 + bytes as u64, name, fields, turn: self.turn };
        self.longest = self.longest.max(bytes as u64);
        let here = self.regions.entry(start.0).or_default();
        here.retain(|known| known.end != region.end);
        here.push(region);
    }

    /// The field of the smallest described value around an address, as `Struct.field`.
    pub(super) fn field_at(&self, place: Place) -> Option<String> {
        let first = place.0.saturating_sub(self.longest);
        let (start, region) = self
            .regions
            .range(first..=place.0)
            .flat_map(|(start, regions)| regions.iter().map(move |region| (*start, region)))
            .filter(|(_, region)| place.0 < region.end)
            .min_by_key(|(start, region)| (region.end - start, std::cmp::Reverse(region.turn)))?;
        let offset = (place.0 - start) as usize;
        let field = region
            .fields
            .iter()
            .filter(|(_, at)| *at <= offset)
            .max_by_key(|(_, at)| *at)
            .map_or_else(|| format!("+{offset}"), |(field, _)| (*field).to_owned());
        Some(format!("{}.{field}", region.name))
    }
}

/// What to call memory that nobody has described.
pub(crate) fn bare_name(place: Place) -> String {
    if place.in_arena() {
        format!("arena+{:#x}", place.0)
    } else {
        format!("outside+{:#x}", place.0 - crate::space::ARENA_BYTES as u64)
    }
}
