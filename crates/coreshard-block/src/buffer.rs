//! Buffers that the layer owns while a request is in flight.
#![allow(unsafe_code)]

use std::alloc::{self, Layout};
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An alignment and a length, in bytes, that direct I/O accepts everywhere.
pub const PAGE_BYTES: usize = 4096;

enum Owner {
    Vec { capacity: usize },
    Heap(Layout),
    Pool { pool: BufferPool, index: u16 },
}

/// Bytes that are moved into the layer with a request, and back with its completion.
///
/// Moving a buffer does not move its bytes, so the device may access them while the layer keeps the buffer.
pub struct Buffer {
    start: NonNull<u8>,
    length: usize,
    owner: Owner,
}

// SAFETY: this value alone owns the bytes, as a Vec does.
unsafe impl Send for Buffer {}
// SAFETY: a shared reference only gives out a shared slice.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Creates a buffer of `length` zeroed bytes, page-aligned as direct I/O requires.
    ///
    /// # Panics
    /// If `length` is 0 or more than half of the address space.
    pub fn aligned(length: usize) -> Self {
        assert!(length > 0, "a buffer has at least one byte");
        let layout = Layout::from_size_align(length, PAGE_BYTES)
            .expect("a length of at most half of the address space");
        Self::try_aligned(length).unwrap_or_else(|| alloc::handle_alloc_error(layout))
    }

    /// As [`aligned`](Self::aligned), for a length from untrusted input.
    ///
    /// Returns `None` if there is not enough memory, or if the length is 0.
    ///
    /// ```
    /// use coreshard_block::Buffer;
    ///
    /// assert_eq!(Buffer::try_aligned(4096).map(|buffer| buffer.len()), Some(4096));
    /// assert!(Buffer::try_aligned(usize::MAX).is_none());
    /// ```
    pub fn try_aligned(length: usize) -> Option<Self> {
        let layout = Layout::from_size_align(length, PAGE_BYTES).ok().filter(|_| length > 0)?;
        // SAFETY: the length is not 0.
        let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
        Some(Self { start, length, owner: Owner::Heap(layout) })
    }

    /// Returns the bytes as a Vec, without copying if the buffer was made from one.
    pub fn into_vec(self) -> Vec<u8> {
        let Owner::Vec { capacity } = self.owner else { return self.to_vec() };
        let this = ManuallyDrop::new(self);
        // SAFETY: these are the parts of the Vec that was taken apart in `from`.
        unsafe { Vec::from_raw_parts(this.start.as_ptr(), this.length, capacity) }
    }

    /// Returns the first byte, for a backend.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns the buffer's index in `pool`, if it came from there.
    pub(crate) fn index_in(&self, pool: Option<&BufferPool>) -> Option<u16> {
        match (&self.owner, pool) {
            (Owner::Pool { pool: own, index }, Some(pool)) if own.is(pool) => Some(*index),
            _ => None,
        }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(vec: Vec<u8>) -> Self {
        let mut vec = ManuallyDrop::new(vec);
        let start = NonNull::new(vec.as_mut_ptr()).expect("a Vec's pointer is not null");
        Self { start, length: vec.len(), owner: Owner::Vec { capacity: vec.capacity() } }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are initialised and live as long as this value, which owns them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match &self.owner {
            Owner::Vec { capacity } => {
                // SAFETY: as in `into_vec`, once.
                let vec =
                    unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.length, *capacity) };
                drop(vec);
            }
            // SAFETY: allocated with this layout, and freed once.
            Owner::Heap(layout) => unsafe { alloc::dealloc(self.start.as_ptr(), *layout) },
            Owner::Pool { pool, index } => pool.put(*index),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("length", &self.length).finish_non_exhaustive()
    }
}

struct Region {
    start: NonNull<u8>,
    layout: Layout,
    each: usize,
    count: u16,
    /// A set bit marks a buffer that is in use.
    out: Box<[AtomicU64]>,
}

// SAFETY: only the taker of a buffer accesses its bytes, and `out` admits one taker.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once. Every buffer in use keeps the region alive.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Buffers of one size in one piece of memory.
///
/// A ring can register them, so that the kernel need not look up their pages for each request. Clones are
/// handles to the same pool.
#[derive(Clone)]
pub struct BufferPool {
    region: Arc<Region>,
}

