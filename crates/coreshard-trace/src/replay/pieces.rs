//! The pieces of memory at an address over time.

use super::pages::PageMap;

/// Pieces of a line that are examined for one access.
pub(super) const MOST_LOOKED_AT: usize = 64;

/// The number of a piece.
pub(crate) type PieceNumber = u32;

/// Memory that a thread had from one ticket to another.
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

    /// Whether it existed at the time of a ticket.
    pub(super) fn lives(&self, ticket: u64) -> bool {
        (self.taken..=self.given_back).contains(&ticket)
    }

    /// Returns the given lines that it overlaps. `all` must be sorted.
    pub(super) fn lines<'lines>(&self, all: &'lines [u64], line_bytes: u64) -> &'lines [u64] {
        let from = all.partition_point(|line| *line + line_bytes <= self.start);
        let to = all.partition_point(|line| *line < self.end);
        &all[from..to.max(from)]
    }

    pub(super) const fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Pieces of memory and their lifetimes.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pieces: Vec<Piece>,
    /// For each line, the position of its pieces in `on_lines`.
    by_line: PageMap<(u32, u32)>,
    /// The pieces on each line, in the order of their allocation.
    on_lines: Vec<LinePiece>,
    /// Sorted tickets at which pieces are allocated, each with a piece.
    by_taken: Vec<(u64, PieceNumber)>,
    /// Sorted tickets at which pieces are freed, each with a piece.
    by_given_back: Vec<(u64, PieceNumber)>,
    line_mask: u64,
}

/// A piece on a line, with the ticket of its allocation, so that a search reads no piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinePiece {
    taken: u64,
    pub(super) number: PieceNumber,
}

impl Timeline {
    pub(super) fn of(
        pieces: Vec<Piece>,
        numbers_by_line: PageMap<Vec<PieceNumber>>,
        line_bytes: u64,
    ) -> Self {
        let piece = |number: PieceNumber| &pieces[number as usize];
        let mut is_there = vec![false; pieces.len()];
        let mut by_line = PageMap::default();
        by_line.reserve(numbers_by_line.len());
        let mut on_lines = Vec::with_capacity(numbers_by_line.values().map(Vec::len).sum());
        for (line, numbers) in numbers_by_line {
            let from = on_lines.len();
            numbers.iter().for_each(|number| is_there[*number as usize] = true);
            on_lines.extend(
                numbers.into_iter().map(|number| LinePiece { taken: piece(number).taken, number }),
            );
            on_lines[from..].sort_unstable();
            by_line.insert(line, (from as u32, on_lines.len() as u32));
        }
        let at = |ticket: fn(&Piece) -> u64| {
            let there = (0..).zip(&is_there).filter(|(_, is_there)| **is_there);
            let all = there.map(|(number, _)| (ticket(piece(number)), number));
            // Pieces that were never freed have no ticket.
            let mut list: Vec<_> = all.filter(|(ticket, _)| *ticket < u64::MAX).collect();
            list.sort_unstable();
            list
        };
        let (by_taken, by_given_back) = (at(|its| its.taken), at(|its| its.given_back));
        Self { pieces, by_line, on_lines, by_taken, by_given_back, line_mask: line_bytes - 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_line.is_empty()
    }

    /// Returns the number of pieces on its lines.
    pub(super) fn count(&self) -> usize {
        self.by_taken.len()
    }

    /// Returns a default value for each piece, or no values if there are no lines to look up.
    pub(super) fn each<T: Clone + Default>(&self) -> Vec<T> {
        vec![T::default(); if self.is_empty() { 0 } else { self.pieces.len() }]
    }

    pub(super) fn piece(&self, number: PieceNumber) -> &Piece {
        &self.pieces[number as usize]
    }

    /// Returns the pieces that are allocated at a ticket.
    pub(super) fn taken_at(&self, ticket: u64) -> impl Iterator<Item = PieceNumber> {
        at(&self.by_taken, ticket)
    }

    /// Returns the pieces that are freed at a ticket.
    pub(super) fn given_back_at(&self, ticket: u64) -> impl Iterator<Item = PieceNumber> {
        at(&self.by_given_back, ticket)
    }

    /// Returns the pieces on the line of an address, divided into pieces allocated by the time of a ticket and later
    /// ones.
    pub(super) fn around(&self, address: u64, ticket: u64) -> Option<(&[LinePiece], &[LinePiece])> {
        let (from, to) = *self.by_line.get(&(address & !self.line_mask))?;
        let all = &self.on_lines[from as usize..to as usize];
        Some(all.split_at(all.partition_point(|its| its.taken <= ticket)))
    }

    /// Returns the piece that contained the address at the time of a ticket, given the pieces that were allocated by
    /// then.
    pub(super) fn there(
        &self,
        before: &[LinePiece],
        address: u64,
        ticket: u64,
    ) -> Option<PieceNumber> {
        let mut before = before.iter().rev().take(MOST_LOOKED_AT).map(|its| its.number);
        let found = before.find(|number| self.piece(*number).holds(address));
        found.filter(|number| self.piece(*number).lives(ticket))
    }
}

/// Returns the pieces of a ticket in a sorted list.
fn at(list: &[(u64, PieceNumber)], ticket: u64) -> impl Iterator<Item = PieceNumber> {
    let from = list.partition_point(|(its, _)| *its < ticket);
    list[from..].iter().take_while(move |(its, _)| *its == ticket).map(|(_, number)| *number)
}
