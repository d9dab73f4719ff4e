//! Whether a job may write to what is there: nothing is written over that this benchmark did not make,
//! unless it is told to.
//!
//! What is found out ([`system`], [`contents`]) and what follows from it ([`verdict`]) are apart, so that
//! the latter is a pure function. A file is the benchmark's own where it was laid out in this run, or
//! where every sample of it is what the benchmark writes. Lists may be incomplete (a mount in another
//! namespace is in none of ours), so a device is opened for exclusive use as well, which the kernel grants to
//! one.
//!
//! A path may lead elsewhere from one moment to the next. So what is looked at is held open ([`Held`]), and
//! what is opened to be written is compared with it ([`confirm`]): it is that, or was laid out in this run, or
//! nothing is written.

mod contents;
mod system;

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use coreshard_topology::input;

pub(super) use contents::fill;
use contents::{SAMPLE_BYTES, is_ours, signature};
use system::{Identity, System, Use};

/// How many places of a file are looked at.
const SAMPLES: u64 = 1024;
/// How much is looked at of a device's start, and of its end.
const EDGE_BYTES: u64 = 1 << 20;

/// What the user has agreed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Consent {
    /// What the file or device holds may be lost.
    pub(super) overwrite: bool,
    /// And so may what is mounted from it, or uses it otherwise.
    pub(super) mounted: bool,
}

/// What a file or device holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Holds {
    /// Nothing that anybody could miss.
    Nothing,
    /// What this benchmark has written.
    Ours,
    /// Something that is known.
    Known(&'static str),
    /// Something else.
    Data,
}

/// What was found out about it.
#[derive(Clone, Debug)]
struct Facts {
    is_device: bool,
    holds: Holds,
    uses: Vec<Use>,
}

/// The files that were laid out in this run. Held open, so that no other one gets the number of one that is gone.
#[derive(Debug, Default)]
pub(super) struct LaidOut(Vec<Held>);

impl LaidOut {
    /// Remembers a file that was just made.
    pub(super) fn add(&mut self, file: &File) -> io::Result<()> {
        self.0.push(Held::new(file.try_clone()?)?);
        Ok(())
    }

    fn has(&self, identity: &Identity) -> bool {
        self.0.iter().any(|found| found.identity == *identity)
    }
}

/// What was looked at. Held open: until then nothing else has its number.
#[derive(Debug)]
pub(super) struct Held {
    identity: Identity,
    file: File,
}

impl Held {
    /// A file that is open.
    pub(super) fn new(file: File) -> io::Result<Self> {
        Ok(Self { identity: Identity::of_metadata(&file.metadata()?), file })
    }

    /// What is at `path`; `None` for what is neither a file nor a block device, or cannot be opened.
    fn at(path: &Path) -> Option<Self> {
        /// See `open(2)`: a pipe makes nobody wait.
        const O_NONBLOCK: i32 = 0o4000;
        // Courtesy: some devices take being opened for a request.
        if !is_fit(&path.metadata().ok()?) {
            return None;
        }
        let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path).ok()?;
        is_fit(&file.metadata().ok()?).then_some(())?;
        Self::new(file).ok()
    }

    /// Whether it is a block device.
    pub(super) fn is_device(&self) -> bool {
        matches!(self.identity, Identity::Device(_))
    }

    /// Whether `path` itself leads to it, not through a link.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok_and(|found| Identity::of_metadata(&found) == self.identity)
    }
}

fn is_fit(metadata: &Metadata) -> bool {
    metadata.is_file() || metadata.file_type().is_block_device()
}

/// Whether a job may write to what is at `path`, and what that is.
///
/// # Errors
/// Why not, and what would be needed, as a sentence. What cannot be opened is let through: whoever
/// opens it says why.
pub(super) fn check(
    path: &Path,
    consent: Consent,
    laid_out: &LaidOut,
) -> Result<Option<Held>, String> {
    let Some(found) = Held::at(path) else { return Ok(None) };
    if laid_out.has(&found.identity) {
        return Ok(Some(found));
    }
    let system = System {
        sys: Path::new("/sys"),
        proc: Path::new("/proc"),
        identity: &|path: &Path| Identity::of(path),
    };
    let (is_device, file) = (found.is_device(), &found.file);
    // What cannot be read may be anything.
    let holds = if is_device { device_holds(file) } else { file_holds(file) };
    let uses = system.uses(&found.identity);
    let facts = Facts { is_device, holds: holds.unwrap_or(Holds::Data), uses };
    verdict(&facts, consent).map_err(|problem| format!("{} {problem}", input::path(path)))?;
    Ok(Some(found))
}

