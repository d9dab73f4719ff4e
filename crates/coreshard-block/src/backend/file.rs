//! A file or block device as a backend.
#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use coreshard_platform::Platform;
use coreshard_topology::input;

use super::channel::{Backend, Channel, Geometry};
use super::pool::{Executor, PoolChannel};
use super::ring::{Refusals, RingChannel, RingOptions};
use super::sync;
use crate::cause::{self, Opening};
use crate::open_error::OpenError;

/// How a file's requests are executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// For files in memory (tmpfs), system calls on the calling thread: their reads and writes never wait,
    /// and a ring would send each request through another thread. For other files the first available of:
    /// io_uring, the thread pool if one was given, system calls on the calling thread. [`Channel::describe`]
    /// says which was chosen, and why.
    #[default]
    Auto,
    /// io_uring, or an error if it is unavailable.
    IoUring,
    /// System calls on the calling thread. For files that never wait, such as files in memory.
    Sync,
    /// Other threads.
    Threads,
}

/// How to open a file.
///
/// Use `..FileOptions::default()` for the remaining fields; later versions may add some.
#[derive(Clone, Default)]
pub struct FileOptions {
    /// Opens for writing as well. Default: no.
    pub write: bool,
    /// Bypasses the page cache (O_DIRECT). Default: no.
    pub direct: bool,
    /// Opens a block device for exclusive use (O_EXCL): fails if it is mounted or in use, and prevents
    /// mounting while it is open. Ignored for files. Default: no.
    pub exclusive: bool,
    /// How requests are executed. Default: [`Engine::Auto`].
    pub engine: Engine,
    /// How rings are set up. Default: [`RingOptions::default`].
    pub ring: RingOptions,
    /// Threads for [`Engine::Threads`], and for [`Engine::Auto`] if io_uring is forbidden. Default: none.
    pub executor: Option<Arc<dyn Executor>>,
}

impl fmt::Debug for FileOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileOptions")
            .field("write", &self.write)
            .field("direct", &self.direct)
            .field("exclusive", &self.exclusive)
            .field("engine", &self.engine)
            .field("ring", &self.ring)
            .field("executor", &self.executor.is_some())
            .finish()
    }
}

/// A file or block device.
pub struct File {
    path: PathBuf,
    name: String,
    descriptor: Arc<OwnedFd>,
    geometry: Geometry,
    options: FileOptions,
}

impl File {
    /// Opens a regular file or a block device.
    ///
    /// The size is fixed when it is opened: to read data appended later, open the file again. Other files, such as
    /// files of size 0 in `/proc`, cannot be read. Direct I/O reads the last bytes of a file as a whole block, and
    /// writes only whole blocks.
    ///
    /// # Errors
    /// If the file does not exist, is of another type, or cannot be opened with these options.
    pub fn open(path: &Path, options: FileOptions) -> Result<Self, OpenError> {
        let mut flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        if options.direct {
            flags |= libc::O_DIRECT;
        }
        // The flag has no meaning for files, and open(2) leaves its effect on them undefined.
        let takes = options.exclusive && is_block_device(path);
        if takes {
            flags |= libc::O_EXCL;
        }
        let failed = |reason: io::Error| {
            let opening = Opening { writing: options.write, direct: options.direct, takes };
            let cause = cause::of_opening(path, &reason, opening);
            let cause = cause.map(|cause| format!("; {cause}")).unwrap_or_default();
            let verb = if options.write { "opened for reading and writing" } else { "opened" };
            let path = input::path(path);
            OpenError::bad_input(format!("{path} cannot be {verb}: {reason}{cause}"))
        };
        let wrong = |what| OpenError::bad_input(format!("{} {what}", input::path(path)));
        let folder = || wrong("is a folder: expected a file or a block device");
        let opened =
            OpenOptions::new().read(true).write(options.write).custom_flags(flags).open(path);
        let file = opened.map_err(|reason| match reason.kind() {
            io::ErrorKind::IsADirectory => folder(),
            _ => failed(reason),
        })?;
        // From now on the opened file counts, wherever the path may lead by now.
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(folder());
        }
        if options.exclusive && !takes && metadata.file_type().is_block_device() {
            return Err(failed(io::Error::other(
                "the path was a file a moment ago and is now a device",
            )));
        }
        let no_size = || wrong("has no size: expected a regular file or a block device");
        // Nonblocking was set in case the path leads to a pipe.
        // SAFETY: sets flags of an open descriptor.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & libc::O_DIRECT) } != 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        let bytes = if metadata.is_file() {
            metadata.len()
        } else if metadata.file_type().is_block_device() {
            device_bytes(&file).ok_or_else(no_size)?
        } else {
            return Err(no_size());
        };
        let (block_bytes, memory_align) =
            if options.direct { direct_alignment(&file) } else { (1, 1) };
        let geometry = Geometry { bytes, block_bytes, memory_align, writable: options.write };
        Ok(Self {
            name: path.display().to_string(),
            path: path.to_owned(),
            descriptor: Arc::new(OwnedFd::from(file)),
            geometry,
            options,
        })
    }

    /// Returns whether the file system keeps everything in memory.
    fn is_in_memory(&self) -> bool {
        // SAFETY: all zeros is a valid value of this plain struct.
        let mut answer: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: an open descriptor, and a live struct for the result.
        let rc = unsafe { libc::fstatfs(self.descriptor.as_raw_fd(), &raw mut answer) };
        // From linux/magic.h; the type of `f_type` differs between architectures.
        const RAMFS_MAGIC: i128 = 0x8584_58f6;
        let kind = answer.f_type as i128;
        rc == 0 && (kind == i128::from(libc::TMPFS_MAGIC) || kind == RAMFS_MAGIC)
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn is_block_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

fn device_bytes(file: &std::fs::File) -> Option<u64> {
    // SAFETY: seeks to the end of an open descriptor; no read uses the position.
    u64::try_from(unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_END) }).ok()
}

