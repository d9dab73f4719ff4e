//! Classes of errors.

use std::fmt;

/// What a failure says of the next try.
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
