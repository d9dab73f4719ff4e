//! From a request that somebody has to one that the device has: checked, given a tag and a slot, handed over.
#![allow(unsafe_code)]

use coreshard_platform::Platform;

use super::Queue;
use super::options::RequestId;
use super::slot::{Accepted, Flight, Slot, Then};
use super::timers::Timer;
use crate::error::{ErrorClass, IoError, Refused};
use crate::request::{Op, Payload, Request};

/// The most requests that are handed to the device at once without being asked to.
pub(super) const MOST_STAGED: u32 = 32;

impl<P: Platform> Queue<P> {
    /// Whether the request can succeed; if not, what it fails with.
    #[inline]
    pub(super) fn check(&self, request: &Request) -> Result<(), (ErrorClass, i32)> {
        let geometry = self.device.geometry();
        let end = request.offset.checked_add(request.bytes as u64);
        let aligned = |number: u64, to: u32| to <= 1 || number.is_multiple_of(u64::from(to));
        if !self.device.is_online() {
            Err((ErrorClass::Gone, libc::ENODEV))
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
    pub(super) fn refuse(&self, request: Request, (class, errno): (ErrorClass, i32)) -> Refused {
        let Request { op, offset, bytes, .. } = request;
        let error = IoError::new(self.device.name(), op, offset, bytes, 0, class, errno, 0);
        Refused::new(request, error)
    }

    #[inline]
    pub(super) fn accept(&mut self, request: Request, then: Then<P>) -> RequestId {
        self.serial += 1;
        let serial = self.serial;
        if let Some(timeout) = request.timeout {
            self.set_timer(P::now() + timeout, Timer::Deadline(serial));
        }
        let accepted = Accepted { request, serial, then };
        if self.pending.is_empty()
            && self.in_flight < self.options.depth
            && let Some(permit) = self.admission.get()
        {
            self.take_off(Flight::new(permit, accepted));
            if self.staged >= (self.at_device / 2).clamp(1, self.batch) {
                self.flush();
            }
        } else {
            self.pending.push(accepted);
        }
        RequestId(serial)
    }

    /// Gives a request with a tag its slot, and hands it to the lane.
    #[inline]
    fn take_off(&mut self, flight: Flight<P>) {
        let index = flight.permit.host.index();
        while self.slots.len() <= index {
            self.slots.push(Slot { generation: 0, flight: None });
        }
        let slot = &mut self.slots[index];
        debug_assert!(slot.flight.is_none(), "a tag has one holder");
        slot.generation = (slot.generation + 1) & (u32::MAX >> 1);
        slot.flight = Some(flight);
        self.in_flight += 1;
        self.counters.issued();
        self.start(index);
    }

    /// Hands what is left of a request to the lane.
    #[inline]
    pub(super) fn start(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let id = slot.id(index);
        let flight = slot.flight.as_mut().expect("only requests in flight are started");
        let command = flight.command(id, self.pool.as_ref());
        // SAFETY: the command's memory is the payload's, which stays in the slot, untouched, until
        // the completion was seen (`at_device`). Where the queue is dropped before, it is leaked,
        // and the lane with it. The pieces are in the slot's Vec, on the heap.
        if unsafe { self.lane.start(&command) } {
            flight.at_device = true;
            flight.attempts += 1;
            self.at_device += 1;
            self.staged += 1;
        } else {
            self.stalled.push_back(index);
        }
    }

    #[inline]
    pub(super) fn flush(&mut self) {
        self.staged = 0;
        if self.lane.flush().is_err() {
            // What the device has may or may not come back; it gets nothing more.
            self.device.set_offline();
        }
    }

    /// Hands tags to those who wait for one.
    pub(super) fn dispatch(&mut self) {
        if !self.device.is_online() {
            while let Some(accepted) = self.pending.pop() {
                self.give_up(accepted, ErrorClass::Gone, libc::ENODEV);
            }
        }
        while !self.pending.is_empty() && self.in_flight < self.options.depth {
            let Some(permit) = self.admission.get_in_line() else { return };
            let accepted = self.pending.pop().expect("it is not empty");
            self.take_off(Flight::new(permit, accepted));
        }
        // Nobody here waits any more, so others may have it.
        self.admission.leave();
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
