//! The command's side of the spool, a file in memory that the program's recorder maps. This side uses reads and writes
//! at offsets, so it needs neither shared mappings nor unsafe code.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

const MAGIC: u64 = 0x314c_4f4f_5053_4343;
const HEAD_BYTES: u64 = 4_096;
const ENTRY_BYTES: usize = 64;
const CHUNK_BYTES: usize = 256 << 10;
/// The smallest chunks, of a recording whose file is small: they must hold several of the longest events.
const LEAST_CHUNK_BYTES: usize = 16 << 10;
/// All chunks together have at most this part of the file's maximum size, because they are written after a window closes.
const PART_OF_FILE: u64 = 16;
/// Memory of one thread's recorder: its sites and its call stack.
const RECORDER_BYTES: usize = 80 << 10;
/// Memory of both sides that does not depend on the number of chunks: a table of instructions in emulation, and buffers.
const OTHER_BYTES: u64 = 40 << 20;
/// Chunks of one spool, regardless of the memory: the command reads all their headers each time.
const MOST_CHUNKS: usize = 2_048;
/// Chunks that are taken at once. A small number keeps windows opening and closing on time.
const MOST_TAKEN: usize = 16;

/// Offsets of the words in the header.
mod at {
    pub(super) const WINDOW: u64 = 16;
    pub(super) const PROCESS: u64 = 24;
    pub(super) const OTHERS: u64 = 28;
    pub(super) const THREADS_LOST: u64 = 32;
    pub(super) const EVENTS_LOST: u64 = 48;
    pub(super) const IS_HELPED: u64 = 56;
    pub(super) const IS_REPLACED: u64 = 60;
}

const FREE: u32 = 0;
const FULL: u32 = 2;

/// Shared memory that carries events from a program to the command.
#[derive(Debug)]
pub struct Spool {
    file: File,
    chunks: usize,
    chunk_bytes: usize,
    /// The bytes of events that were not taken when [`take`](Self::take) looked last.
    waiting_bytes: u64,
    /// The chunk to look at first.
    next: usize,
    entries: Vec<u8>,
    events: Vec<u8>,
}

/// Counters of the recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolCounts {
    /// The recorded process; 0 if there is none.
    pub process: u32,
    /// Further processes, which are not recorded.
    pub others: u32,
    /// Threads that found no free chunk.
    pub threads_lost: u32,
    /// Events that arrived while another event was being written.
    pub events_lost: u64,
    /// Whether an emulated program reports its locks and allocations itself.
    pub is_helped: bool,
    /// Whether the process called `exec`. The new program is not recorded.
    pub is_replaced: bool,
}

/// A chunk that was taken out of the spool.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// The thread that filled it.
    pub thread: u32,
    /// Its position among the thread's chunks.
    pub order: u32,
    /// The events in it.
    pub events: &'a [u8],
}

impl Spool {
    /// The least memory that can be asked for, in bytes.
    pub const LEAST_BYTES: u64 = 64 << 20;
    /// The most memory that can be asked for, in bytes.
    pub const MOST_BYTES: u64 = 64 << 30;

    /// Creates a spool for one program. Recording takes at most `memory_bytes` of memory: each thread has a chunk and
    /// its recorder, and a thread that finds no free chunk waits. Memory is committed on first use. The chunks are small if the
    /// recording's file may have only `file_bytes`.
    ///
    /// # Errors
    /// If the system is out of memory.
    pub fn new(memory_bytes: u64, file_bytes: u64) -> io::Result<Self> {
        let memory_bytes = memory_bytes.clamp(Self::LEAST_BYTES, Self::MOST_BYTES) - OTHER_BYTES;
        let chunks = memory_bytes as usize / (ENTRY_BYTES + CHUNK_BYTES + RECORDER_BYTES);
        let chunks = chunks.min(MOST_CHUNKS);
        let chunk_bytes = (file_bytes / PART_OF_FILE / chunks as u64).min(CHUNK_BYTES as u64);
        let chunk_bytes = (chunk_bytes as usize / 4_096 * 4_096).max(LEAST_CHUNK_BYTES);
        let file = rustix::fs::memfd_create("coreshard-spool", rustix::fs::MemfdFlags::CLOEXEC)?;
        let file = File::from(file);
        file.set_len(HEAD_BYTES + (chunks * (ENTRY_BYTES + chunk_bytes)) as u64)?;
        let entries = vec![0; chunks * ENTRY_BYTES];
        let events = Vec::new();
        let spool = Self { file, chunks, chunk_bytes, waiting_bytes: 0, next: 0, entries, events };
        spool.file.write_all_at(&(chunks as u32).to_ne_bytes(), 8)?;
        spool.file.write_all_at(&(chunk_bytes as u32).to_ne_bytes(), 12)?;
        spool.file.write_all_at(&std::process::id().to_ne_bytes(), 36)?;
        // Written last: the recorder treats a spool with this number as complete.
        spool.file.write_all_at(&MAGIC.to_ne_bytes(), 0)?;
        Ok(spool)
    }

    /// The path that other processes of the same user open. It is valid while this process has the spool open.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Opens the window with this number, or closes it if the number is 0.
    ///
    /// # Errors
    /// If the write fails.
    pub fn set_window(&self, number: u32) -> io::Result<()> {
        self.file.write_all_at(&number.to_ne_bytes(), at::WINDOW)
    }

