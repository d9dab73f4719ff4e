//! Backends without a device: one in memory, and one that does nothing, to measure the layer itself.
#![allow(unsafe_code)]

use std::collections::TryReserveError;
use std::marker::PhantomData;
use std::sync::Arc;

use coreshard_platform::{Lock, Platform};

use super::channel::{Backend, Channel, Command, Data, Geometry};
use super::immediate::ImmediateChannel;
use crate::open_error::OpenError;
use crate::request::Op;

/// The number of bytes under one lock; a part of this size is moved atomically.
const STRIPE_BYTES: usize = 64 * 1024;

struct Store<P: Platform> {
    bytes: u64,
    stripes: Box<[Lock<P, Box<[u8]>>]>,
}

impl<P: Platform> Store<P> {
    /// Calls `with` for each part of a range, with the part's offset in it.
    fn parts(&self, offset: u64, bytes: usize, mut with: impl FnMut(&mut [u8], usize)) -> usize {
        let end = offset.saturating_add(bytes as u64).min(self.bytes);
        let mut at = offset;
        while at < end {
            let (stripe, from) =
                ((at / STRIPE_BYTES as u64) as usize, (at % STRIPE_BYTES as u64) as usize);
            let length = ((end - at) as usize).min(STRIPE_BYTES - from);
            let mut stripe = self.stripes[stripe].lock();
            with(&mut stripe[from..from + length], (at - offset) as usize);
            at += length as u64;
        }
        end.saturating_sub(offset) as usize
    }

    fn perform(&self, command: &Command) -> i32 {
        let one;
        let pieces: &[libc::iovec] = match command.data {
            Data::None => &[],
            Data::One { start, bytes, .. } => {
                one = [libc::iovec { iov_base: start.cast(), iov_len: bytes }];
                &one
            }
            Data::Many { pieces, count } => {
                // SAFETY: by the contract of `Channel::start`, they are valid until the completion.
                unsafe { std::slice::from_raw_parts(pieces, count as usize) }
            }
        };
        let mut moved = 0;
        match command.op {
            Op::Read | Op::Write => {
                for piece in pieces {
                    let start = piece.iov_base.cast::<u8>();
                    let offset = command.offset + moved as u64;
                    moved += self.parts(offset, piece.iov_len, |part, at| {
                        // SAFETY: `parts` stays within the piece, which no other code uses.
                        unsafe {
                            let there = start.add(at);
                            match command.op {
                                Op::Read => there.copy_from(part.as_ptr(), part.len()),
                                _ => there.copy_to(part.as_mut_ptr(), part.len()),
                            }
                        }
                    });
                }
            }
            Op::Discard | Op::WriteZeroes => {
                self.parts(command.offset, command.bytes as usize, |part, _| part.fill(0));
            }
            Op::Fsync | Op::FsyncData => {}
        }
        moved as i32
    }
}

/// A device in memory.
///
/// Each thread moves its own data, so other threads may see a transfer of more than 64 KiB in part.
pub struct Memory<P: Platform> {
    store: Arc<Store<P>>,
}

impl<P: Platform> Memory<P> {
    /// Creates a device of `bytes` zeroed bytes.
    ///
    /// Aborts the process if memory is short, as other collections do.
    pub fn new(bytes: u64) -> Self {
        let stripes = (0..bytes.div_ceil(STRIPE_BYTES as u64))
            .map(|_| Lock::new(vec![0; STRIPE_BYTES].into_boxed_slice()))
            .collect();
        Self { store: Arc::new(Store { bytes, stripes }) }
    }

    /// As [`new`](Self::new), for a size from untrusted input.
    ///
    /// # Errors
    /// If there is not enough memory.
    ///
    /// ```
    /// use coreshard_block::Memory;
    /// use coreshard_platform::Host;
    ///
    /// assert!(Memory::<Host>::try_new(1 << 20).is_ok());
    /// assert!(Memory::<Host>::try_new(u64::MAX).is_err());
    /// ```
    pub fn try_new(bytes: u64) -> Result<Self, TryReserveError> {
        // Requested in one piece to check, and freed at once.
        Vec::<u8>::new().try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        Ok(Self::new(bytes))
    }
}

impl<P: Platform> std::fmt::Debug for Memory<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("bytes", &self.store.bytes).finish()
    }
}

impl<P: Platform> Backend<P> for Memory<P> {
    fn name(&self) -> &str {
        "memory"
    }

    fn geometry(&self) -> Geometry {
        Geometry { bytes: self.store.bytes, block_bytes: 1, memory_align: 1, writable: true }
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, OpenError> {
        let store = Arc::clone(&self.store);
        let perform = move |command: &Command| store.perform(command);
        Ok(Box::new(ImmediateChannel::<P, _>::new("memory".to_owned(), depth, perform)))
    }
}

/// Completes every command at once, without moving data.
#[derive(Debug)]
pub struct Null<P: Platform> {
    bytes: u64,
    platform: PhantomData<P>,
}

impl<P: Platform> Null<P> {
    /// Creates a backend that reports a size of `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, platform: PhantomData }
    }
}

impl<P: Platform> Backend<P> for Null<P> {
    fn name(&self) -> &str {
        "null"
    }

    fn geometry(&self) -> Geometry {
        Geometry { bytes: self.bytes, block_bytes: 1, memory_align: 1, writable: true }
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, OpenError> {
        let perform = |command: &Command| command.data_bytes() as i32;
        Ok(Box::new(ImmediateChannel::<P, _>::new("null".to_owned(), depth, perform)))
    }
}