/// Whether what was opened at `path`, to be written, is what [`check`] has found there, or was laid out since.
///
/// # Errors
/// It is not, as a sentence.
pub(super) fn confirm(
    path: &Path,
    opened: BorrowedFd<'_>,
    found: Option<&Held>,
    laid_out: &LaidOut,
) -> Result<(), String> {
    let opened = opened.try_clone_to_owned().and_then(|opened| Held::new(opened.into()));
    let is_known = opened.is_ok_and(|opened| {
        found.is_some_and(|found| found.identity == opened.identity)
            || laid_out.has(&opened.identity)
    });
    if is_known {
        return Ok(());
    }
    Err(format!(
        "{} was exchanged while it was looked at, and is another file now; nothing was written. Give a \
         file that nobody else replaces",
        input::path(path)
    ))
}

fn verdict(facts: &Facts, consent: Consent) -> Result<(), String> {
    let loses = match facts.holds {
        Holds::Known(what) => format!("holds {what}"),
        Holds::Data if facts.is_device => "holds data that is not this benchmark's".to_owned(),
        Holds::Data => "is not a file that this benchmark has laid out".to_owned(),
        Holds::Nothing | Holds::Ours => String::new(),
    };
    if let Some(one) = facts.uses.first() {
        if consent.mounted {
            return Ok(());
        }
        let what = match one {
            Use::Mounted { device, at } => format!("is in use: {device} is mounted at {at}"),
            Use::Swap { device } => format!("is in use: {device} is swap space"),
            Use::Holder { device, holder } => format!("is in use: {holder} stands on {device}"),
            Use::Loop { device } => format!("is in use: it is the disk of {device}"),
        };
        return Err(format!(
            "{what}; writing to it would destroy that. Give another file, or, if that is to be lost, \
             --allow-mounted-write"
        ));
    }
    if loses.is_empty() || consent.overwrite {
        return Ok(());
    }
    Err(format!(
        "{loses}; writing to it would destroy what is there. Give another file, one that is not there \
         yet with a size, or, if it is to be lost, --allow-overwrite"
    ))
}

fn file_holds(file: &File) -> io::Result<Holds> {
    let blocks = file.metadata()?.len().div_ceil(SAMPLE_BYTES as u64);
    if blocks == 0 {
        return Ok(Holds::Nothing);
    }
    let samples = blocks.min(SAMPLES);
    let mut part = vec![0; SAMPLE_BYTES];
    for sample in 0..samples {
        // The first and the last one among them.
        let block = sample * (blocks - 1) / (samples - 1).max(1);
        let offset = block * SAMPLE_BYTES as u64;
        let length = read_at(file, &mut part, offset)?;
        // The last one may be too short to tell.
        if !is_ours(&part[..length], offset) && (length >= 16 || blocks == 1) {
            return Ok(Holds::Data);
        }
    }
    Ok(Holds::Ours)
}

fn device_holds(file: &File) -> io::Result<Holds> {
    use std::io::{Seek, SeekFrom};
    let mut seeker = file;
    let bytes = seeker.seek(SeekFrom::End(0))?;
    let from = bytes.saturating_sub(EDGE_BYTES);
    let (mut head, mut tail) = (vec![0; EDGE_BYTES as usize], vec![0; EDGE_BYTES as usize]);
    let length = read_at(file, &mut head, 0)?;
    head.truncate(length);
    let length = read_at(file, &mut tail, from)?;
    tail.truncate(length);
    if let Some(what) = signature(&head, &tail) {
        return Ok(Holds::Known(what));
    }
    let parts = |edge: &[u8], start: u64| {
        edge.chunks(SAMPLE_BYTES).enumerate().all(|(at, part)| {
            let blank = part.iter().all(|byte| *byte == 0) || part.iter().all(|byte| *byte == 0xFF);
            blank || is_ours(part, start + (at * SAMPLE_BYTES) as u64)
        })
    };
    let ours = parts(&head, 0) && parts(&tail, from);
    Ok(if ours { Holds::Ours } else { Holds::Data })
}

