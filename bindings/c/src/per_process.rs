//! What each process has of its own: one that was forked begins with the memory of another one, but without its threads, so
//! that locks may be held by nobody.

use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use coreshard::ProcessGeneration;

/// A value for each process, made when it is asked for first, and never freed.
pub(crate) struct PerProcess<T: 'static> {
    made: AtomicPtr<Made<T>>,
    make: fn() -> T,
}

struct Made<T> {
    made_in: ProcessGeneration,
    value: T,
    /// That of the process before, so that whoever looks for leaks finds it.
    _former: AtomicPtr<Self>,
}

impl<T: Sync> PerProcess<T> {
    pub(crate) const fn new(make: fn() -> T) -> Self {
        Self { made: AtomicPtr::new(ptr::null_mut()), make }
    }

    #[inline(always)]
    pub(crate) fn get(&'static self) -> &'static T {
        // SAFETY: null, or leaked by `make`.
        match unsafe { self.made.load(Acquire).as_ref() } {
            Some(made) if made.made_in.is_current() => &made.value,
            _ => self.make(),
        }
    }

    #[cold]
    fn make(&'static self) -> &'static T {
        let value = (self.make)();
        let mut known = self.made.load(Acquire);
        let mut made = Box::new(Made {
            made_in: ProcessGeneration::current(),
            value,
            _former: AtomicPtr::new(known),
        });
        loop {
            let place = Box::into_raw(made);
            match self.made.compare_exchange(known, place, AcqRel, Acquire) {
                // SAFETY: leaked just now.
                Ok(_) => return unsafe { &(*place).value },
                Err(now) => {
                    // SAFETY: from `into_raw` above, and nobody else has it.
                    made = unsafe { Box::from_raw(place) };
                    // SAFETY: as in `get`.
                    match unsafe { now.as_ref() } {
                        Some(first) if first.made_in.is_current() => return &first.value,
                        _ => known = now,
                    }
                }
            }
        }
    }
}
