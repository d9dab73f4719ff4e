//! Reading through Coreshard's block layer, several pieces ahead.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use coreshard::block::{
    Buffer, Engine, File, FileOptions, HostAdapter, HostOptions, QueueOptions, Request,
};

use crate::digest::{PIECE_BYTES, Reading};

/// Pieces of a file that are read ahead of the hash.
const PIECES_AHEAD: u32 = 4;

/// Shared by all files that are read through the block layer: the tags, which limit the pieces in flight
/// for the disk and the memory, however many files are hashed at a time.
#[derive(Debug)]
pub(crate) struct Disk {
    adapter: Arc<HostAdapter>,
}

impl Disk {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let options = HostOptions { name: "hash_tree".to_owned(), ..HostOptions::default() };
        Ok(Self { adapter: HostAdapter::new(options)? })
    }

    /// Calls `consume` for each piece of the file, in order.
    pub(crate) fn read_pieces(
        &self,
        path: &Path,
        reading: &Reading,
        mut consume: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let bytes = path.metadata()?.len();
        if bytes == 0 {
            return Ok(());
        }
        // Making a ring takes longer than reading a file of one piece.
        let engine = if bytes <= PIECE_BYTES as u64 { Engine::Sync } else { Engine::Auto };
        let file = File::open(path, FileOptions { engine, ..FileOptions::default() });
        let device = self.adapter.target("file").device(Arc::new(file.map_err(other)?));
        let options = QueueOptions { depth: PIECES_AHEAD, ..QueueOptions::default() };
        let mut queue = device.map_err(other)?.queue(0, options).map_err(other)?;
        let mut next = 0;
        let mut spare: Vec<Buffer> = Vec::new();
        let mut ahead = VecDeque::new();
        while !reading.stop.load(Ordering::Relaxed) {
            while next < bytes && ahead.len() < PIECES_AHEAD as usize {
                let length = (bytes - next).min(PIECE_BYTES as u64) as usize;
                let buffer = match spare.pop() {
                    Some(buffer) if buffer.len() == length => buffer,
                    _ => Buffer::from(vec![0; length]),
                };
                ahead.push_back(queue.send(Request::read(next, buffer)));
                next += length as u64;
            }
            let Some(oldest) = ahead.pop_front() else { return Ok(()) };
            let completed = queue.block_on(oldest);
            let length = completed.result.map_err(other)?;
            let buffer = completed.payload.into_one().ok_or(io::ErrorKind::InvalidData)?;
            consume(&buffer[..length]);
            reading.bytes.fetch_add(length as u64, Ordering::Relaxed);
            spare.push(buffer);
        }
        Err(io::ErrorKind::Interrupted.into())
    }
}

fn other(error: impl Display) -> io::Error {
    io::Error::other(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::{self, Algorithm};

    #[test]
    fn both_ways_of_reading_give_the_same_digest() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new().unwrap();
        for length in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 7 * PIECE_BYTES + 5] {
            let path = folder.path().join("file");
            let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            std::fs::write(&path, content).unwrap();
            let reading = Reading::default();
            let digest = |disk| digest::of_file(&path, Algorithm::Blake3, &reading, disk).unwrap();
            assert_eq!(digest(Some(&disk)), digest(None), "{length}");
            assert_eq!(reading.bytes.into_inner(), 2 * length as u64);
        }
    }
}
