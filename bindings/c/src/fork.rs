//! Fork and join, loops, and waits that let others go on.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use coreshard::Blocking;

use crate::error::{Failure, guard, guard_done};
use crate::given::{Argument, function as given_function};
use crate::queue::CsWorkqueue;

/// Called with what was given beside it.
pub type CsFunction = Option<unsafe extern "C" fn(argument: *mut c_void)>;
/// Called with a part of a range, and with what was given beside it.
pub type CsRangeFunction =
    Option<unsafe extern "C" fn(begin: usize, end: usize, argument: *mut c_void)>;

/// Calls both functions, at once where another worker has time for the second one, and comes back when both are over.
/// On a thread that is no worker, both go to a queue of the process's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_join(
    first: CsFunction,
    first_argument: *mut c_void,
    second: CsFunction,
    second_argument: *mut c_void,
) -> c_int {
    guard_done(|| {
        let (first, second) = given_function(first.zip(second))?;
        let (one, other) = (Argument(first_argument), Argument(second_argument));
        // SAFETY: by the header's contract.
        coreshard::join(|| unsafe { first(one.get()) }, || unsafe { second(other.get()) });
        Ok(())
    })
}

/// Calls a function on one of the queue's workers, and waits for it: there `cs_join` finds others to help. Inside one of the
/// queue's works it is called at once. -EDEADLK where it could not begin before the caller is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_call_on(
    queue: *mut CsWorkqueue,
    function: CsFunction,
    argument: *mut c_void,
) -> c_int {
    guard_done(|| {
        let function = given_function(function)?;
        let argument = Argument(argument);
        // SAFETY: by the header's contract.
        Ok(CsWorkqueue::of(queue)?.queue.install(|| unsafe { function(argument.get()) })?)
    })
}

/// Calls a function with parts of a range that together are the whole, on as many of the queue's workers as find time, and
/// waits for all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_for_range(
    queue: *mut CsWorkqueue,
    begin: usize,
    end: usize,
    function: CsRangeFunction,
    argument: *mut c_void,
) -> c_int {
    guard_done(|| {
        let function = given_function(function)?;
        let argument = Argument(argument);
        if begin >= end {
            return Ok(());
        }
        Ok(CsWorkqueue::of(queue)?.queue.for_each_range(begin..end, |part| {
            // SAFETY: by the header's contract.
            unsafe { function(part.start, part.end, argument.get()) };
        })?)
    })
}

thread_local! {
    static BLOCKING: RefCell<Vec<Blocking>> = const { RefCell::new(Vec::new()) };
}

/// Says that the calling work is about to wait for something else than a CPU: another worker takes its place until
/// `cs_blocking_end`. The two are called in pairs, on one thread; on a thread that is no worker they do nothing.
#[unsafe(no_mangle)]
pub extern "C" fn cs_blocking_begin() -> c_int {
    guard_done(|| {
        let blocking = Blocking::begin();
        BLOCKING.with_borrow_mut(|begun| begun.push(blocking));
        Ok(())
    })
}

/// The wait is over. -EINVAL without a `cs_blocking_begin` on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn cs_blocking_end() -> c_int {
    guard_done(|| {
        let blocking = BLOCKING.with_borrow_mut(Vec::pop).map(drop);
        blocking.ok_or_else(|| {
            Failure::invalid("cs_blocking_end without cs_blocking_begin on this thread")
        })
    })
}

/// 1 inside a work that runs on its queue's worker in reserve (`CS_WQ_MEM_RECLAIM`), else 0.
#[unsafe(no_mangle)]
pub extern "C" fn cs_current_is_rescuer() -> c_int {
    guard(|| Ok(coreshard::current().is_some_and(|here| here.is_rescuer()).into()))
}
