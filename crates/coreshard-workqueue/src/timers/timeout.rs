//! A future with a time limit.
#![allow(unsafe_code)]

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use coreshard_platform::{Host, Platform};

use super::keeper::Timers;
use super::sleep::{Sleep, SleepError, sleep};

/// A future with a time limit; see [`Runtime::timeout`](crate::Runtime::timeout). Dropping it drops the future.
#[must_use = "a future does nothing until it is awaited"]
pub struct Timeout<F, P: Platform = Host> {
    future: F,
    /// `None` if the clock ends before the limit.
    limit: Option<Sleep<P>>,
    after: Duration,
}

/// The time limit expired before the future completed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Elapsed {
    after: Duration,
}

impl Elapsed {
    /// The time limit.
    pub fn after(&self) -> Duration {
        self.after
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the future was given {:?}, and had not ended by then", self.after)
    }
}

coreshard_topology::readable_debug!(Elapsed);

impl std::error::Error for Elapsed {}

pub(crate) fn timeout<P: Platform, F>(
    timers: &Arc<Timers<P>>,
    after: Duration,
    future: F,
) -> Result<Timeout<F, P>, SleepError> {
    let limit = match sleep(timers, after) {
        Ok(limit) => Some(limit),
        Err(error) if error.is_beyond_clock() => None,
        Err(error) => return Err(error),
    };
    Ok(Timeout { future, limit, after })
}

impl<P: Platform, F: Future> Future for Timeout<F, P> {
    type Output = Result<F::Output, Elapsed>;

    /// Polls the future first: one that completes at the time limit counts as completed.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the future is not moved from here on: only a pinned reference to it is handed out. The sleep may be moved at
        // any time, and this type does not implement `Drop`.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        if let Poll::Ready(value) = unsafe { Pin::new_unchecked(&mut this.future) }.poll(context) {
            return Poll::Ready(Ok(value));
        }
        let Some(limit) = &mut this.limit else { return Poll::Pending };
        limit.poll_unbudgeted(context).map(|()| Err(Elapsed { after: this.after }))
    }
}

impl<P: Platform, F> fmt::Debug for Timeout<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("after", &self.after).finish_non_exhaustive()
    }
}
