//! How much a task may do in one poll before others have their turn.
//!
//! A thread has a count while it polls a task of ours. Futures of this crate that are ready take one off; when
//! nothing is left, the next one is not asked, but wakes its poller and is pending: so a loop over what is always
//! ready comes to its end, and the task goes behind whatever waits. What is not a task of ours has no count.
//!
//! | value | meaning |
//! |---|---|
//! | 0 | nothing is counted: no task, or one that did not listen |
//! | n > 0 | n results are left |
//! | −n < 0 | none is left; n futures more are told to wait |
//!
//! The last row has an end since a poller may be a `block_on` inside a task, which comes back at once, and for
//! ever: after [`MAX_REFUSALS`] the rest of the poll is free.

use std::ptr;
use std::task::{Context, Poll};

use coreshard_platform::{LocalKey, Platform};

/// Results of one poll.
const RESULTS: isize = 128;

/// Futures that are told to wait, before it is seen that the task does not listen.
const MAX_REFUSALS: isize = 128;

/// Calls `poll`, which does not unwind, as a task's: with a count of its own, whatever is left of that of a task
/// that this thread is inside of.
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

/// Whether a future may look for its result; pending where others are to have their turn first: its poller is
/// woken then.
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

/// A future that was let [`proceed`] has its result.
#[inline]
pub(crate) fn spend<P: Platform>() {
    match left::<P>() {
        1 => set::<P>(-MAX_REFUSALS),
        more if more > 1 => set::<P>(more - 1),
        _ => {}
    }
}

/// As `poll`, with what it costs.
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
