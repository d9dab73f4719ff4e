//! The place of an item's closure, and later of its value.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;

use coreshard_platform::user::{self, Thrown};

/// Holds the closure until the item begins, and then the value that was left for the waiter.
///
/// Each function requires that nothing else accesses the cell at the same time. The thread that has claimed the item owns the
/// closure and leaves the value. The thread that was notified of that (by a latch, for example) owns the value.
pub(super) struct ItemCell<F, V>(UnsafeCell<Content<F, V>>);

enum Content<F, V> {
    Work(F),
    Value(V),
    Empty,
}

impl<F, V> ItemCell<F, V> {
    pub(super) fn new(work: F) -> Self {
        Self(UnsafeCell::new(Content::Work(work)))
    }

    /// # Safety
    /// As [`ItemCell`] requires.
    unsafe fn empty(&self) -> Content<F, V> {
        // SAFETY: by this function's contract.
        unsafe { self.0.get().replace(Content::Empty) }
    }

    /// Takes the closure.
    ///
    /// # Safety
    /// As [`ItemCell`] requires; the caller has claimed the item just now.
    pub(super) unsafe fn take_work(&self) -> F {
        // SAFETY: by this function's contract.
        match unsafe { self.empty() } {
            Content::Work(work) => work,
            _ => unreachable!("an item that has not begun has its closure"),
        }
    }

    /// Calls the closure.
    ///
    /// # Safety
    /// As [`take_work`](Self::take_work).
    pub(super) unsafe fn call<T>(&self) -> Result<T, Thrown>
    where
        F: FnOnce() -> T,
    {
        // SAFETY: by this function's contract, and the value is left later.
        user::call(unsafe { self.take_work() })
    }

    /// Leaves the value.
    ///
    /// # Safety
    /// As [`ItemCell`] requires.
    pub(super) unsafe fn leave(&self, value: V) {
        // SAFETY: by this function's contract.
        unsafe { *self.0.get() = Content::Value(value) };
    }

    /// Takes the value, if there is one.
    ///
    /// # Safety
    /// As [`ItemCell`] requires.
    pub(super) unsafe fn take(&self) -> Option<V> {
        // SAFETY: by this function's contract.
        match unsafe { self.empty() } {
            Content::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Drops the content, and catches a panic of its destructor.
    ///
    /// # Safety
    /// As [`ItemCell`] requires.
    pub(super) unsafe fn discard(&self) -> Result<(), Thrown> {
        // SAFETY: by this function's contract.
        user::discard(unsafe { self.empty() })
    }

    /// Takes the value, if there is one. The exclusive borrow rules out any other access.
    pub(super) fn take_mut(&mut self) -> Option<V> {
        match std::mem::replace(self.0.get_mut(), Content::Empty) {
            Content::Value(value) => Some(value),
            _ => None,
        }
    }
}
