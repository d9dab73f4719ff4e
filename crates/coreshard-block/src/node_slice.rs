//! A fixed array on a chosen node.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::slice;

use coreshard_platform::{NodeMemory, NodeMemoryError, Placement, Platform};
use coreshard_topology::NodeId;

/// Values of type `T` in the memory of a node, dropped with the slice.
pub(crate) struct NodeSlice<T> {
    memory: NodeMemory,
    length: usize,
    owns: PhantomData<T>,
}

impl<T> NodeSlice<T> {
    /// Creates `length` values with `make`, on `node` if it is known.
    pub(crate) fn new<P: Platform>(
        length: usize,
        node: Option<NodeId>,
        mut make: impl FnMut(usize) -> T,
    ) -> Result<Self, NodeMemoryError> {
        const { assert!(align_of::<T>() <= 4096, "node memory is aligned to pages") };
        let bytes = size_of::<T>().checked_mul(length.max(1));
        let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize).ok_or_else(|| {
            NodeMemoryError::new(usize::MAX, io::Error::from_raw_os_error(libc::ENOMEM))
        })?;
        let memory = P::allocate(bytes, node)?;
        let start = memory.as_ptr().cast::<T>();
        for index in 0..length {
            // SAFETY: the memory has room for `length` values, is page-aligned, and only this function has
            // access to it.
            unsafe { start.add(index).write(make(index)) };
        }
        Ok(Self { memory, length, owns: PhantomData })
    }

    /// Returns where it lies.
    pub(crate) fn placement(&self) -> &Placement {
        self.memory.placement()
    }
}

impl<T> Deref for NodeSlice<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` wrote `length` values there, and they live until the drop.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().cast::<T>(), self.length) }
    }
}

impl<T> Drop for NodeSlice<T> {
    fn drop(&mut self) {
        let start = self.memory.as_ptr().cast::<T>();
        // SAFETY: written by `new` and dropped once; the memory is freed after this.
        unsafe { ptr::drop_in_place(ptr::slice_from_raw_parts_mut(start, self.length)) };
    }
}

// SAFETY: it owns its values, as a Vec does.
unsafe impl<T: Send> Send for NodeSlice<T> {}
// SAFETY: it only gives out shared references, as a slice does.
unsafe impl<T: Sync> Sync for NodeSlice<T> {}

impl<T: fmt::Debug> fmt::Debug for NodeSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use coreshard_platform::Host;
    use std::sync::Arc;

    #[test]
    fn values_live_in_the_node_s_memory_and_are_dropped_once() {
        let token = Arc::new(());
        let slice = NodeSlice::new::<Host>(10, Some(NodeId(0)), |index| (index, token.clone()));
        let slice = slice.unwrap();
        assert_eq!(slice.len(), 10);
        assert!(slice.iter().enumerate().all(|(at, (index, _))| at == *index));
        assert!(!matches!(slice.placement(), Placement::Unasked));
        assert_eq!(Arc::strong_count(&token), 11);
        drop(slice);
        assert_eq!(Arc::strong_count(&token), 1);
    }
}
