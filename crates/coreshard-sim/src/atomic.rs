//! The simulated machine's atomics: the native ones, with each access simulated first.

use std::sync::atomic::{self, Ordering, Ordering::Relaxed};

use coreshard_platform::{AtomicInt, AtomicPointer, DataCell};

use crate::engine::{SimState, access, buffer_store, modify, with_current};
use crate::memory::Access::{self, Add, AddAndForget, Load, ReadModifyWrite, Store};

/// An atomic of the simulated machine. It has the size and alignment of the native one.
///
/// One host thread runs all virtual threads, and switches between them at accesses, so the native operation
/// needs no ordering for the simulation. It uses the requested ordering because host threads share the atomic
/// outside a simulation.
#[repr(transparent)]
#[derive(Debug)]
pub struct SimAtomic<A>(A);

#[inline(always)]
#[track_caller]
fn simulate<A>(atomic: &SimAtomic<A>, kind: Access) {
    let address = (&raw const *atomic).addr();
    access(address, size_of::<A>(), kind, std::panic::Location::caller());
}

/// Simulates a read-modify-write, which writes only if the value `is_wanted`. Returns false if it is not.
#[inline(always)]
#[track_caller]
fn update<A>(atomic: &SimAtomic<A>, kind: Access, is_wanted: impl Fn(&A) -> bool) -> bool {
    let address = (&raw const *atomic).addr();
    let site = std::panic::Location::caller();
    modify(address, size_of::<A>(), kind, site, || is_wanted(&atomic.0))
}

/// Returns true if a store goes to the CPU's store buffer instead of memory.
#[inline(always)]
#[track_caller]
fn is_buffered<A>(atomic: &SimAtomic<A>, value: u64, order: Ordering) -> bool {
    let word = (&raw const *atomic).cast();
    buffer_store(word, size_of::<A>(), value, order, std::panic::Location::caller())
}

/// Returns the kind of a read-modify-write without a comparison. A relaxed one counts as one whose result the
/// CPU does not wait for.
const fn add(order: Ordering) -> Access {
    match order {
        Relaxed => AddAndForget,
        _ => Add,
    }
}

macro_rules! sim_int {
    ($atomic:ty, $int:ty: $($fetch:ident)+) => {
        impl AtomicInt<$int> for SimAtomic<$atomic> {
            fn new(value: $int) -> Self {
                Self(<$atomic>::new(value))
            }
            fn load(&self, order: Ordering) -> $int {
                simulate(self, Load);
                // The value was stored here, so it fits.
                let word = (&raw const *self).cast();
                with_current(|sim| sim.hw.forwarded_value(word))
                    .flatten()
                    .map_or_else(|| self.0.load(order), |value| value as $int)
            }
            fn store(&self, value: $int, order: Ordering) {
                if !is_buffered(self, u64::from(value), order) {
                    simulate(self, Store);
                    self.0.store(value, order);
                }
            }
            fn swap(&self, value: $int, order: Ordering) -> $int {
                update(self, ReadModifyWrite, |_| true);
                let address = (&raw const *self).addr();
                if with_current(|sim| sim.hands_over(address, value.into())) == Some(true) {
                    return self.0.load(Relaxed);
                }
                self.0.swap(value, order)
            }
            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                update(self, ReadModifyWrite, |word| word.load(Relaxed) == current);
                self.0.compare_exchange(current, new, success, failure)
            }
            $(fn $fetch(&self, value: $int, order: Ordering) -> $int {
                update(self, add(order), |_| true);
                self.0.$fetch(value, order)
            })+
        }
    };
}

impl SimAtomic<atomic::AtomicU32> {
    /// Returns the native atomic, whose accesses are not simulated.
    pub fn native(&self) -> &atomic::AtomicU32 {
        &self.0
    }
}

sim_int!(atomic::AtomicU8, u8: fetch_add fetch_sub fetch_or fetch_and);
sim_int!(atomic::AtomicU32, u32: fetch_add fetch_sub fetch_or fetch_and);
sim_int!(atomic::AtomicU64, u64: fetch_add fetch_sub fetch_or fetch_and);

impl<T> AtomicPointer<T> for SimAtomic<atomic::AtomicPtr<T>> {
    fn new(pointer: *mut T) -> Self {
        Self(atomic::AtomicPtr::new(pointer))
    }
    fn load(&self, order: Ordering) -> *mut T {
        simulate(self, Load);
        self.0.load(order)
    }
    fn store(&self, pointer: *mut T, order: Ordering) {
        with_current(SimState::drain_own_stores);
        simulate(self, Store);
        self.0.store(pointer, order);
    }
    fn swap(&self, pointer: *mut T, order: Ordering) -> *mut T {
        update(self, ReadModifyWrite, |_| true);
        self.0.swap(pointer, order)
    }
    fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        update(self, ReadModifyWrite, |word| word.load(Relaxed) == current);
        self.0.compare_exchange(current, new, success, failure)
    }
}

/// The simulated machine's [`DataCell`]: an [`UnsafeCell`](std::cell::UnsafeCell) whose accesses are
/// simulated as a read or a write of the whole value.
#[repr(transparent)]
#[derive(Debug)]
pub struct SimCell<T>(std::cell::UnsafeCell<T>);

impl<T> SimCell<T> {
    #[inline]
    #[track_caller]
    fn simulate(&self, kind: Access) {
        let address = self.0.get().addr();
        access(address, size_of::<T>(), kind, std::panic::Location::caller());
    }
}

impl<T> DataCell<T> for SimCell<T> {
    fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }
    fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        self.simulate(Load);
        read(self.0.get())
    }
    fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        self.simulate(Store);
        write(self.0.get())
    }
}
