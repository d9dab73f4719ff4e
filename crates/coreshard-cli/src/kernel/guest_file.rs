//! Files in memory that the emulator opens by a path: the guest's memory, its initramfs, the channel. They vanish with
//! this command.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;

use anyhow::Context as _;
use rustix::fs::{MemfdFlags, memfd_create};

/// Creates an empty file of this size. Memory is taken as it is touched.
pub(super) fn new(name: &str, bytes: u64) -> anyhow::Result<File> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC).context("no memory for a file")?;
    let file = File::from(file);
    file.set_len(bytes).with_context(|| format!("no memory for a file of {bytes} bytes"))?;
    Ok(file)
}

/// Makes a file with this content.
pub(super) fn with(name: &str, content: &[u8]) -> anyhow::Result<File> {
    let mut file = new(name, 0)?;
    file.write_all(content).context("no memory for a file")?;
    Ok(file)
}

/// Returns the path by which a process of the same user opens the file.
pub(super) fn path(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}
