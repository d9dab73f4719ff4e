//! Waits on a word: without Python's lock, and woken by signals, whose handlers run here.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::futex;
use crate::process::lock;

/// The end of a wait; `None` where it is for ever.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) const NEVER: Self = Self(None);

    /// From a time-out as Python's `timeout=` has it: seconds, or `None`.
    pub(crate) fn of(timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(timeout) = timeout.filter(|timeout| !timeout.is_none()) else {
            return Ok(Self::NEVER);
        };
        let seconds: f64 = timeout.extract().map_err(|_| {
            PyTypeError::new_err(format!("timeout is a number of seconds or None, not {timeout:?}"))
        })?;
        if seconds.is_nan() {
            return Err(PyValueError::new_err("timeout is not a number"));
        }
        // What no clock can hold is a wait for ever.
        let duration = Duration::try_from_secs_f64(seconds.max(0.0)).ok();
        Ok(Self(duration.and_then(|duration| Instant::now().checked_add(duration))))
    }

    pub(crate) fn is_never(self) -> bool {
        self.0.is_none()
    }

    /// A while, not beyond the end, between two looks at signals; `None` where the time is over.
    pub(crate) fn step(self) -> Option<Duration> {
        const STEP: Duration = Duration::from_millis(100);
        self.left().map(|left| left.map_or(STEP, |left| left.min(STEP)))
    }

    /// What is left: `Some(None)` without an end, `None` where the time is over.
    fn left(self) -> Option<Option<Duration>> {
        match self.0 {
            None => Some(None),
            Some(end) => {
                end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).map(Some)
            }
        }
    }
}

/// A time, from a number of seconds.
pub(crate) fn seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        let message = format!(
            "{name}={seconds}: it is a number of seconds, at least 0, that a clock can count"
        );
        PyValueError::new_err(message)
    })
}

/// Calls `work` without Python's lock. Where the interpreter ends meanwhile, this does not come back: up to CPython 3.13 a thread that
/// then asks for the lock is ended by `pthread_exit`, which unwinds its stack, and Rust, and so the process, aborts where that is
/// caught. Such a thread sleeps instead, as 3.14 has it. So does one in whose call of Python's that happens.
pub(crate) fn without_lock<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
    or_never(|| py.detach(work))
}

/// Calls `inside`; where its thread is ended in there by `pthread_exit`, it sleeps instead, until the process has ended.
pub(crate) fn or_never<R>(inside: impl FnOnce() -> R) -> R {
    struct Never;
    impl Drop for Never {
        fn drop(&mut self) {
            // A panic is another matter, and goes on.
            while !std::thread::panicking() {
                std::thread::park();
            }
        }
    }
    fn call<R>(inside: &mut Option<impl FnOnce() -> R>, result: &mut Option<R>) {
        *result = inside.take().map(|inside| inside());
    }
    let (mut inside, mut result) = (Some(inside), None);
    let never = Never;
    // Calls of the interpreter are said not to unwind. What is called here is not known to be such, so that the unwinding finds `never`.
    std::hint::black_box(call as fn(&mut _, &mut _))(&mut inside, &mut result);
    std::mem::forget(never);
    result.expect("`call` has called it")
}

/// Sleeps until `word` may hold something else than `expected`. False if the time is over. Fails with what a signal's
/// handler raised.
pub(crate) fn wait(
    py: Python<'_>,
    word: &AtomicU32,
    expected: u32,
    deadline: Deadline,
) -> PyResult<bool> {
    let Some(left) = deadline.left() else { return Ok(false) };
    without_lock(py, || futex::wait(word, expected, left));
    py.check_signals()?;
    Ok(true)
}

/// Wakes all who wait on the word at this address, which may be gone by now.
pub(crate) fn wake_all(word: *const AtomicU32) {
    futex::wake_all(word);
}

/// A count that threads wait for to change.
#[derive(Default)]
pub(crate) struct Changes {
    count: AtomicU32,
}

impl Changes {
    /// The count so far. What was done before a change is seen by a thread that sees the change.
    pub(crate) fn seen(&self) -> u32 {
        // Its partner is the release in `tell`.
        self.count.load(Acquire)
    }

    pub(crate) fn tell(&self) {
        self.count.fetch_add(1, Release);
        wake_all(&self.count);
    }

    /// Sleeps until the count may be another than `seen`. Fails with what a signal's handler raised.
    pub(crate) fn wait(&self, py: Python<'_>, seen: u32) -> PyResult<()> {
        wait(py, &self.count, seen, Deadline::NEVER).map(drop)
    }
}

impl Wake for Changes {
    fn wake(self: Arc<Self>) {
        self.tell();
    }
}

/// Calls `work`, which waits for something of the library's, without Python's lock; a signal's handler may end the wait by
/// raising, and then `work` goes on alone.
pub(crate) fn interruptible<R: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> R + Send + 'static,
) -> PyResult<R> {
    if coreshard::current().is_some() {
        // Signals are handled on the main thread alone; and the library has to know which worker waits, to refuse what would never
        // end.
        return Ok(without_lock(py, work));
    }
    let done = Arc::new((Changes::default(), Mutex::new(None)));
    let doing = Arc::clone(&done);
    without_lock(py, || {
        std::thread::spawn(move || {
            let result = work();
            *lock(&doing.1) = Some(result);
            doing.0.tell();
        })
    });
    loop {
        done.0.wait(py, 0)?;
        if let Some(result) = lock(&done.1).take() {
            return Ok(result);
        }
    }
}