impl BufferPool {
    /// Creates `count` buffers of `each` bytes, each page-aligned. A kernel registers at most 16,384.
    ///
    /// # Errors
    /// If `count` is not 1 to 16,384, or `each` is out of range.
    pub fn new(count: u16, each: usize) -> io::Result<Self> {
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        if !(1..=16_384).contains(&count) || each == 0 {
            return Err(bad(format!(
                "invalid pool of {count} buffers of {each} bytes: expected 1 to 16384 buffers"
            )));
        }
        let stride = each.checked_next_multiple_of(PAGE_BYTES);
        let layout = stride
            .and_then(|stride| stride.checked_mul(usize::from(count)))
            .and_then(|bytes| Layout::from_size_align(bytes, PAGE_BYTES).ok())
            .ok_or_else(|| {
                bad(format!("{count} buffers of {each} bytes exceed the address space"))
            })?;
        // SAFETY: neither number is 0.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { alloc::handle_alloc_error(layout) };
        let out = (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { region: Arc::new(Region { start, layout, each, count, out }) })
    }

    fn stride(&self) -> usize {
        self.region.each.next_multiple_of(PAGE_BYTES)
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.region, &other.region)
    }

    /// Takes a free buffer, or returns `None`.
    ///
    /// It contains the data of its last user. It returns to the pool when dropped.
    pub fn take(&self) -> Option<Buffer> {
        for (at, word) in self.region.out.iter().enumerate() {
            let valid = usize::from(self.region.count) - at * 64;
            let valid = if valid >= 64 { u64::MAX } else { (1 << valid) - 1 };
            let mut seen = word.load(Ordering::Relaxed);
            while !seen & valid != 0 {
                let bit = (!seen & valid).trailing_zeros();
                // Acquire pairs with the Release of `put`.
                seen = word.fetch_or(1 << bit, Ordering::Acquire);
                if seen & (1 << bit) == 0 {
                    let index = at * 64 + bit as usize;
                    // SAFETY: below `count`, so inside the region.
                    let start = unsafe { self.region.start.add(index * self.stride()) };
                    let owner = Owner::Pool { pool: self.clone(), index: index as u16 };
                    return Some(Buffer { start, length: self.region.each, owner });
                }
            }
        }
        None
    }

    fn put(&self, index: u16) {
        let bit = 1 << (index % 64);
        self.region.out[usize::from(index / 64)].fetch_and(!bit, Ordering::Release);
    }

    /// Returns the number of buffers in use.
    pub fn taken(&self) -> u32 {
        self.region.out.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum()
    }

    /// Returns the start and length of each buffer, for a ring.
    pub(crate) fn extents(&self) -> Vec<libc::iovec> {
        (0..usize::from(self.region.count))
            .map(|index| libc::iovec {
                // SAFETY: inside the region.
                iov_base: unsafe { self.region.start.add(index * self.stride()) }.as_ptr().cast(),
                iov_len: self.region.each,
            })
            .collect()
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("count", &self.region.count)
            .field("each", &self.region.each)
            .field("taken", &self.taken())
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_vec_goes_in_and_out_without_a_copy() {
        let mut vec = Vec::with_capacity(100);
        vec.extend_from_slice(b"bytes");
        let address = vec.as_ptr();
        let mut buffer = Buffer::from(vec);
        buffer[0] = b'B';
        let vec = buffer.into_vec();
        assert_eq!((vec.as_ptr(), vec.capacity(), vec.as_slice()), (address, 100, &b"Bytes"[..]));
        assert_eq!(Buffer::from(Vec::new()).into_vec(), []);
        let aligned = Buffer::aligned(10);
        assert!(aligned.start().addr().is_multiple_of(PAGE_BYTES));
        assert_eq!(aligned.into_vec(), [0; 10]);
    }

    #[test]
    fn a_pool_s_buffers_come_back() {
        let pool = BufferPool::new(70, 512).unwrap();
        let mut taken: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((taken.len(), pool.taken()), (70, 70));
        for (at, buffer) in taken.iter_mut().enumerate() {
            assert_eq!(buffer.index_in(Some(&pool)), Some(at as u16));
            buffer.fill(at as u8);
        }
        assert!(taken.iter().enumerate().all(|(at, buffer)| buffer.iter().all(|b| *b == at as u8)));
        let kept = taken.pop();
        drop(taken);
        assert_eq!(pool.taken(), 1);
        drop(pool);
        assert_eq!(kept.unwrap()[511], 69, "a buffer keeps its pool's memory");
        assert!(BufferPool::new(0, 1).is_err() && BufferPool::new(1, 0).is_err());
    }
}
