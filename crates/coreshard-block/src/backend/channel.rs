//! Backends and their channels: the traits that each of them implements, and the commands that they do.
//!
//! Memory safety rests on the contract of [`Channel`].
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
    /// Its size in bytes.
    pub bytes: u64,
    /// Offsets and lengths are multiples of this; 1 if it does not matter.
    pub block_bytes: u32,
    /// Addresses of buffers are multiples of this; 1 if it does not matter.
    pub memory_align: u32,
    /// Whether it may be written.
    pub writable: bool,
}

/// Wakes a channel's thread out of [`Channel::wait`], from any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// One thread's way to a backend.
///
/// # Safety
/// An implementor touches a command's memory only between its `start` and the moment at which its
/// completion is put into `into`, or the end of the channel's drop, whichever comes first.
pub unsafe trait Channel {
    /// Takes a command. False, and nothing done, if it has no room: reap first.
    ///
    /// # Safety
    /// The command's memory is good for what the command does until its completion was reported or
    /// the channel's drop is over.
    unsafe fn start(&mut self, command: &Command) -> bool;

    /// Submits what was started to the device.
    ///
    /// # Errors
    /// If the device does not take anything any more.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Puts what has been completed into `into`, without waiting.
    fn reap(&mut self, into: &mut Vec<Completion>);

    /// Flushes, and waits until something is completed, somebody calls the waker, or for
    /// `timeout`. May return early.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Asks that a command end soon. It is completed in any case, as cancelled or otherwise.
    fn cancel(&mut self, id: u64);

    /// Wakes this channel's thread.
    fn waker(&self) -> Waker;

    /// Tells the device of buffers that will be used often. False if that is of no use here.
    ///
    /// # Errors
    /// If the device refuses.
    fn register(&mut self, _pool: &BufferPool) -> io::Result<bool> {
        Ok(false)
    }

    /// Describes it, and what it could not have: for people.
    fn describe(&self) -> String;
}

/// A backend does the work of a device.
pub trait Backend<P: Platform>: fmt::Debug + Send + Sync {
    /// Its name in messages.
    fn name(&self) -> &str;

    /// Its size and alignments.
    fn geometry(&self) -> Geometry;

    /// A channel for the calling thread, with at most `depth` commands at a time.
    ///
    /// # Errors
    /// If it cannot be had.
    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, OpenError>;
}

/// The memory of a command.
#[derive(Clone, Copy, Debug)]
pub enum Data {
    /// None.
    None,
    /// One piece.
    One {
        /// Its first byte.
        start: *mut u8,
        /// Its length in bytes.
        bytes: usize,
        /// Its number among the registered buffers, if it is one.
        registered: Option<u16>,
    },
    /// Several pieces.
    Many {
        /// Start and length of each; lives as long as the command.
        pieces: *const libc::iovec,
        /// How many.
        count: u32,
    },
}

/// One attempt at a request, as a channel gets it.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Identifies it in its completion, and to cancel it. Below 2⁶³.
    pub id: u64,
    /// The operation.
    pub op: Op,
    /// Where.
    pub offset: u64,
    /// How much, for those without data.
    pub bytes: u64,
    /// The memory to move.
    pub data: Data,
    /// The value for the kernel, see ioprio_set(2).
    pub ioprio: u16,
}

impl Command {
    pub(crate) fn data_bytes(&self) -> usize {
        match self.data {
            Data::None => 0,
            Data::One { bytes, .. } => bytes,
            Data::Many { pieces, count } => {
                // SAFETY: by the contract of `Channel::start` they live as long as the command.
                let pieces = unsafe { std::slice::from_raw_parts(pieces, count as usize) };
                pieces.iter().map(|piece| piece.iov_len).sum()
            }
        }
    }
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which.
    pub id: u64,
    /// Bytes, or the negative errno.
    pub result: i32,
}
