//! The hash of one file, read in pieces.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::ValueEnum;
use sha2::Digest as _;

use crate::disk::Disk;

/// Bytes read at once: enough for BLAKE3 to use its widest instructions, and it fits a stack.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// The hash functions on offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Algorithm {
    /// BLAKE3, as b3sum prints it
    Blake3,
    /// SHA-256, as sha256sum prints it
    Sha256,
}

/// A digest of 256 bits; shown in lower-case hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest([u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Shared by the readers of files and the thread that waits for them.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Bytes read so far, of all files together.
    pub(crate) bytes: AtomicU64,
    /// Set when digests are no longer needed.
    pub(crate) stop: AtomicBool,
}

/// Reads the file at `path` to its end, through `disk` if it is given, and hashes it.
///
/// # Errors
/// Fails if opening or reading fails, with [`ErrorKind::InvalidInput`] if `path` is no longer a regular file, and with
/// [`ErrorKind::Interrupted`] if `reading` was stopped.
pub(crate) fn of_file(
    path: &Path,
    algorithm: Algorithm,
    reading: &Reading,
    disk: Option<&Disk>,
) -> io::Result<Digest> {
    // Without O_NONBLOCK, opening a path that has become a pipe would wait for a writer forever.
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "no longer a regular file"));
    }
    match algorithm {
        Algorithm::Blake3 => {
            let mut hasher = blake3::Hasher::new();
            let consume = |piece: &[u8]| {
                hasher.update(piece);
            };
            match disk {
                None => read_pieces(&mut file, reading, consume)?,
                Some(disk) => disk.read_pieces(path, reading, consume)?,
            }
            Ok(Digest(hasher.finalize().into()))
        }
        Algorithm::Sha256 => {
            let mut hasher = sha2::Sha256::new();
            let consume = |piece: &[u8]| hasher.update(piece);
            match disk {
                None => read_pieces(&mut file, reading, consume)?,
                Some(disk) => disk.read_pieces(path, reading, consume)?,
            }
            Ok(Digest(hasher.finalize().into()))
        }
    }
}

fn read_pieces(
    file: &mut File,
    reading: &Reading,
    mut consume: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut piece = [0; PIECE_BYTES];
    // Relaxed, here and below: a figure for the progress bar and a request to stop; neither orders other
    // accesses.
    while !reading.stop.load(Ordering::Relaxed) {
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                consume(&piece[..length]);
                reading.bytes.fetch_add(length as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::Interrupted.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY_BLAKE3: &str = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const ABC_BLAKE3: &str = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    const ABC_SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn digest(content: &[u8], algorithm: Algorithm) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, content).unwrap();
        let reading = Reading::default();
        let digest = of_file(&path, algorithm, &reading, None).unwrap();
        assert_eq!(reading.bytes.into_inner(), content.len() as u64);
        digest.to_string()
    }

    #[test]
    fn published_digests_come_out() {
        assert_eq!(digest(b"", Algorithm::Blake3), EMPTY_BLAKE3);
        assert_eq!(digest(b"", Algorithm::Sha256), EMPTY_SHA256);
        assert_eq!(digest(b"abc", Algorithm::Blake3), ABC_BLAKE3);
        assert_eq!(digest(b"abc", Algorithm::Sha256), ABC_SHA256);
    }

    #[test]
    fn pieces_make_the_digest_of_the_whole() {
        for length in [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES + 17] {
            let content: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let whole = blake3::hash(&content).to_hex().to_string();
            assert_eq!(digest(&content, Algorithm::Blake3), whole);
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [pipe.as_path(), folder.path()] {
            let error = of_file(path, Algorithm::Blake3, &Reading::default(), None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path:?}");
        }
        let missing =
            of_file(&folder.path().join("x"), Algorithm::Sha256, &Reading::default(), None);
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_reader_stops_when_nobody_waits() {
        let reading = Reading { stop: true.into(), ..Reading::default() };
        let error = of_file(Path::new("/proc/self/exe"), Algorithm::Blake3, &reading, None);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Interrupted);
        assert_eq!(reading.bytes.into_inner(), 0);
    }
}
