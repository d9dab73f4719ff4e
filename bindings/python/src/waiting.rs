//! Waits on a word: without Python's lock, and woken by signals, whose handlers run here.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex};
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

/// Sleeps until `word` may hold something else than `expected`. False where the time is over. Fails with what a signal's
/// handler raised.
pub(crate) fn wait(
    py: Python<'_>,
    word: &AtomicU32,
    expected: u32,
    deadline: Deadline,
) -> PyResult<bool> {
    let Some(left) = deadline.left() else { return Ok(false) };
    py.detach(|| futex::wait(word, expected, left));
    py.check_signals()?;
    Ok(true)
}

/// Wakes all who wait on the word at this address, which may be gone by now.
pub(crate) fn wake_all(word: *const AtomicU32) {
    futex::wake_all(word);
}

/// Calls `work`, which waits for something of the library's, without Python's lock; a signal's handler may end the wait by
/// raising, and then `work` goes on alone.
pub(crate) fn interruptible<R: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> R + Send + 'static,
) -> PyResult<R> {
    if coreshard::current().is_some() {
        // Signals are handled on the main thread alone; and the library has to know who waits, to refuse what would never end.
        return Ok(py.detach(work));
    }
    let done = Arc::new((AtomicU32::new(0), Mutex::new(None)));
    let doing = Arc::clone(&done);
    py.detach(|| {
        std::thread::spawn(move || {
            let result = work();
            *lock(&doing.1) = Some(result);
            doing.0.store(1, Release);
            wake_all(&doing.0);
        })
    });
    loop {
        wait(py, &done.0, 0, Deadline::NEVER)?;
        if done.0.load(Acquire) == 1
            && let Some(result) = lock(&done.1).take()
        {
            return Ok(result);
        }
    }
}
