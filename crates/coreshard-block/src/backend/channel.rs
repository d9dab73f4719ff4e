//! Backends and their channels: the traits to implement, and the commands that channels execute.
//!
//! Memory safety relies on the contract of [`Channel`].
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use coreshard_platform::Platform;

use crate::buffer::BufferPool;
use crate::open_error::OpenError;
use crate::request::Op;

/// The size and the alignments of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The size in bytes.
    pub bytes: u64,
    /// Offsets and lengths must be multiples of this; 1 if there is no restriction.
    pub block_bytes: u32,
    /// Addresses of buffers must be multiples of this; 1 if there is no restriction.
    pub memory_align: u32,
    /// Whether the device may be written.
    pub writable: bool,
}

/// Wakes a channel's thread out of [`Channel::wait`], from any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// One thread's connection to a backend.
///
/// # Safety
/// An implementor accesses a command's memory only between its `start` and the moment when its completion is
/// put into `into`, or until the channel's drop returns, whichever comes first.
pub unsafe trait Channel {
    /// Starts a command. Returns false and does nothing if the channel has no room: reap first.
    ///
    /// # Safety
    /// The command's memory must stay valid for the command's accesses until its completion was reported, or
    /// until the channel's drop has returned.
    unsafe fn start(&mut self, command: &Command) -> bool;

    /// Submits the started commands to the device.
    ///
    /// # Errors
    /// If the device accepts no more commands.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Appends the completions so far to `into`, without waiting.
    fn reap(&mut self, into: &mut Vec<Completion>);

    /// Flushes, and waits until a command completes, the waker is called, or for `timeout`. May return early.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Requests that a command end soon. It completes in any case, as cancelled or otherwise.
    fn cancel(&mut self, id: u64);

    /// Returns a waker for this channel's thread.
    fn waker(&self) -> Waker;

    /// Registers buffers that will be used often. Returns false if the channel has no use for that.
    ///
    /// # Errors
    /// If the device refuses.
    fn register(&mut self, _pool: &BufferPool) -> io::Result<bool> {
        Ok(false)
    }

    /// Describes the channel for people, including the features that were unavailable.
    fn describe(&self) -> String;
}

/// The implementation of a device.
pub trait Backend<P: Platform>: fmt::Debug + Send + Sync {
    /// Returns the name used in messages.
    fn name(&self) -> &str;

    /// Returns the size and alignments.
    fn geometry(&self) -> Geometry;

    /// Creates a channel for the calling thread, with at most `depth` commands at a time.
    ///
    /// # Errors
    /// If the channel cannot be created.
    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, OpenError>;
}

/// The memory of a command.
#[derive(Clone, Copy, Debug)]
pub enum Data {
    /// No data.
    None,
    /// One buffer.
    One {
        /// Its first byte.
        start: *mut u8,
        /// Its length in bytes.
        bytes: usize,
        /// Its index among the registered buffers, if it is registered.
        registered: Option<u16>,
    },
    /// Several buffers.
    Many {
        /// Start and length of each; lives as long as the command.
        pieces: *const libc::iovec,
        /// The number of buffers.
        count: u32,
    },
}

/// One attempt at a request, as a channel receives it.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Identifies the command in its completion and for cancellation. Below 2⁶³.
    pub id: u64,
    /// The operation.
    pub op: Op,
    /// The offset on the device, in bytes.
    pub offset: u64,
    /// The length in bytes of an operation without data.
    pub bytes: u64,
    /// The memory to read into or write from.
    pub data: Data,
    /// The I/O priority for the kernel, see ioprio_set(2).
    pub ioprio: u16,
}

impl Command {
    pub(crate) fn data_bytes(&self) -> usize {
        match self.data {
            Data::None => 0,
            Data::One { bytes, .. } => bytes,
            Data::Many { pieces, count } => {
                // SAFETY: by the contract of `Channel::start`, they live as long as the command.
                let pieces = unsafe { std::slice::from_raw_parts(pieces, count as usize) };
                pieces.iter().map(|piece| piece.iov_len).sum()
            }
        }
    }
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command's id.
    pub id: u64,
    /// The number of bytes, or the negative errno.
    pub result: i32,
}
