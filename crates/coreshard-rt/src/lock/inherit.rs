//! A mutex with priority inheritance: one word, and no system call without waiters.
//!
//! States of the word, which follow futex(2), "Priority-inheritance futexes":
//!
//! - 0: free.
//! - The holder's number: held without waiters, so the holder may release it itself.
//! - The number with further bits, which are the kernel's: there are waiters, and the kernel hands the lock
//!   over.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, InheritError, RealTime, Time};

use super::error::{LockError, LockResult};

const FREE: u32 = 0;

/// The retry interval if waiters cannot sleep on the lock.
const FORBIDDEN_RETRY: Duration = Duration::from_micros(50);

/// A mutual-exclusion lock over `T` that lends the priority of its highest-priority waiter to its holder, and
/// is handed to that waiter.
///
/// It has poisoning.
///
/// ```
/// use coreshard_platform::Host;
/// use coreshard_rt::InheritMutex;
///
/// let frames = InheritMutex::<Host, u64>::new(0);
/// *frames.lock().expect("no holder has panicked") += 1;
/// assert_eq!(frames.into_inner().expect("as above"), 1);
/// ```
pub struct InheritMutex<P: RealTime, T> {
    word: P::AtomicU32,
    /// Written under the lock, by a holder that panics.
    poisoned: P::AtomicU32,
    data: UnsafeCell<T>,
}

// SAFETY: the data is only reached through a guard, and the word admits one guard at a time. Sharing the lock
// therefore hands `&mut T` from thread to thread, which is sound for `T: Send`.
#[allow(unsafe_code)]
unsafe impl<P: RealTime, T: Send> Sync for InheritMutex<P, T> {}

impl<P: RealTime, T> InheritMutex<P, T> {
    /// Creates a free lock over `data`.
    pub fn new(data: T) -> Self {
        Self {
            word: P::AtomicU32::new(FREE),
            poisoned: P::AtomicU32::new(0),
            data: UnsafeCell::new(data),
        }
    }

    /// Takes the lock. Sleeps until it is free.
    ///
    /// # Errors
    /// If it is poisoned (the error has the guard), if the wait would never end, or if the platform has no
    /// inheritance.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockResult<InheritGuard<'_, P, T>> {
        self.lock_by(None)
    }

    /// Takes the lock. Sleeps until it is free, at most until `moment`.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and if the time runs out.
    #[track_caller]
    pub fn lock_until(&self, moment: Time) -> LockResult<InheritGuard<'_, P, T>> {
        self.lock_by(Some(moment))
    }

    /// Takes a lock of the executor itself. No user code runs under those, so their data is always
    /// consistent, and no thread takes one twice. If the platform has no inheritance after all (it may be
    /// forbidden to a process), retries until the lock is free.
    #[track_caller]
    pub(crate) fn lock_own(&self) -> InheritGuard<'_, P, T> {
        loop {
            match self.lock() {
                Ok(guard) | Err(LockError::Poisoned(guard)) => return guard,
                Err(LockError::Unsupported) => P::sleep(FORBIDDEN_RETRY),
                Err(error) => unreachable!("one of the executor's own locks: {error}"),
            }
        }
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// If it is held, or poisoned (the error has the guard).
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> LockResult<InheritGuard<'_, P, T>> {
        if self.take() { self.guard() } else { Err(LockError::Held) }
    }

    /// Returns the data without locking: the exclusive borrow proves that no other thread has access.
    ///
    /// # Errors
    /// If it is poisoned; the error has the data.
    pub fn get_mut(&mut self) -> Result<&mut T, LockError<&mut T>> {
        let poisoned = self.is_poisoned();
        let data = self.data.get_mut();
        if poisoned { Err(LockError::Poisoned(data)) } else { Ok(data) }
    }

    /// Returns the data.
    ///
    /// # Errors
    /// If it is poisoned; the error has the data.
    pub fn into_inner(self) -> Result<T, LockError<T>> {
        let poisoned = self.is_poisoned();
        let data = self.data.into_inner();
        if poisoned { Err(LockError::Poisoned(data)) } else { Ok(data) }
    }

    /// Returns whether a holder has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Relaxed) != 0
    }

    /// Marks the data as consistent again.
    pub fn clear_poison(&self) {
        self.poisoned.store(0, Relaxed);
    }

    #[inline]
    #[track_caller]
    fn take(&self) -> bool {
        // Acquire pairs with the Release of the unlock: the last holder's writes are visible.
        self.word.compare_exchange(FREE, P::holder_word(), Acquire, Relaxed).is_ok()
    }

    #[inline]
    #[track_caller]
    fn lock_by(&self, until: Option<Time>) -> LockResult<InheritGuard<'_, P, T>> {
        if !self.take() {
            // No spinning, which would keep the holder from its CPU if it is this one.
            P::lock_inheriting(&self.word, until).map_err(|error| match error {
                InheritError::TimedOut => LockError::TimedOut,
                InheritError::WouldDeadlock => LockError::WouldDeadlock,
                InheritError::HolderGone => LockError::HolderGone,
                InheritError::Unsupported => LockError::Unsupported,
            })?;
        }
        self.guard()
    }

    #[inline]
    #[track_caller]
    fn guard(&self) -> LockResult<InheritGuard<'_, P, T>> {
        // The data that the last holder wrote arrives with the lock.
        P::touch_write(self.data.get());
        let panics = std::thread::panicking();
        let guard = InheritGuard { lock: self, panics, _of_its_thread: PhantomData };
        if self.is_poisoned() { Err(LockError::Poisoned(guard)) } else { Ok(guard) }
    }
}

impl<P: RealTime, T> fmt::Debug for InheritMutex<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InheritMutex").field("is_poisoned", &self.is_poisoned()).finish()
    }
}

/// Proof that its thread holds the lock.
///
/// Releases it when dropped, and poisons it if a panic began meanwhile. Not `Send`: the lock names this
/// thread as its holder.
pub struct InheritGuard<'lock, P: RealTime, T> {
    lock: &'lock InheritMutex<P, T>,
    /// Whether the thread was panicking when it took the lock.
    panics: bool,
    _of_its_thread: PhantomData<*const ()>,
}

impl<P: RealTime, T> Deref for InheritGuard<'_, P, T> {
    type Target = T;
    #[inline(always)]
    #[allow(unsafe_code)]
    fn deref(&self) -> &T {
        // SAFETY: the guard's existence means that this thread holds the lock, so no other guard exists. The
        // borrow of the guard keeps it so.
        unsafe { &*self.lock.data.get() }
    }
}

impl<P: RealTime, T> DerefMut for InheritGuard<'_, P, T> {
    #[inline(always)]
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the exclusive borrow of the guard excludes other references.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<P: RealTime, T> Drop for InheritGuard<'_, P, T> {
    #[inline]
    fn drop(&mut self) {
        if !self.panics && std::thread::panicking() {
            self.lock.poisoned.store(1, Relaxed);
        }
        // Release pairs with the Acquire of the next holder. The exchange fails if there are waiters; then
        // the kernel hands the lock over, and provides the ordering.
        let word = &self.lock.word;
        if word.compare_exchange(P::holder_word(), FREE, Release, Relaxed).is_err() {
            P::unlock_inheriting(word);
        }
    }
}

impl<P: RealTime, T: fmt::Debug> fmt::Debug for InheritGuard<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
