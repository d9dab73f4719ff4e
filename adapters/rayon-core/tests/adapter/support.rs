//! Shared by these tests. They use only the public interface, so that they can also be run with the published
//! rayon-core.
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;

use rayon_core::{ThreadPool, ThreadPoolBuilder};
use testing::NEVER;

/// A pool with this many threads.
pub(crate) fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool can be made")
}

/// The message of a panic in `call`.
#[track_caller]
pub(crate) fn thrown(call: impl FnOnce()) -> String {
    text(&*catch_unwind(AssertUnwindSafe(call)).expect_err("nothing was thrown"))
}

/// The message of a panic.
pub(crate) fn text(thrown: &(dyn Any + Send)) -> String {
    let short = thrown.downcast_ref::<&str>().map(|&text| text.to_owned());
    let long = || thrown.downcast_ref::<String>().cloned();
    short.or_else(long).expect("it was thrown with a text")
}

/// The next value.
#[track_caller]
pub(crate) fn next<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(NEVER).expect("something is sent")
}

/// All values until no sender is left.
#[track_caller]
pub(crate) fn all<T>(from: Receiver<T>) -> Vec<T> {
    let mut received = Vec::new();
    loop {
        match from.recv_timeout(NEVER) {
            Ok(value) => received.push(value),
            Err(RecvTimeoutError::Disconnected) => return received,
            Err(RecvTimeoutError::Timeout) => panic!("a sender is still alive"),
        }
    }
}

/// As [`all`], without the order.
#[track_caller]
pub(crate) fn all_sorted<T: Ord>(from: Receiver<T>) -> Vec<T> {
    let mut received = all(from);
    received.sort_unstable();
    received
}

/// Calls it on a thread of the global pool.
pub(crate) fn in_global_pool<R: Send>(call: impl FnOnce() -> R + Send) -> R {
    rayon_core::scope(|_| call())
}

/// Waits until a thread without work sleeps.
pub(crate) fn until_asleep() {
    thread::sleep(std::time::Duration::from_millis(300));
}

/// Numbers without an order that a sort could profit from, the same in each run.
pub(crate) fn numbers() -> impl Iterator<Item = u32> {
    let mut state = 0x2545_f491_u32;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    })
}

/// Moves the last element to its place in order, with all smaller ones before it. Returns that place.
pub(crate) fn partition<T: PartialOrd>(elements: &mut [T]) -> usize {
    let last = elements.len() - 1;
    let mut below = 0;
    for at in 0..last {
        if elements[at] <= elements[last] {
            elements.swap(below, at);
            below += 1;
        }
    }
    elements.swap(below, last);
    below
}
