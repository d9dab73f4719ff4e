//! Memory on a chosen NUMA node: mmap, mbind, touch, verify.
#![allow(unsafe_code)]

use std::alloc::{self, Layout};
use std::ptr::{self, NonNull};
use std::{fmt, io};

use coreshard_topology::NodeId;

use super::errors::NodeMemoryError;

/// Constants from mbind(2) and get_mempolicy(2). *Preferred*, not *bind*: if the node is full, memory comes
/// from another node, which is reported. With *bind* the process would be killed for lack of memory.
const MPOL_PREFERRED: libc::c_int = 1;
const MPOL_F_NODE: libc::c_ulong = 1;
const MPOL_F_ADDR: libc::c_ulong = 2;

/// Where memory lies.
#[derive(Debug)]
pub enum Placement {
    /// On the requested node, as the kernel confirmed after the pages were touched.
    OnNode(NodeId),
    /// No node was requested: the memory lies on the node of the thread that first touched it.
    Unasked,
    /// On another node than requested.
    Elsewhere {
        /// The requested node.
        asked: NodeId,
        /// The node of its first page.
        found: NodeId,
    },
    /// The kernel could not be asked (no NUMA support, or a sandbox forbids it). The memory is usable, but
    /// its node is unknown.
    Unverified {
        /// The requested node.
        asked: NodeId,
        /// The kernel's error.
        reason: io::Error,
    },
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnNode(node) => write!(f, "on node {node}"),
            Self::Unasked => f.write_str("no node requested"),
            Self::Elsewhere { asked, found } => {
                write!(f, "degraded: node {asked} requested, but it lies on node {found}")
            }
            Self::Unverified { asked, reason } => {
                write!(f, "degraded: node {asked} requested, but not verified: {reason}")
            }
        }
    }
}

/// Returns memory to another platform; see [`NodeMemory::adopt`].
pub type ReleaseMemory = unsafe fn(start: NonNull<u8>, bytes: usize);

/// A zeroed, page-aligned mapping, unmapped when dropped.
#[derive(Debug)]
pub struct NodeMemory {
    start: NonNull<u8>,
    bytes: usize,
    placement: Placement,
    /// Releases memory that the host has not mapped.
    release: Option<ReleaseMemory>,
}

// SAFETY: this value alone owns the mapping; its user is responsible for the content.
unsafe impl Send for NodeMemory {}
// SAFETY: a shared reference only gives out an address and a length.
unsafe impl Sync for NodeMemory {}

impl NodeMemory {
    /// Maps `bytes` (rounded up to whole pages) with a preference for `node`.
    ///
    /// Touches every page, so that the kernel places it now, and reads back where it lies.
    ///
    /// # Errors
    /// If the memory cannot be mapped. Memory on another node is no error: [`NodeMemory::placement`] reports
    /// it.
    pub fn allocate(bytes: usize, node: Option<NodeId>) -> Result<Self, NodeMemoryError> {
        let page = page_bytes();
        let rounded = bytes.max(1).checked_next_multiple_of(page);
        let rounded = rounded.ok_or_else(|| no_memory(bytes))?;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                rounded,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let start = match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => start,
            _ => return Err(NodeMemoryError::new(bytes, io::Error::last_os_error())),
        };
        let mut memory =
            Self { start, bytes: rounded, placement: Placement::Unasked, release: None };
        let bound = node.map(|node| (node, memory.bind(node)));
        for offset in (0..rounded).step_by(page) {
            // SAFETY: the offset lies inside the mapping, which no other code has access to yet. Volatile, so
            // that the write of a zero over a zero is kept for its page fault.
            unsafe { start.as_ptr().add(offset).write_volatile(0) };
        }
        if let Some((asked, bound)) = bound {
            memory.placement = match bound.and_then(|()| memory.node_of_first_page()) {
                Ok(found) if found == asked => Placement::OnNode(asked),
                Ok(found) => Placement::Elsewhere { asked, found },
                Err(reason) => Placement::Unverified { asked, reason },
            };
        }
        Ok(memory)
    }

    /// Returns zeroed memory of the program's allocator, on any node.
    ///
    /// For use when nothing can be mapped but the allocator has memory left.
    ///
    /// # Errors
    /// If the allocator has no memory left either.
    pub fn on_heap(bytes: usize) -> Result<Self, NodeMemoryError> {
        let error = || no_memory(bytes);
        let rounded = bytes.max(1).checked_next_multiple_of(page_bytes()).ok_or_else(error)?;
        let layout = Layout::from_size_align(rounded, page_bytes()).map_err(|_| error())?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(error)?;
        // SAFETY: allocated just now, zeroed, and freed with the same layout.
        Ok(unsafe { Self::adopt(start, rounded, Placement::Unasked, release_to_heap) })
    }

    /// Adopts memory that another platform has placed on one of its nodes, and that `release` returns to it.
    ///
    /// # Safety
    /// `bytes` zeroed bytes from `start` on must be valid for reads and writes, and belong to the new value
    /// alone, until `release` is called with the same two values. It is called once, on any thread.
    pub unsafe fn adopt(
        start: NonNull<u8>,
        bytes: usize,
        placement: Placement,
        release: ReleaseMemory,
    ) -> Self {
        Self { start, bytes, placement, release: Some(release) }
    }

    /// Returns the first byte; it is page-aligned.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns the length in bytes: whole pages.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns false: a mapping has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns where the memory lies.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Returns the pages to the system.
    ///
    /// They then read as zeros, and lie on the requested node when they are touched again. Returns false if
    /// that is not possible; the memory is then unchanged.
    pub fn give_back_pages(&self) -> bool {
        if self.release.is_some() {
            // Another platform's memory: that platform decides what this would cost.
            return false;
        }
        // SAFETY: the range is this mapping, and it stays mapped. Its content is lost, as the caller
        // requested.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_DONTNEED) == 0 }
    }

    fn bind(&self, node: NodeId) -> io::Result<()> {
        const WORD_BITS: usize = libc::c_ulong::BITS as usize;
        let mut mask = vec![0 as libc::c_ulong; node.index() / WORD_BITS + 1];
        mask[node.index() / WORD_BITS] |= 1 << (node.index() % WORD_BITS);
        // SAFETY: the range is this mapping. The mask is live and has the given number of bits (the kernel
        // counts one less).
        let rc = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start.as_ptr(),
                self.bytes,
                MPOL_PREFERRED,
                mask.as_ptr(),
                mask.len() * WORD_BITS + 1,
                0,
            )
        };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn node_of_first_page(&self) -> io::Result<NodeId> {
        let mut node: libc::c_int = -1;
        // SAFETY: `node` is live and the kernel fills it. The address is this mapping's.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut node,
                ptr::null_mut::<libc::c_ulong>(),
                0,
                self.start.as_ptr(),
                MPOL_F_NODE | MPOL_F_ADDR,
            )
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        u32::try_from(node).map(NodeId).map_err(io::Error::other)
    }
}

