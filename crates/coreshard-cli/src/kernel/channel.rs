//! The memory that a booted guest shares with this command: QEMU's device ivshmem-plain, whose memory is a file here.
//!
//! `recorders/kernel/init.c` is the other side, and has the same offsets. This side reads and writes by offset, so that it
//! shares no memory and needs no unsafe code. Everything the guest writes is untrusted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use anyhow::Context;
use coreshard_topology::input;

use super::guest_file;

/// The first bytes, written by this side.
const MAGIC: u64 = 0x314c_4e48_4348_5343;
/// A power of two, as a PCI device's memory is; symbols and types of a kernel have about 15 MiB.
const BYTES: u64 = 64 << 20;
/// Files that the guest may copy; each has an entry of 56 bytes.
const MOST_BLOBS: usize = 1_024;
const ENTRY_BYTES: usize = 56;

/// Offsets of the head's words.
mod at {
    pub(super) const STATE: u64 = 8;
    pub(super) const GO: u64 = 12;
    pub(super) const STATUS: u64 = 16;
    pub(super) const STEP: u64 = 20;
    pub(super) const ERROR: u64 = 24;
    pub(super) const BLOBS_COUNT: u64 = 28;
    pub(super) const ABOUT: u64 = 40;
    pub(super) const BLOBS: u64 = 296;
}

/// How far the guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestState {
    /// The kernel has not started the first program.
    Booting,
    /// The first program prepares the system.
    Begun,
    /// It waits for this side.
    Ready,
    /// The command runs.
    Running,
    /// The command has ended.
    Ended,
    /// A step failed.
    Failed,
}

/// The host's side of the shared memory.
#[derive(Debug)]
pub(super) struct Channel(File);

impl Channel {
    pub(super) fn new() -> anyhow::Result<Self> {
        let file = guest_file::new("coreshard-channel", BYTES)?;
        file.write_all_at(&MAGIC.to_ne_bytes(), 0)?;
        Ok(Self(file))
    }

    /// Returns the emulator's options for it.
    pub(super) fn options(&self) -> [String; 4] {
        let path = guest_file::path(&self.0);
        [
            "-object".to_owned(),
            format!("memory-backend-file,id=channel,size={BYTES},share=on,mem-path={path}"),
            "-device".to_owned(),
            "ivshmem-plain,memdev=channel".to_owned(),
        ]
    }

    fn u32_at(&self, offset: u64) -> io::Result<u32> {
        let mut word = [0; 4];
        self.0.read_exact_at(&mut word, offset)?;
        Ok(u32::from_ne_bytes(word))
    }

    pub(super) fn state(&self) -> io::Result<GuestState> {
        Ok(match self.u32_at(at::STATE)? {
            0 => GuestState::Booting,
            1 => GuestState::Begun,
            2 => GuestState::Ready,
            3 => GuestState::Running,
            4 => GuestState::Ended,
            _ => GuestState::Failed,
        })
    }

    /// Lets the guest start its command.
    pub(super) fn go(&self) -> io::Result<()> {
        self.0.write_all_at(&1u32.to_ne_bytes(), at::GO)
    }

    /// Returns the command's status as a shell has it.
    pub(super) fn status(&self) -> io::Result<u8> {
        Ok(self.u32_at(at::STATUS)? as u8)
    }

    /// Describes the step that failed.
    pub(super) fn failure(&self) -> io::Result<String> {
        let mut about = [0; 256];
        self.0.read_exact_at(&mut about, at::ABOUT)?;
        let end = about.iter().position(|byte| *byte == 0).unwrap_or(about.len());
        let about = String::from_utf8_lossy(&about[..end]).into_owned();
        let error = io::Error::from_raw_os_error(self.u32_at(at::ERROR)? as i32);
        let what = match self.u32_at(at::STEP)? {
            1 => "cannot mount",
            2 => "cannot read the guest's settings",
            3 => "cannot load the module",
            4 => "cannot start",
            5 => "cannot read the kernel's symbols from",
            6 => "cannot use the memory shared with the host:",
            _ => "failed at",
        };
        Ok(format!("{what} {}: {error}", input::quoted(&about)))
    }

    /// Returns the files that the guest copied, by name.
    pub(super) fn files(&self) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let count = (self.u32_at(at::BLOBS_COUNT)? as usize).min(MOST_BLOBS);
        let mut entries = vec![0; count * ENTRY_BYTES];
        self.0.read_exact_at(&mut entries, at::BLOBS)?;
        let one = |entry: &[u8]| {
            let word = |at: usize| {
                let bytes = entry[at..].first_chunk::<8>();
                bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
            };
            let (offset, bytes) = (word(0), word(8));
            let end = offset.checked_add(bytes).filter(|end| *end <= BYTES);
            end.context("the guest's list of files is damaged: a file lies beyond the end")?;
            let name = entry[16..].split(|byte| *byte == 0).next().unwrap_or_default();
            let mut content = vec![0; bytes as usize];
            self.0.read_exact_at(&mut content, offset)?;
            Ok((String::from_utf8_lossy(name).into_owned(), content))
        };
        entries.chunks_exact(ENTRY_BYTES).map(one).collect()
    }
}
