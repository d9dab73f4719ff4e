//! The device of a job, and the part of it that is used.

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use coreshard_block::{
    Backend, Engine, Executor, File, FileOptions, Job, Memory, Null, RingOptions,
};
use coreshard_platform::Platform;
use coreshard_topology::input;
use coreshard_workqueue::Runtime;

use super::job::{BlockJob, IoEngine};
use super::words::Amount;
use super::{contents, need};
use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Progress;

/// The size of a device in memory, if the job gives none.
const DEFAULT_MEMORY_BYTES: u64 = 64 << 20;
/// The number of bytes per write while a file is laid out.
const LAYOUT_BYTES: usize = 1 << 20;

/// A device's backend, and the part of it that is used.
pub(super) type Used<P> = (Arc<dyn Backend<P>>, Extent);

/// Opens the device of a job. Returns `None` if `progress` ended the run.
pub(super) fn open<P: Platform>(
    job: &BlockJob,
    machine: &BenchMachine,
    progress: &mut dyn Progress,
) -> Result<Option<Used<P>>, BenchError> {
    // A device that is created for the job has room for it. An offset in per cent has no meaning for a device
    // that does not exist.
    let made = match job.size {
        Some(Amount::Bytes(size)) => size.saturating_add(job.offset.of(0)),
        _ => DEFAULT_MEMORY_BYTES,
    };
    let enough = |size| {
        let checked = if machine.is_host() { need::check(job, size) } else { Ok(()) };
        checked.map_err(BenchError::bad_job)
    };
    let engine = match job.ioengine {
        IoEngine::Null | IoEngine::Memory => {
            enough(made)?;
            let backend: Arc<dyn Backend<P>> = match job.ioengine {
                IoEngine::Null => Arc::new(Null::new(made)),
                _ => Arc::new(Memory::new(made)),
            };
            return Ok(Some((backend, Extent::of(job, made, "the device in memory")?)));
        }
        IoEngine::Auto | IoEngine::Libaio => Engine::Auto,
        IoEngine::IoUring => Engine::IoUring,
        IoEngine::Sync => Engine::Sync,
        IoEngine::Threads => Engine::Threads,
    };
    let path = job.filename.as_deref().expect("the job was checked");
    if let Some(Amount::Bytes(size)) = job.size {
        enough(size)?;
        if !path.exists() && !lay_out(path, made, progress)? {
            return Ok(None);
        }
    }
    let executor = match engine {
        Engine::Auto | Engine::Threads => Some(executor::<P>(machine)?),
        _ => None,
    };
    let ring = RingOptions {
        sqpoll_idle_ms: job.sqthread_poll.then_some(1_000),
        iopoll: job.hipri,
        ..RingOptions::default()
    };
    let write = job.rw.writes();
    // The kernel grants a device to one exclusive user, and to none while it is mounted, used as swap, or
    // part of another device.
    let exclusive = write && !job.allow_mounted_write;
    let options = FileOptions { write, direct: job.direct, exclusive, engine, ring, executor };
    let file = File::open(path, options)?;
    if write && !job.allow_overwrite && !job.allow_mounted_write {
        // Opened, but not written yet.
        contents::check(path, file.as_fd()).map_err(BenchError::bad_job)?;
    }
    let bytes = Backend::<P>::geometry(&file).bytes;
    let extent = Extent::of(job, bytes, &input::path(path).to_string())?;
    enough(extent.bytes)?;
    Ok(Some((Arc::new(file), extent)))
}

/// Creates a missing file, as fio does. Returns false if `progress` ended the run; the file is then removed.
fn lay_out(path: &Path, size: u64, progress: &mut dyn Progress) -> Result<bool, BenchError> {
    let shown = input::path(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let resolved = fs::canonicalize(folder.unwrap_or(Path::new("."))).unwrap_or_default();
    if resolved.starts_with("/dev") && !resolved.starts_with("/dev/shm") {
        return Err(BenchError::bad_job(format!(
            "{shown} does not exist, and no file is created below /dev; name an existing device (lsblk \
             lists them), or a file elsewhere"
        )));
    }
    let failed = |error: io::Error| {
        let cause = if path.is_symlink() && !path.exists() {
            "; it is a link whose target does not exist: create the target, or remove the link"
        } else if folder.is_some_and(|folder| !folder.exists()) {
            "; create its folder first"
        } else {
            ""
        };
        let problem = format!("{shown} cannot be laid out with {size} bytes: {error}{cause}");
        match error.kind() {
            io::ErrorKind::StorageFull => BenchError::failed_job(problem),
            _ => BenchError::bad_job(problem),
        }
    };
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    let mut block = vec![0; LAYOUT_BYTES];
    contents::fill(&mut block);
    let mut write = || -> io::Result<bool> {
        let mut left = size;
        while left > 0 {
            if progress.is_over() {
                return Ok(false);
            }
            let length = left.min(LAYOUT_BYTES as u64) as usize;
            file.write_all(&block[..length])?;
            left -= length as u64;
        }
        file.sync_all()?;
        Ok(true)
    };
    let written = write();
    if !matches!(written, Ok(true)) {
        // Half a file is useless. It is removed unless the path now leads to another file.
        let number =
            |found: io::Result<fs::Metadata>| Some((found.as_ref().ok()?.dev(), found.ok()?.ino()));
        if number(file.metadata()) == number(path.symlink_metadata()) {
            let _ = fs::remove_file(path);
        }
    }
    written.map_err(failed)
}

fn executor<P: Platform>(machine: &BenchMachine) -> Result<Arc<dyn Executor>, BenchError> {
    let runtime =
        Runtime::<P>::builder(machine.topology.clone()).usable(machine.usable.clone()).build()?;
    let queue = runtime.workqueue().name("block").build()?;
    Ok(Arc::new(move |job: Job| {
        let blocks = || coreshard_workqueue::blocking::<P, _>(job);
        queue.queue(blocks).map_err(|_| -> Job {
            // The queue lives as long as this executor, and is never shut down.
            unreachable!("the executor's workqueue is open")
        })
    }))
}

/// The part of a device that a job uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: u64,
    /// The length in bytes, a multiple of the smallest block and at least one.
    pub(super) bytes: u64,
    /// The bytes that a thread transfers before it finishes.
    pub(super) io_bytes: u64,
}

