//! Counts the accesses of each shared line.
//!
//! Versions distinguish true from false sharing. Each change of owner by a write increments the line's version, and
//! each byte has the version of its last write. A thread that misses a line lost it to writes after the version that it
//! last had. If one of these writes changed a byte that the thread accesses, the sharing is true; otherwise it is
//! false. A writer may also miss only because others have read the line. The sharing is then true if one of them read a
//! byte that it writes.

use super::owners::Owner;
use crate::recording::{Access, AccessKind};
use coreshard_sim::{CacheOutcome, LineSource};

/// Distinct accesses of one line.
const MOST_ROWS: usize = 192;
/// Distinct threads of a row.
const MOST_ROW_THREADS: usize = 512;

/// The accesses of one instruction to some bytes of a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) offset: u16,
    pub(crate) size_bytes: u16,
    pub(crate) instruction: u64,
    pub(crate) kind: AccessKind,
    pub(crate) is_atomic: bool,
    pub(crate) count: u64,
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
    /// Sorted threads.
    pub(crate) threads: Vec<u32>,
    /// The part of `count` of each of these threads; empty if there is only one.
    counts: Vec<u64>,
    /// Index of the last access's thread.
    last: u16,
    readers: Readers,
    /// The approximate ticket of its first access.
    pub(crate) ticket: u64,
    /// The piece of memory at that time, if the address belonged to several.
    pub(crate) owner: Owner,
    pub(crate) owner_kind: u32,
}

impl Row {
    /// Returns each thread with its part of `count`.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let count = |at: usize| self.counts.get(at).copied().unwrap_or(self.count);
        self.threads.iter().enumerate().map(move |(at, thread)| (*thread, count(at)))
    }

    #[inline]
    fn add(&mut self, thread: u32) {
        self.count += 1;
        let is_last = self.threads.get(usize::from(self.last)) == Some(&thread);
        if is_last && self.counts.is_empty() {
            return;
        }
        if !is_last && !self.find(thread) {
            return;
        }
        if let Some(count) = self.counts.get_mut(usize::from(self.last)) {
            *count += 1;
        }
    }

    /// Makes a thread the last one. Returns false if there are too many.
    fn find(&mut self, thread: u32) -> bool {
        let at = match self.threads.binary_search(&thread) {
            Ok(at) => at,
            Err(_) if self.threads.len() == MOST_ROW_THREADS => return false,
            Err(at) => {
                if self.threads.len() == 1 {
                    self.counts.push(self.count - 1);
                }
                self.threads.insert(at, thread);
                if self.threads.len() > 1 {
                    self.counts.insert(at, 0);
                }
                at
            }
        };
        self.last = at as u16;
        true
    }

    /// Returns the piece of memory that its accesses refer to.
    pub(crate) const fn seen(&self) -> Seen {
        Seen { ticket: self.ticket, owner: self.owner }
    }
}

/// Determines the piece of memory that an access refers to, together with its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The approximate time of the access.
    pub(crate) ticket: u64,
    /// The piece of memory at that time, if the address belonged to several.
    pub(crate) owner: Owner,
}

/// The thread that accesses a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accessor {
    pub(crate) thread: u32,
    /// Whether it holds a lock on the line.
    pub(crate) is_locked: bool,
    pub(crate) ticket: u64,
    /// The piece of memory and its kind, if the address belonged to several.
    pub(crate) owner: Owner,
    pub(crate) owner_kind: u32,
}

/// The time of an access beyond that of a hit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    /// Until the line arrived.
    pub(crate) cost_ps: u64,
    /// Until the thread continued, which is earlier for a store.
    pub(crate) lost_ps: u64,
}

/// The result of an access.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    /// Whether the thread had the line before and lost it.
    pub(crate) is_taken_back: bool,
    /// Whether another thread has used the same bytes since then.
    pub(crate) is_true: bool,
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
    fn add(&mut self, reader: u32, version: u32) {
        if self.last != reader {
            self.others = self.version;
            self.last = reader;
        }
        self.version = version;
    }

    /// Returns the line's version when another thread last read the bytes; 0 if none did.
    const fn version_of_others(&self, reader: u32) -> u32 {
        if self.last == reader { self.others } else { self.version }
    }
}

