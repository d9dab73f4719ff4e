//! Memory that one thread freed and another thread allocated: the piece that an access refers to, and its place in a
//! replay.
//!
//! In the recorded run, one thread had the memory after the other. A replay may run both threads at the same time, and
//! the allocator would then have given them different memory. A piece that is allocated while another piece still has
//! the same address therefore gets a separate *slot*, an independent copy of the same lines. If the first piece has
//! been freed by then, the next piece uses the same slot, and fetches the lines from the thread that had them.
//!
//! Several pieces may be on one line at the same time: short pieces, and the ends of long ones. The history of such a
//! line consists of *eras*. An era begins with the first piece that is allocated on the line, and ends when no piece is
//! left on it. Here, an era is a piece of one line. Adjacent pieces share the line in the replay as they did in the
//! recorded run. Pieces of different eras do not.
//!
//! An access refers to the piece that existed at the thread's last ticket. If a thread learns of a newer piece without
//! a ticket, for example through an atomic, its accesses may be attributed to the older piece until that piece is
//! freed.

use std::collections::{BTreeMap, HashSet};

use super::pages::PageMap;
use super::pieces::{MOST_LOOKED_AT, Piece, PieceNumber, Timeline};

/// Slots for one piece of memory. Each is for a thread that has the memory at the same time.
const MOST_SLOTS: usize = 1_024;

/// The thread of an era if several threads allocated memory in it.
const SEVERAL: u32 = u32::MAX;

/// Returns memory that several threads had one after another, as pieces and as eras of lines. `shared` are the sorted
/// shared lines, and `divided` are the shared lines that had several pieces at the same time.
pub(super) fn reused(
    pieces: &[Piece],
    shared: &[u64],
    divided: &HashSet<u64>,
    line_bytes: u64,
    mut lines_left: usize,
) -> Timeline {
    let mut crowded: HashSet<u64> = divided.clone();
    for piece in pieces.iter().filter(|its| its.end.saturating_sub(its.start) < line_bytes) {
        crowded.extend(piece.lines(shared, line_bytes));
    }
    let mut by_line: PageMap<Vec<PieceNumber>> = PageMap::default();
    let mut all = eras(pieces, shared, &crowded, line_bytes, &mut lines_left);
    for (number, era) in (0..).zip(&all) {
        by_line.entry(era.start).or_default().push(number);
    }
    let long = pieces.iter().map(|its| without_ends(*its, &crowded, line_bytes));
    for piece in long.filter(|its| its.end.saturating_sub(its.start) >= line_bytes) {
        let lines = piece.lines(shared, line_bytes);
        if lines.is_empty() || lines_left < lines.len() {
            continue;
        }
        lines_left -= lines.len();
        for line in lines {
            by_line.entry(*line).or_default().push(all.len() as PieceNumber);
        }
        all.push(piece);
    }
    // All lines of a piece are treated alike.
    let mut is_reused = vec![false; all.len()];
    for numbers in by_line.values() {
        let thread_of = |number: &PieceNumber| all[*number as usize].thread;
        let first = thread_of(&numbers[0]);
        let is_other = |number| thread_of(number) != first || first == SEVERAL;
        if numbers[1..].iter().any(is_other) {
            numbers.iter().for_each(|number| is_reused[*number as usize] = true);
        }
    }
    by_line.retain(|_, numbers| numbers.iter().any(|number| is_reused[*number as usize]));
    Timeline::of(all, by_line, line_bytes)
}

