//! A future that completes at a deadline.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coreshard_platform::user;
use coreshard_platform::{Host, Platform, Time};

use super::due::{Due, Owed, Timed};
use super::heap::Key;
use super::keeper::{FORKED, TimerError, Timers};
use crate::base::budget;
use crate::insight::diagnostic::say_panic;

/// A future that completes at its deadline; see [`Runtime::sleep`](crate::Runtime::sleep). It works under any
/// executor. Dropping it removes it from the timers.
#[must_use = "a future does nothing until it is awaited"]
pub struct Sleep<P: Platform = Host> {
    timers: Arc<Timers<P>>,
    deadline: Time,
    waiting: Option<(Key, Waker)>,
}

/// The waker of a future to be polled.
struct Sleeper(Waker);

impl<P: Platform> Timed<P> for Sleeper {
    fn fire(self, owed: &Owed<P>) {
        owed.wake(self.0);
    }
}

/// An error of starting a sleep.
pub struct SleepError {
    kind: TimerError,
}

impl SleepError {
    /// True if the sleep would end after the platform's clock does.
    pub fn is_beyond_clock(&self) -> bool {
        matches!(self.kind, TimerError::BeyondClock { .. })
    }
}

impl fmt::Display for SleepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

coreshard_topology::readable_debug!(SleepError);

impl std::error::Error for SleepError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}

pub(crate) fn sleep<P: Platform>(
    timers: &Arc<Timers<P>>,
    duration: Duration,
) -> Result<Sleep<P>, SleepError> {
    let deadline = timers.kept_deadline(duration).map_err(|kind| SleepError { kind })?;
    Ok(Sleep { timers: Arc::clone(timers), deadline, waiting: None })
}

/// As [`sleep`], for callers that cannot handle an error. If the clock ends before, it never completes; without a
/// timekeeper its polls keep trying to start one; and in a forked process they panic.
#[cfg(feature = "hyper")]
pub(crate) fn sleep_clamped<P: Platform>(timers: &Arc<Timers<P>>, duration: Duration) -> Sleep<P> {
    let deadline = clamped_deadline::<P>(duration);
    Sleep { timers: Arc::clone(timers), deadline, waiting: None }
}

#[cfg(feature = "hyper")]
fn clamped_deadline<P: Platform>(duration: Duration) -> Time {
    Timers::<P>::deadline(duration).unwrap_or(Time::from_ns(u64::MAX))
}

impl<P: Platform> Sleep<P> {
    /// Removes it from the timers. A waker's destructor may panic while the owner unwinds.
    fn leave(&mut self) {
        if let Some((key, waker)) = self.waiting.take() {
            if self.timers.is_forked() {
                // The entry's place is in the other process, and so may be the waker's task.
                std::mem::forget(waker);
                return;
            }
            for dropped in [user::discard(self.timers.remove(key)), user::discard(waker)] {
                say_panic(dropped, "a waker panicked as it was dropped");
            }
        }
    }
}

impl<P: Platform> Sleep<P> {
    /// Sets the deadline to `duration` from now, whether it has completed before or not. A task that awaits it then waits for
    /// the new deadline.
    ///
    /// # Errors
    /// If the clock ends before the new deadline; the old deadline is kept.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// # use futures_lite::future::block_on;
    ///
    /// let mut sleep = coreshard::runtime()?.sleep(Duration::from_secs(3600))?;
    /// sleep.reset(Duration::from_millis(1))?;
    /// block_on(&mut sleep);
    /// sleep.reset(Duration::from_millis(1))?; // once more, without an allocation
    /// block_on(sleep);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&mut self, duration: Duration) -> Result<(), SleepError> {
        self.end_at(Timers::<P>::deadline(duration).map_err(|kind| SleepError { kind })?);
        Ok(())
    }

    /// As [`reset`](Self::reset), without an end if the clock ends before.
    #[cfg(feature = "hyper")]
    pub(crate) fn reset_clamped(&mut self, duration: Duration) {
        self.end_at(clamped_deadline::<P>(duration));
    }

    /// True if it belongs to `timers`.
    #[cfg(feature = "hyper")]
    pub(crate) fn is_of(&self, timers: &Arc<Timers<P>>) -> bool {
        Arc::ptr_eq(&self.timers, timers)
    }

    fn end_at(&mut self, deadline: Time) {
        self.deadline = deadline;
        // The waker registered for the old deadline is woken at the new one.
        let Some((_, waker)) = &self.waiting else { return };
        let waker = waker.clone();
        self.leave();
        if !self.timers.is_forked() {
            self.wait(waker);
        }
    }

    fn wait(&mut self, waker: Waker) {
        match self.timers.add(self.deadline, Due::new(Sleeper(waker.clone()))) {
            Ok(key) => self.waiting = Some((key, waker)),
            // All 2³² − 1 places are in use, or the timekeeper has no thread: the sleep retries until it succeeds.
            Err((_, due)) => {
                drop(due);
                drop(user::wake(waker));
            }
        }
    }

    /// As a poll, without charging the task's budget: for a time limit that is polled after the limited future, which may have
    /// used up the budget each time.
    pub(super) fn poll_unbudgeted(&mut self, context: &Context<'_>) -> Poll<()> {
        if P::now() >= self.deadline {
            self.leave();
            return Poll::Ready(());
        }
        assert!(!self.timers.is_forked(), "{FORKED}");
        if self.waiting.as_ref().is_some_and(|(_, waker)| waker.will_wake(context.waker())) {
            return Poll::Pending;
        }
        self.leave();
        self.wait(context.waker().clone());
        Poll::Pending
    }
}

impl<P: Platform> Future for Sleep<P> {
    type Output = ();

    /// # Panics
    /// In a process that was forked since it was made, unless its deadline has passed: no timekeeper would complete it.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        budget::spending::<P, _>(context, |context| self.poll_unbudgeted(context))
    }
}

impl<P: Platform> Drop for Sleep<P> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<P: Platform> fmt::Debug for Sleep<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
