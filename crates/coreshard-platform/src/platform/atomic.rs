//! A platform's atomics, and its cells of plain data that a protocol, not the compiler, protects.

use std::fmt::Debug;
use std::sync::atomic::{self, Ordering};

/// An atomic integer of a platform, with the semantics of [`std::sync::atomic`]'s types.
///
/// It has the size and alignment of the native type wherever layout is simulated or measured, so that a
/// struct's real padding and real false sharing are measured.
///
/// Accesses know their caller's source location, for a platform that reports who used which line. On the host
/// they are inlined, so this costs nothing.
pub trait AtomicInt<T: Copy>: Debug + Send + Sync {
    /// Creates an atomic that holds `value`.
    fn new(value: T) -> Self;
    /// Reads the value.
    #[track_caller]
    fn load(&self, order: Ordering) -> T;
    /// Writes `value`.
    #[track_caller]
    fn store(&self, value: T, order: Ordering);
    /// Writes `value` and returns the previous value. Cannot fail, so preferred under contention.
    #[track_caller]
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Writes `new` if the value is `current`. Returns the previous value either way.
    ///
    /// # Errors
    /// The value found, if it was not `current`.
    #[track_caller]
    fn compare_exchange(
        &self,
        current: T,
        new: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T>;
    /// Adds, wrapping, and returns the previous value.
    #[track_caller]
    fn fetch_add(&self, value: T, order: Ordering) -> T;
    /// Subtracts, wrapping, and returns the previous value.
    #[track_caller]
    fn fetch_sub(&self, value: T, order: Ordering) -> T;
    /// Computes the bitwise or, and returns the previous value.
    #[track_caller]
    fn fetch_or(&self, value: T, order: Ordering) -> T;
    /// Computes the bitwise and, and returns the previous value.
    #[track_caller]
    fn fetch_and(&self, value: T, order: Ordering) -> T;
}

/// An atomic pointer of a platform, with the semantics of [`std::sync::atomic::AtomicPtr`].
pub trait AtomicPointer<T>: Debug + Send + Sync {
    /// Creates an atomic that holds `pointer`.
    fn new(pointer: *mut T) -> Self;
    /// Reads the pointer.
    #[track_caller]
    fn load(&self, order: Ordering) -> *mut T;
    /// Writes `pointer`.
    #[track_caller]
    fn store(&self, pointer: *mut T, order: Ordering);
    /// Writes `pointer` and returns the previous pointer.
    #[track_caller]
    fn swap(&self, pointer: *mut T, order: Ordering) -> *mut T;
    /// Writes `new` if the pointer is `current`. Returns the previous pointer either way.
    ///
    /// # Errors
    /// The pointer found, if it was not `current`.
    #[track_caller]
    fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T>;
}

/// A cell of plain data whose accesses a platform may observe.
///
/// On the host it is an [`UnsafeCell`](std::cell::UnsafeCell). A model checker's cell checks that no two
/// accesses race; a simulated machine's cell reports each access with its address and size.
pub trait DataCell<T> {
    /// Creates a cell that holds `value`.
    fn new(value: T) -> Self;
    /// Calls `read` with a pointer that is valid for reads during the call.
    #[track_caller]
    fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R;
    /// Calls `write` with a pointer that is valid for reads and writes during the call.
    #[track_caller]
    fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R;
}

/// The methods that integers and pointers share, by the standard library's type.
macro_rules! native_value {
    ($atomic:ty, $value:ty) => {
        #[inline(always)]
        fn new(value: $value) -> Self {
            <$atomic>::new(value)
        }
        #[inline(always)]
        fn load(&self, order: Ordering) -> $value {
            <$atomic>::load(self, order)
        }
        #[inline(always)]
        fn store(&self, value: $value, order: Ordering) {
            <$atomic>::store(self, value, order);
        }
        #[inline(always)]
        fn swap(&self, value: $value, order: Ordering) -> $value {
            <$atomic>::swap(self, value, order)
        }
        #[inline(always)]
        fn compare_exchange(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            <$atomic>::compare_exchange(self, current, new, success, failure)
        }
    };
}

macro_rules! native_int {
    ($atomic:ty, $int:ty) => {
        impl AtomicInt<$int> for $atomic {
            native_value!($atomic, $int);
            #[inline(always)]
            fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                <$atomic>::fetch_add(self, value, order)
            }
            #[inline(always)]
            fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                <$atomic>::fetch_sub(self, value, order)
            }
            #[inline(always)]
            fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                <$atomic>::fetch_or(self, value, order)
            }
            #[inline(always)]
            fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                <$atomic>::fetch_and(self, value, order)
            }
        }
    };
}

native_int!(atomic::AtomicU8, u8);
native_int!(atomic::AtomicU32, u32);
native_int!(atomic::AtomicU64, u64);

impl<T> AtomicPointer<T> for atomic::AtomicPtr<T> {
    native_value!(Self, *mut T);
}
