//! A mutex that spins briefly and then parks.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{AtomicInt, Platform, fields};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and threads may sleep on the word: the unlocking thread must wake one.
const CONTENDED: u32 = 2;

/// How often a thread checks a held lock before it sleeps. Pools hold their lock for tens of nanoseconds, and
/// a sleep costs microseconds. That justifies a short spin, but not one of a scheduler's slice. (Zero under a
/// model checker, which tries every interleaving.)
const SPINS: u32 = if cfg!(loom) { 0 } else { 100 };

/// A mutual-exclusion lock over data `T`: three states in one word, as in Ulrich Drepper's "Futexes Are
/// Tricky" (2011).
///
/// It has no poisoning, since no user code runs under it.
pub struct Lock<P: Platform, T> {
    word: P::AtomicU32,
    data: UnsafeCell<T>,
}

fields!(Lock<P: Platform, T> { word, data });

// SAFETY: the data is only reached through a guard, and the word admits one guard at a time. Sharing the lock
// therefore hands `&mut T` from thread to thread, which is sound for `T: Send`.
#[allow(unsafe_code)]
unsafe impl<P: Platform, T: Send> Sync for Lock<P, T> {}

impl<P: Platform, T> Lock<P, T> {
    /// Creates a free lock over `data`.
    pub fn new(data: T) -> Self {
        Self { word: P::AtomicU32::new(FREE), data: UnsafeCell::new(data) }
    }

    /// Takes the lock. Spins briefly, then sleeps until it is free.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockGuard<'_, P, T> {
        // Acquire pairs with the Release of the unlock: the last holder's writes are visible.
        if self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            self.lock_slowly();
        }
        // The data that the last holder wrote arrives with the lock.
        P::touch_locked(self.data.get());
        P::lock_is_taken::<T>(&raw const self.word);
        LockGuard { lock: self, _lends: PhantomData }
    }

    /// Names the fields of the lock's word and data, once they are at their final address; see
    /// [`Platform::describe`].
    pub fn describe(&self)
    where
        T: crate::Fields,
    {
        P::describe(&raw const *self);
        P::describe(self.data.get().cast_const());
    }

    /// Takes the lock if it is free; returns `None` otherwise.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<LockGuard<'_, P, T>> {
        self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).ok()?;
        P::touch_locked(self.data.get());
        P::lock_is_taken::<T>(&raw const self.word);
        Some(LockGuard { lock: self, _lends: PhantomData })
    }

    /// Returns the data without locking: the exclusive borrow proves that no other thread has access.
    pub fn get_mut(&mut self) -> &mut T {
        self.data.get_mut()
    }

    #[cold]
    fn lock_slowly(&self) {
        if !P::queue_for_lock(&self.word, FREE, CONTENDED) {
            lock_asleep::<P>(&self.word);
        }
    }
}

/// Takes only the word, so that it is compiled once for all data types.
#[cold]
#[inline(never)]
fn lock_asleep<P: Platform>(word: &P::AtomicU32) {
    for _ in 0..SPINS {
        let seen = word.load(Relaxed);
        if seen == FREE && word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok() {
            return;
        }
        if seen == CONTENDED {
            break;
        }
        P::spin_hint();
    }
    // This thread now counts as a sleeper, so it takes the lock as CONTENDED: it cannot know whether others
    // also sleep.
    while word.swap(CONTENDED, Acquire) != FREE {
        P::wait(word, CONTENDED, None);
    }
}

/// A lock whose holder may sleep, for example to start or join threads.
///
/// Waiters sleep on every platform. Use it for data that changes rarely and takes long to change; it
/// corresponds to a kernel's mutex, as [`Lock`] does to a spinlock.
#[derive(Debug)]
pub struct SleepingLock<P: Platform, T> {
    lock: Lock<P, T>,
}

impl<P: Platform, T> SleepingLock<P, T> {
    /// Creates a free lock over `data`.
    pub fn new(data: T) -> Self {
        Self { lock: Lock::new(data) }
    }

    /// Takes the lock. Sleeps until it is free.
    pub fn lock(&self) -> LockGuard<'_, P, T> {
        if self.lock.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            lock_asleep::<P>(&self.lock.word);
        }
        P::touch_locked(self.lock.data.get());
        LockGuard { lock: &self.lock, _lends: PhantomData }
    }
}

impl<P: Platform, T: fmt::Debug> fmt::Debug for Lock<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_tuple("Lock").field(&*guard).finish(),
            None => f.write_str("Lock(<held>)"),
        }
    }
}

/// Proof that the lock is held. Unlocks when dropped, on any thread.
///
/// A guard can be shared among threads only if `T` can, although the lock accepts any `T: Send`:
///
/// ```compile_fail
/// use coreshard_platform::{Host, Lock};
///
/// let lock = Lock::<Host, _>::new(std::cell::Cell::new(0));
/// let guard = lock.lock();
/// std::thread::scope(|scope| {
///     scope.spawn(|| guard.set(1)); // Two threads in one `Cell`.
///     guard.set(2);
/// });
/// ```
pub struct LockGuard<'lock, P: Platform, T> {
    lock: &'lock Lock<P, T>,
    /// Makes the guard an exclusive borrow of the data, for the compiler's auto traits.
    _lends: PhantomData<&'lock mut T>,
}

impl<P: Platform, T> Deref for LockGuard<'_, P, T> {
    type Target = T;
    #[inline(always)]
    #[allow(unsafe_code)]
    fn deref(&self) -> &T {
        // SAFETY: the guard's existence means that this thread holds the lock, so no other guard exists. The
        // borrow of the guard keeps it so.
        unsafe { &*self.lock.data.get() }
    }
}

impl<P: Platform, T> DerefMut for LockGuard<'_, P, T> {
    #[inline(always)]
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the exclusive borrow of the guard excludes other references.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<P: Platform, T> Drop for LockGuard<'_, P, T> {
    #[inline]
    fn drop(&mut self) {
        let word = &raw const self.lock.word;
        // Release pairs with the Acquire of the next holder.
        if self.lock.word.swap(FREE, Release) == CONTENDED {
            P::wake_one(word);
        }
        P::lock_is_freed(word);
    }
}

impl<P: Platform, T: fmt::Debug> fmt::Debug for LockGuard<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use std::sync::Arc;

    #[test]
    fn no_increment_is_lost() {
        let lock = Arc::new(Lock::<Host, u64>::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                std::thread::spawn(move || {
                    for _ in 0..50_000 {
                        *lock.lock() += 1;
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*lock.lock(), 200_000);
    }

    #[test]
    fn a_held_lock_is_refused_to_try_lock() {
        let lock = Lock::<Host, ()>::new(());
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert!(lock.try_lock().is_some());
    }
}
