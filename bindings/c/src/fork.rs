//! Fork and join, loops, and blocking sections.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use coreshard::Blocking;

use crate::error::{Failure, guard, guard_done};
use crate::given::{Argument, function as given_function};
use crate::queue::CsWorkqueue;

/// A function, called with its argument.
pub type CsFunction = Option<unsafe extern "C" fn(argument: *mut c_void)>;
/// A function, called with a part of a range and its argument.
pub type CsRangeFunction =
    Option<unsafe extern "C" fn(begin: usize, end: usize, argument: *mut c_void)>;

/// Calls both functions, in parallel if another worker is free for the second one, and returns when both have finished.
/// On a thread that is not a worker, both run on a queue of the process.
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

/// Calls a function on one of the queue's workers, where `cs_join` finds helpers, and waits for it. Inside one of the
/// queue's works it is called at once. -EDEADLK if it could not start before the caller has finished.
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

/// Calls a function with parts that make up a range, on the queue's free workers, and waits for all.
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

/// Announces that the calling work will block on something other than a CPU: another worker takes its place until
/// `cs_blocking_end`. Calls come in pairs, on one thread. They have no effect on threads that are not workers.
#[unsafe(no_mangle)]
pub extern "C" fn cs_blocking_begin() -> c_int {
    guard_done(|| {
        let blocking = Blocking::begin();
        BLOCKING.with_borrow_mut(|begun| begun.push(blocking));
        Ok(())
    })
}

/// Ends the section. -EINVAL without `cs_blocking_begin` on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn cs_blocking_end() -> c_int {
    guard_done(|| {
        let blocking = BLOCKING.with_borrow_mut(Vec::pop).map(drop);
        blocking.ok_or_else(|| {
            Failure::invalid("cs_blocking_end without cs_blocking_begin on this thread")
        })
    })
}

/// Returns 1 inside a work that runs on its queue's rescuer (`CS_WQ_MEM_RECLAIM`), else 0.
#[unsafe(no_mangle)]
pub extern "C" fn cs_current_is_rescuer() -> c_int {
    guard(|| Ok(coreshard::current().is_some_and(|here| here.is_rescuer()).into()))
}
