//! Reads a recording's file: an index of its chunks first, and each chunk on demand.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use coreshard_topology::input;

use super::error::RecordingError;
use super::event::{Access, Event, Events};
use super::{
    About, Ending, HEAD_BYTES, Lack, MOST_FRAME_BYTES, MOST_THREADS, RECORDING_MARK, VERSION, frame,
};

/// Chunks of one recording. At 64 KiB each, they hold four terabytes of events.
const MOST_CHUNKS: usize = 64 << 20;
/// Largest thread number. Linux has at most four million threads at once.
const MOST_THREAD_NUMBER: u32 = 1 << 24;
/// Parts of a kernel's names: of 16 MiB each.
const MOST_NAMES_PARTS: usize = 32;
/// Bytes before the first frame.
const HEADER_BYTES: u64 = 16;
/// Largest description of a recording, in JSON.
const MOST_JSON_BYTES: usize = 1 << 20;

/// The position of a chunk in the file.
#[derive(Clone, Copy)]
struct Chunk {
    offset: u64,
    packed_bytes: u32,
    raw_bytes: u32,
    order: u32,
}

enum Source {
    File(File, u64),
    Bytes(Vec<u8>),
}

/// A recording, open to be read.
pub struct Recording {
    source: Source,
    about: About,
    /// Sorted by thread.
    threads: Vec<(u32, Vec<Chunk>)>,
    /// The parts of the names that a kernel's recording carries, in order.
    names: Vec<Chunk>,
    lacks: Vec<Lack>,
    threads_ns: Vec<u64>,
    unpacker: Mutex<Unpacker>,
}

/// Memory that is used for each chunk.
#[derive(Default)]
struct Unpacker {
    packed: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("about", &self.about).finish_non_exhaustive()
    }
}

