//! Runs a closure on a worker on behalf of any thread.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use coreshard_platform::Platform;
use coreshard_platform::user::Thrown;

use super::deadlock::Wait;
use super::submitted;
use crate::base::error::Forked;
use crate::insight::Label;
use crate::pool::{Frame, Header, Job, execute, innermost, inside_forker, wait_for_workers};
use crate::queue::link::SubmitPermit;

/// How often a waiter polls a pending result before it sleeps.
const LOOKS: u32 = 200;

/// A job on its way to a worker.
struct Sent<P: Platform>(NonNull<Header<P>>);

// SAFETY: the creator of the job waits until it is done, and its closure and result are `Send`.
unsafe impl<P: Platform> Send for Sent<P> {}

impl<P: Platform> Sent<P> {
    fn execute(self) {
        // SAFETY: `install` sends a job once, and keeps it until it is done.
        unsafe { execute(self.0) };
    }
}

/// The items that the caller of `install` is inside of.
struct Caller<P: Platform>(*const Frame<P>);

// SAFETY: the caller waits for the item, and leaves none of the frames before it has finished.
unsafe impl<P: Platform> Send for Caller<P> {}

impl<P: Platform> Caller<P> {
    fn call<R>(self, work: impl FnOnce() -> R) -> R {
        inside_forker(self.0, work)
    }
}

/// Runs `work` like [`install`], on a worker that may run the item itself if no other worker has begun it. Makes one
/// allocation: the item's place stays in the queue after this has returned, so it must point to valid memory.
#[track_caller]
pub(crate) fn install_helping<P, F, R>(entry: SubmitPermit<'_, P>, work: F) -> R
where
    P: Platform,
    F: FnOnce() -> R + Send,
    R: Send,
{
    let caller = Caller(innermost::<P>());
    let item = submitted::send(entry, move || caller.call(work));
    match submitted::wait_for(&*item, Wait::Help) {
        Some(Ok(value)) => value,
        Some(Err(thrown)) => thrown.resume(),
        // The process was forked since: the item's worker is in the other process.
        None => Forked::throw(),
    }
}

/// Sends `work` as the item that was counted in, calls `then`, and waits for the result.
#[track_caller]
pub(crate) fn install<P, F, R>(entry: SubmitPermit<'_, P>, work: F, then: impl FnOnce()) -> R
where
    P: Platform,
    F: FnOnce() -> R + Send,
    R: Send,
{
    let job = Job::<P, _, _>::new(|_| work(), innermost::<P>());
    let sent = Sent(job.header());
    entry.send_as(Label::item::<F>, move || sent.execute());
    then();
    let done = job.done();
    let seen = P::watch(LOOKS, || done.is_open());
    if !seen && !wait_for_workers(done) {
        // The process was forked since: the job's worker is in the other process.
        Forked::throw();
    }
    // SAFETY: executed, the latch was seen to be open, and this is the only reader.
    unsafe { job.take_result() }.unwrap_or_else(|thrown: Thrown| thrown.resume())
}
