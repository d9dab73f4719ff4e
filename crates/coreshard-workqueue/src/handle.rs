//! The result of a submitted item.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::sync::Arc;

use coreshard_platform::Platform;
use coreshard_platform::user::{self, Thrown};

use crate::insight::Label;
use crate::latch::Latch;
use crate::pool::blocking;
use crate::queue::{Entry, Unclaimed};
use crate::trouble::say;

/// What an item threw.
pub struct Panic {
    thrown: Thrown,
}

impl Panic {
    /// What was thrown, for [`std::panic::resume_unwind`] or to be looked into.
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.thrown.into_payload()
    }

    /// The message, if what was thrown is a text.
    pub fn message(&self) -> &str {
        message_of(self.thrown.payload())
    }
}

/// What a wait for an item yields in a process that was forked from the item's: it never ends
/// there. [`Panic::into_payload`] holds it; [`join`](crate::join), `install` and `scope` throw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forked;

impl Forked {
    /// Throws it.
    #[cold]
    pub(crate) fn throw() -> ! {
        Thrown::new(Box::new(Self)).resume()
    }

    fn as_str(&self) -> &str {
        "this process was forked from the one that runs the item, which never ends here; submit it \
         in this process, to a queue that was made after the fork"
    }
}

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for Forked {}

pub(crate) fn message_of(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .or_else(|| payload.downcast_ref::<Forked>().map(Forked::as_str))
        .unwrap_or("(something that is not a text)")
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message()).finish()
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thrown.payload().downcast_ref::<Forked>() {
            Some(forked) => forked.fmt(f),
            None => write!(f, "the work item panicked: {}", self.message()),
        }
    }
}

impl std::error::Error for Panic {}

/// Looks at a result that is not there before its waiter sleeps.
const SPINS: u32 = 200;

/// Where the worker leaves the outcome. The worker writes it before the latch opens, the handle's
/// holder takes it after.
struct Outcome<P: Platform, T> {
    over: Latch<P>,
    value: UnsafeCell<Option<Result<T, Unclaimed<P>>>>,
}

// SAFETY: the value is written by one worker before the latch opens (release), and read by the one
// holder of the handle after it saw that (acquire).
unsafe impl<P: Platform, T: Send> Sync for Outcome<P, T> {}
// SAFETY: as above.
unsafe impl<P: Platform, T: Send> Send for Outcome<P, T> {}

impl<P: Platform, T> Drop for Outcome<P, T> {
    /// A result that nobody took. If its destructor panics, whoever drops the last reference is told: the
    /// handle's owner, or the worker, and so the queue's panic handler.
    fn drop(&mut self) {
        if let Some(Ok(value)) = self.value.get_mut().take()
            && let Err(thrown) = user::resume_unless_unwinding(user::discard(value))
        {
            let panic = message_of(thrown.payload());
            say(|| tracing::error!(panic, "a result panicked as it was dropped"));
        }
    }
}

/// The right to the result of an item. Dropping it lets the item run all the same; the queue's panic
/// handler is told then what the item throws, or has thrown.
#[must_use = "without its handle, an item's result is lost; `queue` needs none"]
pub struct JoinHandle<P: Platform, T> {
    outcome: Arc<Outcome<P, T>>,
}

impl<P: Platform, T> JoinHandle<P, T> {
    /// True once the item is over: then [`join`](Self::join) does not wait.
    pub fn is_finished(&self) -> bool {
        self.outcome.over.is_open()
    }

    /// Waits until the item is over. Inside an item, another worker takes this one's place
    /// meanwhile.
    ///
    /// # Errors
    /// What the item threw, if it panicked. [`Forked`], if it is an item of the process that this
    /// one was forked from: it never ends here.
    pub fn join(self) -> Result<T, Panic> {
        if !self.watch() && !blocking::<P, _>(|| self.outcome.over.wait()) {
            return Err(Panic { thrown: Thrown::new(Box::new(Forked)) });
        }
        // SAFETY: the latch was seen to be open, so the worker is done with the value; the handle is
        // consumed, so it is taken once.
        let value = unsafe { (*self.outcome.value.get()).take() };
        value
            .expect("an item that is over has left its outcome")
            .map_err(|unclaimed| Panic { thrown: unclaimed.claim() })
    }

    fn watch(&self) -> bool {
        (0..SPINS).any(|_| {
            P::spin_hint();
            self.is_finished()
        })
    }
}

impl<P: Platform, T> fmt::Debug for JoinHandle<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}

#[track_caller]
pub(crate) fn submit<P, F, T>(entry: Entry<'_, P>, work: F) -> JoinHandle<P, T>
where
    P: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let outcome = Arc::new(Outcome::<P, T> { over: Latch::new(), value: UnsafeCell::new(None) });
    let handle = JoinHandle { outcome: Arc::clone(&outcome) };
    entry.send_as(Label::item::<F>, move || {
        leave(outcome, user::call(work));
    });
    handle
}

/// Leaves the result for the handle. If nobody holds that any more, a panic goes on to the
/// queue's panic handler.
fn leave<P: Platform, T>(outcome: Arc<Outcome<P, T>>, result: Result<T, Thrown>) {
    let result = match result {
        // Inside the item, so that the worker hears what it throws as it goes.
        Ok(value) if Arc::strong_count(&outcome) == 1 => return drop(value),
        Err(thrown) if Arc::strong_count(&outcome) == 1 => thrown.resume(),
        result => result.map_err(Unclaimed::here),
    };
    // SAFETY: the latch is not open yet, so the handle's holder does not look at the value.
    unsafe { *outcome.value.get() = Some(result) };
    // SAFETY: this Arc keeps it.
    unsafe { Latch::open(&raw const outcome.over) };
}
