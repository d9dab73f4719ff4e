//! A value that waits for its deadline, stored inline, whose type the timers do not know.
#![allow(unsafe_code)]

use std::any::TypeId;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;
use std::task::Waker;

use coreshard_platform::Platform;

use crate::callbacks::{Callback, Callbacks};

/// Words that a value may have: enough for a delayed item.
const WORDS: usize = 5;

/// A value with a deadline.
pub(crate) trait Timed<P: Platform>: Send + Sized + 'static {
    /// Called at the deadline, on the timekeeper: user code is left to `owed`.
    fn fire(self, owed: &Owed<P>);

    /// True if it waits for a queue with this id, which accepts nothing any more.
    fn is_for(&self, _queue: u64) -> bool {
        false
    }

    /// Cancels it before its deadline. Must neither call nor drop user code.
    fn revoke(self) {}
}

/// A [`Timed`] value, stored inline.
pub(crate) struct Due<P: Platform> {
    kind: &'static DueKind<P>,
    value: [MaybeUninit<usize>; WORDS],
}

// SAFETY: the value is `Send`, by `Timed`.
unsafe impl<P: Platform> Send for Due<P> {}

/// The functions of a value's type.
struct DueKind<P: Platform> {
    type_id: fn() -> TypeId,
    fire: unsafe fn(*mut (), &Owed<P>),
    is_for: unsafe fn(*const (), u64) -> bool,
    revoke: unsafe fn(*mut ()),
    drop: unsafe fn(*mut ()),
}

struct KindOf<T>(std::marker::PhantomData<T>);

impl<T> KindOf<T> {
    const FITS: () = assert!(
        size_of::<T>() <= WORDS * size_of::<usize>() && align_of::<T>() <= align_of::<usize>(),
        "a value that waits for its time is kept in place"
    );
}

impl<P: Platform> Due<P> {
    pub(crate) fn new<T: Timed<P>>(value: T) -> Self {
        const { KindOf::<T>::FITS };
        let kind = const {
            &DueKind {
                type_id: TypeId::of::<T>,
                // SAFETY: called once, with the address of a `T` that is not used after that.
                fire: |value, owed| unsafe { value.cast::<T>().read() }.fire(owed),
                // SAFETY: called with the address of a `T`.
                is_for: |value, queue| unsafe { &*value.cast::<T>() }.is_for(queue),
                // SAFETY: as `fire`.
                revoke: |value| unsafe { value.cast::<T>().read() }.revoke(),
                // SAFETY: as above.
                drop: |value| unsafe { value.cast::<T>().drop_in_place() },
            }
        };
        let mut due = Self { kind, value: [MaybeUninit::uninit(); WORDS] };
        // SAFETY: it fits, as checked above.
        unsafe { due.place().cast::<T>().write(value) };
        due
    }

    fn place(&mut self) -> *mut () {
        self.value.as_mut_ptr().cast()
    }

    /// The value, if it is a `T`.
    pub(crate) fn take<T: Timed<P>>(self) -> Option<T> {
        if (self.kind.type_id)() != TypeId::of::<T>() {
            return None;
        }
        let mut due = ManuallyDrop::new(self);
        // SAFETY: it is a `T`, and not dropped here.
        Some(unsafe { due.place().cast::<T>().read() })
    }

    /// See [`Timed::is_for`].
    pub(super) fn is_for(&self, queue: u64) -> bool {
        // SAFETY: the value is initialized.
        unsafe { (self.kind.is_for)(self.value.as_ptr().cast(), queue) }
    }

    /// See [`Timed::revoke`].
    pub(super) fn revoke(self) {
        // It is not dropped here, whatever `revoke` does with it.
        let mut due = ManuallyDrop::new(self);
        let place = due.place();
        // SAFETY: this is the value's one use.
        unsafe { (due.kind.revoke)(place) };
    }

    pub(super) fn fire(self, owed: &Owed<P>) {
        // It is not dropped here, whatever `fire` does with it.
        let mut due = ManuallyDrop::new(self);
        let place = due.place();
        // SAFETY: this is the value's one use.
        unsafe { (due.kind.fire)(place, owed) };
    }
}

impl<P: Platform> Drop for Due<P> {
    fn drop(&mut self) {
        // SAFETY: the value is initialized, and not used after that.
        unsafe { (self.kind.drop)(self.place()) };
    }
}

/// Queue of user code that fired values leave to be called.
pub(crate) struct Owed<P: Platform> {
    pub(super) callbacks: Arc<Callbacks<P>>,
    pub(super) wake_own: WakeOwn,
}

/// Wakes a task of this crate without running user code. Returns the callback that is left to be called,
/// or the waker, if it belongs to another executor.
pub(crate) type WakeOwn = fn(Waker) -> Result<Option<Callback>, Waker>;

impl<P: Platform> Owed<P> {
    /// Wakes a future, on the timekeeper.
    pub(super) fn wake(&self, waker: Waker) {
        match (self.wake_own)(waker) {
            Ok(None) => {}
            Ok(Some(left)) => self.callbacks.add(left),
            Err(foreign) => self.callbacks.add(Callback::Wake(foreign)),
        }
    }
}
