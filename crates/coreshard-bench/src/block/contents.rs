//! The content that the benchmark writes into files, and how it recognises its own files.
//!
//! Each block is filled with a mark. With `verify=pattern` it is filled with words that name their own place,
//! and every second word is the mark's first half. A file is recognised by that half, wherever blocks of odd
//! sizes begin. The check reads the file that was opened for writing, not the one that the path leads to at
//! another time.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use coreshard_topology::input;

/// A text, so that people who open such a file can see its origin.
const MARK: &[u8; 16] = b"coreshard bench\n";
/// The length of the half that every block contains.
const HALF: usize = 8;

/// The number of places of a file that are checked.
const SAMPLES: u64 = 1024;
const SAMPLE_BYTES: u64 = 4096;

/// Fills a block with the mark.
pub(super) fn fill(block: &mut [u8]) {
    block.chunks_mut(MARK.len()).for_each(|chunk| chunk.copy_from_slice(&MARK[..chunk.len()]));
}

/// Returns the 16 bytes at an offset: the first half of the mark, and the offset mixed with the seed.
fn words(offset: u64, seed: u64) -> [u8; 16] {
    let mixed = offset ^ seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut words = *MARK;
    words[HALF..].copy_from_slice(&mixed.to_le_bytes());
    words
}

/// Fills `block`, which is to be written at `offset`, so that a block of another place or another run is
/// detected.
pub(super) fn fill_to_verify(block: &mut [u8], offset: u64, seed: u64) {
    for (at, chunk) in block.chunks_mut(16).enumerate() {
        let words = words(offset + at as u64 * 16, seed);
        chunk.copy_from_slice(&words[..chunk.len()]);
    }
}

/// Returns the position of the first byte of `block` that differs from the output of [`fill_to_verify`].
pub(super) fn first_wrong(block: &[u8], offset: u64, seed: u64) -> Option<u64> {
    block.chunks(16).enumerate().find_map(|(at, chunk)| {
        let place = offset + at as u64 * 16;
        let wanted = words(place, seed);
        let wrong = chunk.iter().zip(wanted).position(|(found, wanted)| *found != wanted)?;
        Some(place + wrong as u64)
    })
}

/// Refuses to write to data that this benchmark did not create: a file with other contents, or any block
/// device.
///
/// # Errors
/// Why it may not be written, and what the user can do, as a sentence.
pub(super) fn check(path: &Path, opened: BorrowedFd<'_>) -> Result<(), String> {
    // Opened again for reading: direct I/O only reads whole blocks.
    let file = File::open(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    let is_device = || {
        let found = file.as_ref().ok().and_then(|file| file.metadata().ok());
        found.is_some_and(|found| found.file_type().is_block_device())
    };
    let what = match &file {
        _ if is_device() => "is a block device",
        Ok(file) if is_ours(file).unwrap_or(false) => return Ok(()),
        _ => "is not a file that this benchmark has laid out",
    };
    Err(format!(
        "{} {what}; writing to it would destroy its content. Give another file, a new file with a \
         size, or --allow-overwrite to lose the content",
        input::path(path)
    ))
}

/// Returns whether every sample of a file was written by this benchmark. False for an empty file.
fn is_ours(file: &File) -> io::Result<bool> {
    let bytes = file.metadata()?.len();
    let blocks = bytes.div_ceil(SAMPLE_BYTES);
    let samples = blocks.min(SAMPLES);
    let mut part = [0; SAMPLE_BYTES as usize];
    for sample in 0..samples {
        // The samples include the first and the last block.
        let offset = sample * (blocks - 1) / (samples - 1).max(1) * SAMPLE_BYTES;
        let part = &mut part[..SAMPLE_BYTES.min(bytes - offset) as usize];
        file.read_exact_at(part, offset)?;
        if !is_marked(part) && (part.len() >= MARK.len() || blocks == 1) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether at least half of a part is the benchmark's: it may contain blocks of odd sizes.
fn is_marked(part: &[u8]) -> bool {
    let marks = part.windows(HALF).filter(|bytes| *bytes == &MARK[..HALF]).count();
    marks > 0 && marks * 2 * MARK.len() >= part.len() - part.len() % MARK.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_another_place_or_run_is_found_out() {
        let mut block = [0; 61];
        fill_to_verify(&mut block, 4096, 5);
        assert_eq!(first_wrong(&block, 4096, 5), None);
        assert_eq!(first_wrong(&block, 4096, 6), Some(4096 + 8));
        assert!(first_wrong(&block, 8192, 5).is_some());
        block[60] ^= 1;
        assert_eq!(first_wrong(&block, 4096, 5), Some(4096 + 60));
    }

    #[test]
    fn what_the_benchmark_writes_is_known_again() {
        let mut part = [0; 4096];
        for bs in [16, 512, 1000, 4096] {
            part.chunks_mut(bs).for_each(fill);
            assert!(is_marked(&part), "bs={bs}");
            let blocks = part.chunks_mut(bs).zip((0..).step_by(bs));
            blocks.for_each(|(block, offset)| fill_to_verify(block, offset, 77));
            assert!(is_marked(&part), "verified, bs={bs}");
        }
    }

    #[test]
    fn what_others_write_is_not_ours() {
        let text: Vec<u8> = b"a letter to a friend\n".iter().copied().cycle().take(4096).collect();
        for part in [&[0; 4096][..], &[0xFF; 4096], &text, b"", b"short"] {
            assert!(!is_marked(part));
        }
    }

    #[test]
    fn a_file_is_ours_where_every_sample_is() {
        use std::os::fd::AsFd;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut ours = vec![0; 1 << 20];
        fill(&mut ours);
        let check = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            check(&path, File::open(&path).unwrap().as_fd())
        };
        check(&ours).unwrap();
        check(&ours[..5_001]).unwrap();
        check(&[]).unwrap();
        for at in [0, 300_000, (1 << 20) - 1] {
            let mut mixed = ours.clone();
            mixed[at / 4096 * 4096..at / 4096 * 4096 + 4096].fill(b'x');
            let problem = check(&mixed).unwrap_err();
            assert!(problem.contains("not a file that this benchmark has laid out"), "{problem}");
        }
        assert!(check(b"my diary").is_err() && check(&[0; 8192]).is_err());
    }
}
