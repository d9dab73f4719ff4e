//! The shared lines, in the order of their first access in a replay.

use coreshard_sim::{CacheOutcome, Caches};

use crate::replay::lines::{Line, Noted, Waited};
use crate::replay::pages::{Lately, LineKind, PageMap, Pages};
use crate::replay::stores::Store;

/// Shared lines of one replay. Each takes about half a kilobyte, plus its distinct accesses.
const MOST_LINES: usize = 2 << 20;
/// Distinct accesses of all lines together. Each takes 64 bytes, and about 150 more if it has misses or several threads.
const MOST_ROWS: usize = 8 << 20;

pub(super) struct SharedLines {
    lines: Vec<Line>,
    line_bytes: u64,
    /// Number of lines that have a number.
    numbers: u32,
    rows_left: usize,
    left_out: u64,
    /// For each page, its address in the simulated caches.
    dense: PageMap<u64>,
}

impl SharedLines {
    pub(super) fn new(line_bytes: u64) -> Self {
        Self {
            lines: Vec::new(),
            line_bytes,
            numbers: 0,
            rows_left: MOST_ROWS,
            left_out: 0,
            dense: PageMap::default(),
        }
    }

    #[inline]
    pub(super) fn kind(
        &mut self,
        pages: &mut Pages,
        address: u64,
        lately: &mut Lately,
    ) -> LineKind {
        pages.kind(address, &mut self.numbers, lately)
    }

    /// Returns the number of a new copy of a line.
    pub(super) fn add_copy(&mut self, address: u64, slot: u32) -> u32 {
        let number = self.numbers;
        self.numbers += 1;
        self.meet_first(number as usize, address, u64::from(slot));
        number
    }

    /// Returns the address of a line in the simulated caches. The line gets a record at its first access.
    #[inline]
    pub(super) fn meet(&mut self, line: u32, address: u64) -> u64 {
        let within = address & 0xfff;
        match self.lines.get(line as usize) {
            Some(its) if its.dense_page != u64::MAX => its.dense_page | within,
            _ => self.meet_first(line as usize, address, 0) | within,
        }
    }

    #[cold]
    fn meet_first(&mut self, line: usize, address: u64, slot: u64) -> u64 {
        let next = self.dense.len() as u64;
        let page = (*self.dense.entry(address >> 12 ^ slot << 52).or_insert(next) << 12)
            % Caches::MOST_BYTES;
        // Lines are numbered in the order of their first access, but a later line may be recorded first.
        while self.lines.len() <= line && line < MOST_LINES {
            self.lines.push(Line::new(self.line_bytes as usize));
        }
        if let Some(its) = self.lines.get_mut(line) {
            its.dense_page = page;
            its.address = address & !(self.line_bytes - 1);
        }
        page
    }

    /// Records an access. `hit_ps` is its cost if the line is present.
    #[inline]
    pub(super) fn note(
        &mut self,
        it: &Store,
        outcome: &CacheOutcome,
        now: u64,
        hit_ps: u64,
    ) -> Noted {
        let Some(its) = self.lines.get_mut(it.line as usize) else {
            self.left_out += 1;
            return Noted::default();
        };
        // The CPU continues after a store. The time until the line arrives is the store's cost.
        let beyond = |end: u64| end.saturating_sub(now).saturating_sub(hit_ps);
        let waited = Waited { cost_ps: beyond(outcome.done_ps), lost_ps: beyond(outcome.end_ps) };
        let bytes = bytes_of(it, self.line_bytes);
        its.note(it.by, bytes, &it.access, outcome, waited, &mut self.rows_left)
    }

    /// Records that a thread waited for the line of a store.
    pub(super) fn note_stall(&mut self, it: &Store, lost_ps: u64) {
        let Some(its) = self.lines.get_mut(it.line as usize) else { return };
        let bytes = bytes_of(it, self.line_bytes);
        its.note_stall(it.by, bytes, &it.access, lost_ps, &mut self.rows_left);
    }

    /// Records that a part of an access's wait was no loss, because its CPU did something else meanwhile.
    pub(super) fn note_hidden(&mut self, it: &Store, hidden_ps: u64) {
        let Some(its) = self.lines.get_mut(it.line as usize) else { return };
        let bytes = bytes_of(it, self.line_bytes);
        its.note_hidden(it.by, bytes, &it.access, hidden_ps, &mut self.rows_left);
    }

    /// Returns all lines, and the number of accesses to lines beyond the maximum.
    pub(super) fn finish(self) -> (Vec<Line>, u64) {
        (self.lines, self.left_out)
    }
}

fn bytes_of(it: &Store, line_bytes: u64) -> std::ops::Range<usize> {
    let offset = (it.address & (line_bytes - 1)) as usize;
    offset..offset + it.size as usize
}
