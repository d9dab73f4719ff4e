//! A mutex that spins briefly and then parks.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{AtomicInt, Platform, fields};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may sleep on it: whoever unlocks must wake one.
const CONTENDED: u32 = 2;

/// How often a thread looks at a held lock before it sleeps. Pools hold their lock for tens of
/// nanoseconds, a sleep costs microseconds: worth a short wait, but not a scheduler's slice. (Not at all, if
/// a model checker tries every interleaving.)
const SPINS: u32 = if cfg!(loom) { 0 } else { 100 };

/// A mutual-exclusion lock over data `T`: three states in one word, as in Ulrich Drepper's
/// "Futexes Are Tricky" (2011). It does not poison: no code of a user runs under it.
pub struct Lock<P: Platform, T> {
    word: P::AtomicU32,
    data: UnsafeCell<T>,
}

fields!(Lock<P: Platform, T> { word, data });

// SAFETY: the data is only reached through a guard, and the word admits one guard at a time; so
// sharing the lock hands `&mut T` from thread to thread, which is sound for `T: Send`.
#[allow(unsafe_code)]
unsafe impl<P: Platform, T: Send> Sync for Lock<P, T> {}

impl<P: Platform, T> Lock<P, T> {
    /// A free lock over `data`.
    pub fn new(data: T) -> Self {
        Self { word: P::AtomicU32::new(FREE), data: UnsafeCell::new(data) }
    }

    /// Takes the lock; spins briefly, then sleeps until it is free.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockGuard<'_, P, T> {
        // Acquire pairs with the Release of the unlock: the last holder's writes are seen.
        if self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            self.lock_slowly();
        }
        // What the last holder wrote comes over with the lock.
        P::touch_locked(self.data.get());
        P::lock_is_taken::<T>(&raw const self.word);
        LockGuard { lock: self, _lends: PhantomData }
    }

    /// Names the fields of the lock's word and of its data, where they have come to their final
    /// place; see [`Platform::describe`].
    pub fn describe(&self)
    where
        T: crate::Fields,
    {
        P::describe(&raw const *self);
        P::describe(self.data.get().cast_const());
    }

    /// Takes the lock if it is free.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<LockGuard<'_, P, T>> {
        self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).ok()?;
        P::touch_locked(self.data.get());
        P::lock_is_taken::<T>(&raw const self.word);
        Some(LockGuard { lock: self, _lends: PhantomData })
    }

    /// The data, without locking: the borrow proves that nobody else is here.
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

/// Of the word alone, so that it is compiled once, whatever the lock is over.
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
    // From here on this thread counts as a sleeper, so it takes the lock as CONTENDED: it
    // cannot know whether others sleep too.
    while word.swap(CONTENDED, Acquire) != FREE {
        P::wait(word, CONTENDED, None);
    }
}

/// A lock whose holder may sleep, as one does who starts or joins threads: those who wait for it sleep,
/// on every platform. For what is seldom changed and takes long; a kernel's mutex, where [`Lock`] is its
/// spinning lock.
#[derive(Debug)]
pub struct SleepingLock<P: Platform, T> {
    lock: Lock<P, T>,
}

impl<P: Platform, T> SleepingLock<P, T> {
    /// A free lock over `data`.
    pub fn new(data: T) -> Self {
        Self { lock: Lock::new(data) }
    }

    /// Takes the lock; sleeps until it is free.
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

/// Proof that the lock is held; gives it back when dropped, on whatever thread.
///
/// It is shared among threads only if `T` may be, though the lock itself is for any `T: Send`:
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
    /// A guard is an exclusive borrow of the data, for the compiler too.
    _lends: PhantomData<&'lock mut T>,
}

impl<P: Platform, T> Deref for LockGuard<'_, P, T> {
    type Target = T;
    #[inline(always)]
    #[allow(unsafe_code)]
    fn deref(&self) -> &T {
        // SAFETY: the guard's existence means this thread holds the lock, and nobody else can
        // have a guard; the borrow of the guard keeps it so.
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
