//! A future that ends when its time has come.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Platform, SpawnError, Time};

use super::due::{Due, Timed};
use super::heap::Key;
use super::keeper::{TimerError, Timers};
use super::owed::Owed;
use crate::insight::trouble::say;

/// Ends when its time has come; see [`Runtime::sleep`](crate::Runtime::sleep). It wakes under any
/// executor. Dropping it takes it out of the timers.
#[must_use = "a future does nothing until it is awaited"]
pub struct Sleep<P: Platform> {
    timers: Arc<Timers<P>>,
    deadline: Time,
    waiting: Option<(Key, Waker)>,
}

/// A future that is to be polled.
struct Sleeper(Waker);

impl<P: Platform> Timed<P> for Sleeper {
    fn fire(self, owed: &Owed<P>) {
        owed.wake(self.0);
    }
}

const FORKED: &str = "this process was forked from the one whose timekeeper would end the sleep; sleep \
    on a runtime that was made in this process";

/// Why a future cannot sleep.
#[derive(Debug)]
pub struct SleepError {
    kind: SleepErrorKind,
}

#[derive(Debug)]
enum SleepErrorKind {
    BeyondClock { duration: Duration, longest: Duration },
    Keeper(SpawnError),
    Forked,
}

impl SleepError {
    pub(super) fn is_beyond_clock(&self) -> bool {
        matches!(self.kind, SleepErrorKind::BeyondClock { .. })
    }
}

impl fmt::Display for SleepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SleepErrorKind::BeyondClock { duration, longest } => write!(
                f,
                "a sleep of {duration:?} ends after the platform's clock does; at most \
                 {longest:?} are possible now"
            ),
            SleepErrorKind::Forked => f.write_str(FORKED),
            SleepErrorKind::Keeper(error) => write!(
                f,
                "sleeping needs a timekeeper, and {error}; free some threads, or raise the limit"
            ),
        }
    }
}

impl std::error::Error for SleepError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            SleepErrorKind::BeyondClock { .. } | SleepErrorKind::Forked => None,
            SleepErrorKind::Keeper(error) => Some(error),
        }
    }
}

pub(crate) fn sleep<P: Platform>(
    timers: &Arc<Timers<P>>,
    duration: Duration,
) -> Result<Sleep<P>, SleepError> {
    let deadline = Timers::<P>::deadline(duration).map_err(|longest| SleepError {
        kind: SleepErrorKind::BeyondClock { duration, longest },
    })?;
    if timers.is_forked() {
        return Err(SleepError { kind: SleepErrorKind::Forked });
    }
    timers.start_keeper().map_err(|error| SleepError { kind: SleepErrorKind::Keeper(error) })?;
    Ok(Sleep { timers: Arc::clone(timers), deadline, waiting: None })
}

impl<P: Platform> Sleep<P> {
    /// Takes it out of the timers. A waker that panics as it is dropped may do so while its owner unwinds.
    fn leave(&mut self) {
        if let Some((key, waker)) = self.waiting.take() {
            if self.timers.is_forked() {
                // The entry's place is in the other process; so may be what the waker wakes.
                std::mem::forget(waker);
                return;
            }
            let dropped = [user::discard(self.timers.remove(key)), user::discard(waker)];
            dropped.into_iter().filter_map(Result::err).for_each(|thrown: Thrown| {
                let panic = thrown.message().unwrap_or_default();
                say(|| tracing::error!(panic, "a waker panicked as it was dropped"));
            });
        }
    }
}

impl<P: Platform> Future for Sleep<P> {
    type Output = ();

    /// # Panics
    /// In a process that was forked since it was made, unless its time has come: nobody would end it.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if P::now() >= self.deadline {
            self.leave();
            return Poll::Ready(());
        }
        assert!(!self.timers.is_forked(), "{FORKED}");
        if self.waiting.as_ref().is_some_and(|(_, waker)| waker.will_wake(context.waker())) {
            return Poll::Pending;
        }
        self.leave();
        let waker = context.waker().clone();
        match self.timers.add(self.deadline, Due::new(Sleeper(waker.clone()))) {
            Ok(key) => self.waiting = Some((key, waker)),
            // All 2³² − 1 places are taken (the timekeeper runs): it asks again until one is free.
            Err((TimerError::Full | TimerError::Keeper(_), due)) => {
                drop(due);
                drop(user::wake(waker));
            }
        }
        Poll::Pending
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
