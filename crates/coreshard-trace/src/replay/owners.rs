//! Determines the object that an access refers to if several objects had the address one after another.
//!
//! Freed memory is soon allocated again, often for another object, and a stack may pass to another thread. An access
//! belongs to the piece that existed at the time of the thread's last ticket. There may be none if the thread learned
//! of a piece without a ticket, for example through an atomic. The access then belongs to the piece that exists in the
//! replay at that time.

use super::pages::PageMap;
use super::pieces::{MOST_LOOKED_AT, Piece, PieceNumber, Timeline};

/// The number of a piece: an allocation or, with higher numbers, a stack.
pub(crate) type Owner = PieceNumber;
/// Memory that belonged to one object all the time, or that no event describes.
pub(crate) const NOBODY: Owner = Owner::MAX;

/// Lines on which pieces of different kinds existed one after another.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    timeline: Timeline,
    /// The kind of each piece. Pieces of one kind have the same name.
    kinds: Vec<u32>,
}

/// Whether each piece exists at this time of a replay.
#[derive(Debug)]
pub(super) struct Tenancy(Vec<bool>);

impl Owners {
    /// Creates the table from all pieces and their kinds. `on_line` has the pieces on each shared line.
    pub(super) fn of(
        pieces: Vec<Piece>,
        kinds: Vec<u32>,
        mut on_line: PageMap<Vec<Owner>>,
        line_bytes: u64,
    ) -> Self {
        on_line.retain(|_, numbers| {
            let piece = |number: &Owner| &pieces[*number as usize];
            let kind = |number: &Owner| kinds[*number as usize];
            numbers.sort_by_key(|number| (piece(number).taken, *number));
            // If any two pieces overlap, two that were allocated close to one another also do.
            let differ = |at: usize| {
                let before = numbers[at.saturating_sub(MOST_LOOKED_AT)..at].iter().rev();
                let mut before = before.filter(|its| piece(its).overlaps(piece(&numbers[at])));
                before.any(|its| kind(its) != kind(&numbers[at]))
            };
            (1..numbers.len()).any(differ)
        });
        Self { timeline: Timeline::of(pieces, on_line, line_bytes), kinds }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.timeline.is_empty()
    }

    /// Returns the kind of a piece; 0 for memory without an owner.
    pub(super) fn kind(&self, owner: Owner) -> u32 {
        self.kinds.get(owner as usize).map_or(0, |kind| kind + 1)
    }

    /// Returns the piece that an access after `ticket` refers to.
    pub(super) fn at(
        &self,
        address: u64,
        ticket: u64,
        tenancy: &Tenancy,
        lately: &mut Owner,
    ) -> Owner {
        let piece = |number: Owner| self.timeline.piece(number);
        if *lately != NOBODY && piece(*lately).holds(address) && piece(*lately).lives(ticket) {
            return *lately;
        }
        let Some((before, after)) = self.timeline.around(address, ticket) else { return NOBODY };
        if let Some(number) = self.timeline.there(before, address, ticket) {
            *lately = number;
            return number;
        }
        // No piece existed at the ticket. Prefer the piece that exists now, then the next one, then the last one.
        let holds = |number: &Owner| piece(*number).holds(address);
        let all = || before.iter().chain(after).map(|its| its.number).filter(holds);
        let is_there = |number: &Owner| tenancy.0[*number as usize];
        all()
            .rfind(is_there)
            .or_else(|| after.iter().map(|its| its.number).find(holds))
            .or_else(|| all().next_back())
            .unwrap_or(NOBODY)
    }
}

impl Tenancy {
    pub(super) fn of(owners: &Owners) -> Self {
        Self(owners.timeline.each())
    }

    /// Updates the table when a thread reaches the event of this ticket, which may allocate or free memory.
    pub(super) fn note(&mut self, owners: &Owners, ticket: u64) {
        if owners.is_empty() {
            return;
        }
        for number in owners.timeline.taken_at(ticket) {
            self.0[number as usize] = true;
        }
        for number in owners.timeline.given_back_at(ticket) {
            self.0[number as usize] = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(pieces: &[(u64, u64, u64, u64)], kinds: &[u32]) -> Owners {
        let pieces: Vec<_> = pieces
            .iter()
            .map(|(start, bytes, taken, given_back)| Piece {
                start: *start,
                end: start + bytes,
                taken: *taken,
                given_back: *given_back,
                thread: 1,
            })
            .collect();
        let all = (0..pieces.len() as u32).collect();
        Owners::of(pieces, kinds.to_vec(), PageMap::from_iter([(0x1000, all)]), 64)
    }

    #[test]
    fn an_access_is_to_what_was_there_at_the_time() {
        let its = owners(&[(0x1000, 24, 10, 20), (0x1000, 32, 30, 40)], &[0, 1]);
        let tenancy = Tenancy::of(&its);
        assert_eq!(its.at(0x1008, 15, &tenancy, &mut NOBODY.clone()), 0);
        assert_eq!(its.at(0x1008, 35, &tenancy, &mut NOBODY.clone()), 1);
        assert_eq!(its.at(0x1008, 35, &tenancy, &mut 0), 1, "the earlier piece does not matter");
        assert_eq!(its.at(0x1030, 35, &tenancy, &mut NOBODY.clone()), NOBODY);
    }

    #[test]
    fn who_is_late_means_what_is_there() {
        let its = owners(&[(0x1000, 24, 10, 20), (0x1000, 32, 30, 40)], &[0, 1]);
        let mut tenancy = Tenancy::of(&its);
        assert_eq!(its.at(0x1008, 5, &tenancy, &mut NOBODY.clone()), 0, "it comes next");
        for ticket in [10, 20, 30] {
            tenancy.note(&its, ticket);
        }
        assert_eq!(its.at(0x1008, 5, &tenancy, &mut NOBODY.clone()), 1);
    }

    #[test]
    fn memory_of_one_kind_alone_is_not_asked_for() {
        assert!(owners(&[(0x1000, 24, 10, 20), (0x1000, 24, 30, 40)], &[3, 3]).is_empty());
        assert!(owners(&[(0x1000, 24, 10, 20), (0x1020, 24, 30, 40)], &[0, 1]).is_empty());
    }
}