/// Returns the eras of the lines in `crowded`. Consecutive eras of one thread are combined.
fn eras(
    pieces: &[Piece],
    shared: &[u64],
    crowded: &HashSet<u64>,
    line_bytes: u64,
    lines_left: &mut usize,
) -> Vec<Piece> {
    let mut on_line: BTreeMap<u64, Vec<PieceNumber>> = BTreeMap::new();
    for (number, piece) in (0..).zip(pieces) {
        let lines = piece.lines(shared, line_bytes).iter();
        for line in lines.filter(|line| crowded.contains(line)).take(*lines_left) {
            *lines_left -= 1;
            on_line.entry(*line).or_default().push(number);
        }
    }
    let mut all: Vec<Piece> = Vec::new();
    for (line, mut numbers) in on_line {
        numbers.sort_by_key(|number| (pieces[*number as usize].taken, *number));
        let mut era: Option<Piece> = None;
        for piece in numbers.iter().map(|number| pieces[*number as usize]) {
            // A piece that covers the whole line is alone on it.
            if piece.start <= line && piece.end >= line + line_bytes {
                all.extend(era.take());
                continue;
            }
            match &mut era {
                Some(its) if piece.taken <= its.given_back || piece.thread == its.thread => {
                    its.given_back = its.given_back.max(piece.given_back);
                    if piece.thread != its.thread {
                        its.thread = SEVERAL;
                    }
                }
                _ => {
                    let next = Piece { start: line, end: line + line_bytes, ..piece };
                    all.extend(era.replace(next));
                }
            }
        }
        all.extend(era);
    }
    all
}

