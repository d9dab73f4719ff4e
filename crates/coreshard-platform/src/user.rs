//! Calls to users' code through a *net*: a `catch_unwind` that no panic passes.
//!
//! A user's closure, destructor, hook, waker, probe or executor may panic, and the panic's payload may panic
//! again when it is dropped. Other work depends on the threads that call such code. It is therefore called
//! only through [`call`], and a panic's payload arrives as a [`Thrown`], which may be dropped anywhere.
//!
//! Rules for callers:
//!
//! 1. Hold no lock: the code may do anything, including calls to this runtime.
//! 2. Leave no other thread waiting for later steps of the caller: count and send messages before the call,
//!    or in a guard.
//! 3. Drop a value of a user's type that is not handed on with [`discard`], not by leaving scope.
//! 4. Store code that is called later as a [`User`], which can be called and dropped only through the net.
//!    Wake a waker with [`wake`].
//! 5. A thread that many others depend on (a timekeeper, a monitor, a watchdog) neither calls nor drops user
//!    code: the net catches panics, not code that never returns.
//!
//! The process's panic hook is also user code, and the net does not cover it: it runs wherever a panic
//! starts. It must not panic, which would abort the process, nor wait for this runtime. A panic of a
//! `tracing` subscriber is caught if others depend on the thread; a subscriber must not wait for this runtime
//! either.

use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::task::Waker;

/// Calls user code, and returns its panic as an error.
///
/// The closure's captures are dropped inside the net as well.
#[inline]
pub fn call<T>(code: impl FnOnce() -> T) -> Result<T, Thrown> {
    panic::catch_unwind(AssertUnwindSafe(code)).map_err(Thrown::new)
}

/// Drops a value whose destructor may be user code, and returns its panic as an error.
#[inline]
pub fn discard<T>(value: T) -> Result<(), Thrown> {
    if std::mem::needs_drop::<T>() { call(|| drop(value)) } else { Ok(()) }
}

/// Calls a waker, which is code of its executor.
#[inline]
pub fn wake(waker: Waker) -> Result<(), Thrown> {
    call(|| waker.wake())
}

/// Resumes a panic in the caller of a destructor.
///
/// If this thread is already unwinding, so that a second panic would abort the process, returns the panic to
/// be reported otherwise.
#[inline]
pub fn resume_unless_unwinding(outcome: Result<(), Thrown>) -> Result<(), Thrown> {
    match outcome {
        Err(thrown) if !std::thread::panicking() => thrown.resume(),
        outcome => outcome,
    }
}

/// Stored user code: a closure, or a value with a user's destructor.
///
/// It is called only by [`User::call`] and its variants, and always dropped inside the net.
pub struct User<F: ?Sized> {
    code: ManuallyDrop<F>,
}

impl<F> User<F> {
    /// Stores user code.
    pub fn new(code: F) -> Self {
        Self { code: ManuallyDrop::new(code) }
    }

    /// Returns the code without its net, for callers that let its panics propagate.
    #[allow(unsafe_code)]
    #[inline]
    pub fn into_code(self) -> F {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is never used again, nor dropped.
        unsafe { ManuallyDrop::take(&mut this.code) }
    }

    /// Calls the code for the only time, through `with`.
    pub fn call_once<T>(self, with: impl FnOnce(F) -> T) -> Result<T, Thrown> {
        call(move || with(self.into_code()))
    }
}

impl<F: ?Sized> User<F> {
    /// Calls the code through `with`.
    #[inline]
    pub fn call<T>(&self, with: impl FnOnce(&F) -> T) -> Result<T, Thrown> {
        call(|| with(&self.code))
    }

    /// Like [`call`](Self::call), for code that changes its own state.
    #[inline]
    pub fn call_mut<T>(&mut self, with: impl FnOnce(&mut F) -> T) -> Result<T, Thrown> {
        call(|| with(&mut self.code))
    }
}

impl<F: ?Sized> Drop for User<F> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: dropped once: the field is not used after its owner's destructor.
        let dropped = call(|| unsafe { ManuallyDrop::drop(&mut self.code) });
        // The panic hook has reported it; there is no other place to report it.
        drop(dropped);
    }
}

impl<F: ?Sized> fmt::Debug for User<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User(..)")
    }
}

