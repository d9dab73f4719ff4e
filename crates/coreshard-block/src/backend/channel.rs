//! Backends and their channels: the traits that each of them implements.
//!
//! Memory safety rests on the contract of [`Channel`].
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::Platform;

use super::command::{Command, Completion};
use crate::buffer::BufferPool;
use crate::open_error::OpenError;

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Its size in bytes.
    pub bytes: u64,
    /// Offsets and lengths are multiples of this; 1 where it does not matter.
    pub block_bytes: u32,
    /// Addresses of buffers are multiples of this; 1 where it does not matter.
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
    /// Takes a command. False, and nothing done, where it has no room: reap first.
    ///
    /// # Safety
    /// The command's memory is good for what the command does until its completion was reported or
    /// the channel's drop is over.
    unsafe fn start(&mut self, command: &Command) -> bool;

    /// Submits what was started to the device.
    ///
    /// # Errors
    /// Where the device does not take anything any more.
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

    /// Tells the device of buffers that will be used often. False where that is of no use here.
    ///
    /// # Errors
    /// Where the device refuses.
    fn register(&mut self, _pool: &BufferPool) -> io::Result<bool> {
        Ok(false)
    }

    /// Describes it, and what it could not have: for people.
    fn describe(&self) -> String;
}

/// What does a device's work.
pub trait Backend<P: Platform>: fmt::Debug + Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &str;

    /// What it is.
    fn geometry(&self) -> Geometry;

    /// A channel for the calling thread, with at most `depth` commands at a time.
    ///
    /// # Errors
    /// Where it cannot be had.
    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, OpenError>;
}
