//! Submission: a request is checked, gets a slot and a tag, and is started on the channel.
#![allow(unsafe_code)]

use coreshard_platform::Platform;

use super::Queue;
use super::request_id::{RequestId, SlotKey};
use super::slot::{ActiveRequest, OnComplete, Slots};
use super::timers::Timer;
use crate::request::{ErrorClass, IoError, Op, Payload, Refused, Request};

impl<P: Platform> Queue<P> {
    /// Whether the request can succeed; if not, how it fails.
    // Always, as `Queue::submit`: a call more costs 15 instructions a request.
    #[inline(always)]
    pub(super) fn check(&self, request: &Request) -> Result<(), (ErrorClass, i32)> {
        let geometry = self.device.geometry();
        let end = request.offset.checked_add(request.bytes as u64);
        let aligned = |number: u64, to: u32| to <= 1 || number.is_multiple_of(u64::from(to));
        if !self.device.is_online() {
            Err(self.gone())
        } else if end.is_none_or(|end| end > geometry.bytes) {
            Err((ErrorClass::Invalid, libc::EFBIG))
        } else if request.op != Op::Read && !geometry.writable {
            Err((ErrorClass::Invalid, libc::EBADF))
        } else if !aligned(request.offset | request.bytes as u64, geometry.block_bytes)
            || geometry.memory_align > 1 && !memory_is_aligned(request, geometry.memory_align)
            || request.bytes > i32::MAX as usize
        {
            Err((ErrorClass::Invalid, libc::EINVAL))
        } else {
            Ok(())
        }
    }

    #[cold]
    fn gone(&self) -> (ErrorClass, i32) {
        let errno = if self.device.is_forked() { libc::ECHILD } else { libc::ENODEV };
        (ErrorClass::Gone, errno)
    }

    #[cold]
    pub(super) fn refuse(&self, request: Request, (class, errno): (ErrorClass, i32)) -> Refused {
        let Request { op, offset, bytes, .. } = request;
        let error = IoError::new(self.device.name(), op, offset, bytes, 0, class, errno, 0);
        Refused::new(request, error)
    }

    /// The id of the request that is accepted next.
    #[inline]
    pub(super) fn next_id(&self) -> RequestId {
        let key = SlotKey { serial: self.serial + 1, index: self.slots.next() };
        RequestId { queue: self.number, key }
    }

    #[inline]
    pub(super) fn accept(&mut self, request: Request, on_complete: OnComplete<P>) -> RequestId {
        self.serial += 1;
        let serial = self.serial;
        let (timeout, priority) = (request.timeout, request.priority);
        let permit = if self.pending.is_empty() && self.in_flight < self.options.depth {
            self.admission.get()
        } else {
            None
        };
        let has_permit = permit.is_some();
        let index = self.slots.put(|| ActiveRequest::new(permit, serial, request, on_complete));
        let key = SlotKey { serial, index };
        if let Some(timeout) = timeout {
            self.set_timer(index, P::now() + timeout, Timer::Deadline);
        }
        if has_permit {
            self.issue(index);
            if self.staged >= (self.at_device / 2).clamp(1, self.batch) {
                self.flush();
            }
        } else {
            self.pending.push(priority, key);
        }
        RequestId { queue: self.number, key }
    }

    /// Starts a request that has its permit for the first time.
    #[inline(always)]
    fn issue(&mut self, index: u32) {
        self.in_flight += 1;
        self.counters.issued();
        self.start(index);
    }

    /// Starts what is left of a request on the channel, or stalls it until that has room.
    #[inline]
    fn start(&mut self, index: u32) {
        if !self.try_start(index) {
            let serial = self.slots.get(index).serial;
            self.stalled.push_back(SlotKey { serial, index });
        }
    }

    /// As `start`, for a request that the device had before.
    #[cold]
    pub(super) fn start_again(&mut self, index: u32) {
        self.start(index);
    }

    /// As `start`; false where the channel has no room.
    #[inline(always)]
    fn try_start(&mut self, index: u32) -> bool {
        let (id, request) = self.slots.get_with_id(index);
        // Lent before the call: where the channel panics, the device may have them.
        let command = request.lend(id, self.pool.as_ref());
        request.attempts += 1;
        self.at_device += 1;
        // SAFETY: the command's memory is lent, so it is neither touched nor freed until the completion
        // was seen, even where the queue is gone by then. The pieces are on the heap.
        if unsafe { self.channel.start(&command) } {
            self.staged += 1;
            return true;
        }
        let request = self.slots.get_mut(index);
        request.buffers.take_back();
        request.attempts -= 1;
        self.at_device -= 1;
        false
    }

    /// Starts stalled requests, as far as the channel has room now.
    #[cold]
    pub(super) fn start_stalled(&mut self) {
        while let Some(key) = self.stalled.front().copied() {
            let waits = self.slots.find(key).is_some_and(|request| !request.buffers.is_lent());
            if waits && !self.try_start(key.index) {
                return;
            }
            self.stalled.pop_front();
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

    /// Starts pending requests, as far as there are tags.
    pub(super) fn dispatch(&mut self) {
        let waits = |slots: &Slots<P>, key| slots.waits_for_tag(key);
        if !self.device.is_online() {
            while let Some(key) = self.pending.pop(|key| waits(&self.slots, key)) {
                self.fail(key.index, (ErrorClass::Gone, libc::ENODEV));
            }
        }
        while !self.pending.is_empty() && self.in_flight < self.options.depth {
            let Some(permit) = self.admission.get_or_wait() else { return };
            let key = self.pending.pop(|key| waits(&self.slots, key)).expect("it is not empty");
            self.slots.get_mut(key.index).permit = Some(permit);
            self.issue(key.index);
        }
        // No request waits any more, so other queues may have the tags.
        self.admission.stop_waiting();
    }
}

fn memory_is_aligned(request: &Request, to: u32) -> bool {
    let aligned =
        |buffer: &crate::buffer::Buffer| buffer.start().addr().is_multiple_of(to as usize);
    match &request.payload {
        Payload::None => true,
        Payload::One(buffer) => aligned(buffer),
        Payload::Many(buffers) => buffers.iter().all(aligned),
    }
}
