//! Waits with a deadline.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything in a test takes, however busy the machine is; only a failure takes so long.
pub const NEVER: Duration = Duration::from_secs(60);

/// Looks again and again until `holds` is true.
///
/// # Panics
/// Where it is not after [`NEVER`]; `what` says in the message what was waited for.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    let mut pause = Duration::from_micros(10);
    while !holds() {
        assert!(started.elapsed() < NEVER, "in vain: {what}");
        // Short at first, for those who wait for the next item; then so long that it takes no CPU from them.
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}

/// As [`wait_until`], without a sleep: for those who are to be found running, and yield to others alone.
///
/// # Panics
/// Where `holds` is not true after [`NEVER`].
#[track_caller]
pub fn spin_until(holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < NEVER, "in vain");
        thread::yield_now();
    }
}

/// Runs `body` on a thread of its own, which has this thread's name.
///
/// # Panics
/// Where `body` does, or is not over after `limit`.
#[track_caller]
pub fn within<R: Send + 'static>(limit: Duration, body: impl FnOnce() -> R + Send + 'static) -> R {
    let (say, hear) = mpsc::channel();
    let name = thread::current().name().unwrap_or("within").to_owned();
    let thread = thread::Builder::new().name(name).spawn(move || drop(say.send(body())));
    let thread = thread.expect("a thread can be started");
    match hear.recv_timeout(limit) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("it hangs: not over after {limit:?}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it has sent its value"),
        },
    }
}