impl Source {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), RecordingError> {
        let cut = || RecordingError::at(offset, "the file ends here, within a frame");
        match self {
            Self::File(file, _) => file.read_exact_at(into, offset).map_err(|_| cut()),
            Self::Bytes(bytes) => {
                let from = usize::try_from(offset).map_err(|_| cut())?;
                let part =
                    bytes.get(from..).and_then(|rest| rest.get(..into.len())).ok_or_else(cut)?;
                into.copy_from_slice(part);
                Ok(())
            }
        }
    }

    fn length(&self) -> u64 {
        match self {
            Self::File(_, length) => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

impl Recording {
    /// Opens a recording's file.
    ///
    /// # Errors
    /// If it cannot be read or is not a recording. The message names the offset.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = input::regular(path).map_err(|error| RecordingError::input(&error))?;
        let length = file.metadata().map_or(0, |found| found.len());
        Self::index(Source::File(file, length))
    }

    /// Parses a recording in memory.
    ///
    /// # Errors
    /// If it is not a recording. The message names the offset.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, RecordingError> {
        Self::index(Source::Bytes(bytes))
    }

    fn index(source: Source) -> Result<Self, RecordingError> {
        let mut head = [0; HEADER_BYTES as usize];
        source
            .read(0, &mut head)
            .map_err(|_| RecordingError::at(0, "it is too short for a recording"))?;
        if &head[..8] != RECORDING_MARK.as_bytes() {
            return Err(RecordingError::at(0, "it is not a recording of `coreshard record`"));
        }
        let version = u32_at(&head, 8);
        if version != VERSION {
            let what = format!("unknown version {version} of the format: expected {VERSION}");
            return Err(RecordingError::at(8, what));
        }
        let mut recording = Self {
            source,
            about: About::default(),
            threads: Vec::new(),
            names: Vec::new(),
            lacks: vec![Lack::End],
            threads_ns: Vec::new(),
            unpacker: Mutex::default(),
        };
        let (mut offset, mut count) = (HEADER_BYTES, 0);
        while offset < recording.source.length() {
            let lack = match recording.frame(offset, &mut count) {
                Ok(Some(next)) => {
                    offset = next;
                    continue;
                }
                Ok(None) => Lack::Cut { offset },
                // Everything before this offset is a valid recording if it has its first frame.
                Err(error) if offset > HEADER_BYTES => {
                    // A chunk may be truncated and its remaining bytes overwritten with other data.
                    let offset = recording.without_broken_end(offset);
                    Lack::Garbage { offset, what: error.into_what() }
                }
                Err(error) => return Err(error),
            };
            recording.lacks.push(lack);
            break;
        }
        recording.names.sort_by_key(|part| part.order);
        for (_, chunks) in &mut recording.threads {
            chunks.sort_by_key(|chunk| chunk.order);
        }
        recording.threads.sort_by_key(|(thread, _)| *thread);
        Ok(recording)
    }

    /// Drops the chunk that ends at `end` if it cannot be read. Returns the end of the readable part of the file.
    fn without_broken_end(&mut self, end: u64) -> u64 {
        let is_last = |chunk: &Chunk| chunk.offset + u64::from(chunk.packed_bytes) == end;
        let place = self.threads.iter().position(|(_, chunks)| chunks.last().is_some_and(is_last));
        let Some(place) = place else { return end };
        let Some(chunk) = self.threads[place].1.last().copied() else { return end };
        if self.chunk(&chunk, &mut Vec::new()).is_ok() {
            return end;
        }
        self.threads[place].1.pop();
        if self.threads[place].1.is_empty() {
            self.threads.remove(place);
        }
        chunk.offset - HEAD_BYTES as u64
    }

    /// Indexes the frame at `offset` and returns the offset after it, or none if the frame is truncated.
    fn frame(&mut self, offset: u64, count: &mut usize) -> Result<Option<u64>, RecordingError> {
        let mut head = [0; HEAD_BYTES];
        if self.source.read(offset, &mut head).is_err() {
            return Ok(None);
        }
        let wrong = |what: String| Err(RecordingError::at(offset, what));
        let [kind, thread, order, raw_bytes, packed_bytes] =
            [0, 4, 8, 12, 16].map(|at| u32_at(&head, at));
        let body = offset + HEAD_BYTES as u64;
        let end = body + u64::from(packed_bytes);
        if raw_bytes.max(packed_bytes) as usize > MOST_FRAME_BYTES {
            return wrong(format!("a frame of more than {MOST_FRAME_BYTES} bytes"));
        }
        if end > self.source.length() {
            return Ok(None);
        }
        if thread > MOST_THREAD_NUMBER {
            return wrong(format!(
                "invalid thread number {thread}: expected at most {MOST_THREAD_NUMBER}"
            ));
        }
        match kind {
            frame::ABOUT => self.about = self.json(body, packed_bytes)?,
            frame::END => {
                let ending: Ending = self.json(body, packed_bytes)?;
                self.lacks.retain(|lack| *lack != Lack::End);
                self.lacks.extend(ending.lacks.into_iter().take(100));
                self.threads_ns = ending.threads_ns;
            }
            frame::CHUNK => {
                *count += 1;
                if packed_bytes == 0 {
                    return wrong("an empty chunk".to_owned());
                }
                if *count > MOST_CHUNKS {
                    return wrong(format!("more than {MOST_CHUNKS} chunks"));
                }
                let chunk = Chunk { offset: body, packed_bytes, raw_bytes, order };
                // Chunks of one thread are mostly adjacent.
                let known = self.threads.len();
                match self.threads.iter_mut().rev().find(|(its, _)| *its == thread) {
                    Some((_, chunks)) => chunks.push(chunk),
                    None if known < MOST_THREADS => self.threads.push((thread, vec![chunk])),
                    None => return wrong(format!("more than {MOST_THREADS} threads")),
                }
            }
            frame::FILE => {
                if packed_bytes == 0 || self.names.len() >= MOST_NAMES_PARTS {
                    return wrong("a part of the names that is empty or one too many".to_owned());
                }
                self.names.push(Chunk { offset: body, packed_bytes, raw_bytes, order });
            }
            other => return wrong(format!("unknown kind of frame {other}")),
        }
        Ok(Some(end))
    }

    fn json<T: serde::de::DeserializeOwned>(
        &self,
        offset: u64,
        length: u32,
    ) -> Result<T, RecordingError> {
        if length as usize > MOST_JSON_BYTES {
            return Err(RecordingError::at(offset, "the description of the recording is too long"));
        }
        let mut bytes = vec![0; length as usize];
        self.source.read(offset, &mut bytes)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| RecordingError::at(offset, error.to_string()))
    }

    /// Returns the description of the recording.
    #[must_use]
    pub const fn about(&self) -> &About {
        &self.about
    }

    /// Returns the known gaps.
    #[must_use]
    pub fn lacks(&self) -> &[Lack] {
        &self.lacks
    }

    /// Returns the processor time of each thread in a run on one CPU without a recorder, in nanoseconds; empty if there was no
    /// such run, or if only part of the program was recorded.
    #[must_use]
    pub(crate) fn threads_ns(&self) -> &[u64] {
        if self.lacks.iter().any(Lack::is_sample) { &[] } else { &self.threads_ns }
    }

    /// Returns the threads' numbers.
    pub fn threads(&self) -> impl ExactSizeIterator<Item = u32> {
        self.threads.iter().map(|(number, _)| *number)
    }

    /// Returns the events of each thread.
    pub(crate) fn events(&self) -> impl Iterator<Item = (u32, ThreadEvents<'_>)> {
        self.threads.iter().map(|(number, chunks)| {
            let events = ThreadEvents {
                recording: self,
                chunks,
                next: 0,
                bytes: Vec::new(),
                at: 0,
                events: Events::default(),
            };
            (*number, events)
        })
    }

    /// Returns the names that a kernel's recording carries, as an ELF file; none if it carries none.
    ///
    /// # Errors
    /// If they are damaged. The message names the offset.
    pub(crate) fn names(&self) -> Result<Option<Vec<u8>>, RecordingError> {
        let mut all = Vec::new();
        let mut part = Vec::new();
        for chunk in &self.names {
            self.chunk(chunk, &mut part)?;
            all.append(&mut part);
        }
        Ok((!all.is_empty()).then_some(all))
    }

    /// Decompresses a chunk into `events`.
    fn chunk(&self, chunk: &Chunk, events: &mut Vec<u8>) -> Result<(), RecordingError> {
        let mut unpacker = self.unpacker.lock().unwrap_or_else(PoisonError::into_inner);
        let Unpacker { packed, zstd } = &mut *unpacker;
        packed.resize(chunk.packed_bytes as usize, 0);
        self.source.read(chunk.offset, packed)?;
        let wrong = |what: String| RecordingError::at(chunk.offset, what);
        if zstd.is_none() {
            let new = zstd::bulk::Decompressor::new();
            *zstd = Some(new.map_err(|error| wrong(error.to_string()))?);
        }
        events.resize(chunk.raw_bytes as usize, 0);
        let zstd = zstd.as_mut().expect("it was created just now");
        let length = zstd
            .decompress_to_buffer(packed, events)
            .map_err(|error| wrong(format!("it cannot be unpacked: {error}")))?;
        if length != chunk.raw_bytes as usize {
            return Err(wrong(format!(
                "expected a chunk of {} bytes, found {length}",
                chunk.raw_bytes
            )));
        }
        Ok(())
    }
}