    /// Reads the recorder's counters.
    ///
    /// # Errors
    /// If the read fails.
    pub fn counts(&self) -> io::Result<SpoolCounts> {
        let mut word = [0; 4];
        let mut u32_at =
            |offset| self.file.read_exact_at(&mut word, offset).map(|()| u32::from_ne_bytes(word));
        let (process, others, threads_lost) =
            (u32_at(at::PROCESS)?, u32_at(at::OTHERS)?, u32_at(at::THREADS_LOST)?);
        let (is_helped, is_replaced) = (u32_at(at::IS_HELPED)? != 0, u32_at(at::IS_REPLACED)? != 0);
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at::EVENTS_LOST)?;
        let events_lost = u64::from_ne_bytes(word);
        Ok(SpoolCounts { process, others, threads_lost, events_lost, is_helped, is_replaced })
    }

    /// Takes full chunks and returns their number. Once the program has ended, it takes every chunk in use.
    ///
    /// # Errors
    /// Errors of `take`, and failures to read the spool.
    pub fn take(
        &mut self,
        has_ended: bool,
        mut take: impl FnMut(Taken<'_>) -> io::Result<()>,
    ) -> io::Result<usize> {
        self.file.read_exact_at(&mut self.entries, HEAD_BYTES)?;
        let mut count = 0;
        let most = if has_ended { usize::MAX } else { MOST_TAKEN };
        let first = self.next;
        self.waiting_bytes = 0;
        for number in (first..self.chunks).chain(0..first) {
            let entry = &self.entries[number * ENTRY_BYTES..][..16];
            let word = |at: usize| {
                u32::from_ne_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
            };
            let (state, thread, used, order) = (word(0), word(4), word(8), word(12));
            if state == FREE {
                continue;
            }
            // The word is untrusted: the program can write anything there.
            let used = (used as usize).min(self.chunk_bytes);
            if count == most || (state != FULL && !has_ended) {
                self.waiting_bytes += used as u64;
                continue;
            }
            self.events.resize(used, 0);
            let start = HEAD_BYTES + (self.chunks * ENTRY_BYTES + number * self.chunk_bytes) as u64;
            self.file.read_exact_at(&mut self.events, start)?;
            if used > 0 {
                take(Taken { thread, order, events: &self.events })?;
            }
            self.file
                .write_all_at(&FREE.to_ne_bytes(), HEAD_BYTES + (number * ENTRY_BYTES) as u64)?;
            count += 1;
            if count == most {
                self.next = (number + 1) % self.chunks;
            }
        }
        Ok(count)
    }

    /// Returns the bytes of events that were in the spool after the last [`take`](Self::take).
    #[must_use]
    pub const fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spool_is_as_large_as_its_memory_allows() {
        for memory_bytes in [Spool::LEAST_BYTES, 256 << 20, 1 << 30] {
            let spool = Spool::new(memory_bytes, u64::MAX).unwrap();
            let bytes = spool.file.metadata().unwrap().len();
            let recorders = (spool.chunks * RECORDER_BYTES) as u64;
            assert!(bytes + recorders + OTHER_BYTES <= memory_bytes, "{memory_bytes}: {bytes}");
            assert!(spool.chunks >= 50, "{memory_bytes}: {}", spool.chunks);
        }
        assert_eq!(Spool::new(u64::MAX, u64::MAX).unwrap().chunks, MOST_CHUNKS);
    }

    #[test]
    fn chunks_of_a_small_file_are_small() {
        for (file_bytes, least) in [(4 << 20, LEAST_CHUNK_BYTES), (4 << 30, CHUNK_BYTES)] {
            let spool = Spool::new(Spool::LEAST_BYTES, file_bytes).unwrap();
            assert_eq!(spool.chunk_bytes, least);
        }
        let spool = Spool::new(Spool::LEAST_BYTES, 40 << 20).unwrap();
        assert!((spool.chunks * spool.chunk_bytes) as u64 <= (40 << 20) / PART_OF_FILE);
    }

    #[test]
    fn chunks_are_taken_in_turn_while_the_program_runs() {
        let mut spool = Spool::new(Spool::LEAST_BYTES, u64::MAX).unwrap();
        let count = spool.chunks;
        assert!(count > MOST_TAKEN);
        let fill = |spool: &Spool| {
            for number in 0..count {
                let head = [FULL, number as u32, 4, 0].map(u32::to_ne_bytes).concat();
                let at = HEAD_BYTES + (number * ENTRY_BYTES) as u64;
                spool.file.write_all_at(&head, at).unwrap();
            }
        };
        fill(&spool);
        let mut taken = Vec::new();
        let mut take = |spool: &mut Spool, has_ended| {
            spool.take(has_ended, |chunk| {
                taken.push(chunk.thread);
                Ok(())
            })
        };
        for _ in 0..count.div_ceil(MOST_TAKEN) {
            fill(&spool);
            assert_eq!(take(&mut spool, false).unwrap(), MOST_TAKEN);
            assert_eq!(spool.waiting_bytes(), 4 * (count - MOST_TAKEN) as u64);
        }
        take(&mut spool, true).unwrap();
        assert_eq!(spool.waiting_bytes(), 0);
        taken[..count].sort_unstable();
        assert!(taken[..count].iter().copied().eq(0..count as u32), "each before any comes again");
    }
}
