//! Users' code, called in front of a *net*: a `catch_unwind` that it cannot get past.
//!
//! A closure, a destructor, a hook, a waker, a probe or an executor of a user's may panic, and the payload
//! of its panic may panic again as it is dropped. Others depend on the threads that call such code. So it
//! is called by [`call`] alone, and a panic's payload arrives as a [`Thrown`], which may be dropped
//! anywhere.
//!
//! Rules for callers:
//!
//! 1. No lock is held: the code may do anything, with this runtime too.
//! 2. Nobody waits for what the caller still has to do: it counts and sends messages before the call, or in
//!    a guard.
//! 3. A value of a user's type that is not handed on is dropped by [`discard`], not by leaving scope.
//! 4. What is kept to be called later is kept as a [`User`], which can be neither called nor dropped but
//!    through the net. A waker is woken by [`wake`].
//! 5. A thread that many depend on (a timekeeper, a monitor, a watchdog) calls and drops nothing of a
//!    user's at all: the net catches what panics, not what never returns.
//!
//! The process's panic hook is a user's too, and is out of reach: it runs wherever something panics. It may
//! neither panic, which ends the process, nor wait for this runtime. A `tracing` subscriber that panics
//! is caught if others depend on the thread; it may not wait for this runtime, either.

use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::task::Waker;

/// Calls a user's code; what it throws comes back as an error.
///
/// The closure's captures are dropped inside as well.
#[inline]
pub fn call<T>(code: impl FnOnce() -> T) -> Result<T, Thrown> {
    panic::catch_unwind(AssertUnwindSafe(code)).map_err(Thrown::new)
}

/// Drops a value whose destructor may be a user's; what that throws comes back as an error.
#[inline]
pub fn discard<T>(value: T) -> Result<(), Thrown> {
    if std::mem::needs_drop::<T>() { call(|| drop(value)) } else { Ok(()) }
}

/// Wakes somebody: a waker is its executor's code.
#[inline]
pub fn wake(waker: Waker) -> Result<(), Thrown> {
    call(|| waker.wake())
}

/// Hands a panic on to the caller of a destructor: goes on with it, or, if this thread unwinds
/// already and one more would end the process, gives it back to be told of elsewhere.
#[inline]
pub fn resume_unless_unwinding(outcome: Result<(), Thrown>) -> Result<(), Thrown> {
    match outcome {
        Err(thrown) if !std::thread::panicking() => thrown.resume(),
        outcome => outcome,
    }
}

/// A user's code that is kept: a closure, or anything with a destructor of the user's.
///
/// It is called by [`User::call`] alone, and dropped in front of the net, wherever its holder is dropped.
pub struct User<F: ?Sized> {
    code: ManuallyDrop<F>,
}

impl<F> User<F> {
    /// Keeps a user's code.
    pub fn new(code: F) -> Self {
        Self { code: ManuallyDrop::new(code) }
    }

    /// Gives it up to be called if what it throws goes on to the caller by itself.
    #[allow(unsafe_code)]
    #[inline]
    pub fn into_code(self) -> F {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is never used again, nor dropped.
        unsafe { ManuallyDrop::take(&mut this.code) }
    }

    /// Calls it for the only time.
    pub fn call_once<T>(self, with: impl FnOnce(F) -> T) -> Result<T, Thrown> {
        call(move || with(self.into_code()))
    }
}

impl<F: ?Sized> User<F> {
    /// Calls it, by `with`.
    #[inline]
    pub fn call<T>(&self, with: impl FnOnce(&F) -> T) -> Result<T, Thrown> {
        call(|| with(&self.code))
    }

    /// As [`call`](Self::call), for code that changes what it holds.
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
        // It was told by the panic hook; there is no one else to tell.
        drop(dropped);
    }
}

impl<F: ?Sized> fmt::Debug for User<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User(..)")
    }
}

/// The payload of a panic in a user's code.
///
/// Dropping it is safe anywhere: its destructor is called in front of the net as well, and what that
/// throws, if it throws, is kept for good.
#[must_use = "whoever catches a panic hands it on, or reports it and drops it"]
pub struct Thrown {
    payload: ManuallyDrop<Box<dyn Any + Send>>,
}

impl Thrown {
    /// Of what was caught, or is to be thrown.
    pub fn new(payload: Box<dyn Any + Send>) -> Self {
        Self { payload: ManuallyDrop::new(payload) }
    }

    /// Returns the payload, as [`std::panic::resume_unwind`] takes it.
    #[allow(unsafe_code)]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is never used again, nor dropped.
        unsafe { ManuallyDrop::take(&mut this.payload) }
    }

    /// The payload.
    pub fn payload(&self) -> &(dyn Any + Send) {
        &**self.payload
    }

    /// Goes on with the panic in the caller.
    pub fn resume(self) -> ! {
        panic::resume_unwind(self.into_payload())
    }

    /// The panic's message, if it is a text.
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

    /// Panics each time that one is dropped.
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