/// Returns the alignments of offsets and of addresses that direct I/O on this file needs, as statx(2) reports
/// them. A kernel that does not (before 6.1) usually wants 512 bytes for both.
fn direct_alignment(file: &std::fs::File) -> (u32, u32) {
    const STATX_DIOALIGN: u32 = 0x2000;
    // SAFETY: all zeros is a valid value of this plain struct.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, an empty path, and a live struct for the result.
    let rc = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            STATX_DIOALIGN,
            &raw mut answer,
        )
    };
    if rc == 0 && answer.stx_mask & STATX_DIOALIGN != 0 && answer.stx_dio_offset_align > 0 {
        (answer.stx_dio_offset_align, answer.stx_dio_mem_align.max(1))
    } else {
        (512, 512)
    }
}

/// Returns the opened file.
impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl<P: Platform> Backend<P> for File {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, OpenError> {
        let file = || Arc::clone(&self.descriptor);
        let executor = self.options.executor.as_ref();
        let refused = |refusals: Refusals| {
            let cause = cause::of_ring(refusals.errno());
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            OpenError::new(format!(
                "{}: io_uring is unavailable ({}){cause}; use another engine (sync, threads)",
                self.name,
                refusals.texts().join("; ")
            ))
        };
        let ring = || RingChannel::<P>::new(file(), depth, self.options.ring);
        let sync = |why: &str| Box::new(sync::channel::<P>(file(), depth, why));
        let pool = |executor: &Arc<dyn Executor>, why| {
            Box::new(PoolChannel::<P>::new(Arc::clone(executor), file(), why))
        };
        match (&self.options.engine, executor) {
            (Engine::IoUring, _) => Ok(Box::new(ring().map_err(refused)?)),
            (Engine::Auto, _) if self.is_in_memory() => {
                Ok(sync(" (the file is in memory, so it never waits)"))
            }
            (Engine::Auto, executor) => match ring() {
                Ok(channel) => Ok(Box::new(channel)),
                Err(refusals) => {
                    let why = format!(" (no io_uring: {})", refusals.texts().join("; "));
                    Ok(match executor {
                        Some(executor) => pool(executor, why),
                        None => sync(&why),
                    })
                }
            },
            (Engine::Threads, Some(executor)) => Ok(pool(executor, String::new())),
            (Engine::Threads, None) => Err(OpenError::new(format!(
                "{}: the engine \"threads\" needs an executor, and none was given",
                self.name
            ))),
            (Engine::Sync, _) => Ok(sync("")),
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.path).field("geometry", &self.geometry).finish()
    }
}
