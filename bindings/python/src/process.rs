//! Process-wide state: Python classes, interpreter shutdown, and forks inside calls.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use coreshard::PerProcess;
use pyo3::exceptions::{PyImportError, PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Locks a mutex. A panic while one is held leaves its data consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts a library error to a Python exception.
pub(crate) fn runtime_error(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// The same for invalid requests.
pub(crate) fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Objects that must end before the interpreter does.
static ENDING: PerProcess<Mutex<Vec<Weak<dyn Ends>>>> = PerProcess::new();

/// An object that must end before the interpreter does.
pub(crate) trait Ends: Send + Sync {
    /// Stops accepting work, and waits until none runs or will run. Fails with the exception of a signal handler.
    fn end(&self, py: Python<'_>) -> PyResult<()>;
}

/// Registers `one` to end before the interpreter does.
pub(crate) fn ends_before_interpreter(one: &Arc<impl Ends + 'static>) {
    note_end(&mut lock(ENDING.here()), one);
}

/// The same for an object that accepts work. Fails once the interpreter shuts down, since that would not wait for it.
pub(crate) fn begins_before_end(one: &Arc<impl Ends + 'static>) -> PyResult<()> {
    let mut ending = lock(ENDING.here());
    if is_ending() {
        return Err(PyRuntimeError::new_err("cannot take new work after interpreter shutdown"));
    }
    note_end(&mut ending, one);
    Ok(())
}

fn note_end(ending: &mut Vec<Weak<dyn Ends>>, one: &Arc<impl Ends + 'static>) {
    if ending.len() == ending.capacity() {
        // As often as the memory doubles.
        ending.retain(|other| other.strong_count() > 0);
    }
    let weak = Arc::downgrade(one);
    ending.push(weak);
}

const RUNS: u8 = 0;
const ENDS: u8 = 1;
const ENDED: u8 = 2;
/// Set under the lock of the object that ends.
static INTERPRETER: AtomicU8 = AtomicU8::new(RUNS);

/// Returns true once the interpreter shuts down: no more work is accepted.
pub(crate) fn is_ending() -> bool {
    INTERPRETER.load(Acquire) != RUNS
}

/// Returns true once no worker may enter the interpreter.
pub(crate) fn has_ended() -> bool {
    INTERPRETER.load(Acquire) == ENDED
}

/// Called by `threading` before the interpreter ends: runs all accepted work first.
#[pyfunction]
#[pyo3(name = "_end")]
pub(crate) fn end(py: Python<'_>) -> PyResult<()> {
    let set = |state: u8| INTERPRETER.store(state, Release);
    {
        let _ending = lock(ENDING.here());
        set(ENDS);
    }
    loop {
        let next = {
            let mut ending = lock(ENDING.here());
            match ending.pop() {
                Some(next) => next,
                None => {
                    set(ENDED);
                    return Ok(());
                }
            }
        };
        if let Some(next) = next.upgrade()
            && let Err(error) = next.end(py)
        {
            // A signal handler raised: do not wait any more.
            set(ENDED);
            return Err(error);
        }
    }
}

/// Python names used by the compiled half.
#[derive(FromPyObject)]
pub(crate) struct Classes {
    pub(crate) future: Py<PyAny>,
    pub(crate) cancelled_error: Py<PyAny>,
    pub(crate) timeout_error: Py<PyAny>,
    pub(crate) invalid_state_error: Py<PyAny>,
    pub(crate) broken_executor: Py<PyAny>,
    pub(crate) broken_thread_pool: Py<PyAny>,
    pub(crate) condition: Py<PyAny>,
    pub(crate) no_condition: Py<PyAny>,
    pub(crate) logger: Py<PyAny>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

/// Called once by the package's Python half, with an object that has these attributes.
#[pyfunction]
#[pyo3(name = "_set_classes")]
pub(crate) fn set_classes(py: Python<'_>, classes: Classes) -> PyResult<()> {
    check_interpreter()?;
    // If it is set already, the module was imported again: the first classes stay.
    let _ = CLASSES.set(py, classes);
    Ok(())
}

/// Fails in a subinterpreter. From CPython 3.12 on, the interpreter itself rejects the compiled half there.
pub(crate) fn check_interpreter() -> PyResult<()> {
    // SAFETY: the caller has Python's lock, so there is a current interpreter.
    let number = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if number == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(format!(
        "coreshard needs the main interpreter, as its workers belong to the process, but this is subinterpreter {number}"
    )))
}

pub(crate) fn classes(py: Python<'_>) -> PyResult<&'static Classes> {
    CLASSES
        .get(py)
        .ok_or_else(|| PyRuntimeError::new_err("import coreshard, not coreshard._native"))
}

/// Creates an exception of a Python class with a message.
pub(crate) fn raised(py: Python<'_>, class: &Py<PyAny>, message: Option<&str>) -> PyErr {
    let class = class.bind(py);
    let raised = match message {
        Some(message) => class.call1((message,)),
        None => class.call0(),
    };
    raised.map_or_else(|error| error, PyErr::from_value)
}

/// Ends the child after a call has forked: the child has only a copy of this thread, and nothing waits for it. The
/// process ends as if its main function had returned.
pub(crate) fn leave_fork(py: Python<'_>) {
    let left = py.run(
        c"import os, sys
for stream in (sys.stdout, sys.stderr):
    try:
        stream.flush()
    except Exception:
        pass
os._exit(0)",
        None,
        None,
    );
    if let Err(error) = left {
        error.write_unraisable(py, None);
    }
}