/// Reads a thread's events, chunk by chunk.
pub(crate) struct ThreadEvents<'r> {
    recording: &'r Recording,
    chunks: &'r [Chunk],
    /// The number of the next chunk.
    next: usize,
    bytes: Vec<u8>,
    at: usize,
    events: Events,
}

impl ThreadEvents<'_> {
    /// Returns the next event if it is an access that is decoded quickly. Otherwise the caller calls [`Self::read`].
    #[inline(always)]
    pub(crate) fn read_access(&mut self) -> Option<Access> {
        self.events.next_access(&self.bytes, &mut self.at)
    }

    /// Returns the next event, or none at the end. This is not an iterator because an event borrows from its chunk.
    #[inline]
    pub(crate) fn read(&mut self) -> Result<Option<Event<'_>>, RecordingError> {
        while self.at >= self.bytes.len() {
            if !self.next_chunk()? {
                return Ok(None);
            }
        }
        let event = self.events.next(&self.bytes, &mut self.at);
        event.map_err(|error| error.in_chunk(self.chunks[self.next - 1].offset))
    }

    #[cold]
    fn next_chunk(&mut self) -> Result<bool, RecordingError> {
        let Some(chunk) = self.chunks.get(self.next) else { return Ok(false) };
        self.recording.chunk(chunk, &mut self.bytes)?;
        self.next += 1;
        self.at = 0;
        self.events.begin();
        Ok(true)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
