//! What a request does.

use std::fmt;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Fill the payload from the device.
    Read,
    /// Write the payload to the device.
    Write,
    /// Make sure that what was written stays after power is lost.
    Fsync,
    /// As `Fsync`, but for metadata that is not needed to read the data.
    FsyncData,
    /// Say that a range is not needed any more.
    Discard,
    /// Make a range read as zeros.
    WriteZeroes,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Fsync => "fsync",
            Self::FsyncData => "fdatasync",
            Self::Discard => "discard",
            Self::WriteZeroes => "write-zeroes",
        })
    }
}
