//! Plain data on the host: nobody watches its accesses.

use std::cell::UnsafeCell;

use crate::DataCell;

/// The host's [`DataCell`]: an [`UnsafeCell`] and nothing else.
#[repr(transparent)]
#[derive(Debug)]
pub struct HostCell<T>(UnsafeCell<T>);

impl<T> DataCell<T> for HostCell<T> {
    #[inline(always)]
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
    #[inline(always)]
    fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }
    #[inline(always)]
    fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
