//! The distinct accesses of a line.
//!
//! Of the 8.4 million rows of a large recording, 7.4 million were a single access, and 0.3 million had a miss. So a row
//! takes 64 bytes, and other threads, misses and costs are stored apart from it. The rows of a line have digests, so that
//! a search reads only the row that it finds.

use super::accessor::{Accessor, Seen};
use super::owners::Owner;
use crate::recording::{Access, AccessKind};

/// Distinct accesses of one line.
const MOST_ROWS: usize = 192;
/// Distinct threads of a row.
const MOST_ROW_THREADS: usize = 512;
/// Digests that are compared at once.
const GROUP: usize = 16;
/// The thread of a row that has no access yet.
const NO_THREAD: u32 = u32::MAX;

/// The properties that the accesses of a row share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Key {
    instruction: u64,
    /// The kind of the piece of memory, if the address belonged to several.
    owner_kind: u32,
    offset: u16,
    size_bytes: u16,
    /// An instruction that reads and writes may be recorded as two kinds of access.
    kind: AccessKind,
}

impl Key {
    /// Returns a number that differs for most different keys.
    #[inline]
    fn digest(&self) -> u16 {
        let bytes = u64::from(self.offset) << 48 | u64::from(self.size_bytes) << 36;
        let kind = u64::from(self.owner_kind) << 2 | self.kind as u64;
        let mixed =
            (self.instruction ^ bytes ^ kind.rotate_left(20)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 48) as u16
    }
}

/// The accesses of one instruction to some bytes of a line.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) instruction: u64,
    pub(crate) count: u64,
    /// The approximate ticket of its first access.
    pub(crate) ticket: u64,
    rare: Option<Box<Rare>>,
    readers: Readers,
    /// The piece of memory at the time of the first access, if the address belonged to several.
    pub(crate) owner: Owner,
    pub(crate) owner_kind: u32,
    /// Its thread, if there is only one.
    thread: u32,
    pub(crate) offset: u16,
    pub(crate) size_bytes: u16,
    /// Index of the last access's thread, if there are several.
    last: u16,
    pub(crate) kind: AccessKind,
    pub(crate) is_atomic: bool,
}

/// The properties that few rows have.
#[derive(Debug, Default)]
struct Rare {
    costs: RowCosts,
    /// If there are several threads: all of them, sorted, with the part of `count` of each.
    threads: Vec<(u32, u64)>,
}

/// The misses of a row and what they cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowCosts {
    pub(crate) misses: u64,
    pub(crate) hitm_local: u64,
    pub(crate) hitm_remote: u64,
    pub(crate) cost_ps: u64,
    pub(crate) true_ps: u64,
    pub(crate) false_ps: u64,
    /// Time that threads waited for a line that they had held before.
    pub(crate) lost_ps: u64,
    /// The part of `count` for which the thread held a lock on this line.
    pub(crate) locked: u64,
}

const NO_COSTS: RowCosts = RowCosts {
    misses: 0,
    hitm_local: 0,
    hitm_remote: 0,
    cost_ps: 0,
    true_ps: 0,
    false_ps: 0,
    lost_ps: 0,
    locked: 0,
};

impl Default for RowCosts {
    fn default() -> Self {
        NO_COSTS
    }
}

impl Row {
    fn new(key: &Key, access: &Access, by: &Accessor) -> Self {
        let Key { instruction, owner_kind, offset, size_bytes, kind } = *key;
        Self {
            instruction,
            count: 0,
            ticket: by.ticket,
            rare: None,
            readers: Readers::default(),
            owner: by.owner,
            owner_kind,
            thread: NO_THREAD,
            offset,
            size_bytes,
            last: 0,
            kind,
            is_atomic: access.is_atomic,
        }
    }

    #[inline]
    fn is_of(&self, key: &Key) -> bool {
        let Self { instruction, owner_kind, offset, size_bytes, kind, .. } = *self;
        Key { instruction, owner_kind, offset, size_bytes, kind } == *key
    }

    #[inline]
    pub(crate) fn costs(&self) -> &RowCosts {
        self.rare.as_ref().map_or(&NO_COSTS, |rare| &rare.costs)
    }

    #[inline]
    pub(super) fn costs_mut(&mut self) -> &mut RowCosts {
        &mut self.rare.get_or_insert_default().costs
    }

    /// Returns its threads in order.
    pub(crate) fn threads(&self) -> impl Iterator<Item = u32> + '_ {
        self.counts().map(|(thread, _)| thread)
    }

    /// Returns each thread with its part of `count`.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let several = self.rare.as_ref().map_or(&[][..], |rare| &rare.threads);
        let is_one = several.is_empty() && self.thread != NO_THREAD;
        let one = is_one.then_some((self.thread, self.count));
        one.into_iter().chain(several.iter().copied())
    }

    /// Counts an access.
    #[inline]
    pub(super) fn add(&mut self, thread: u32) {
        self.count += 1;
        if self.thread == thread {
            return;
        }
        self.add_other(thread);
    }

    /// Counts an access of a row that has no thread yet, or several.
    fn add_other(&mut self, thread: u32) {
        if self.count == 1 {
            self.thread = thread;
            return;
        }
        let rare = self.rare.get_or_insert_default();
        if rare.threads.is_empty() {
            rare.threads.push((self.thread, self.count - 1));
            self.thread = NO_THREAD;
        }
        let last = usize::from(self.last);
        if rare.threads.get(last).is_some_and(|(its, _)| *its == thread) {
            rare.threads[last].1 += 1;
            return;
        }
        match rare.threads.binary_search_by_key(&thread, |(its, _)| *its) {
            Ok(at) => {
                rare.threads[at].1 += 1;
                self.last = at as u16;
            }
            Err(_) if rare.threads.len() == MOST_ROW_THREADS => {}
            Err(at) => {
                rare.threads.insert(at, (thread, 1));
                self.last = at as u16;
            }
        }
    }

    /// Records that a thread reads the bytes.
    #[inline]
    pub(super) fn note_reader(&mut self, thread: u32, version: u32) {
        self.readers.add(thread + 1, version);
    }

    /// Returns the line's version when a thread other than this one last read the bytes; 0 if none did.
    pub(super) const fn read_by_others(&self, thread: u32) -> u32 {
        self.readers.version_of_others(thread + 1)
    }

    /// Returns the piece of memory that its accesses refer to.
    pub(crate) const fn seen(&self) -> Seen {
        Seen { ticket: self.ticket, owner: self.owner }
    }
}

