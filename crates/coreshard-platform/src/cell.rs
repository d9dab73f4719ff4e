//! Plain data that a protocol, not the compiler, keeps from being shared.

use std::cell::UnsafeCell;

/// A cell of plain data whose accesses a platform may watch.
///
/// On the host it is an [`UnsafeCell`]; a model checker's cell checks that no two accesses race,
/// and a simulated machine's reports each access with its address and size.
pub trait DataCell<T> {
    /// A new cell that holds `value`.
    fn new(value: T) -> Self;
    /// Calls `read` with a pointer that is good for reads during the call.
    #[track_caller]
    fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R;
    /// Calls `write` with a pointer that is good for reads and writes during the call.
    #[track_caller]
    fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R;
}

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
