//! Limits how much a task may do in one poll before other work gets a turn.
//!
//! A thread has a count while it polls a task of this crate. Futures of this crate that are ready decrement it. When
//! the count is used up, the next future is not polled: it wakes its poller and is pending. So a loop over futures that are
//! always ready ends, and the task goes behind other waiting work. Tasks of other executors have no count.
//!
//! | value | meaning |
//! |---|---|
//! | 0 | nothing is counted: no task, or one that did not yield |
//! | n > 0 | n results are left |
//! | −n < 0 | none is left; n futures more are made to wait |
//!
//! The last row is limited because a poller may be a `block_on` inside a task, which would poll again forever: after
//! [`MAX_REFUSALS`] the rest of the poll is unlimited.

use std::ptr;
use std::task::{Context, Poll};

use coreshard_platform::{LocalKey, Platform};

/// Results of one poll.
const RESULTS: isize = 128;

/// Futures that are made to wait until the task counts as one that does not yield.
const MAX_REFUSALS: isize = 128;

/// Calls `poll`, which does not unwind, with a fresh count. The count of an outer task on this thread is restored afterwards.
#[inline(always)]
pub(crate) fn with_budget<P: Platform, R>(poll: impl FnOnce() -> R) -> R {
    let outer = P::local(LocalKey::Budget);
    set::<P>(RESULTS);
    let polled = poll();
    P::set_local(LocalKey::Budget, outer);
    polled
}

#[inline(always)]
fn left<P: Platform>() -> isize {
    P::local(LocalKey::Budget).addr().cast_signed()
}

#[inline(always)]
fn set<P: Platform>(left: isize) {
    P::set_local(LocalKey::Budget, ptr::without_provenance_mut(left.cast_unsigned()));
}

/// Ready if a future may check for its result. Pending if other work must get a turn first; then its poller is
/// woken.
#[inline]
pub(crate) fn proceed<P: Platform>(context: &Context<'_>) -> Poll<()> {
    if left::<P>() >= 0 { Poll::Ready(()) } else { refuse::<P>(context) }
}

#[cold]
fn refuse<P: Platform>(context: &Context<'_>) -> Poll<()> {
    set::<P>(left::<P>() + 1);
    context.waker().wake_by_ref();
    Poll::Pending
}

/// Counts a result of a future that was let [`proceed`].
#[inline]
pub(crate) fn spend<P: Platform>() {
    match left::<P>() {
        1 => set::<P>(-MAX_REFUSALS),
        more if more > 1 => set::<P>(more - 1),
        _ => {}
    }
}

/// Calls `poll` and charges its result to the count.
#[inline]
pub(crate) fn spending<P: Platform, T>(
    context: &mut Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    if proceed::<P>(context).is_pending() {
        return Poll::Pending;
    }
    let polled = poll(context);
    if polled.is_ready() {
        spend::<P>();
    }
    polled
}
