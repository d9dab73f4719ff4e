//! The command's side of the spool: a file in memory that the program's recorder maps. This side reads and writes it by
//! offset, so that it shares no memory and needs no unsafe code.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

const MAGIC: u64 = 0x314c_4f4f_5053_4343;
const HEAD_BYTES: u64 = 4_096;
const ENTRY_BYTES: usize = 64;
/// Chunks in all: memory is touched as they are used.
const CHUNKS: usize = 1_024;
const CHUNK_BYTES: usize = 256 << 10;

/// Offsets of the head's words.
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

/// Shared memory through which a program hands over its events.
#[derive(Debug)]
pub struct Spool {
    file: File,
    entries: Vec<u8>,
    events: Vec<u8>,
}

/// What the recorder has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolCounts {
    /// The process that is recorded; 0 if there is none.
    pub process: u32,
    /// Further processes, which are not recorded.
    pub others: u32,
    /// Threads for which there was no chunk.
    pub threads_lost: u32,
    /// Events that came while another was written.
    pub events_lost: u64,
    /// Whether an emulated program has told of its locks and its memory by itself.
    pub is_helped: bool,
    /// Whether the process goes on as another program, which is not recorded.
    pub is_replaced: bool,
}

/// A chunk that was taken out of the spool.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// Whose it is.
    pub thread: u32,
    /// Its place among the thread's chunks.
    pub order: u32,
    /// What is in it.
    pub events: &'a [u8],
}

impl Spool {
    /// Makes a spool for one program.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub fn new() -> io::Result<Self> {
        let file = rustix::fs::memfd_create("coreshard-spool", rustix::fs::MemfdFlags::CLOEXEC)?;
        let file = File::from(file);
        file.set_len(HEAD_BYTES + (CHUNKS * (ENTRY_BYTES + CHUNK_BYTES)) as u64)?;
        let spool = Self { file, entries: vec![0; CHUNKS * ENTRY_BYTES], events: Vec::new() };
        spool.file.write_all_at(&(CHUNKS as u32).to_ne_bytes(), 8)?;
        spool.file.write_all_at(&(CHUNK_BYTES as u32).to_ne_bytes(), 12)?;
        spool.file.write_all_at(&std::process::id().to_ne_bytes(), 36)?;
        // Last: with it, the recorder takes it for complete.
        spool.file.write_all_at(&MAGIC.to_ne_bytes(), 0)?;
        Ok(spool)
    }

    /// The path by which another process of the same user opens it, for as long as this one has it.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Opens a window of this number, or closes it with 0.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn set_window(&self, number: u32) -> io::Result<()> {
        self.file.write_all_at(&number.to_ne_bytes(), at::WINDOW)
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// If the system refuses it.
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

    /// Takes the chunks that are full, and, once the program has ended, those that are not as well. Gives how many there were.
    ///
    /// # Errors
    /// Those of `take`, and where the system refuses to read the spool.
    pub fn take(
        &mut self,
        has_ended: bool,
        mut take: impl FnMut(Taken<'_>) -> io::Result<()>,
    ) -> io::Result<usize> {
        self.file.read_exact_at(&mut self.entries, HEAD_BYTES)?;
        let mut count = 0;
        for number in 0..CHUNKS {
            let entry = &self.entries[number * ENTRY_BYTES..][..16];
            let word = |at: usize| {
                u32::from_ne_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
            };
            let (state, thread, used, order) = (word(0), word(4), word(8), word(12));
            if state == FREE || (state != FULL && !has_ended) {
                continue;
            }
            // The program may have written anything there.
            let used = (used as usize).min(CHUNK_BYTES);
            self.events.resize(used, 0);
            let start = HEAD_BYTES + (CHUNKS * ENTRY_BYTES + number * CHUNK_BYTES) as u64;
            self.file.read_exact_at(&mut self.events, start)?;
            if used > 0 {
                take(Taken { thread, order, events: &self.events })?;
            }
            self.file
                .write_all_at(&FREE.to_ne_bytes(), HEAD_BYTES + (number * ENTRY_BYTES) as u64)?;
            count += 1;
        }
        Ok(count)
    }
}
