//! A static that is reset in a forked process.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::{Host, Platform as _};

/// A static with one value per process: a forked child starts with a default value and leaves its parent's
/// untouched.
///
/// A lock in the parent's value may be held by a thread that does not exist in the child, and would never be
/// released there.
///
/// A value is made at its first use and never freed. If several threads use it first, several values are made
/// and one is kept. `T::default` should therefore be cheap; wrap an expensive value in a `OnceLock`.
///
/// # Examples
/// ```
/// use std::sync::OnceLock;
/// use coreshard_platform::PerProcess;
///
/// static NAME: PerProcess<OnceLock<String>> = PerProcess::new();
/// let name = NAME.here().get_or_init(|| format!("process {}", std::process::id()));
/// assert_eq!(NAME.here().get(), Some(name));
/// assert!(NAME.inherited().is_none(), "no process was forked");
/// ```
pub struct PerProcess<T: 'static> {
    newest: AtomicPtr<Made<T>>,
}

struct Made<T: 'static> {
    process_generation: u32,
    value: T,
    /// The value of the nearest ancestor that used one.
    before: Option<&'static Self>,
}

impl<T: Default + Send + Sync> PerProcess<T> {
    /// Creates a static that no process has used yet.
    pub const fn new() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns this process's value.
    #[inline]
    pub fn here(&self) -> &'static T {
        &self.made_here().value
    }

    /// Returns the value of the nearest ancestor that used one. Its locks may be held forever.
    pub fn inherited(&self) -> Option<&'static T> {
        self.made_here().before.map(|before| &before.value)
    }

    #[inline]
    fn made_here(&self) -> &'static Made<T> {
        match Self::read(self.newest.load(Acquire)) {
            Some(made) if made.process_generation == Host::process_generation() => made,
            before => self.make(before),
        }
    }

    #[cold]
    fn make(&self, before: Option<&'static Made<T>>) -> &'static Made<T> {
        let process_generation = Host::process_generation();
        let made = Box::new(Made { process_generation, value: T::default(), before });
        let made = Box::into_raw(made);
        let known = before.map_or(ptr::null_mut(), |before| ptr::from_ref(before).cast_mut());
        // Release publishes the value, and pairs with the Acquire of threads that load it.
        match self.newest.compare_exchange(known, made, AcqRel, Acquire) {
            // SAFETY: the value is never freed.
            Ok(_) => unsafe { &*made },
            Err(first) => {
                // SAFETY: made above and not published.
                drop(unsafe { Box::from_raw(made) });
                Self::read(first).unwrap_or_else(|| unreachable!("it never goes back to null"))
            }
        }
    }

    #[inline]
    fn read(made: *mut Made<T>) -> Option<&'static Made<T>> {
        // SAFETY: null, or published by `make` and never freed.
        unsafe { made.as_ref() }
    }
}

impl<T: Default + Send + Sync> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerProcess").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_forked_process_has_its_own_and_sees_its_parents() {
        static COUNT: PerProcess<Mutex<u32>> = PerProcess::new();
        // Held across the fork, as another thread might hold it.
        let mut count = COUNT.here().lock().unwrap();
        *count += 1;
        testing::forked(|| {
            let own = COUNT.here();
            *own.lock().unwrap() += 10;
            if *own.lock().unwrap() != 10 || !ptr::eq(own, COUNT.here()) {
                return Err("the child's value is not its own");
            }
            match COUNT.inherited() {
                Some(parents) if parents.try_lock().is_err() => Ok(()),
                _ => Err("the parent's value is not visible"),
            }
        })
        .unwrap();
        assert_eq!(*count, 1);
        assert!(COUNT.inherited().is_none());
    }

    #[test]
    fn all_threads_find_the_same() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| *VALUE.here().lock().unwrap() += 1);
            }
        });
        assert_eq!(*VALUE.here().lock().unwrap(), 8);
    }
}
