//! Waits on a word, without the GIL. Signals interrupt them, and their handlers run here.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::futex;
use crate::process::lock;

/// The end of a wait; `None` for no limit.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) const NEVER: Self = Self(None);

    /// Converts Python's `timeout=`: seconds, or `None`.
    pub(crate) fn of(timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(timeout) = timeout.filter(|timeout| !timeout.is_none()) else {
            return Ok(Self::NEVER);
        };
        let seconds: f64 = timeout.extract().map_err(|_| {
            PyTypeError::new_err(format!(
                "invalid timeout {timeout:?}: expected a number of seconds or None"
            ))
        })?;
        if seconds.is_nan() {
            return Err(PyValueError::new_err("invalid timeout: expected a number"));
        }
        // A duration beyond the clock's range means no limit.
        let duration = Duration::try_from_secs_f64(seconds.max(0.0)).ok();
        Ok(Self(duration.and_then(|duration| Instant::now().checked_add(duration))))
    }

    pub(crate) fn is_never(self) -> bool {
        self.0.is_none()
    }

    /// Returns the interval until the next check for signals, limited by the deadline; `None` after the deadline.
    pub(crate) fn step(self) -> Option<Duration> {
        const STEP: Duration = Duration::from_millis(100);
        self.left().map(|left| left.map_or(STEP, |left| left.min(STEP)))
    }

    /// Returns the remaining time: `Some(None)` without a limit, `None` after the deadline.
    fn left(self) -> Option<Option<Duration>> {
        match self.0 {
            None => Some(None),
            Some(end) => {
                end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).map(Some)
            }
        }
    }
}

/// Converts a number of seconds to a duration.
pub(crate) fn seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        let message = format!(
            "invalid {name} {seconds}: expected a number of seconds, at least 0 and within the clock's range"
        );
        PyValueError::new_err(message)
    })
}

/// Calls `work` without the GIL. If the interpreter ends meanwhile, this does not return. Up to CPython 3.13 a thread
/// that then requests the GIL is ended by `pthread_exit`, which unwinds its stack, and Rust aborts the process if that
/// is caught. Such a thread sleeps instead, as in 3.14. So does a thread inside a Python call when this happens.
pub(crate) fn without_lock<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
    or_never(|| py.detach(work))
}

/// Calls `inside`. If `pthread_exit` ends its thread in there, the thread sleeps instead until the process has ended.
pub(crate) fn or_never<R>(inside: impl FnOnce() -> R) -> R {
    struct Never;
    impl Drop for Never {
        fn drop(&mut self) {
            // Panics continue to unwind.
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
    // Interpreter calls are declared not to unwind. The compiler does not know this callee, so the unwinding finds
    // `never`.
    std::hint::black_box(call as fn(&mut _, &mut _))(&mut inside, &mut result);
    std::mem::forget(never);
    result.expect("`call` has called it")
}

/// Blocks until `word` may differ from `expected`. Returns false on a timeout. Fails with the exception of a signal
/// handler.
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

/// Wakes all waiters of the word at this address, which may have been freed.
pub(crate) fn wake_all(word: *const AtomicU32) {
    futex::wake_all(word);
}

/// A counter whose changes threads wait for.
#[derive(Default)]
pub(crate) struct Changes {
    count: AtomicU32,
}

impl Changes {
    /// Returns the current count. Effects before a change are visible to a thread that sees the change.
    pub(crate) fn seen(&self) -> u32 {
        // Pairs with the release in `tell`.
        self.count.load(Acquire)
    }

    pub(crate) fn tell(&self) {
        self.count.fetch_add(1, Release);
        wake_all(&self.count);
    }

    /// Blocks until the count may differ from `seen`. Fails with the exception of a signal handler.
    pub(crate) fn wait(&self, py: Python<'_>, seen: u32) -> PyResult<()> {
        wait(py, &self.count, seen, Deadline::NEVER).map(drop)
    }
}

impl Wake for Changes {
    fn wake(self: Arc<Self>) {
        self.tell();
    }
}

/// Calls `work`, which waits with the library's means, without the GIL. A signal handler may end the wait by raising,
/// and `work` then continues alone.
pub(crate) fn interruptible<R: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> R + Send + 'static,
) -> PyResult<R> {
    if coreshard::current().is_some() {
        // Only the main thread handles signals. The library must also know which worker waits, to reject waits that
        // would never end.
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
