//! Requests.

use std::fmt;
use std::time::Duration;

use crate::buffer::Buffer;

/// An operation of a device.
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

/// The order of requests if tags are short; the device is told as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Before all others.
    RealTime,
    /// By the shares of [`QueueOptions`](crate::QueueOptions).
    #[default]
    BestEffort,
    /// As `BestEffort`, with the other share.
    Idle,
}

impl Priority {
    /// The value for the kernel, see ioprio_set(2): the class in the upper bits, level 4 of 8.
    pub(crate) fn ioprio(self) -> u16 {
        match self {
            Self::RealTime => 1 << 13 | 4,
            // 0: as the thread's own.
            Self::BestEffort => 0,
            Self::Idle => 3 << 13,
        }
    }
}

/// The buffers of a request.
#[derive(Debug, Default)]
pub enum Payload {
    /// None, for requests that move no data.
    #[default]
    None,
    /// One.
    One(Buffer),
    /// Several, filled or written one after another.
    Many(Vec<Buffer>),
}

impl Payload {
    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(buffer) => buffer.len(),
            Self::Many(buffers) => buffers.iter().map(|buffer| buffer.len()).sum(),
        }
    }

    /// The buffer, if there is just one.
    pub fn into_one(self) -> Option<Buffer> {
        match self {
            Self::One(buffer) => Some(buffer),
            _ => None,
        }
    }
}

/// A request. The layer owns its buffers until it is completed.
#[derive(Debug)]
#[must_use = "a request does nothing until it is submitted"]
pub struct Request {
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    pub(crate) payload: Payload,
    pub(crate) priority: Priority,
    pub(crate) timeout: Option<Duration>,
}

impl Request {
    fn new(op: Op, offset: u64, bytes: usize, payload: Payload) -> Self {
        Self { op, offset, bytes, payload, priority: Priority::default(), timeout: None }
    }

    /// Reads as many bytes as `buffer` has, from `offset` on.
    pub fn read(offset: u64, buffer: impl Into<Buffer>) -> Self {
        let buffer = buffer.into();
        Self::new(Op::Read, offset, buffer.len(), Payload::One(buffer))
    }

    /// Writes `buffer` from `offset` on.
    pub fn write(offset: u64, buffer: impl Into<Buffer>) -> Self {
        let buffer = buffer.into();
        Self::new(Op::Write, offset, buffer.len(), Payload::One(buffer))
    }

    /// Reads into several buffers, one after another.
    pub fn read_vectored(offset: u64, buffers: Vec<Buffer>) -> Self {
        let payload = Payload::Many(buffers);
        Self::new(Op::Read, offset, payload.bytes(), payload)
    }

    /// Writes several buffers, one after another.
    pub fn write_vectored(offset: u64, buffers: Vec<Buffer>) -> Self {
        let payload = Payload::Many(buffers);
        Self::new(Op::Write, offset, payload.bytes(), payload)
    }

    /// Makes sure that everything completed before stays after power is lost.
    pub fn fsync() -> Self {
        Self::new(Op::Fsync, 0, 0, Payload::None)
    }

    /// As [`fsync`](Self::fsync), for the data alone.
    pub fn fsync_data() -> Self {
        Self::new(Op::FsyncData, 0, 0, Payload::None)
    }

    /// Says that `bytes` from `offset` on are not needed any more. They may read as anything.
    pub fn discard(offset: u64, bytes: usize) -> Self {
        Self::new(Op::Discard, offset, bytes, Payload::None)
    }

    /// Makes `bytes` from `offset` on read as zeros.
    pub fn write_zeroes(offset: u64, bytes: usize) -> Self {
        Self::new(Op::WriteZeroes, offset, bytes, Payload::None)
    }

    /// Sets its priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// How long it may take, from the submission on, waiting for a tag and retries included.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Its buffers.
    pub fn into_payload(self) -> Payload {
        self.payload
    }
}
