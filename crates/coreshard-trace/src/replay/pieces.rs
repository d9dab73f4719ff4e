//! Memory over time: which piece lay at an address when.

use super::pages::PageMap;

/// Pieces of a line that are looked at for one access.
pub(super) const MOST_LOOKED_AT: usize = 64;

/// The number of a piece.
pub(crate) type PieceNumber = u32;

/// Memory that a thread had for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) taken: u64,
    pub(crate) given_back: u64,
    pub(crate) thread: u32,
}

impl Piece {
    pub(super) fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Whether it was there at the time of a ticket.
    pub(super) fn lives(&self, ticket: u64) -> bool {
        (self.taken..=self.given_back).contains(&ticket)
    }

    /// Those of some lines, given in order, that it lies on.
    pub(super) fn lines<'lines>(&self, all: &'lines [u64], line_bytes: u64) -> &'lines [u64] {
        let from = all.partition_point(|line| *line + line_bytes <= self.start);
        let to = all.partition_point(|line| *line < self.end);
        &all[from..to.max(from)]
    }

    pub(super) const fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Pieces of memory, and when each was there.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pieces: Vec<Piece>,
    /// By line: pieces on it, in the order in which they were taken.
    by_line: PageMap<Vec<PieceNumber>>,
    /// Tickets at which pieces are taken, in order, each with a piece.
    by_taken: Vec<(u64, PieceNumber)>,
    /// The same of tickets at which they are given back.
    by_given_back: Vec<(u64, PieceNumber)>,
    line_mask: u64,
}

impl Timeline {
    pub(super) fn of(
        pieces: Vec<Piece>,
        mut by_line: PageMap<Vec<PieceNumber>>,
        line_bytes: u64,
    ) -> Self {
        let piece = |number: PieceNumber| &pieces[number as usize];
        let mut is_there = vec![false; pieces.len()];
        for numbers in by_line.values_mut() {
            numbers.sort_by_key(|number| (piece(*number).taken, *number));
            numbers.iter().for_each(|number| is_there[*number as usize] = true);
        }
        let at = |ticket: fn(&Piece) -> u64| {
            let there = (0..).zip(&is_there).filter(|(_, is_there)| **is_there);
            let all = there.map(|(number, _)| (ticket(piece(number)), number));
            // Pieces that were never given back have no ticket in common.
            let mut list: Vec<_> = all.filter(|(ticket, _)| *ticket < u64::MAX).collect();
            list.sort_unstable();
            list
        };
        let (by_taken, by_given_back) = (at(|its| its.taken), at(|its| its.given_back));
        Self { pieces, by_line, by_taken, by_given_back, line_mask: line_bytes - 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_line.is_empty()
    }

    /// How many pieces lie on its lines.
    pub(super) fn count(&self) -> usize {
        self.by_taken.len()
    }

    /// A value for each piece; none if there are no lines to ask for.
    pub(super) fn each<T: Clone + Default>(&self) -> Vec<T> {
        vec![T::default(); if self.is_empty() { 0 } else { self.pieces.len() }]
    }

    pub(super) fn piece(&self, number: PieceNumber) -> &Piece {
        &self.pieces[number as usize]
    }

    /// The pieces that are taken at a ticket.
    pub(super) fn taken_at(&self, ticket: u64) -> impl Iterator<Item = PieceNumber> {
        at(&self.by_taken, ticket)
    }

    /// The pieces that are given back at a ticket.
    pub(super) fn given_back_at(&self, ticket: u64) -> impl Iterator<Item = PieceNumber> {
        at(&self.by_given_back, ticket)
    }

    /// The pieces on the line of an address: those that were taken by the time of a ticket, and those taken later.
    pub(super) fn around(
        &self,
        address: u64,
        ticket: u64,
    ) -> Option<(&[PieceNumber], &[PieceNumber])> {
        let numbers = self.by_line.get(&(address & !self.line_mask))?;
        let now = numbers.partition_point(|number| self.piece(*number).taken <= ticket);
        Some(numbers.split_at(now))
    }

    /// Of pieces that were taken by the time of a ticket: the one that had the address then.
    pub(super) fn there(
        &self,
        before: &[PieceNumber],
        address: u64,
        ticket: u64,
    ) -> Option<PieceNumber> {
        let mut before = before.iter().rev().take(MOST_LOOKED_AT).copied();
        let found = before.find(|number| self.piece(*number).holds(address));
        found.filter(|number| self.piece(*number).lives(ticket))
    }
}

/// The pieces of a ticket in a list that is in order.
fn at(list: &[(u64, PieceNumber)], ticket: u64) -> impl Iterator<Item = PieceNumber> {
    let from = list.partition_point(|(its, _)| *its < ticket);
    list[from..].iter().take_while(move |(its, _)| *its == ticket).map(|(_, number)| *number)
}
