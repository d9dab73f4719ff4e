//! Why a request can never succeed as it is, with what is allowed.

use std::fmt;

use super::error_class::ErrorClass;

/// Buffers of one request, at most: what readv(2) takes (UIO_MAXIOV).
pub const MAX_BUFFERS: usize = 1024;

/// Bytes that one request moves, at most: what a completion of the kernel can tell.
pub const MAX_BYTES: usize = i32::MAX as usize;

/// What a request asks for that its device cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// The device is offline.
    Offline,
    /// It was opened by the process that this one was forked from.
    Forked,
    /// It ends before the request does.
    PastEnd {
        end: u64,
    },
    ReadOnly,
    Unaligned {
        block_bytes: u32,
        memory_align: u32,
    },
    TooLong,
    TooManyBuffers {
        given: usize,
    },
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
