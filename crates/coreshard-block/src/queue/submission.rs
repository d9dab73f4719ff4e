//! Submission: a request is checked, gets a slot and a tag, and is started on the channel.
#![allow(unsafe_code)]

use coreshard_platform::Platform;

use super::Queue;
use super::request_id::{RequestId, SlotKey};
use super::slot::{ActiveRequest, OnComplete, Slots};
use super::timers::Timer;
use crate::backend::Geometry;
use crate::request::{
    ErrorClass, IoError, MAX_BUFFERS, MAX_BYTES, Op, Payload, Refused, Request, Unfit,
};

impl<P: Platform> Queue<P> {
    /// Whether the request can succeed; if not, why.
    // Always, as `Queue::submit`: a call more costs 15 instructions a request.
    #[inline(always)]
    pub(super) fn check(&self, request: &Request) -> Result<(), Unfit> {
        let geometry = self.device.geometry();
        let end = request.offset.checked_add(request.bytes as u64);
        let fits = self.device.is_online()
            && end.is_some_and(|end| end <= geometry.bytes)
            && (request.op == Op::Read || geometry.writable)
            && is_aligned(request.offset | request.bytes as u64, geometry.block_bytes)
            && (geometry.memory_align <= 1 || memory_is_aligned(request, geometry.memory_align))
            && request.bytes <= MAX_BYTES
            && !matches!(&request.payload, Payload::Many(buffers) if buffers.len() > MAX_BUFFERS);
        if fits { Ok(()) } else { self.check_again(request) }
    }

    /// The same, with what is seldom: the end of a file, and long requests that move nothing.
    #[cold]
    #[inline(never)]
    fn check_again(&self, request: &Request) -> Result<(), Unfit> {
        let geometry = self.device.geometry();
        let Geometry { block_bytes, memory_align, .. } = geometry;
        let (op, end) = (request.op, self.end_for(request.op));
        if !self.device.is_online() {
            Err(self.gone())
        } else if request.offset.checked_add(request.bytes as u64).is_none_or(|it| it > end) {
            Err(Unfit::PastEnd { end })
        } else if op != Op::Read && !geometry.writable {
            Err(Unfit::ReadOnly)
        } else if !is_aligned(request.offset | request.bytes as u64, block_bytes)
            || memory_align > 1 && !memory_is_aligned(request, memory_align)
        {
            Err(Unfit::Unaligned { block_bytes, memory_align })
        } else if request.bytes > MAX_BYTES && matches!(op, Op::Read | Op::Write) {
            Err(Unfit::TooLong)
        } else {
            match &request.payload {
                Payload::Many(buffers) if buffers.len() > MAX_BUFFERS => {
                    Err(Unfit::TooManyBuffers { given: buffers.len() })
                }
                _ => Ok(()),
            }
        }
    }

    fn gone(&self) -> Unfit {
        if self.device.is_forked() { Unfit::Forked } else { Unfit::Offline }
    }

    /// Where the device ends: what is left of a file behind its last whole block can be read by the block alone.
    fn end_for(&self, op: Op) -> u64 {
        let geometry = self.device.geometry();
        let whole = geometry.bytes.checked_next_multiple_of(u64::from(geometry.block_bytes.max(1)));
        if op == Op::Read { whole.unwrap_or(geometry.bytes) } else { geometry.bytes }
    }

    #[cold]
    pub(super) fn refuse(&self, request: Request, unfit: Unfit) -> Refused {
        let Request { op, offset, bytes, .. } = request;
        Refused::new(request, IoError::unfit(self.device.name(), op, offset, bytes, unfit))
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

fn is_aligned(number: u64, to: u32) -> bool {
    to <= 1 || number.is_multiple_of(u64::from(to))
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
