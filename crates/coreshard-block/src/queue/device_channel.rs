//! A queue's channel to its device: the commands at the device, and their completions.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::Platform;

use super::slot::ActiveRequest;
use crate::backend::{Channel, Completion, Waker};
use crate::buffer::BufferPool;
use crate::host::Device;

/// The most commands that accumulate before they are flushed unasked.
const MAX_STAGED: u32 = 32;

pub(super) struct DeviceChannel<P: Platform> {
    device: Arc<Device<P>>,
    /// Leaked if the device still has commands when the queue is dropped.
    channel: ManuallyDrop<Box<dyn Channel>>,
    pool: Option<BufferPool>,
    /// Commands at the device.
    at_device: u32,
    /// The part of them that was not flushed yet.
    staged: u32,
    /// The number of commands that are flushed at once. One while this thread sleeps, so that the device gets
    /// them early; more while the thread is behind, so that each costs less.
    batch: u32,
    completions: Vec<Completion>,
    /// The number of handled completions.
    handled: usize,
}

impl<P: Platform> DeviceChannel<P> {
    pub(super) fn new(device: Arc<Device<P>>, channel: Box<dyn Channel>) -> Self {
        Self {
            device,
            channel: ManuallyDrop::new(channel),
            pool: None,
            at_device: 0,
            staged: 0,
            batch: 1,
            completions: Vec::new(),
            handled: 0,
        }
    }

    #[inline]
    pub(super) fn device(&self) -> &Arc<Device<P>> {
        &self.device
    }

    pub(super) fn describe(&self) -> String {
        self.channel.describe()
    }

    pub(super) fn waker(&self) -> Waker {
        self.channel.waker()
    }

    pub(super) fn register(&mut self, pool: &BufferPool) -> io::Result<bool> {
        let registered = self.channel.register(pool)?;
        if registered {
            self.pool = Some(pool.clone());
        }
        Ok(registered)
    }

    /// Returns whether the device has any command.
    pub(super) fn is_busy(&self) -> bool {
        self.at_device > 0
    }

    /// Starts the rest of a request. Returns false if the channel has no room.
    #[inline(always)]
    pub(super) fn start(&mut self, id: u64, request: &mut ActiveRequest<P>) -> bool {
        // Lent before the call: if the channel panics, the device may have the buffers.
        let command = request.lend(id, self.pool.as_ref());
        request.attempts += 1;
        self.at_device += 1;
        // SAFETY: the command's memory is lent, so it is neither accessed nor freed until the completion was
        // seen, even if the queue is dropped before. The array of pieces is on the heap.
        if unsafe { self.channel.start(&command) } {
            self.staged += 1;
            return true;
        }
        request.attempts -= 1;
        self.take_back(request);
        false
    }

    /// Takes back the buffers of a command that the device has finished.
    #[inline]
    pub(super) fn take_back(&mut self, request: &mut ActiveRequest<P>) {
        request.buffers.take_back();
        self.at_device -= 1;
    }

    pub(super) fn cancel(&mut self, id: u64) {
        self.channel.cancel(id);
        self.staged += 1;
    }

    /// Flushes the started commands if they make a batch.
    #[inline]
    pub(super) fn flush_batch(&mut self) {
        if self.staged >= (self.at_device / 2).clamp(1, self.batch) {
            self.flush();
        }
    }

    /// Flushes the started commands, if any.
    #[inline]
    pub(super) fn flush_staged(&mut self) {
        if self.staged > 0 {
            self.flush();
        }
    }

    #[inline]
    pub(super) fn flush(&mut self) {
        self.staged = 0;
        if self.channel.flush().is_err() {
            // The started commands may or may not complete; the device gets no more.
            self.device.set_offline();
        }
    }

    /// Enlarges the batch, since the thread is behind.
    #[inline]
    pub(super) fn grow_batch(&mut self) {
        self.batch = (self.batch * 2).min(MAX_STAGED);
    }

    /// Flushes the started commands with the same system call that waits for a completion.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.staged = 0;
        self.batch = 1;
        self.channel.wait(timeout)
    }

    /// Collects the device's completions.
    #[inline]
    pub(super) fn reap(&mut self) {
        self.channel.reap(&mut self.completions);
    }

    /// Takes the next completion. If a channel panics before all were taken, the next poll continues with the
    /// rest.
    #[inline]
    pub(super) fn next_completion(&mut self) -> Option<Completion> {
        let completion = self.completions.get(self.handled).copied();
        match completion {
            Some(_) => self.handled += 1,
            None => {
                self.completions.clear();
                self.handled = 0;
            }
        }
        completion
    }

    /// Forgets the commands at the device, which belong to the parent process.
    pub(super) fn disown(&mut self) {
        self.completions = Vec::new();
        (self.at_device, self.staged, self.handled) = (0, 0, 0);
    }

    /// Drops the channel, which is leaked otherwise.
    ///
    /// # Safety
    /// Must be the last call, made once, when the device no longer has any memory.
    pub(super) unsafe fn drop_channel(&mut self) {
        // SAFETY: by this function's contract.
        unsafe { ManuallyDrop::drop(&mut self.channel) };
    }
}
