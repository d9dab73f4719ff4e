//! Memory on a chosen NUMA node: mmap, mbind, touch, verify.
#![allow(unsafe_code)]

use std::alloc::{self, Layout};
use std::ptr::{self, NonNull};
use std::{fmt, io};

use coreshard_topology::NodeId;

use super::errors::NodeMemoryError;

/// Constants from mbind(2) and get_mempolicy(2). *Preferred*, not *bind*: a full node then gives
/// memory elsewhere, which is told, instead of a process killed for want of memory.
const MPOL_PREFERRED: libc::c_int = 1;
const MPOL_F_NODE: libc::c_ulong = 1;
const MPOL_F_ADDR: libc::c_ulong = 2;

/// The node that memory lies on.
#[derive(Debug)]
pub enum Placement {
    /// On the node that was asked for; the kernel said so after the pages were touched.
    OnNode(NodeId),
    /// No node was asked for: it lies where its first toucher ran.
    Unasked,
    /// It lies on another node than was asked for.
    Elsewhere {
        /// The node asked for.
        asked: NodeId,
        /// The node where its first page lies.
        found: NodeId,
    },
    /// The kernel could not be asked (no NUMA support, or a sandbox forbids it): the memory is
    /// usable, but nobody knows its node.
    Unverified {
        /// The node asked for.
        asked: NodeId,
        /// The kernel's answer.
        reason: io::Error,
    },
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnNode(node) => write!(f, "on node {node}"),
            Self::Unasked => f.write_str("no node asked for"),
            Self::Elsewhere { asked, found } => {
                write!(f, "degraded: node {asked} asked for, but it lies on node {found}")
            }
            Self::Unverified { asked, reason } => {
                write!(f, "degraded: node {asked} asked for, but the kernel says: {reason}")
            }
        }
    }
}

/// Gives memory of another platform back; see [`NodeMemory::adopt`].
pub type ReleaseMemory = unsafe fn(start: NonNull<u8>, bytes: usize);

/// A zeroed, page-aligned mapping, given back when dropped.
#[derive(Debug)]
pub struct NodeMemory {
    start: NonNull<u8>,
    bytes: usize,
    placement: Placement,
    /// How it is given back, if it is no mapping of the host's.
    release: Option<ReleaseMemory>,
}

// SAFETY: the mapping belongs to this value alone; what is put there is its user's affair.
unsafe impl Send for NodeMemory {}
// SAFETY: a shared reference gives out an address and a length, nothing more.
unsafe impl Sync for NodeMemory {}

impl NodeMemory {
    /// Maps `bytes` (rounded up to whole pages), asks that they lie on `node`, touches every page
    /// so that the kernel places it now, and asks where it came to lie.
    ///
    /// # Errors
    /// If the memory cannot be mapped. Being placed elsewhere is told by
    /// [`NodeMemory::placement`].
    pub fn allocate(bytes: usize, node: Option<NodeId>) -> Result<Self, NodeMemoryError> {
        let page = page_bytes();
        let rounded = bytes.max(1).checked_next_multiple_of(page);
        let rounded = rounded.ok_or_else(|| no_memory(bytes))?;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory
        // that exists.
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
            // SAFETY: the offset lies inside the mapping, which nobody else knows yet. Volatile,
            // since the write of a zero over a zero is there for its page fault.
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

    /// Zeroed memory of the program's allocator, wherever it lies: for where nothing can be mapped, though the
    /// allocator has something left.
    ///
    /// # Errors
    /// If the allocator has nothing left either.
    pub fn on_heap(bytes: usize) -> Result<Self, NodeMemoryError> {
        let error = || no_memory(bytes);
        let rounded = bytes.max(1).checked_next_multiple_of(page_bytes()).ok_or_else(error)?;
        let layout = Layout::from_size_align(rounded, page_bytes()).map_err(|_| error())?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(error)?;
        // SAFETY: allocated just now, zeroed, and given back with the same layout.
        Ok(unsafe { Self::adopt(start, rounded, Placement::Unasked, release_to_heap) })
    }

    /// Memory that another platform has laid out on a node of its own, and takes back by `release`.
    ///
    /// # Safety
    /// From `start` on, `bytes` zeroed bytes are good for reads and writes, and nobody else's,
    /// until `release` is called with the same two values: once, on whichever thread.
    pub unsafe fn adopt(
        start: NonNull<u8>,
        bytes: usize,
        placement: Placement,
        release: ReleaseMemory,
    ) -> Self {
        Self { start, bytes, placement, release: Some(release) }
    }

    /// The first byte; aligned to a page.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The length in bytes: whole pages.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never: a mapping has at least a page.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Its placement.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Gives the pages back to the system; from here on they read as zeros, and lie on the node
    /// that was asked for when they are touched again. False if that cannot be done: then the
    /// memory is as it was.
    pub fn give_back_pages(&self) -> bool {
        if self.release.is_some() {
            // Another platform's memory: what it would cost there is that platform's to say.
            return false;
        }
        // SAFETY: the range is this mapping. It stays mapped; what was written there is gone,
        // which its user has asked for.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_DONTNEED) == 0 }
    }

    fn bind(&self, node: NodeId) -> io::Result<()> {
        const WORD_BITS: usize = libc::c_ulong::BITS as usize;
        let mut mask = vec![0 as libc::c_ulong; node.index() / WORD_BITS + 1];
        mask[node.index() / WORD_BITS] |= 1 << (node.index() % WORD_BITS);
        // SAFETY: the range is this mapping, and the mask is live and has as many bits as are
        // said (the kernel counts one less).
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
        // SAFETY: `node` is live for the kernel to fill; the address is this mapping's.
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
            // SAFETY: as promised to `adopt`, with its two values, once.
            Some(release) => unsafe { release(self.start, self.bytes) },
            // SAFETY: the mapping is this value's own and is unmapped once.
            None => unsafe {
                libc::munmap(self.start.as_ptr().cast(), self.bytes);
            },
        }
    }
}

/// # Safety
/// As of [`ReleaseMemory`], for what [`NodeMemory::on_heap`] has allocated.
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
    // SAFETY: takes an integer, answers one.
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
        // SAFETY: it is live, zeroed, and this test's alone.
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
            // SAFETY: the mapping is live, zeroed, and this test's alone.
            let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), memory.len()) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
            match (node, memory.placement()) {
                (None, Placement::Unasked) | (Some(_), Placement::OnNode(NodeId(0))) => {}
                // A kernel without NUMA support, or a sandbox: said, and usable all the same.
                (Some(_), Placement::Unverified { .. }) => {}
                (node, placement) => panic!("{node:?} gave {placement:?}"),
            }
        }
    }

    #[test]
    fn pages_that_were_given_back_read_as_zeros() {
        let memory = NodeMemory::allocate(100_000, None).unwrap();
        // SAFETY: the mapping is live and this test's alone.
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
