//! Waits with a deadline.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any part of a test takes, even on a busy machine; only a failure takes this long.
pub const NEVER: Duration = Duration::from_secs(60);

/// Checks repeatedly until `holds` is true.
///
/// # Panics
/// Panics if it is not true after [`NEVER`]. `what` is the description of the condition in the message.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    let mut pause = Duration::from_micros(10);
    while !holds() {
        assert!(started.elapsed() < NEVER, "in vain: {what}");
        // Short at first, for waits for the next item; then long enough not to take CPU time from the workers.
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}

/// As [`wait_until`], but yields instead of sleeping: for threads that must stay runnable.
///
/// # Panics
/// Panics if `holds` is not true after [`NEVER`].
#[track_caller]
pub fn spin_until(holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < NEVER, "in vain");
        thread::yield_now();
    }
}

/// Runs `body` on a new thread, which has this thread's name.
///
/// # Panics
/// Panics if `body` panics, or if it has not finished after `limit`.
#[track_caller]
pub fn within<R: Send + 'static>(limit: Duration, body: impl FnOnce() -> R + Send + 'static) -> R {
    let (say, hear) = mpsc::channel();
    let name = thread::current().name().unwrap_or("within").to_owned();
    let thread = thread::Builder::new().name(name).spawn(move || drop(say.send(body())));
    let thread = thread.expect("a thread can be started");
    match hear.recv_timeout(limit) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("it hangs: not finished after {limit:?}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it has sent its value"),
        },
    }
}
