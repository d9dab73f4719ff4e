//! Requests.

use std::fmt;
use std::time::Duration;

use crate::buffer::Buffer;

/// An operation of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Reads from the device into the payload.
    Read,
    /// Writes the payload to the device.
    Write,
    /// Makes completed writes survive a loss of power.
    Fsync,
    /// As `Fsync`, without metadata that is not needed to read the data.
    FsyncData,
    /// Declares a range unused.
    Discard,
    /// Makes a range read as zeros.
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

/// The order of requests when tags are short. It is also passed to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Before all others.
    RealTime,
    /// By the shares of [`QueueOptions`](crate::QueueOptions).
    #[default]
    BestEffort,
    /// Like `BestEffort`, with the other share.
    Idle,
}

impl Priority {
    /// Returns the value for the kernel, see ioprio_set(2): the class in the upper bits, level 4 of 8.
    pub(crate) fn ioprio(self) -> u16 {
        match self {
            Self::RealTime => 1 << 13 | 4,
            // 0 means the thread's own priority.
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
    /// One buffer.
    One(Buffer),
    /// Several buffers, filled or written in order.
    Many(Vec<Buffer>),
}

impl Payload {
    /// Returns the total length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(buffer) => buffer.len(),
            Self::Many(buffers) => buffers.iter().map(|buffer| buffer.len()).sum(),
        }
    }

    /// Returns the buffer, if there is exactly one.
    pub fn into_one(self) -> Option<Buffer> {
        match self {
            Self::One(buffer) => Some(buffer),
            _ => None,
        }
    }
}

/// A request. The layer owns its buffers until it completes.
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

    /// Creates a read that fills `buffer` from `offset` on.
    pub fn read(offset: u64, buffer: impl Into<Buffer>) -> Self {
        let buffer = buffer.into();
        Self::new(Op::Read, offset, buffer.len(), Payload::One(buffer))
    }

    /// Creates a write of `buffer` from `offset` on.
    pub fn write(offset: u64, buffer: impl Into<Buffer>) -> Self {
        let buffer = buffer.into();
        Self::new(Op::Write, offset, buffer.len(), Payload::One(buffer))
    }

    /// Creates a read into several buffers, in order.
    pub fn read_vectored(offset: u64, buffers: Vec<Buffer>) -> Self {
        let payload = Payload::Many(buffers);
        Self::new(Op::Read, offset, payload.bytes(), payload)
    }

    /// Creates a write of several buffers, in order.
    pub fn write_vectored(offset: u64, buffers: Vec<Buffer>) -> Self {
        let payload = Payload::Many(buffers);
        Self::new(Op::Write, offset, payload.bytes(), payload)
    }

    /// Creates a request that makes all completed writes survive a loss of power.
    pub fn fsync() -> Self {
        Self::new(Op::Fsync, 0, 0, Payload::None)
    }

    /// As [`fsync`](Self::fsync), for the data alone.
    pub fn fsync_data() -> Self {
        Self::new(Op::FsyncData, 0, 0, Payload::None)
    }

    /// Creates a request that declares `bytes` bytes from `offset` on unused.
    ///
    /// Their content is unspecified afterwards.
    pub fn discard(offset: u64, bytes: usize) -> Self {
        Self::new(Op::Discard, offset, bytes, Payload::None)
    }

    /// Creates a request that makes `bytes` bytes from `offset` on read as zeros.
    pub fn write_zeroes(offset: u64, bytes: usize) -> Self {
        Self::new(Op::WriteZeroes, offset, bytes, Payload::None)
    }

    /// Sets the priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the timeout, counted from submission and including waits for tags and retries.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Returns the buffers.
    pub fn into_payload(self) -> Payload {
        self.payload
    }
}
