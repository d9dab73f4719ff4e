//! Memory that was several things one after the other: which of them an access is to.
//!
//! Memory that is given back is soon taken again, often for something else, and a stack goes to another thread. What is said of
//! an access is said of the piece that was there at the time: the one that the thread's last ticket falls into. A thread that
//! learns of a piece without a ticket (by an atomic alone) means the one that is there in the replay.

use std::collections::HashMap;

use super::pages::PageMap;
use super::reuse::Piece;

/// The number of a piece: of allocations first, then of stacks.
pub(crate) type Owner = u32;
/// Memory that is one thing all the time, or of which nobody told.
pub(crate) const NOBODY: Owner = Owner::MAX;

/// Pieces of a line that are looked at for one access.
const MOST_LOOKED_AT: usize = 64;

/// Lines on which pieces of several kinds lay one after the other.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    pieces: Vec<Piece>,
    /// By piece: of what kind it is. Pieces of one kind have one name.
    kinds: Vec<u32>,
    /// By line: pieces on it, in the order in which they were taken.
    by_line: PageMap<Vec<Owner>>,
    by_taken: HashMap<u64, Owner>,
    by_given_back: HashMap<u64, Owner>,
    line_mask: u64,
}

/// What became of the pieces in a replay so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tenure {
    #[default]
    Unknown,
    Taken,
    GivenBack,
}

#[derive(Debug)]
pub(super) struct Tenancy(Vec<Tenure>);

impl Owners {
    /// Of all pieces, each with its kind; `on_line` says which lie on which of the lines that several threads touch.
    pub(super) fn of(
        pieces: Vec<Piece>,
        kinds: Vec<u32>,
        on_line: impl Iterator<Item = (u64, Vec<Owner>)>,
        line_bytes: u64,
    ) -> Self {
        let mut by_line: PageMap<Vec<Owner>> = PageMap::default();
        let (mut by_taken, mut by_given_back) = (HashMap::new(), HashMap::new());
        for (line, mut numbers) in on_line {
            let piece = |number: &Owner| &pieces[*number as usize];
            let kind = |number: &Owner| kinds[*number as usize];
            numbers.sort_by_key(|number| (piece(number).taken, *number));
            // Where two overlap, so do two that were taken one after the other, or nearly.
            let overlap = |a: &Piece, b: &Piece| a.start < b.end && b.start < a.end;
            let differ = |at: usize| {
                let before = numbers[at.saturating_sub(MOST_LOOKED_AT)..at].iter().rev();
                let mut before = before.filter(|its| overlap(piece(its), piece(&numbers[at])));
                before.any(|its| kind(its) != kind(&numbers[at]))
            };
            if !(1..numbers.len()).any(differ) {
                continue;
            }
            for number in &numbers {
                by_taken.insert(piece(number).taken, *number);
                by_given_back.insert(piece(number).given_back, *number);
            }
            by_line.insert(line, numbers);
        }
        by_given_back.remove(&u64::MAX);
        Self { pieces, kinds, by_line, by_taken, by_given_back, line_mask: line_bytes - 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_line.is_empty()
    }

    /// Of what kind a piece is; 0 for nobody's memory.
    pub(super) fn kind(&self, owner: Owner) -> u32 {
        self.kinds.get(owner as usize).map_or(0, |kind| kind + 1)
    }

    /// Which piece an access after `ticket` is to.
    pub(super) fn at(
        &self,
        address: u64,
        ticket: u64,
        tenancy: &Tenancy,
        lately: &mut Owner,
    ) -> Owner {
        let holds = |number: Owner| {
            let its = &self.pieces[number as usize];
            its.start <= address && address < its.end
        };
        let lives = |number: Owner| {
            let its = &self.pieces[number as usize];
            its.taken <= ticket && ticket <= its.given_back
        };
        if *lately != NOBODY && holds(*lately) && lives(*lately) {
            return *lately;
        }
        let Some(numbers) = self.by_line.get(&(address & !self.line_mask)) else { return NOBODY };
        let now = numbers.partition_point(|number| self.pieces[*number as usize].taken <= ticket);
        let mut before = numbers[..now].iter().rev().take(MOST_LOOKED_AT).copied();
        if let Some(number) = before.find(|number| holds(*number)).filter(|number| lives(*number)) {
            *lately = number;
            return number;
        }
        // Whoever is late: what is there now, or comes next, or was there last.
        let all = || numbers.iter().copied().filter(|number| holds(*number));
        let is = |state: Tenure| move |number: &Owner| tenancy.0[*number as usize] == state;
        all()
            .rfind(is(Tenure::Taken))
            .or_else(|| all().find(|number| self.pieces[*number as usize].taken > ticket))
            .or_else(|| all().next_back())
            .unwrap_or(NOBODY)
    }
}

impl Tenancy {
    pub(super) fn of(owners: &Owners) -> Self {
        Self(vec![Tenure::Unknown; if owners.is_empty() { 0 } else { owners.pieces.len() }])
    }

    /// A thread comes to the event of this ticket, which may take memory or give it back.
    pub(super) fn note(&mut self, owners: &Owners, ticket: u64) {
        if owners.is_empty() {
            return;
        }
        if let Some(number) = owners.by_taken.get(&ticket) {
            self.0[*number as usize] = Tenure::Taken;
        }
        if let Some(number) = owners.by_given_back.get(&ticket) {
            self.0[*number as usize] = Tenure::GivenBack;
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
        Owners::of(pieces, kinds.to_vec(), [(0x1000, all)].into_iter(), 64)
    }

    #[test]
    fn an_access_is_to_what_was_there_at_the_time() {
        let its = owners(&[(0x1000, 24, 10, 20), (0x1000, 32, 30, 40)], &[0, 1]);
        let tenancy = Tenancy::of(&its);
        assert_eq!(its.at(0x1008, 15, &tenancy, &mut NOBODY.clone()), 0);
        assert_eq!(its.at(0x1008, 35, &tenancy, &mut NOBODY.clone()), 1);
        assert_eq!(its.at(0x1008, 35, &tenancy, &mut 0), 1, "what it was before does not matter");
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