/// The payload of a panic in user code.
///
/// It may be dropped anywhere: its destructor also runs inside the net. A payload whose destructor panics is
/// leaked.
#[must_use = "a caught panic must be handed on, or reported and dropped"]
pub struct Thrown {
    payload: ManuallyDrop<Box<dyn Any + Send>>,
}

impl Thrown {
    /// Wraps the payload of a caught panic, or of one to be resumed.
    pub fn new(payload: Box<dyn Any + Send>) -> Self {
        Self { payload: ManuallyDrop::new(payload) }
    }

    /// Returns the payload in the form that [`std::panic::resume_unwind`] takes.
    #[allow(unsafe_code)]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is never used again, nor dropped.
        unsafe { ManuallyDrop::take(&mut this.payload) }
    }

    /// Returns a reference to the payload.
    pub fn payload(&self) -> &(dyn Any + Send) {
        &**self.payload
    }

    /// Resumes the panic in the caller.
    pub fn resume(self) -> ! {
        panic::resume_unwind(self.into_payload())
    }

    /// Returns the panic's message, if it is a string.
    pub fn message(&self) -> Option<&str> {
        let payload = self.payload();
        let text = payload.downcast_ref::<&str>().copied();
        text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
    }
}

impl From<Box<dyn Any + Send>> for Thrown {
    fn from(payload: Box<dyn Any + Send>) -> Self {
        Self::new(payload)
    }
}

impl Drop for Thrown {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: taken once: the field is not used after its owner's destructor.
        let payload = unsafe { ManuallyDrop::take(&mut self.payload) };
        if let Err(again) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
    }
}

impl fmt::Debug for Thrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Thrown").field(&self.message().unwrap_or("(not a text)")).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;

    /// Panics each time it is dropped.
    struct Bomb(Arc<AtomicU32>);

    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            panic!("a destructor's panic");
        }
    }

    #[test]
    fn what_is_thrown_comes_back_and_may_be_dropped() {
        let drops = Arc::new(AtomicU32::new(0));
        let bomb = Bomb(Arc::clone(&drops));
        let thrown = call(move || panic::panic_any(bomb)).unwrap_err();
        assert!(thrown.payload().is::<Bomb>() && thrown.message().is_none());
        drop(thrown);
        assert_eq!(drops.load(SeqCst), 1);
        let bomb = Bomb(Arc::clone(&drops));
        assert_eq!(discard(bomb).unwrap_err().message(), Some("a destructor's panic"));
        assert_eq!(drops.load(SeqCst), 2);
        assert_eq!(call(|| 5).unwrap(), 5);
    }

    #[test]
    fn what_is_kept_is_called_and_dropped_in_front_of_the_net() {
        let drops = Arc::new(AtomicU32::new(0));
        let bomb = Bomb(Arc::clone(&drops));
        let kept: Box<User<dyn FnMut(u32) -> u32 + Send>> = Box::new(User::new(move |number| {
            let _held = &bomb;
            assert_ne!(number, 7, "a call's panic");
            number
        }));
        let mut kept = kept;
        assert_eq!(kept.call_mut(|code| code(5)).unwrap(), 5);
        assert!(kept.call_mut(|code| code(7)).is_err());
        drop(kept);
        assert_eq!(drops.load(SeqCst), 1);
        let once = User::new(Bomb(Arc::clone(&drops)));
        assert!(once.call_once(drop).is_err());
        assert_eq!(drops.load(SeqCst), 2);
    }

    /// A destructor may call users' code while its thread unwinds.
    #[test]
    fn a_net_holds_while_the_thread_unwinds() {
        struct Calls(Arc<AtomicU32>);
        impl Drop for Calls {
            fn drop(&mut self) {
                drop(discard(Bomb(Arc::clone(&self.0))));
            }
        }
        let drops = Arc::new(AtomicU32::new(0));
        let calls = Calls(Arc::clone(&drops));
        let thrown = call(move || {
            let _calls = calls;
            panic!("the first")
        });
        assert_eq!(thrown.unwrap_err().message(), Some("the first"));
        assert_eq!(drops.load(SeqCst), 1);
    }

    #[test]
    fn a_panic_goes_on_whole() {
        let thrown = call(|| panic!("{}", 7)).unwrap_err();
        assert_eq!(call(|| thrown.resume()).map(|(): ()| ()).unwrap_err().message(), Some("7"));
    }
}