/// A line that several threads access.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) address: u64,
    /// Its page in the simulated caches; `u64::MAX` before its first access.
    pub(crate) dense_page: u64,
    pub(crate) rows: Vec<Row>,
    /// A digest of each row's accesses, to find a row without reading all of them.
    digests: Vec<u64>,
    pub(crate) stores: u64,
    pub(crate) cost_ps: u64,
    pub(crate) true_ps: u64,
    pub(crate) false_ps: u64,
    /// Time that threads waited for it after they had held it before.
    pub(crate) lost_ps: u64,
    /// The version of each byte's last write.
    versions: Box<[u32]>,
    /// At least 1, so that 0 is older than every version.
    version: u32,
    last_writer: u32,
    /// The last version that each thread had, sorted by thread.
    held: Vec<(u32, u32)>,
}

impl Line {
    pub(crate) fn new(line_bytes: usize) -> Self {
        Self {
            address: 0,
            dense_page: u64::MAX,
            rows: Vec::new(),
            digests: Vec::new(),
            stores: 0,
            cost_ps: 0,
            true_ps: 0,
            false_ps: 0,
            lost_ps: 0,
            versions: vec![0; line_bytes].into(),
            version: 1,
            last_writer: u32::MAX,
            held: Vec::new(),
        }
    }

    /// Records an access of some of its bytes.
    #[inline]
    pub(crate) fn note(
        &mut self,
        by: Accessor,
        bytes: std::ops::Range<usize>,
        access: &Access,
        outcome: &CacheOutcome,
        waited: Waited,
        rows_left: &mut usize,
    ) -> Noted {
        let Accessor { thread, is_locked, .. } = by;
        let (offset, size) = (bytes.start, bytes.len());
        let end = bytes.end.min(self.versions.len());
        let is_miss = outcome.source != LineSource::Hit;
        let writes = access.kind != AccessKind::Load;
        let sharing = if is_miss { self.sharing(thread, offset, end, writes) } else { None };
        // A thread that keeps a line for a while may write it after other threads have requested it, and still hit.
        let is_turn = is_miss || (writes && self.last_writer != thread);
        let mut had_it = false;
        if writes {
            self.stores += 1;
            if is_turn {
                self.version += 1;
                self.last_writer = thread;
            }
            if self.versions[offset] != self.version || self.versions[end - 1] != self.version {
                self.versions[offset..end].fill(self.version);
            }
        }
        if is_turn {
            match self.held.binary_search_by_key(&thread, |(its, _)| *its) {
                Ok(at) => {
                    self.held[at].1 = self.version;
                    had_it = true;
                }
                Err(at) => self.held.insert(at, (thread, self.version)),
            }
        }
        let row = self.row(offset, size, access, by, rows_left);
        let version = self.version;
        let row = &mut self.rows[row];
        if access.kind != AccessKind::Store {
            row.readers.add(thread + 1, version);
        }
        row.add(thread);
        row.locked += u64::from(is_locked);
        if !is_miss {
            return Noted::default();
        }
        row.misses += 1;
        if access.kind != AccessKind::Store {
            row.hitm_local += u64::from(outcome.source == LineSource::ModifiedLocal);
            row.hitm_remote += u64::from(outcome.source == LineSource::ModifiedRemote);
        }
        // The first fetch is not sharing.
        if outcome.source == LineSource::Memory {
            return Noted::default();
        }
        let Waited { cost_ps, lost_ps } = waited;
        row.cost_ps += cost_ps;
        self.cost_ps += cost_ps;
        if had_it {
            row.lost_ps += lost_ps;
            self.lost_ps += lost_ps;
        }
        let (of_row, of_line) = match sharing {
            Some(true) => (&mut row.true_ps, &mut self.true_ps),
            Some(false) => (&mut row.false_ps, &mut self.false_ps),
            None => return Noted { is_taken_back: had_it, is_true: false },
        };
        *of_row += cost_ps;
        *of_line += cost_ps;
        Noted { is_taken_back: had_it, is_true: had_it && sharing == Some(true) }
    }

