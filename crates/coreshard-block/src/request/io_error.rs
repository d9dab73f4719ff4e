//! How requests fail.

use std::fmt;
use std::io;

use super::request::Op;

/// Whether another try may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The same may succeed a moment later.
    Transient,
    /// This place of the medium cannot be read or written.
    Media,
    /// The device is not there any more.
    Gone,
    /// It took longer than it was given.
    Timeout,
    /// The caller, or the end of its future, wanted it no more.
    Cancelled,
    /// The request can never succeed as it is: not aligned, out of range, no space, read-only.
    Invalid,
}

impl ErrorClass {
    /// The class of an errno, as Linux' block layer gives them (`blk_errors` in block/blk-core.c).
    pub fn of_errno(errno: i32) -> Self {
        match errno {
            libc::EAGAIN | libc::EINTR | libc::EBUSY | libc::ENOMEM => Self::Transient,
            libc::ENODEV | libc::ENXIO | libc::ENOLINK | libc::ESHUTDOWN => Self::Gone,
            libc::ETIMEDOUT | libc::ETIME => Self::Timeout,
            libc::ECANCELED => Self::Cancelled,
            libc::EIO | libc::ENODATA | libc::EILSEQ | libc::EREMOTEIO | libc::EBADMSG => {
                Self::Media
            }
            _ => Self::Invalid,
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Transient => "transient",
            Self::Media => "media",
            Self::Gone => "gone",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Invalid => "invalid",
        })
    }
}

/// Buffers of one request, at most: what readv(2) takes (UIO_MAXIOV).
pub const MAX_BUFFERS: usize = 1024;

/// Bytes that one request moves, at most: what a completion of the kernel can tell.
pub const MAX_BYTES: usize = i32::MAX as usize;

/// Why a device cannot do a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    Offline,
    Forked,
    PastEnd { end: u64 },
    ReadOnly,
    Unaligned { block_bytes: u32, memory_align: u32 },
    TooLong,
    TooManyBuffers { given: usize },
}

impl Unfit {
    pub(crate) fn class(self) -> ErrorClass {
        match self {
            Self::Offline | Self::Forked => ErrorClass::Gone,
            _ => ErrorClass::Invalid,
        }
    }

    pub(crate) fn errno(self) -> i32 {
        match self {
            Self::Offline => libc::ENODEV,
            Self::Forked => libc::ECHILD,
            Self::PastEnd { .. } => libc::EFBIG,
            Self::ReadOnly => libc::EBADF,
            Self::Unaligned { .. } | Self::TooLong | Self::TooManyBuffers { .. } => libc::EINVAL,
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offline => f.write_str("the device is offline from here on"),
            Self::Forked => f.write_str(
                "this process was forked from the one that opened the device: open it anew here",
            ),
            Self::PastEnd { end } => {
                write!(f, "it goes past the end; allowed are requests that end at {end} or before")
            }
            Self::ReadOnly => f.write_str("the device can only be read; open it for writing"),
            Self::Unaligned { block_bytes, memory_align } => write!(
                f,
                "with direct I/O, offset and length are multiples of the block size, which is {block_bytes}, and the \
                 addresses of buffers are multiples of {memory_align}"
            ),
            Self::TooLong => {
                write!(f, "it moves too much; allowed are {MAX_BYTES} bytes at once")
            }
            Self::TooManyBuffers { given } => {
                write!(f, "it has {given} buffers; allowed are {MAX_BUFFERS}")
            }
        }
    }
}

/// How a request failed. Its text names the device, the request, the kernel's reason, and what became of the device.
pub struct IoError {
    // Small if all goes well.
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: String,
    op: Op,
    offset: u64,
    bytes: usize,
    /// Of a write: what is known to have reached the device all the same.
    transferred: usize,
    class: ErrorClass,
    errno: i32,
    attempts: u32,
    /// Of a request that no device was asked for.
    unfit: Option<Unfit>,
}

impl IoError {
    #[expect(clippy::too_many_arguments, reason = "an error's text names them all")]
    pub(crate) fn new(
        device: &str,
        op: Op,
        offset: u64,
        bytes: usize,
        transferred: usize,
        class: ErrorClass,
        errno: i32,
        attempts: u32,
    ) -> Self {
        let device = device.to_owned();
        let unfit = None;
        let inner = Inner { device, op, offset, bytes, transferred, class, errno, attempts, unfit };
        Self { inner: Box::new(inner) }
    }

    /// Of a request that can never succeed as it is.
    pub(crate) fn unfit(device: &str, op: Op, offset: u64, bytes: usize, unfit: Unfit) -> Self {
        let mut error = Self::new(device, op, offset, bytes, 0, unfit.class(), unfit.errno(), 0);
        error.inner.unfit = Some(unfit);
        error
    }

    /// Whether another try may succeed.
    pub fn class(&self) -> ErrorClass {
        self.inner.class
    }

    /// The kernel's number for it.
    pub fn errno(&self) -> i32 {
        self.inner.errno
    }

    /// Bytes from the request's start that were transferred all the same. A write that failed in
    /// the middle is torn: it is never reported as done.
    pub fn transferred(&self) -> usize {
        self.inner.transferred
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { device, op, offset, bytes, transferred, class, errno, attempts, unfit } =
            &*self.inner;
        write!(f, "{device}: {op} of {bytes} bytes at {offset} failed ({class}")?;
        if let Some(unfit) = unfit {
            return write!(f, "): {unfit}");
        }
        if *attempts > 1 {
            write!(f, ", {attempts} attempts")?;
        }
        write!(f, "): {}", io::Error::from_raw_os_error(*errno))?;
        if *transferred > 0 {
            write!(f, "; {transferred} bytes were transferred before that")?;
        }
        match (*class, *errno) {
            // See `Queue::give_up`.
            (ErrorClass::Gone, libc::ETIMEDOUT) => f.write_str(
                "; the device never answered: it keeps the request's buffers for good, and is offline \
                 from here on",
            ),
            (ErrorClass::Gone, _) => f.write_str("; the device is offline from here on"),
            _ => Ok(()),
        }
    }
}

coreshard_topology::readable_debug!(IoError);

impl std::error::Error for IoError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn texts_name_the_device_and_the_request() {
        let text = |class, errno, moved| {
            IoError::new("/mnt/f", Op::Write, 4096, 8192, moved, class, errno, 1).to_string()
        };
        let full = text(ErrorClass::of_errno(libc::ENOSPC), libc::ENOSPC, 512);
        assert!(
            full.starts_with("/mnt/f: write of 8192 bytes at 4096 failed (invalid): "),
            "{full}"
        );
        assert!(full.contains("512 bytes were transferred before that"), "{full}");
        let plain = text(ErrorClass::of_errno(libc::EINVAL), libc::EINVAL, 0);
        let said = std::io::Error::from_raw_os_error(libc::EINVAL).to_string();
        assert!(plain.ends_with(&said), "an errno has several causes: {plain}");
        let gone = text(ErrorClass::of_errno(libc::ENODEV), libc::ENODEV, 0);
        assert!(gone.contains("(gone)") && gone.ends_with("offline from here on"), "{gone}");
    }
}
