//! Writes a recording's file.

use std::io::{self, Write};

use super::{About, Ending, HEAD_BYTES, RECORDING_MARK, VERSION, frame};

/// The compression level of zstd: among the fastest, because the program waits for free chunks.
const LEVEL: i32 = -8;

/// For what is written once, at the end.
const NAMES_LEVEL: i32 = 3;

/// Writes a recording, frame by frame.
///
/// ```
/// use coreshard_trace::{About, Ending, Recording, RecordingWriter};
///
/// let mut bytes = Vec::new();
/// let mut writer = RecordingWriter::new(&mut bytes, &About { engine: "tsan".into(), ..About::default() })?;
/// writer.chunk(1, 0, &[])?;
/// writer.finish(&Ending::default())?;
/// let recording = Recording::from_bytes(bytes)?;
/// assert_eq!(recording.about().engine, "tsan");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecordingWriter<W: Write> {
    out: W,
    packer: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
    written_bytes: u64,
}

impl<W: Write> std::fmt::Debug for RecordingWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingWriter")
            .field("bytes", &self.written_bytes)
            .finish_non_exhaustive()
    }
}

impl<W: Write> RecordingWriter<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W, about: &About) -> io::Result<Self> {
        let mut packer = zstd::bulk::Compressor::new(LEVEL)?;
        packer.include_checksum(true)?;
        out.write_all(RECORDING_MARK.as_bytes())?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&[0; 4])?;
        let written_bytes = 16;
        let mut writer = Self { out, packer, packed: Vec::new(), written_bytes };
        let about = serde_json::to_vec(about).map_err(io::Error::other)?;
        writer.frame(frame::ABOUT, 0, 0, about.len(), &about)?;
        Ok(writer)
    }

    /// Adds a chunk of a thread's events.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn chunk(&mut self, thread: u32, order: u32, events: &[u8]) -> io::Result<()> {
        self.packed.resize(zstd::zstd_safe::compress_bound(events.len()), 0);
        let length = self.packer.compress_to_buffer(events, &mut self.packed)?;
        let packed = std::mem::take(&mut self.packed);
        let done = self.frame(frame::CHUNK, thread, order, events.len(), &packed[..length]);
        self.packed = packed;
        done
    }

    /// Adds a part of the file of names that a kernel's recording carries. The parts of a file are in order.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn names(&mut self, order: u32, part: &[u8]) -> io::Result<()> {
        let packed = zstd::bulk::compress(part, NAMES_LEVEL)?;
        self.frame(frame::FILE, 0, order, part.len(), &packed)
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self, ending: &Ending) -> io::Result<W> {
        let ending = serde_json::to_vec(ending).map_err(io::Error::other)?;
        self.frame(frame::END, 0, 0, ending.len(), &ending)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// How many bytes the file has so far.
    pub const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    fn frame(
        &mut self,
        kind: u32,
        thread: u32,
        order: u32,
        raw: usize,
        bytes: &[u8],
    ) -> io::Result<()> {
        let mut head = [0; HEAD_BYTES];
        for (at, word) in
            [kind, thread, order, raw as u32, bytes.len() as u32].into_iter().enumerate()
        {
            head[at * 4..][..4].copy_from_slice(&word.to_le_bytes());
        }
        self.out.write_all(&head)?;
        self.out.write_all(bytes)?;
        self.written_bytes += (HEAD_BYTES + bytes.len()) as u64;
        Ok(())
    }
}
