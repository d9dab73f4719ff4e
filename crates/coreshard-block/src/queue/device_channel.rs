//! A queue's channel to its device: the commands that the device has, and those that it has completed.
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

/// The most commands that are flushed at once without being asked to.
const MAX_STAGED: u32 = 32;

pub(super) struct DeviceChannel<P: Platform> {
    device: Arc<Device<P>>,
    /// Leaked if the device is not done when the queue is dropped.
    channel: ManuallyDrop<Box<dyn Channel>>,
    pool: Option<BufferPool>,
    /// Commands that the device has.
    at_device: u32,
    /// Of those: commands that were not flushed yet.
    staged: u32,
    /// So many are flushed at once: one while this thread sleeps, so that the device has it early; more while
    /// the thread is behind, so that each costs less.
    batch: u32,
    completions: Vec<Completion>,
    /// So many of those are handled.
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

    /// Starts what is left of a request; false if the channel has no room.
    #[inline(always)]
    pub(super) fn start(&mut self, id: u64, request: &mut ActiveRequest<P>) -> bool {
        // Lent before the call: if the channel panics, the device may have them.
        let command = request.lend(id, self.pool.as_ref());
        request.attempts += 1;
        self.at_device += 1;
        // SAFETY: the command's memory is lent, so it is neither touched nor freed until the completion
        // was seen, even if the queue is gone by then. The pieces are on the heap.
        if unsafe { self.channel.start(&command) } {
            self.staged += 1;
            return true;
        }
        request.attempts -= 1;
        self.take_back(request);
        false
    }

    /// The device is done with a command of this request.
    #[inline]
    pub(super) fn take_back(&mut self, request: &mut ActiveRequest<P>) {
        request.buffers.take_back();
        self.at_device -= 1;
    }

    pub(super) fn cancel(&mut self, id: u64) {
        self.channel.cancel(id);
        self.staged += 1;
    }

    /// Flushes what was started, if that is enough for a batch.
    #[inline]
    pub(super) fn flush_batch(&mut self) {
        if self.staged >= (self.at_device / 2).clamp(1, self.batch) {
            self.flush();
        }
    }

    /// Flushes what was started, if anything was.
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
            // What was started may or may not complete; the device gets nothing more.
            self.device.set_offline();
        }
    }

    /// The thread is behind: more are flushed at once.
    #[inline]
    pub(super) fn grow_batch(&mut self) {
        self.batch = (self.batch * 2).min(MAX_STAGED);
    }

    /// Flushes what was started by the same system call that waits for a completion.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.staged = 0;
        self.batch = 1;
        self.channel.wait(timeout)
    }

    /// Looks what the device has completed.
    #[inline]
    pub(super) fn reap(&mut self) {
        self.channel.reap(&mut self.completions);
    }

    /// Takes the next completion. If a channel panics before all were taken, the next poll goes on with the rest.
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

    /// Forgets what the device has: it is another process's.
    pub(super) fn disown(&mut self) {
        self.completions = Vec::new();
        (self.at_device, self.staged, self.handled) = (0, 0, 0);
    }

    /// Drops the channel, which is leaked otherwise.
    ///
    /// # Safety
    /// Called once, as the last call, when the device has no memory any more.
    pub(super) unsafe fn drop_channel(&mut self) {
        // SAFETY: as the caller promises.
        unsafe { ManuallyDrop::drop(&mut self.channel) };
    }
}