/// The most recent readers of a row's bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Readers {
    /// The last reader, plus 1.
    last: u32,
    /// The line's version when it read them.
    version: u32,
    /// The line's version when another thread read them before.
    others: u32,
}

impl Readers {
    #[inline]
    fn add(&mut self, reader: u32, version: u32) {
        if self.last != reader {
            self.others = self.version;
            self.last = reader;
        }
        self.version = version;
    }

    const fn version_of_others(&self, reader: u32) -> u32 {
        if self.last == reader { self.others } else { self.version }
    }
}

/// The rows of a line.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    list: Vec<Row>,
    /// The digest of each row.
    digests: Vec<[u16; GROUP]>,
    /// The row that was found last.
    last: u8,
}

impl std::ops::Deref for Rows {
    type Target = [Row];

    fn deref(&self) -> &[Row] {
        &self.list
    }
}

impl Rows {
    /// Returns the row of an access to `size_bytes` at `offset`, which is added if it is new and there are not too many.
    #[inline]
    pub(super) fn of(
        &mut self,
        (offset, size_bytes): (u16, u16),
        access: &Access,
        by: &Accessor,
        rows_left: &mut usize,
    ) -> &mut Row {
        let Access { instruction, kind, .. } = *access;
        let key = Key { instruction, owner_kind: by.owner_kind, offset, size_bytes, kind };
        let last = usize::from(self.last);
        if self.list.get(last).is_none_or(|row| !row.is_of(&key)) {
            self.last = self.find(&key, access, by, rows_left) as u8;
        }
        &mut self.list[usize::from(self.last)]
    }

    fn find(&mut self, key: &Key, access: &Access, by: &Accessor, rows_left: &mut usize) -> usize {
        let digest = key.digest();
        for (group, digests) in self.digests.iter().enumerate() {
            // All are compared, so that the compiler uses vector instructions.
            if !digests.iter().fold(false, |any, its| any | (*its == digest)) {
                continue;
            }
            let mut alike = (0..GROUP).filter(|at| digests[*at] == digest);
            let is_it =
                |at: &usize| self.list.get(group * GROUP + at).is_some_and(|its| its.is_of(key));
            if let Some(at) = alike.find(is_it) {
                return group * GROUP + at;
            }
        }
        // Accesses beyond the limit are counted in the last row.
        let count = self.list.len();
        if count >= MOST_ROWS || (*rows_left == 0 && count > 0) {
            return count - 1;
        }
        *rows_left = rows_left.saturating_sub(1);
        if count.is_multiple_of(GROUP) {
            self.digests.push([0; GROUP]);
        }
        self.digests[count / GROUP][count % GROUP] = digest;
        if count == self.list.capacity() {
            // A vector that doubles would be a third empty.
            self.list.reserve_exact((count / 4).max(4));
        }
        self.list.push(Row::new(key, access, by));
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::owners::NOBODY;

    fn row() -> Row {
        let mut rows = Rows::default();
        get(&mut rows, 1);
        rows.list.remove(0)
    }

    fn get(rows: &mut Rows, instruction: u64) -> &mut Row {
        let (kind, is_atomic) = (AccessKind::Load, false);
        let access = Access { address: 0, instruction, kind, is_atomic, size_bytes: 8, before: 0 };
        let by = Accessor { thread: 1, is_locked: false, ticket: 0, owner: NOBODY, owner_kind: 0 };
        rows.of((0, 8), &access, &by, &mut 1_000)
    }

    #[test]
    fn a_rows_accesses_are_counted_by_thread() {
        let mut row = row();
        assert_eq!(row.counts().collect::<Vec<_>>(), []);
        [7, 7, 3, 7, 3, 9].into_iter().for_each(|thread| row.add(thread));
        assert_eq!(row.counts().collect::<Vec<_>>(), [(3, 2), (7, 3), (9, 1)]);
        let mut row = self::row();
        [5, 5].into_iter().for_each(|thread| row.add(thread));
        assert_eq!(row.counts().collect::<Vec<_>>(), [(5, 2)]);
    }

    #[test]
    fn each_access_finds_its_row_and_those_beyond_the_limit_the_last_one() {
        let mut rows = Rows::default();
        for _ in 0..3 {
            (0..MOST_ROWS as u64 + 10).for_each(|instruction| get(&mut rows, instruction).add(1));
        }
        assert_eq!(rows.len(), MOST_ROWS);
        for (row, instruction) in rows.iter().zip(0..) {
            assert_eq!(row.instruction, instruction);
            assert_eq!(row.count, if instruction == MOST_ROWS as u64 - 1 { 33 } else { 3 });
        }
    }

    #[test]
    fn a_row_takes_one_cache_line() {
        assert_eq!(size_of::<Row>(), 64);
    }
}