impl Extent {
    /// As [`new`](Self::new), for a device with this name.
    fn of(job: &BlockJob, whole: u64, name: &str) -> Result<Self, BenchError> {
        Self::new(job, whole).map_err(|problem| BenchError::bad_job(format!("{name} {problem}")))
    }

    /// Returns the part of a device of `whole` bytes that `job` requests.
    ///
    /// # Errors
    /// Why there is no such part, without the device's name, which the caller has.
    fn new(job: &BlockJob, whole: u64) -> Result<Self, String> {
        let block = u64::from(job.smallest_bs());
        let offset = job.offset.of(whole);
        let start = match job.offset {
            Amount::Bytes(_) => offset,
            Amount::Percent(_) => offset.next_multiple_of(block),
        };
        let Some(rest) = whole.checked_sub(start).filter(|rest| *rest > 0) else {
            let remedy = "give a smaller offset";
            return Err(format!(
                "has {whole} bytes, and nothing at offset={}; {remedy}",
                job.offset
            ));
        };
        let size = match job.size {
            None => rest,
            Some(size @ Amount::Percent(_)) => size.of(whole).min(rest),
            Some(Amount::Bytes(size)) if size <= rest => size,
            Some(Amount::Bytes(size)) => {
                let behind =
                    if start > 0 { format!(" after offset={start}") } else { String::new() };
                return Err(format!(
                    "has {rest} bytes{behind}, but size={size}; give a smaller size"
                ));
            }
        };
        let bytes = size / block * block;
        if bytes == 0 {
            return Err(format!(
                "has {size} usable bytes, which is less than one block of {block} (bs); give a \
                 smaller bs, or a larger file"
            ));
        }
        let io_bytes = job.io_size.map_or(bytes, |io_size| io_size.of(bytes)).max(1);
        Ok(Self { start, bytes, io_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(words: &str, whole: u64) -> Result<(u64, u64, u64), String> {
        let mut job = BlockJob::default();
        for word in words.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap();
            job.set(key, value).unwrap();
        }
        Extent::new(&job, whole).map(|extent| (extent.start, extent.bytes, extent.io_bytes))
    }

    /// The results of fio 3.33 for a file of 1 MiB.
    #[test]
    fn offsets_sizes_and_percentages_are_fio_s() {
        const K: u64 = 1024;
        for (words, start, bytes, io_bytes) in [
            ("bs=4k", 0, 1024 * K, 1024 * K),
            ("bs=4k size=25%", 0, 256 * K, 256 * K),
            ("bs=4k size=33%", 0, 84 * 4 * K, 84 * 4 * K),
            ("bs=4k size=50% offset=75%", 768 * K, 256 * K, 256 * K),
            ("bs=4k offset=33%", 85 * 4 * K, 171 * 4 * K, 171 * 4 * K),
            ("bs=4k size=512k offset=256k", 256 * K, 512 * K, 512 * K),
            ("bs=4k size=50% io_size=50%", 0, 512 * K, 256 * K),
            ("bs=4k size=512k io_size=2m", 0, 512 * K, 2048 * K),
            ("bs=4k size=10000", 0, 8 * K, 8 * K),
            ("bssplit=4k/50:16k/50 size=21k", 0, 20 * K, 20 * K),
        ] {
            assert_eq!(extent(words, 1024 * K), Ok((start, bytes, io_bytes)), "{words}");
        }
    }

    #[test]
    fn parts_that_are_not_there_are_refused() {
        for (words, says) in [
            ("offset=2m", "has 1048576 bytes, and nothing at offset=2097152"),
            ("offset=100%", "nothing at offset=100%"),
            ("size=2m", "has 1048576 bytes, but size=2097152; give a smaller size"),
            ("offset=512k size=1m", "has 524288 bytes after offset=524288, but size=1048576"),
            ("bs=2m", "less than one block of 2097152 (bs)"),
            ("bs=64k size=1%", "has 10485 usable bytes"),
        ] {
            let problem = extent(words, 1 << 20).unwrap_err();
            assert!(problem.contains(says), "{words}: {problem}");
        }
    }
}
