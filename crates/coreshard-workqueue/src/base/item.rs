//! A work item. Small closures are stored inline, so that queueing them does not allocate.
//!
//! If its queue is shut down at once, an item that has not begun is *set aside* instead of being run, as its
//! [`ItemBody`] defines: a closure is returned, a future is dropped, and so on. If the work that waits for it has
//! begun (a scope, an install), the item is a part of that work, and is run.
#![allow(unsafe_code)]

#[cfg(test)]
use std::mem::ManuallyDrop;
use std::mem::MaybeUninit;

use super::returned::Returned;

/// Words of a closure that fit into an item: with the function and the slot's state word they fill half a cache line. A
/// queue's cost is the cache lines that move from producer to worker, so a slot is as small as common closures allow: one
/// pointer to shared data, and one to the item's own.
pub(crate) const INLINE_WORDS: usize = 2;

pub(crate) type Payload = [MaybeUninit<u64>; INLINE_WORDS];

/// The content of an item.
pub(crate) trait ItemBody: Send + Sized {
    /// The type whose name is reported as the item's function.
    type Named;
    /// The work that waits for it has begun: it is run in any case.
    const IS_AWAITED: bool;

    fn run(self);

    /// Packs it into an item.
    #[inline(always)]
    fn pack(self) -> Item {
        Item::of(self)
    }

    /// Its name in reports.
    fn name(&self) -> &'static str {
        std::any::type_name::<Self::Named>()
    }

    /// No work is left: it was cancelled, or its waiter has run it.
    fn is_tombstone(&self) -> bool {
        false
    }

    /// Its queue runs nothing more. Returns the part to be handed back, if any; otherwise any waiter was notified that it does
    /// not run. Not called if it [is awaited](Self::IS_AWAITED).
    fn set_aside(self) -> Option<Returned>;
}

/// A plain closure counts as awaited; one that may be returned is a [`Plain`].
impl<F: FnOnce() + Send> ItemBody for F {
    type Named = F;
    const IS_AWAITED: bool = true;

    #[inline(always)]
    fn run(self) {
        self();
    }

    fn set_aside(self) -> Option<Returned> {
        unreachable!("it is awaited")
    }
}

/// A closure that no caller waits for, and that borrows nothing.
pub(crate) struct Plain<F>(pub(crate) F);

impl<F: FnOnce() + Send + 'static> ItemBody for Plain<F> {
    type Named = F;
    const IS_AWAITED: bool = false;

    #[inline(always)]
    fn run(self) {
        (self.0)();
    }

    fn set_aside(self) -> Option<Returned> {
        Some(Returned::closure(self.0))
    }
}

/// An accepted work item. It is run exactly once, or set aside. It has no destructor: losing it leaks
/// the contents of its closure.
#[repr(C)]
pub(crate) struct Item {
    kind: &'static ItemKind,
    payload: Payload,
}

/// An item, word by word.
pub(crate) type ItemParts = (&'static ItemKind, MaybeUninit<u64>, MaybeUninit<u64>);

impl Item {
    /// Packs a body, in the way that it defines.
    #[inline]
    pub(crate) fn new<F: ItemBody>(run: F) -> Self {
        run.pack()
    }

    /// Stores the body inline if it fits, else in one allocation.
    #[inline]
    fn of<F: ItemBody>(run: F) -> Self {
        let mut payload: Payload = [MaybeUninit::uninit(); INLINE_WORDS];
        if const { fits::<F>() } {
            // SAFETY: `fits` checks size and alignment; `act_inline` reads it once.
            unsafe { payload.as_mut_ptr().cast::<F>().write(run) };
            Self { kind: &Inline::<F, F::Named>::KIND, payload }
        } else {
            let boxed = Box::into_raw(Box::new(run));
            payload[0].write(boxed.expose_provenance() as u64);
            Self { kind: &Boxed::<F, F::Named>::KIND, payload }
        }
    }

    /// Runs it. May unwind, if the closure panics; the item is used up even then.
    #[cfg(test)]
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `self` is consumed, so it is called once.
        unsafe { this.run_in_place() };
    }

    /// As `run`, without moving the item: a worker keeps it in one place without a copy.
    ///
    /// # Safety
    /// The item is not used after that.
    #[inline(always)]
    pub(crate) unsafe fn run_in_place(&mut self) {
        // SAFETY: the kind belongs to this payload, and this is its one use, by this function's contract.
        unsafe { self.kind.act(&raw mut self.payload) };
    }

    /// True if it is run even if its queue runs nothing more.
    pub(crate) fn is_awaited(&self) -> bool {
        self.kind.set_aside.is_none()
    }

    /// Takes the contents without running them. Returns the part to be handed back, if any. May unwind, if a value
    /// that it holds panics when dropped; the item is used up even then.
    ///
    /// # Safety
    /// The item is not used after that.
    pub(crate) unsafe fn set_aside(&mut self) -> Option<Returned> {
        let Some(set_aside) = self.kind.set_aside else { unreachable!("it is awaited") };
        // SAFETY: the kind belongs to this payload, and this is its one use, by this function's contract.
        unsafe { set_aside(&raw mut self.payload) }
    }

    /// Makes an item of a function that interprets the payload itself.
    #[inline(always)]
    pub(crate) fn of_kind(kind: &'static ItemKind, payload: Payload) -> Self {
        Self { kind, payload }
    }

    #[inline(always)]
    pub(crate) fn into_parts(self) -> ItemParts {
        let Self { kind, payload: [first, second] } = self;
        (kind, first, second)
    }

    #[inline(always)]
    pub(crate) fn from_parts((kind, first, second): ItemParts) -> Self {
        Self { kind, payload: [first, second] }
    }

    /// Its kind: two items with one function are of one kind.
    #[inline]
    pub(crate) fn kind(&self) -> &'static ItemKind {
        self.kind
    }
}

