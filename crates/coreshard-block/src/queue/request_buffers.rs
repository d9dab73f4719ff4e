//! A request's buffers, and who owns them.
//!
//! The queue owns them until [`RequestBuffers::lend`], and the device from then until
//! [`RequestBuffers::take_back`]. In between, nothing here reads, returns or frees them. If they are dropped
//! while the device has them, they are leaked.
#![allow(unsafe_code)]

use std::mem::{self, ManuallyDrop};

use crate::backend::Data;
use crate::buffer::BufferPool;
use crate::request::Payload;

pub(super) struct RequestBuffers {
    payload: ManuallyDrop<Payload>,
    /// Start and length of each piece of a vectored payload; the device reads them.
    pieces: ManuallyDrop<Vec<libc::iovec>>,
    lent: bool,
}

impl RequestBuffers {
    #[inline]
    pub(super) fn new(payload: Payload) -> Self {
        let pieces = ManuallyDrop::new(Vec::new());
        Self { payload: ManuallyDrop::new(payload), pieces, lent: false }
    }

    /// Whether the device has them.
    #[inline]
    pub(super) fn is_lent(&self) -> bool {
        self.lent
    }

    /// Lends the buffers to the device: `bytes` bytes, from byte `from` on.
    #[inline]
    pub(super) fn lend(&mut self, from: usize, bytes: usize, pool: Option<&BufferPool>) -> Data {
        assert!(!self.lent, "a device has these buffers already");
        self.lent = true;
        match &*self.payload {
            Payload::None => Data::None,
            Payload::One(buffer) => Data::One {
                start: buffer.start().wrapping_add(from),
                bytes: bytes - from,
                registered: buffer.index_in(pool),
            },
            Payload::Many(buffers) => {
                let mut skip = from;
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
        }
    }

    /// Takes the buffers back: the device has finished with them, or never took them.
    #[inline]
    pub(super) fn take_back(&mut self) {
        self.lent = false;
    }

    /// Returns the buffers to their user, and keeps none.
    ///
    /// # Panics
    /// If the device has them, which is a bug of this crate.
    #[inline]
    pub(super) fn take(&mut self) -> Payload {
        assert!(!self.lent, "the device has these buffers");
        if self.pieces.capacity() > 0 {
            drop(mem::take(&mut *self.pieces));
        }
        mem::take(&mut *self.payload)
    }
}

impl Drop for RequestBuffers {
    fn drop(&mut self) {
        if !self.lent {
            // SAFETY: each is dropped once, here, and has no other owner.
            unsafe {
                ManuallyDrop::drop(&mut self.pieces);
                ManuallyDrop::drop(&mut self.payload);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_never_freed() {
        let pool = BufferPool::new(3, 512).unwrap();
        let buffers = || RequestBuffers::new(Payload::One(pool.take().unwrap()));
        drop(buffers());
        let mut back = buffers();
        back.lend(0, 512, None);
        back.take_back();
        assert_eq!(back.take().bytes(), 512);
        assert_eq!(pool.taken(), 0);
        let mut lent = buffers();
        lent.lend(0, 512, None);
        drop(lent);
        assert_eq!(pool.taken(), 1, "the buffer is leaked");
        let mut lent = buffers();
        lent.lend(0, 512, None);
        let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lent.take()));
        assert!(taken.is_err());
        assert_eq!(pool.taken(), 2);
    }
}
