//! Plain data that a protocol, not the compiler, keeps from being shared.

/// A cell of plain data whose accesses a platform may watch.
///
/// On the host it is an [`UnsafeCell`](std::cell::UnsafeCell); a model checker's cell checks that no two accesses race,
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