/// Uses up a payload. With C's calling convention, so that it may be a function of another language.
pub(crate) type Act = unsafe extern "C-unwind" fn(*mut Payload);

/// Functions and name shared by all items of one function.
pub(crate) struct ItemKind {
    act: Act,
    /// `None` for an item that is run in any case.
    set_aside: Option<unsafe fn(*mut Payload) -> Option<Returned>>,
    pub(crate) name: Name,
}

impl ItemKind {
    /// The kind of calls that are run in any case.
    pub(crate) const fn awaited(act: Act, name: Name) -> Self {
        Self { act, set_aside: None, name }
    }

    /// Runs a payload of this kind without an item.
    ///
    /// # Safety
    /// The payload is of this kind, and this is its one use.
    #[inline(always)]
    pub(crate) unsafe fn act(&self, payload: *mut Payload) {
        // SAFETY: by this function's contract.
        unsafe { (self.act)(payload) };
    }
}

/// The name of a function, behind a thin pointer.
pub(crate) enum Name {
    /// The name of its type.
    Type(fn() -> &'static str),
    /// A given name, for a function of another language.
    Given(&'static str),
}

impl Name {
    pub(crate) fn of<F>() -> &'static Self {
        &Inline::<F, F>::NAME
    }

    pub(crate) fn get(&self) -> &'static str {
        match self {
            Self::Type(name) => name(),
            Self::Given(name) => name,
        }
    }
}

struct Inline<F, N>(std::marker::PhantomData<(F, N)>);
struct Boxed<F, N>(std::marker::PhantomData<(F, N)>);

impl<F> Inline<F, F> {
    const NAME: Name = Name::Type(std::any::type_name::<F>);
}

impl<F: ItemBody, N> Inline<F, N> {
    const KIND: ItemKind = ItemKind {
        act: act_inline::<F>,
        set_aside: if F::IS_AWAITED { None } else { Some(set_aside_inline::<F>) },
        name: Name::Type(std::any::type_name::<N>),
    };
}

impl<F: ItemBody, N> Boxed<F, N> {
    const KIND: ItemKind = ItemKind {
        act: act_boxed::<F>,
        set_aside: if F::IS_AWAITED { None } else { Some(set_aside_boxed::<F>) },
        name: Name::Type(std::any::type_name::<N>),
    };
}

const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Payload>() && align_of::<F>() <= align_of::<Payload>()
}

/// # Safety
/// The payload holds an `F` inline, and this is its one use.
unsafe extern "C-unwind" fn act_inline<F: ItemBody>(payload: *mut Payload) {
    // SAFETY: by this function's contract.
    unsafe { payload.cast::<F>().read() }.run();
}

/// # Safety
/// As for [`act_inline`].
unsafe fn set_aside_inline<F: ItemBody>(payload: *mut Payload) -> Option<Returned> {
    // SAFETY: by this function's contract.
    unsafe { payload.cast::<F>().read() }.set_aside()
}

/// # Safety
/// The payload's first word is the address of a boxed `F`, and this is its one use.
unsafe extern "C-unwind" fn act_boxed<F: ItemBody>(payload: *mut Payload) {
    // SAFETY: by this function's contract.
    let body = unsafe { take_boxed::<F>(payload) };
    (*body).run();
}

/// # Safety
/// As for [`act_boxed`].
unsafe fn set_aside_boxed<F: ItemBody>(payload: *mut Payload) -> Option<Returned> {
    // SAFETY: by this function's contract.
    let body = unsafe { take_boxed::<F>(payload) };
    (*body).set_aside()
}

/// # Safety
/// As for [`act_boxed`].
#[inline(always)]
unsafe fn take_boxed<F>(payload: *mut Payload) -> Box<F> {
    // SAFETY: by this function's contract the first word is written.
    let address = unsafe { (*payload)[0].assume_init() } as usize;
    // SAFETY: the address was exposed by `Item::new`, which made the box.
    unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<F>(address)) }
}

/// With the slot's state word, two items fill a cache line of 64 bytes.
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