    /// Records that a thread waited until a recorded store had the line.
    pub(crate) fn note_stall(
        &mut self,
        by: Accessor,
        bytes: std::ops::Range<usize>,
        access: &Access,
        lost_ps: u64,
        rows_left: &mut usize,
    ) {
        let row = self.row(bytes.start, bytes.len(), access, by, rows_left);
        self.rows[row].lost_ps += lost_ps;
        self.lost_ps += lost_ps;
    }

    /// Records that a part of a recorded access's wait was no loss.
    pub(crate) fn note_hidden(
        &mut self,
        by: Accessor,
        bytes: std::ops::Range<usize>,
        access: &Access,
        hidden_ps: u64,
        rows_left: &mut usize,
    ) {
        let row = self.row(bytes.start, bytes.len(), access, by, rows_left);
        let its = &mut self.rows[row].lost_ps;
        *its = its.saturating_sub(hidden_ps);
        self.lost_ps = self.lost_ps.saturating_sub(hidden_ps);
    }

    /// Classifies a miss. The sharing is true if another thread has written the bytes since this thread had the line,
    /// or has read bytes that this thread writes. If no thread has written the line at all, it is true if another
    /// thread has read the bytes. Returns none if the thread never had the line and these bytes were never written.
    fn sharing(&self, thread: u32, offset: usize, end: usize, writes: bool) -> Option<bool> {
        let bytes = &self.versions[offset..end];
        let Ok(at) = self.held.binary_search_by_key(&thread, |(its, _)| *its) else {
            return bytes.iter().any(|version| *version > 0).then_some(true);
        };
        let had = self.held[at].1;
        let is_read = |row: &Row| {
            let its = usize::from(row.offset)..usize::from(row.offset + row.size_bytes);
            its.start < end && offset < its.end && row.readers.version_of_others(thread + 1) >= had
        };
        let is_written = bytes.iter().any(|version| *version > had);
        Some(is_written || ((writes || self.version == had) && self.rows.iter().any(is_read)))
    }

    fn row(
        &mut self,
        offset: usize,
        size: usize,
        access: &Access,
        by: Accessor,
        rows_left: &mut usize,
    ) -> usize {
        let (offset, size_bytes) = (offset as u16, size as u16);
        let is_it = |row: &Row| {
            // An instruction that reads and writes may be recorded as two kinds of access.
            row.instruction == access.instruction
                && row.kind == access.kind
                && row.offset == offset
                && row.size_bytes == size_bytes
                && row.owner_kind == by.owner_kind
        };
        let digest = digest(access, offset, size_bytes, by.owner_kind);
        let mut alike = (0..).zip(&self.digests).filter(|(_, its)| **its == digest);
        if let Some((at, _)) = alike.find(|(at, _)| is_it(&self.rows[*at])) {
            return at;
        }
        // Accesses beyond the limit are counted in the last row.
        if self.rows.len() >= MOST_ROWS || (*rows_left == 0 && !self.rows.is_empty()) {
            return self.rows.len() - 1;
        }
        *rows_left = rows_left.saturating_sub(1);
        self.digests.push(digest);
        self.rows.push(Row {
            offset,
            size_bytes,
            instruction: access.instruction,
            kind: access.kind,
            is_atomic: access.is_atomic,
            ticket: by.ticket,
            owner: by.owner,
            owner_kind: by.owner_kind,
            ..Row::default()
        });
        self.rows.len() - 1
    }
}

/// Returns a number that differs for most different accesses.
fn digest(access: &Access, offset: u16, size_bytes: u16, owner_kind: u32) -> u64 {
    let bytes = u64::from(offset) << 48 | u64::from(size_bytes) << 36;
    let kind = u64::from(owner_kind) << 2 | access.kind as u64;
    access.instruction ^ bytes ^ kind.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::Row;

    #[test]
    fn a_rows_accesses_are_counted_by_thread() {
        let mut row = Row::default();
        [7, 7, 3, 7, 3, 9].into_iter().for_each(|thread| row.add(thread));
        assert_eq!(row.counts().collect::<Vec<_>>(), [(3, 2), (7, 3), (9, 1)]);
        let mut row = Row::default();
        [5, 5].into_iter().for_each(|thread| row.add(thread));
        assert_eq!(row.counts().collect::<Vec<_>>(), [(5, 2)]);
    }
}
