//! The accepted requests of a queue. Each has a slot from its acceptance to its end.

use std::mem;

use coreshard_platform::Platform;

use super::admission::Permit;
use super::outbox::OnComplete;
use super::request_buffers::RequestBuffers;
use super::request_id::SlotKey;
use crate::backend::Command;
use crate::buffer::BufferPool;
use crate::request::{Op, Payload, Priority, Request};

/// Whether a request is to end early, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abort {
    None,
    Cancelled,
    TimedOut,
}

/// A request that the queue has accepted.
pub(super) struct ActiveRequest<P: Platform> {
    /// Its tags. `None` while it waits for them.
    pub(super) permit: Option<Permit>,
    pub(super) serial: u64,
    pub(super) op: Op,
    pub(super) priority: Priority,
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) buffers: RequestBuffers,
    pub(super) moved: usize,
    pub(super) attempts: u32,
    /// The number of timers that are set for it.
    pub(super) timers: u32,
    pub(super) abort: Abort,
    pub(super) on_complete: OnComplete<P>,
}

impl<P: Platform> ActiveRequest<P> {
    #[inline]
    pub(super) fn new(
        permit: Option<Permit>,
        serial: u64,
        request: Request,
        on_complete: OnComplete<P>,
    ) -> Self {
        let Request { op, offset, bytes, payload, priority, timeout: _ } = request;
        Self {
            permit,
            serial,
            op,
            priority,
            offset,
            bytes,
            buffers: RequestBuffers::new(payload),
            moved: 0,
            attempts: 0,
            timers: 0,
            abort: Abort::None,
            on_complete,
        }
    }

    /// Leaks its buffers: the device may use them forever.
    pub(super) fn leak_buffers(&mut self) {
        self.buffers = RequestBuffers::new(Payload::None);
    }

    /// Creates a command for the rest of the request, and lends the buffers to the device.
    #[inline]
    pub(super) fn lend(&mut self, id: u64, pool: Option<&BufferPool>) -> Command {
        Command {
            id,
            op: self.op,
            offset: self.offset + self.moved as u64,
            bytes: self.bytes as u64,
            data: self.buffers.lend(self.moved, self.bytes, pool),
            ioprio: self.priority.ioprio(),
        }
    }
}

/// The last generation of a slot. The slot is not reused after it, so no two commands of a queue have equal
/// ids. Ids are below 2⁶³.
const LAST_GENERATION: u32 = u32::MAX >> 1;

/// A place for a request. The generation distinguishes its completion from that of an earlier request in the
/// slot.
struct Slot<P: Platform> {
    generation: u32,
    request: Option<ActiveRequest<P>>,
}

/// All active requests of a queue. Looking up a [`SlotKey`] takes one access, and finds its request or that
/// it has ended.
pub(super) struct Slots<P: Platform> {
    slots: Vec<Slot<P>>,
    /// Free slots; the last one used is on top.
    free: Vec<u32>,
}

impl<P: Platform> Slots<P> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Returns the slot that the next request will have.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    /// Puts a request into the slot that [`next`](Self::next) returned, and returns that slot.
    #[inline]
    pub(super) fn put(&mut self, make: impl FnOnce() -> ActiveRequest<P>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let slot = &mut self.slots[index as usize];
        slot.generation += 1;
        // A free slot has no request, but the compiler does not know that there is nothing to drop.
        mem::forget(slot.request.replace(make()));
        index
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let index = u32::try_from(self.slots.len()).expect("memory for fewer than 2³² requests");
        self.slots.push(Slot { generation: 0, request: None });
        index
    }

    /// Takes out a request.
    #[inline(always)]
    pub(super) fn take(&mut self, index: u32) -> ActiveRequest<P> {
        let slot = &mut self.slots[index as usize];
        if slot.generation < LAST_GENERATION {
            self.free.push(index);
        }
        slot.request.take().expect("only requests that have not ended end")
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &ActiveRequest<P> {
        self.slots[index as usize].request.as_ref().expect("the request has not ended")
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut ActiveRequest<P> {
        self.slots[index as usize].request.as_mut().expect("the request has not ended")
    }

    /// Returns the request with this key, unless it has ended.
    #[inline]
    pub(super) fn find(&self, key: SlotKey) -> Option<&ActiveRequest<P>> {
        let slot = self.slots.get(key.index as usize)?;
        slot.request.as_ref().filter(|request| request.serial == key.serial)
    }

    pub(super) fn waits_for_tag(&self, key: SlotKey) -> bool {
        self.find(key).is_some_and(|request| request.permit.is_none())
    }

    /// As `get_mut`, with the id of a command for it.
    #[inline]
    pub(super) fn get_with_id(&mut self, index: u32) -> (u64, &mut ActiveRequest<P>) {
        let slot = &mut self.slots[index as usize];
        let id = u64::from(slot.generation) << 32 | u64::from(index);
        (id, slot.request.as_mut().expect("the request has not ended"))
    }

    /// Returns the slot and the request of the command with this id, if it is at the device.
    #[inline]
    pub(super) fn at_device(&mut self, id: u64) -> Option<(u32, &mut ActiveRequest<P>)> {
        let (generation, index) = ((id >> 32) as u32, id as u32);
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation != generation {
            return None;
        }
        let request = slot.request.as_mut().filter(|request| request.buffers.is_lent())?;
        Some((index, request))
    }

    /// Returns the keys of all requests.
    pub(super) fn keys(&self) -> Vec<SlotKey> {
        let slots = self.slots.iter().zip(0..);
        let key = |(slot, index): (&Slot<P>, u32)| {
            Some(SlotKey { serial: slot.request.as_ref()?.serial, index })
        };
        slots.filter_map(key).collect()
    }
}
