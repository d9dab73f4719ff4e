//! A work item: what to run. Small closures travel inside it, so that queueing them allocates
//! nothing.
#![allow(unsafe_code)]

use std::mem::{ManuallyDrop, MaybeUninit};

/// Words of a closure that fit into an item: with the function and the slot's state word they
/// fill half a cache line. What a queue costs is the lines that go from producer to worker, so a
/// slot is as small as common closures allow: a pointer to what is shared, and one to what is
/// the item's own.
pub(crate) const INLINE_WORDS: usize = 2;

type Payload = [MaybeUninit<u64>; INLINE_WORDS];

/// An accepted work item. It is run exactly once: it has no destructor, so whoever loses it leaks
/// what its closure holds.
#[repr(C)]
pub(crate) struct Item {
    kind: &'static ItemKind,
    payload: Payload,
}

impl Item {
    /// Packs a closure: in place where it fits, else in one allocation.
    #[inline]
    pub(crate) fn new<F: FnOnce() + Send>(run: F) -> Self {
        Self::named::<F, F>(run)
    }

    /// As [`Self::new`], by the name of `N`: for a closure that calls one of that type.
    #[inline]
    pub(crate) fn named<N, F: FnOnce() + Send>(run: F) -> Self {
        let mut payload: Payload = [MaybeUninit::uninit(); INLINE_WORDS];
        if const { fits::<F>() } {
            // SAFETY: `fits` says that size and alignment are enough; `act_inline` reads it once.
            unsafe { payload.as_mut_ptr().cast::<F>().write(run) };
            Self { kind: &Inline::<F, N>::KIND, payload }
        } else {
            let boxed = Box::into_raw(Box::new(run));
            payload[0].write(boxed.expose_provenance() as u64);
            Self { kind: &Boxed::<F, N>::KIND, payload }
        }
    }

    /// Runs it. May unwind, if the closure panics; it is used up all the same.
    #[inline]
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the kind belongs to this payload, and `self` is consumed, so it is called once.
        unsafe { (this.kind.act)(&raw mut this.payload) };
    }

    /// What it is: two items with one function are of one kind.
    #[inline]
    pub(crate) fn kind(&self) -> &'static ItemKind {
        self.kind
    }
}

/// What items of one function have in common.
pub(crate) struct ItemKind {
    act: unsafe fn(*mut Payload),
    pub(crate) name: Name,
}

/// The type name of a function, behind a thin pointer.
pub(crate) struct Name(fn() -> &'static str);

impl Name {
    pub(crate) fn of<F>() -> &'static Self {
        &Inline::<F, F>::NAME
    }

    pub(crate) fn get(&self) -> &'static str {
        (self.0)()
    }
}

struct Inline<F, N>(std::marker::PhantomData<(F, N)>);
struct Boxed<F, N>(std::marker::PhantomData<(F, N)>);

impl<F> Inline<F, F> {
    const NAME: Name = Name(std::any::type_name::<F>);
}

impl<F: FnOnce(), N> Inline<F, N> {
    const KIND: ItemKind = ItemKind { act: act_inline::<F>, name: Name(std::any::type_name::<N>) };
}

impl<F: FnOnce(), N> Boxed<F, N> {
    const KIND: ItemKind = ItemKind { act: act_boxed::<F>, name: Name(std::any::type_name::<N>) };
}

const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Payload>() && align_of::<F>() <= align_of::<Payload>()
}

/// # Safety
/// The payload holds an `F` in place, and this is its one use.
unsafe fn act_inline<F: FnOnce()>(payload: *mut Payload) {
    // SAFETY: by this function's contract.
    let run = unsafe { payload.cast::<F>().read() };
    run();
}

/// # Safety
/// The payload's first word is the address of a boxed `F`, and this is its one use.
unsafe fn act_boxed<F: FnOnce()>(payload: *mut Payload) {
    // SAFETY: by this function's contract the first word is written.
    let address = unsafe { (*payload)[0].assume_init() } as usize;
    // SAFETY: the address was exposed by `Item::new`, which made the box.
    let run = unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<F>(address)) };
    run();
}

/// With the slot's state word, two items fill a line of 64 bytes.
const _: () = assert!(size_of::<Item>() == 24);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn item(run: impl FnOnce() + Send) -> Item {
        Item::new(run)
    }

    #[test]
    fn closures_of_every_size_run_once_and_drop_what_they_hold() {
        let seen = Arc::new(AtomicU32::new(0));
        macro_rules! check {
            ($words:literal, $inline:literal) => {{
                let (counter, held) = (Arc::clone(&seen), [7_u64; $words]);
                let closure = move || {
                    assert_eq!(held, [7; $words]);
                    counter.fetch_add(1, Ordering::Relaxed);
                };
                assert_eq!(fits_value(&closure), $inline);
                item(closure).run();
            }};
        }
        check!(0, true);
        check!(1, true);
        check!(2, false);
        check!(64, false);
        assert_eq!(seen.load(Ordering::Relaxed), 4);
        assert_eq!(Arc::strong_count(&seen), 1);
    }

    fn fits_value<F>(_: &F) -> bool {
        fits::<F>()
    }

    #[test]
    fn a_closure_with_a_large_alignment_is_boxed() {
        #[repr(align(64))]
        struct Wide(u8);
        let wide = Wide(3);
        let closure = move || {
            let wide = &wide;
            assert_eq!((&raw const *wide).addr() % 64, 0);
            assert_eq!(wide.0, 3);
        };
        assert!(!fits_value(&closure));
        item(closure).run();
    }
}
