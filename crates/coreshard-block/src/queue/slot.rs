//! A request on its way: where its buffers are kept until the device is done with them.

use std::sync::Arc;

use coreshard_platform::Platform;

use super::admission::Permit;
use super::future::FutureCell;
use crate::backend::{Command, Data};
use crate::buffer::BufferPool;
use crate::request::{Completed, Op, Payload, Request};

/// Who takes the completion.
pub(super) enum Then<P: Platform> {
    /// The queue's list, under this number.
    Cookie(u64),
    /// A callback.
    Call(Box<dyn FnOnce(Completed)>),
    /// A future, on whichever thread.
    Future(Arc<FutureCell<P>>),
}

/// A request that the queue has accepted.
pub(super) struct Accepted<P: Platform> {
    pub(super) request: Request,
    pub(super) serial: u64,
    pub(super) then: Then<P>,
}

/// Whether somebody wants a request to end before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nobody.
    Natural,
    /// Its submitter.
    Cancelled,
    /// Its deadline.
    TimedOut,
}

/// A request that has a tag.
pub(super) struct Flight<P: Platform> {
    pub(super) permit: Permit,
    pub(super) serial: u64,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) payload: Payload,
    pub(super) ioprio: u16,
    pub(super) moved: usize,
    pub(super) attempts: u32,
    pub(super) end: End,
    /// The device has it: its buffers are not touched by anybody else.
    pub(super) at_device: bool,
    pub(super) pieces: Vec<libc::iovec>,
    pub(super) then: Then<P>,
}

impl<P: Platform> Flight<P> {
    pub(super) fn new(permit: Permit, accepted: Accepted<P>) -> Self {
        let Accepted { request, serial, then } = accepted;
        let Request { op, offset, bytes, payload, priority, timeout: _ } = request;
        Self {
            permit,
            serial,
            op,
            offset,
            bytes,
            payload,
            ioprio: priority.ioprio(),
            moved: 0,
            attempts: 0,
            end: End::Natural,
            at_device: false,
            pieces: Vec::new(),
            then,
        }
    }

    /// What is left to do, as a command.
    pub(super) fn command(&mut self, id: u64, pool: Option<&BufferPool>) -> Command {
        let data = match &self.payload {
            Payload::None => Data::None,
            Payload::One(buffer) => Data::One {
                start: buffer.start().wrapping_add(self.moved),
                bytes: self.bytes - self.moved,
                registered: buffer.index_in(pool),
            },
            Payload::Many(buffers) => {
                let mut skip = self.moved;
                self.pieces.clear();
                for buffer in buffers {
                    let skipped = skip.min(buffer.len());
                    skip -= skipped;
                    if skipped < buffer.len() {
                        self.pieces.push(libc::iovec {
                            iov_base: buffer.start().wrapping_add(skipped).cast(),
                            iov_len: buffer.len() - skipped,
                        });
                    }
                }
                Data::Many { pieces: self.pieces.as_ptr(), count: self.pieces.len() as u32 }
            }
        };
        Command {
            id,
            op: self.op,
            offset: self.offset + self.moved as u64,
            bytes: self.bytes as u64,
            data,
            ioprio: self.ioprio,
        }
    }
}

/// A place for a request, one a tag. Its generation tells a completion from that of an earlier
/// request at the same place.
pub(super) struct Slot<P: Platform> {
    pub(super) generation: u32,
    pub(super) flight: Option<Flight<P>>,
}

impl<P: Platform> Slot<P> {
    pub(super) fn id(&self, index: usize) -> u64 {
        u64::from(self.generation) << 32 | index as u64
    }
}
