//! Runs two closures in parallel, if a worker has time for the second.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ptr;

use coreshard_platform::Platform;
use coreshard_platform::user::{self, User};

use crate::base::error::Forked;
use crate::pool::{CurrentWorker, Job, JobId, Popped, Pushed, report_here};

/// Runs `a` and `b` and returns both results.
///
/// On a worker of a workqueue, `b` is offered to other workers: first in the worker's own pod, then in the pods that share its
/// last-level cache, then in the pods on its node, and finally to all workers of the queue. Jobs of a strict queue stay in its
/// pod. If `b` was not stolen when `a` returns, this worker runs it. That costs a few nanoseconds more than two calls, and
/// allocates nothing. If it was stolen, this worker runs only subtasks of `b` until it has finished, so you may hold locks
/// across the call.
///
/// On any other thread, `a` and `b` run one after the other on that thread.
/// [`Workqueue::install`](crate::Workqueue::install) moves to a worker.
///
/// # Panics
/// If `a` panics, else if `b` does, with that panic, after both have ended. If `a` panics and `b` was not stolen, `b` is
/// dropped and not run. A further panic (of `b`, or of a destructor of it) goes to the panic handler of the queue whose worker
/// calls. With [`Forked`](crate::Forked) in a process that `a` forked and returns in, if another worker has stolen `b`.
///
/// # Examples
/// ```
/// # use coreshard_platform::Host;
/// fn fib(n: u32) -> u64 {
///     if n < 2 {
///         return n.into();
///     }
///     let (a, b) = coreshard_workqueue::join::<Host, _, _>(|| fib(n - 1), || fib(n - 2));
///     a + b
/// }
/// assert_eq!(fib(12), 144);
/// ```
#[inline(always)]
pub fn join<P: Platform, A, B>(a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B)
where
    B: Send,
{
    join_in::<P, _, _, false>(None, a, |_stolen| b())
}

/// The loop that a join belongs to.
#[derive(Clone, Copy)]
pub(crate) struct LoopPiece {
    /// Until the result is available, this worker runs any pieces of the loop with this id.
    pub(crate) name: JobId,
    /// Whether the offered job is worth another wake-up, even if other workers are on their way.
    pub(crate) is_worth_another: bool,
}

/// As [`join`]; the argument of `b` is true if another worker runs it. If `a` panics and `b` was not stolen, `RUNS_BOTH`
/// selects whether it is run or dropped.
#[inline(always)]
pub(crate) fn join_in<P: Platform, A, B, const RUNS_BOTH: bool>(
    in_loop: Option<LoopPiece>,
    a: impl FnOnce() -> A,
    b: impl FnOnce(bool) -> B + Send,
) -> (A, B)
where
    B: Send,
{
    let Some(worker) = CurrentWorker::<P>::here() else {
        return one_by_one::<_, _, RUNS_BOTH>(a, apart(b));
    };
    let job = Job::new(b, worker.frame());
    let pushed = match in_loop {
        // A loop is cut into long pieces alone.
        Some(_) => worker.push_shared(job.header()),
        None => worker.push(job.header()),
    };
    match pushed {
        Pushed::Private => {}
        Pushed::Shared => match in_loop {
            Some(LoopPiece { is_worth_another: true, .. }) => worker.call_more_thieves(1),
            _ => worker.call_thieves(),
        },
        Pushed::Full => {
            // SAFETY: it was not pushed.
            return one_by_one::<_, _, RUNS_BOTH>(a, apart(unsafe { job.take_work() }));
        }
    }
    let unwinding = Unwinding::<_, _, _, RUNS_BOTH> { worker, job: &job };
    let first = a();
    std::mem::forget(unwinding);
    let second = match worker.pop() {
        Popped::Own => {
            // SAFETY: it was popped: no thief has it, or will get it.
            let work = unsafe { job.take_work() };
            work(false)
        }
        Popped::Stolen => {
            let is_over = match in_loop {
                None => worker.wait_for(job.done()),
                Some(LoopPiece { name, .. }) => worker.wait_in(job.done(), name),
            };
            if !is_over {
                Forked::throw();
            }
            // SAFETY: stolen, executed, and the latch was seen to be open.
            unsafe { job.take_result() }.unwrap_or_else(|thrown| thrown.resume())
        }
    };
    (first, second)
}

/// Copies a value that is passed to out-of-line code.
///
/// A closure whose address is given away is in memory from the start, and is copied from there into the job: sixteen
/// bytes in one load, just after they were written as two words. That load waits until both stores have left the processor's
/// store buffer, which took half of the time of a fork.
#[inline(always)]
pub(crate) fn apart<T>(value: T) -> T {
    let value = ManuallyDrop::new(value);
    // SAFETY: the original is not used again.
    unsafe { ptr::read(&raw const *value) }
}

/// If `a` panics, `b` is dropped under `catch_unwind`: a second panic would abort the process.
#[cold]
#[inline(never)]
fn one_by_one<A, B, const RUNS_BOTH: bool>(
    a: impl FnOnce() -> A,
    b: impl FnOnce(bool) -> B,
) -> (A, B) {
    if RUNS_BOTH {
        let first = user::call(a);
        let second = user::call(|| b(false));
        return match (first, second) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(thrown), second) => {
                drop(second.map(user::discard));
                thrown.resume()
            }
            (Ok(first), Err(thrown)) => {
                drop(user::discard(first));
                thrown.resume()
            }
        };
    }
    let b = User::new(b);
    let first = a();
    (first, b.into_code()(false))
}

/// Dropped when `a` panics: no thread may have the job when its frame is left.
struct Unwinding<'frame, P: Platform, F: FnOnce(bool) -> R, R, const RUNS_BOTH: bool> {
    worker: CurrentWorker<'frame, P>,
    job: &'frame Job<P, F, R>,
}

impl<P: Platform, F: FnOnce(bool) -> R, R, const RUNS_BOTH: bool> Drop
    for Unwinding<'_, P, F, R, RUNS_BOTH>
{
    /// Inlined, so that the guard needs no memory if nothing panics.
    #[inline(always)]
    fn drop(&mut self) {
        abandon::<_, _, _, RUNS_BOTH>(self.worker, self.job);
    }
}

#[cold]
#[inline(never)]
fn abandon<P: Platform, F: FnOnce(bool) -> R, R, const RUNS_BOTH: bool>(
    worker: CurrentWorker<'_, P>,
    job: &Job<P, F, R>,
) {
    let over = match worker.pop() {
        Popped::Own if RUNS_BOTH => {
            // SAFETY: it was popped, and is run once.
            let work = unsafe { job.take_work() };
            user::call(|| work(false)).and_then(user::discard)
        }
        // SAFETY: it was popped, and is not run.
        Popped::Own => user::discard(unsafe { job.take_work() }),
        Popped::Stolen if worker.wait_for(job.done()) => {
            // SAFETY: stolen, executed, and the latch was seen to be open.
            unsafe { job.take_result() }.and_then(user::discard)
        }
        // The thief is in another process, and no thread here has the job.
        Popped::Stolen => Ok(()),
    };
    // The caller gets the panic of `a`.
    if let Err(thrown) = over {
        report_here::<P>(thrown);
    }
}
