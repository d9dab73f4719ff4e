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

/// How a file's requests are done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// By system calls on the calling thread for files in memory (tmpfs), whose reads and writes
    /// never wait: there, each request of a ring would go through another thread. Else by
    /// io_uring if that can be had, else by the thread pool if one was given, else by system
    /// calls on the calling thread. [`Channel::describe`] says which, and why.
    #[default]
    Auto,
    /// By io_uring, or not at all.
    IoUring,
    /// By system calls on the calling thread: for files that never wait, such as those in memory.
    Sync,
    /// By other threads.
    Threads,
}

/// How a file is to be opened.
///
/// Write `..FileOptions::default()` after the fields that differ: there may be more of them in a later version.
#[derive(Clone, Default)]
pub struct FileOptions {
    /// Whether it is also written. Default: no.
    pub write: bool,
    /// Past the page cache (O_DIRECT). Default: no.
    pub direct: bool,
    /// As a block device's only exclusive user (O_EXCL): it is not opened if it is mounted or in use
    /// otherwise, and not mounted while it is open. Of no meaning for files. Default: no.
    pub exclusive: bool,
    /// How its requests are done. Default: [`Engine::Auto`].
    pub engine: Engine,
    /// How its rings are to be. Default: [`RingOptions::default`].
    pub ring: RingOptions,
    /// Other threads for [`Engine::Threads`], and for [`Engine::Auto`] if io_uring is forbidden.
    /// Default: none.
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
    /// Opens a regular file or a block device. Its size is the one that it has now: what is added to it later, others' files as
    /// those of `/proc` whose size is 0, can be had by opening it anew, or not at all. Direct I/O reads the last
    /// bytes of a file by the whole block, and writes whole blocks alone.
    ///
    /// # Errors
    /// If it is not there, is something else, or cannot be opened as asked.
    pub fn open(path: &Path, options: FileOptions) -> Result<Self, OpenError> {
        let mut flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        if options.direct {
            flags |= libc::O_DIRECT;
        }
        // The flag has no meaning for files, and the system promises nothing if it is given all the same.
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
        let folder = || wrong("is a folder; give a file or a block device");
        let opened =
            OpenOptions::new().read(true).write(options.write).custom_flags(flags).open(path);
        let file = opened.map_err(|reason| match reason.kind() {
            io::ErrorKind::IsADirectory => folder(),
            _ => failed(reason),
        })?;
        // From here on what was opened counts, whatever the path may lead to by now.
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(folder());
        }
        if options.exclusive && !takes && metadata.file_type().is_block_device() {
            return Err(failed(io::Error::other(
                "a device has taken the place of a file just now",
            )));
        }
        let no_size =
            || wrong("has no size that can be found out; give a regular file or a block device");
        // Nonblocking was for the opening of what turns out to be a pipe.
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

    /// Whether its file system keeps everything in memory.
    fn is_in_memory(&self) -> bool {
        // SAFETY: all zeros is a valid value of this plain struct.
        let mut answer: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: an open descriptor, and a live struct for the answer.
        let rc = unsafe { libc::fstatfs(self.descriptor.as_raw_fd(), &raw mut answer) };
        // From linux/magic.h; the type of `f_type` differs between architectures.
        const RAMFS_MAGIC: i128 = 0x8584_58f6;
        let kind = answer.f_type as i128;
        rc == 0 && (kind == i128::from(libc::TMPFS_MAGIC) || kind == RAMFS_MAGIC)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn is_block_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

fn device_bytes(file: &std::fs::File) -> Option<u64> {
    // SAFETY: asks for the position of an open descriptor's end; nothing reads by position.
    u64::try_from(unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_END) }).ok()
}

/// The alignment of offsets and of addresses that direct I/O on this file needs: as statx(2) says, else 512 bytes
/// for both, which a kernel that cannot tell (before 6.1) usually wants.
fn direct_alignment(file: &std::fs::File) -> (u32, u32) {
    const STATX_DIOALIGN: u32 = 0x2000;
    // SAFETY: all zeros is a valid value of this plain struct.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, an empty path, and a live struct for the answer.
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

/// The file that was opened.
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
                "{}: no io_uring can be had ({}){cause}; allowed are other engines (sync, threads)",
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
                Ok(sync(" (the file is in memory, where nothing waits)"))
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
                "{}: no queue can be had: no executor was given",
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