/// Returns a piece without its first and its last line if it covers these only partly and they are in `crowded`.
fn without_ends(mut piece: Piece, crowded: &HashSet<u64>, line_bytes: u64) -> Piece {
    let (first, last) =
        (piece.start / line_bytes * line_bytes, piece.end / line_bytes * line_bytes);
    if first < piece.start && crowded.contains(&first) {
        piece.start = first.saturating_add(line_bytes);
    }
    if last < piece.end && crowded.contains(&last) {
        piece.end = last;
    }
    piece
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Whereabouts {
    /// It has not been accessed.
    #[default]
    Unknown,
    In(u32),
    GivenBack(u32),
}

/// The slots of pieces in a replay.
#[derive(Debug)]
pub(super) struct Slots {
    places: Vec<Whereabouts>,
    /// For each slot, the pieces that currently exist in it, by their first byte.
    slots: Vec<BTreeMap<u64, PieceNumber>>,
    /// The numbers of lines in slots other than the first, by number and slot.
    lines: PageMap<u32>,
    /// Pieces in a slot other than the first.
    pub(super) moved: u64,
}

impl Slots {
    pub(super) fn of(reuse: &Timeline) -> Self {
        Self { places: reuse.each(), slots: Vec::new(), lines: PageMap::default(), moved: 0 }
    }

    /// Assigns a slot to a piece when it is allocated or first accessed: the first slot in which no existing piece
    /// overlaps it.
    pub(super) fn take(&mut self, reuse: &Timeline, number: PieceNumber) -> u32 {
        match self.places[number as usize] {
            Whereabouts::In(slot) | Whereabouts::GivenBack(slot) => return slot,
            Whereabouts::Unknown => {}
        }
        let piece = reuse.piece(number);
        let is_free = |slot: &BTreeMap<u64, PieceNumber>| {
            let before = slot.range(..piece.end).next_back();
            before.is_none_or(|(_, its)| reuse.piece(*its).end <= piece.start)
        };
        let slot = self.slots.iter().position(is_free).unwrap_or(self.slots.len());
        let slot = if slot < MOST_SLOTS { slot } else { 0 };
        if slot == self.slots.len() {
            self.slots.push(BTreeMap::new());
        }
        self.slots[slot].insert(piece.start, number);
        self.moved += u64::from(slot > 0);
        self.places[number as usize] = Whereabouts::In(slot as u32);
        slot as u32
    }

    pub(super) fn give_back(&mut self, reuse: &Timeline, number: PieceNumber) {
        let slot = self.take(reuse, number);
        self.places[number as usize] = Whereabouts::GivenBack(slot);
        let (its, start) = (&mut self.slots[slot as usize], reuse.piece(number).start);
        if its.get(&start) == Some(&number) {
            its.remove(&start);
        }
    }

    /// Returns the slot that a thread's access to `address` after `ticket` refers to; 0 if only one thread had the
    /// memory. `lately` is the piece that the thread accessed last.
    #[inline]
    pub(super) fn slot(
        &mut self,
        reuse: &Timeline,
        address: u64,
        ticket: u64,
        lately: &mut PieceNumber,
    ) -> u32 {
        // Only one piece with a given address exists at a time.
        if let Some(Whereabouts::In(slot)) = self.places.get(*lately as usize) {
            let piece = reuse.piece(*lately);
            if piece.holds(address) && piece.lives(ticket) {
                return *slot;
            }
        }
        match self.look_up(reuse, address, ticket) {
            Some(number) => {
                *lately = number;
                self.take(reuse, number)
            }
            None => 0,
        }
    }

    fn look_up(&self, reuse: &Timeline, address: u64, ticket: u64) -> Option<PieceNumber> {
        let (before, after) = reuse.around(address, ticket)?;
        let there = reuse.there(before, address, ticket);
        let place = |number: PieceNumber| self.places[number as usize];
        match there {
            Some(number) if !matches!(place(number), Whereabouts::GivenBack(_)) => Some(number),
            _ => {
                let mut after = after.iter().take(MOST_LOOKED_AT).map(|its| its.number);
                let next = after.find(|number| {
                    reuse.piece(*number).holds(address)
                        && !matches!(place(*number), Whereabouts::GivenBack(_))
                });
                // The old piece has been freed. Prefer the new one if it already exists.
                match (there, next) {
                    (Some(_), Some(next)) if matches!(place(next), Whereabouts::In(_)) => {
                        Some(next)
                    }
                    (None, next) => next,
                    (there, _) => there,
                }
            }
        }
    }

    /// Returns the number of a line in a slot, if it has one.
    pub(super) fn line(&self, line: u32, slot: u32) -> Option<u32> {
        self.lines.get(&key(line, slot)).copied()
    }

    pub(super) fn name_line(&mut self, line: u32, slot: u32, number: u32) {
        self.lines.insert(key(line, slot), number);
    }
}

/// Combines a line's number and a slot.
const fn key(line: u32, slot: u32) -> u64 {
    (line as u64) << 32 | slot as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: u64, bytes: u64, (taken, given_back): (u64, u64), thread: u32) -> Piece {
        Piece { start, end: start + bytes, taken, given_back, thread }
    }

    const NONE: PieceNumber = PieceNumber::MAX;
    const LINES: [u64; 3] = [0x1000, 0x1040, 0x1080];

    fn reuse(pieces: &[Piece]) -> Timeline {
        reused(pieces, &LINES, &HashSet::new(), 64, 1_000)
    }

    #[test]
    fn who_takes_memory_that_another_still_has_gets_a_place_of_its_own() {
        let its = reuse(&[piece(0x1000, 128, (10, 20), 1), piece(0x1000, 128, (30, 40), 2)]);
        let mut slots = Slots::of(&its);
        assert_eq!(slots.take(&its, 0), 0);
        assert_eq!(slots.take(&its, 1), 1, "the first is not given back yet");
        assert_eq!(slots.slot(&its, 0x1040, 10, &mut NONE.clone()), 0);
        assert_eq!(slots.slot(&its, 0x1040, 35, &mut NONE.clone()), 1);
        assert_eq!(slots.moved, 1);
    }

    #[test]
    fn memory_that_was_given_back_is_taken_where_it_lies() {
        let its = reuse(&[piece(0x1000, 128, (10, 20), 1), piece(0x1000, 128, (30, 40), 2)]);
        let mut slots = Slots::of(&its);
        slots.take(&its, 0);
        slots.give_back(&its, 0);
        assert_eq!(slots.take(&its, 1), 0);
        assert_eq!(slots.slot(&its, 0x1000, 35, &mut NONE.clone()), 0);
    }

    #[test]
    fn whoever_is_late_means_the_old_piece_until_there_is_a_new_one() {
        let its = reuse(&[piece(0x1000, 128, (10, 20), 1), piece(0x1000, 128, (30, 40), 2)]);
        let mut slots = Slots::of(&its);
        assert_eq!(slots.slot(&its, 0x1000, 5, &mut NONE.clone()), 0, "it will be the first's");
        slots.give_back(&its, 0);
        assert_eq!(slots.slot(&its, 0x1000, 15, &mut NONE.clone()), 0);
        assert_eq!(slots.places[1], Whereabouts::Unknown);
        slots.take(&its, 1);
        assert_eq!(slots.slot(&its, 0x1000, 15, &mut NONE.clone()), 0);
        assert_eq!(slots.places[1], Whereabouts::In(0));
    }

    #[test]
    fn what_one_thread_alone_had_stays() {
        let its = reuse(&[
            piece(0x1000, 64, (10, 20), 1),
            piece(0x1000, 64, (30, 40), 1),
            piece(0x1040, 32, (10, 20), 1),
            piece(0x1060, 32, (30, 40), 1),
        ]);
        assert!(its.is_empty());
        assert_eq!(Slots::of(&its).slot(&its, 0x1000, 35, &mut NONE.clone()), 0);
    }

    #[test]
    fn short_pieces_of_different_eras_have_places_of_their_own() {
        // Two nodes of one thread on a line, followed by two of another thread after both were freed.
        let its = reuse(&[
            piece(0x1000, 32, (10, 20), 1),
            piece(0x1020, 32, (12, 22), 1),
            piece(0x1000, 32, (30, 40), 2),
            piece(0x1020, 32, (32, 42), 2),
        ]);
        let mut slots = Slots::of(&its);
        assert_eq!(slots.slot(&its, 0x1028, 15, &mut NONE.clone()), 0);
        assert_eq!(slots.slot(&its, 0x1008, 35, &mut NONE.clone()), 1, "the first era lasts");
        assert_eq!(slots.slot(&its, 0x1028, 35, &mut NONE.clone()), 1);
        for era in its.given_back_at(22) {
            slots.give_back(&its, era);
        }
        assert_eq!(slots.slot(&its, 0x1028, 35, &mut NONE.clone()), 1, "it stays where it is");
    }

    #[test]
    fn short_pieces_that_lie_side_by_side_share_their_line() {
        let its = reuse(&[
            piece(0x1000, 32, (10, 40), 1),
            piece(0x1020, 32, (12, 20), 1),
            piece(0x1020, 32, (30, 50), 2),
        ]);
        let mut slots = Slots::of(&its);
        for (address, ticket) in [(0x1000, 15), (0x1020, 35), (0x1000, 35)] {
            assert_eq!(slots.slot(&its, address, ticket, &mut NONE.clone()), 0);
        }
    }

    #[test]
    fn pieces_that_overlap_in_part_are_apart() {
        let its = reuse(&[piece(0x1000, 128, (10, 20), 1), piece(0x1040, 128, (30, 40), 2)]);
        let mut slots = Slots::of(&its);
        slots.take(&its, 0);
        assert_eq!(
            slots.slot(&its, 0x1080, 35, &mut NONE.clone()),
            1,
            "all of a piece has one place"
        );
        assert_eq!(slots.slot(&its, 0x1040, 35, &mut NONE.clone()), 1);
    }

    #[test]
    fn a_line_that_has_something_else_on_it_too_stays_one() {
        let pieces = [
            piece(0x1000, 140, (10, 20), 1),
            piece(0x1000, 140, (30, 40), 2),
            piece(0x1090, 16, (5, 50), 3),
        ];
        let its = reused(&pieces, &LINES, &HashSet::from([0x1080]), 64, 1_000);
        let mut slots = Slots::of(&its);
        let mut lately = NONE;
        assert_eq!(slots.slot(&its, 0x1040, 15, &mut lately), 0);
        assert_eq!(slots.slot(&its, 0x1040, 35, &mut lately), 1);
        assert_eq!(slots.slot(&its, 0x1080, 35, &mut lately), 0, "another piece ends there");
    }
}