/// Reads as much as there is.
fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < into.len() {
        match file.read_at(&mut into[length..], offset + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Consent = Consent { overwrite: false, mounted: false };
    const OVERWRITE: Consent = Consent { overwrite: true, mounted: false };
    const MOUNTED: Consent = Consent { overwrite: false, mounted: true };

    #[test]
    fn what_is_in_use_needs_more_than_what_only_holds_data() {
        let uses = || vec![Use::Mounted { device: "sda1".to_owned(), at: "/home".to_owned() }];
        for (is_device, holds) in
            [(true, Holds::Nothing), (true, Holds::Known("a file system")), (false, Holds::Ours)]
        {
            let facts = Facts { is_device, holds, uses: uses() };
            for consent in [NONE, OVERWRITE] {
                let problem = verdict(&facts, consent).unwrap_err();
                assert!(problem.contains("sda1 is mounted at /home"), "{problem}");
                assert!(problem.ends_with("--allow-mounted-write"), "{problem}");
            }
            verdict(&facts, MOUNTED).unwrap();
        }
        for holds in [Holds::Known("a btrfs file system"), Holds::Data] {
            for is_device in [false, true] {
                let facts = Facts { is_device, holds: holds.clone(), uses: Vec::new() };
                for consent in [NONE, MOUNTED] {
                    let problem = verdict(&facts, consent).unwrap_err();
                    assert!(problem.ends_with("--allow-overwrite"), "{problem}");
                }
                verdict(&facts, OVERWRITE).unwrap();
            }
        }
        for holds in [Holds::Nothing, Holds::Ours] {
            verdict(&Facts { is_device: true, holds, uses: Vec::new() }, NONE).unwrap();
        }
    }

    #[test]
    fn a_file_is_ours_where_every_sample_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut ours = vec![0; 1 << 20];
        fill(&mut ours);
        let check = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            check(&path, NONE, &LaidOut::default()).map(drop)
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
        let mut laid_out = LaidOut::default();
        laid_out.add(&File::open(&path).unwrap()).unwrap();
        super::check(&path, NONE, &laid_out).unwrap();
        // Not by its name: by what it is.
        std::fs::rename(&path, folder.path().join("other")).unwrap();
        std::fs::write(&path, b"my diary").unwrap();
        assert!(super::check(&path, NONE, &laid_out).is_err());
    }

    #[test]
    fn what_was_exchanged_since_it_was_looked_at_is_not_written() {
        use std::os::fd::AsFd;
        let folder = tempfile::tempdir().unwrap();
        let [path, diary] = ["file", "diary"].map(|name| folder.path().join(name));
        let mut ours = vec![0; 8192];
        fill(&mut ours);
        std::fs::write(&path, &ours).unwrap();
        std::fs::write(&diary, b"my diary").unwrap();
        let mut laid_out = LaidOut::default();
        let found = check(&path, NONE, &laid_out).unwrap();
        let opened = |path| File::options().read(true).write(true).open(path).unwrap();
        let confirm = |opened: &File, found: Option<&Held>, laid_out: &LaidOut| {
            confirm(&path, opened.as_fd(), found, laid_out)
        };
        confirm(&opened(&path), found.as_ref(), &laid_out).unwrap();
        assert!(found.as_ref().unwrap().is_at(&path));
        std::fs::rename(&diary, &path).unwrap();
        assert!(!found.as_ref().unwrap().is_at(&path));
        let problem = confirm(&opened(&path), found.as_ref(), &laid_out).unwrap_err();
        assert!(problem.contains("exchanged"), "{problem}");
        // Nothing was there when it was looked at.
        assert!(confirm(&opened(&path), None, &laid_out).is_err());
        laid_out.add(&opened(&path)).unwrap();
        confirm(&opened(&path), None, &laid_out).unwrap();
    }
}
