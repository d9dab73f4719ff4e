//! Counts the accesses of each shared line.
//!
//! Versions distinguish true from false sharing. Each change of owner by a write increments the line's version, and
//! each byte has the version of its last write. A thread that misses a line lost it to writes after the version that it
//! last had. If one of these writes changed a byte that the thread accesses, the sharing is true; otherwise it is
//! false. A writer may also miss only because others have read the line. The sharing is then true if one of them read a
//! byte that it writes.

use super::accessor::Accessor;
use super::rows::{Row, Rows};
use crate::recording::{Access, AccessKind};
use coreshard_sim::{CacheOutcome, LineSource};

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

/// A line that several threads access. The order of its fields is that of memory, with those of each access first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Line {
    /// Its page in the simulated caches; `u64::MAX` before its first access.
    pub(crate) dense_page: u64,
    pub(crate) rows: Rows,
    pub(crate) stores: u64,
    /// The version of each byte's last write.
    versions: Box<[u32]>,
    /// At least 1, so that 0 is older than every version.
    version: u32,
    last_writer: u32,
    pub(crate) address: u64,
    pub(crate) cost_ps: u64,
    pub(crate) true_ps: u64,
    pub(crate) false_ps: u64,
    /// Time that threads waited for it after they had held it before.
    pub(crate) lost_ps: u64,
    /// The last version that each thread had, sorted by thread.
    held: Vec<(u32, u32)>,
}

impl Line {
    pub(crate) fn new(line_bytes: usize) -> Self {
        Self {
            address: 0,
            dense_page: u64::MAX,
            rows: Rows::default(),
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
        let row = self.rows.of((offset as u16, size as u16), access, &by, rows_left);
        if access.kind != AccessKind::Store {
            row.note_reader(thread, self.version);
        }
        row.add(thread);
        if is_locked {
            row.costs_mut().locked += 1;
        }
        if !is_miss {
            return Noted::default();
        }
        let row = row.costs_mut();
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
        let bytes = (bytes.start as u16, bytes.len() as u16);
        self.rows.of(bytes, access, &by, rows_left).costs_mut().lost_ps += lost_ps;
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
        let bytes = (bytes.start as u16, bytes.len() as u16);
        let row = self.rows.of(bytes, access, &by, rows_left).costs_mut();
        row.lost_ps = row.lost_ps.saturating_sub(hidden_ps);
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
            let (start, bytes) = (usize::from(row.offset), usize::from(row.size_bytes));
            start < end && offset < start + bytes && row.read_by_others(thread) >= had
        };
        let is_written = bytes.iter().any(|version| *version > had);
        Some(is_written || ((writes || self.version == had) && self.rows.iter().any(is_read)))
    }
}
