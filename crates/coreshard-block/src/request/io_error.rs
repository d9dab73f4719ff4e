//! Errors of requests.

use std::fmt;
use std::io;

use super::request::Op;

/// The class of an error: whether a retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// A retry may succeed a moment later.
    Transient,
    /// This part of the medium cannot be read or written.
    Media,
    /// The device has been removed, or is offline.
    Gone,
    /// The request exceeded its timeout.
    Timeout,
    /// The caller cancelled the request, or dropped its future.
    Cancelled,
    /// The request can never succeed as it is: not aligned, out of range, no space, read-only.
    Invalid,
}

impl ErrorClass {
    /// Returns the class of an errno, as Linux' block layer assigns it (`blk_errors` in block/blk-core.c).
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

/// The most buffers of one request: the limit of readv(2) (UIO_MAXIOV).
pub const MAX_BUFFERS: usize = 1024;

/// The most bytes that one request moves: the largest count that a kernel completion can hold.
pub const MAX_BYTES: usize = i32::MAX as usize;

/// The reason why a device cannot execute a request.
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
            Self::Offline => f.write_str("the device is offline"),
            Self::Forked => f.write_str(
                "this process was forked from the one that opened the device: open it anew here",
            ),
            Self::PastEnd { end } => {
                write!(f, "request goes past the end: expected an end at {end} or before")
            }
            Self::ReadOnly => f.write_str("the device can only be read; open it for writing"),
            Self::Unaligned { block_bytes, memory_align } => write!(
                f,
                "with direct I/O, offset and length are multiples of the block size, which is {block_bytes}, and the \
                 addresses of buffers are multiples of {memory_align}"
            ),
            Self::TooLong => {
                write!(f, "invalid length: expected at most {MAX_BYTES} bytes")
            }
            Self::TooManyBuffers { given } => {
                write!(f, "{given} buffers: expected at most {MAX_BUFFERS}")
            }
        }
    }
}

/// The error of a request.
///
/// Its text names the device, the request, the kernel's reason, and the device's state.
pub struct IoError {
    // Boxed, so that results are small.
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: String,
    op: Op,
    offset: u64,
    bytes: usize,
    /// For a write: the bytes that are known to have reached the device.
    transferred: usize,
    class: ErrorClass,
    errno: i32,
    attempts: u32,
    /// Set for a request that was refused before it reached a device.
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

    /// Creates the error of a request that can never succeed as it is.
    pub(crate) fn unfit(device: &str, op: Op, offset: u64, bytes: usize, unfit: Unfit) -> Self {
        let mut error = Self::new(device, op, offset, bytes, 0, unfit.class(), unfit.errno(), 0);
        error.inner.unfit = Some(unfit);
        error
    }

    /// Returns the class, which says whether a retry may succeed.
    pub fn class(&self) -> ErrorClass {
        self.inner.class
    }

    /// Returns the errno.
    pub fn errno(&self) -> i32 {
        self.inner.errno
    }

    /// Returns the bytes from the request's start that were transferred despite the error.
    ///
    /// A write that failed in the middle is torn: it is never reported as done.
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
            // See `Requests::abandon`.
            (ErrorClass::Gone, libc::ETIMEDOUT) => f.write_str(
                "; the device never answered: it keeps the request's buffers, and is now \
                 offline",
            ),
            (ErrorClass::Gone, _) => f.write_str("; the device is now offline"),
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
        assert!(gone.contains("(gone)") && gone.ends_with("is now offline"), "{gone}");
    }
}
