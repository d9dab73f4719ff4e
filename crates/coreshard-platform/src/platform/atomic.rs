//! What a runtime may ask of a platform's atomics.

use std::fmt::Debug;
use std::sync::atomic::{self, Ordering};

/// An atomic integer of a platform, with the meaning of [`std::sync::atomic`]'s types.
///
/// It has the size and alignment of the native type wherever layout is simulated or measured, so
/// that a struct's real padding and real false sharing are what is seen.
///
/// Accesses know their caller's place in the source, for a platform that reports who used which
/// line; where they are inlined, as on the host, that costs nothing.
pub trait AtomicInt<T: Copy>: Debug + Send + Sync {
    /// A new atomic that holds `value`.
    fn new(value: T) -> Self;
    /// Reads the value.
    #[track_caller]
    fn load(&self, order: Ordering) -> T;
    /// Writes `value`.
    #[track_caller]
    fn store(&self, value: T, order: Ordering);
    /// Writes `value` and returns what was there. Cannot fail: preferred where many CPUs meet.
    #[track_caller]
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Writes `new` if the value is `current`; returns what was there either way.
    ///
    /// # Errors
    /// The value found, where it was not `current`.
    #[track_caller]
    fn compare_exchange(
        &self,
        current: T,
        new: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T>;
    /// Adds and returns what was there before; wraps.
    #[track_caller]
    fn fetch_add(&self, value: T, order: Ordering) -> T;
    /// Subtracts and returns what was there before; wraps.
    #[track_caller]
    fn fetch_sub(&self, value: T, order: Ordering) -> T;
    /// Bitwise or; returns what was there before.
    #[track_caller]
    fn fetch_or(&self, value: T, order: Ordering) -> T;
    /// Bitwise and; returns what was there before.
    #[track_caller]
    fn fetch_and(&self, value: T, order: Ordering) -> T;
}

/// An atomic pointer of a platform, with the meaning of [`std::sync::atomic::AtomicPtr`].
pub trait AtomicPointer<T>: Debug + Send + Sync {
    /// A new atomic that holds `pointer`.
    fn new(pointer: *mut T) -> Self;
    /// Reads the pointer.
    #[track_caller]
    fn load(&self, order: Ordering) -> *mut T;
    /// Writes `pointer`.
    #[track_caller]
    fn store(&self, pointer: *mut T, order: Ordering);
    /// Writes `pointer` and returns what was there.
    #[track_caller]
    fn swap(&self, pointer: *mut T, order: Ordering) -> *mut T;
    /// Writes `new` if the pointer is `current`; returns what was there either way.
    ///
    /// # Errors
    /// The pointer found, where it was not `current`.
    #[track_caller]
    fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T>;
}

macro_rules! native_atomic_int {
    ($atomic:ty, $int:ty) => {
        impl AtomicInt<$int> for $atomic {
            #[inline(always)]
            fn new(value: $int) -> Self {
                <$atomic>::new(value)
            }
            #[inline(always)]
            fn load(&self, order: Ordering) -> $int {
                <$atomic>::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: $int, order: Ordering) {
                <$atomic>::store(self, value, order);
            }
            #[inline(always)]
            fn swap(&self, value: $int, order: Ordering) -> $int {
                <$atomic>::swap(self, value, order)
            }
            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                <$atomic>::compare_exchange(self, current, new, success, failure)
            }
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

native_atomic_int!(atomic::AtomicU8, u8);
native_atomic_int!(atomic::AtomicU32, u32);
native_atomic_int!(atomic::AtomicU64, u64);

impl<T> AtomicPointer<T> for atomic::AtomicPtr<T> {
    #[inline(always)]
    fn new(pointer: *mut T) -> Self {
        Self::new(pointer)
    }
    #[inline(always)]
    fn load(&self, order: Ordering) -> *mut T {
        Self::load(self, order)
    }
    #[inline(always)]
    fn store(&self, pointer: *mut T, order: Ordering) {
        Self::store(self, pointer, order);
    }
    #[inline(always)]
    fn swap(&self, pointer: *mut T, order: Ordering) -> *mut T {
        Self::swap(self, pointer, order)
    }
    #[inline(always)]
    fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        Self::compare_exchange(self, current, new, success, failure)
    }
}