impl Drop for NodeMemory {
    fn drop(&mut self) {
        match self.release {
            // SAFETY: as required by `adopt`, with its two values, once.
            Some(release) => unsafe { release(self.start, self.bytes) },
            // SAFETY: this value owns the mapping and unmaps it once.
            None => unsafe {
                libc::munmap(self.start.as_ptr().cast(), self.bytes);
            },
        }
    }
}

/// Frees memory allocated by [`NodeMemory::on_heap`].
///
/// # Safety
/// As for [`ReleaseMemory`].
unsafe fn release_to_heap(start: NonNull<u8>, bytes: usize) {
    if let Ok(layout) = Layout::from_size_align(bytes, page_bytes()) {
        // SAFETY: by this function's contract.
        unsafe { alloc::dealloc(start.as_ptr(), layout) };
    }
}

fn no_memory(bytes: usize) -> NodeMemoryError {
    NodeMemoryError::new(bytes, io::Error::from_raw_os_error(libc::ENOMEM))
}

fn page_bytes() -> usize {
    // SAFETY: takes an integer and returns one.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_heap_is_zeroed_writable_and_given_back() {
        let memory = NodeMemory::on_heap(5_000).unwrap();
        assert!(memory.len() >= 5_000 && memory.as_ptr().addr().is_multiple_of(page_bytes()));
        // SAFETY: the mapping is live, zeroed, and used only by this test.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), memory.len()) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        bytes.fill(1);
        assert!(!memory.give_back_pages());
        assert!(NodeMemory::on_heap(usize::MAX).is_err());
    }

    #[test]
    fn memory_is_zeroed_writable_and_says_where_it_lies() {
        for node in [None, Some(NodeId(0))] {
            let memory = NodeMemory::allocate(100_000, node).unwrap();
            assert!(memory.len() >= 100_000 && memory.len().is_multiple_of(page_bytes()));
            // SAFETY: the mapping is live, zeroed, and used only by this test.
            let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), memory.len()) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
            match (node, memory.placement()) {
                (None, Placement::Unasked) | (Some(_), Placement::OnNode(NodeId(0))) => {}
                // A kernel without NUMA support, or a sandbox: reported, and the memory is usable.
                (Some(_), Placement::Unverified { .. }) => {}
                (node, placement) => panic!("{node:?} gave {placement:?}"),
            }
        }
    }

    #[test]
    fn pages_that_were_given_back_read_as_zeros() {
        let memory = NodeMemory::allocate(100_000, None).unwrap();
        // SAFETY: the mapping is live and used only by this test.
        unsafe { memory.as_ptr().add(5_000).write_volatile(7) };
        assert!(memory.give_back_pages());
        // SAFETY: as above; it stays mapped.
        assert_eq!(unsafe { memory.as_ptr().add(5_000).read_volatile() }, 0);
    }

    #[test]
    fn a_node_that_does_not_exist_is_told() {
        let memory = NodeMemory::allocate(4096, Some(NodeId(1_000))).unwrap();
        assert!(matches!(memory.placement(), Placement::Unverified { .. }), "{memory:?}");
        assert!(memory.placement().to_string().starts_with("degraded: node 1000"));
    }

    #[test]
    fn more_than_there_is_is_an_error_with_the_size() {
        let error = NodeMemory::allocate(usize::MAX / 2, None).unwrap_err().to_string();
        assert!(error.contains(&(usize::MAX / 2).to_string()), "{error}");
    }
}
