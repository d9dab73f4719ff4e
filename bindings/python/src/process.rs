//! What a process has once: Python's classes, the interpreter's end, and what is left where a call forks.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use coreshard::PerProcess;
use pyo3::exceptions::{PyImportError, PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// A lock of ours. A panic while one is held leaves nothing half done that the next would trip over.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error that Python sees for one of the library's.
pub(crate) fn runtime_error(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// The same for what was asked for wrongly.
pub(crate) fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// What has to end in this process before the interpreter does.
static ENDING: PerProcess<Mutex<Vec<Weak<dyn Ends>>>> = PerProcess::new();

/// What has to be over before the interpreter is.
pub(crate) trait Ends: Send + Sync {
    /// Takes no more, and waits until nothing of it runs or will run. Fails with what a signal's handler raised.
    fn end(&self, py: Python<'_>) -> PyResult<()>;
}

/// Has `one` end before the interpreter does.
pub(crate) fn ends_before_interpreter(one: &Arc<impl Ends + 'static>) {
    note_end(&mut lock(ENDING.here()), one);
}

/// The same for what takes work. It is refused once the interpreter begins to end, since that would not wait for it.
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
/// Set under the lock of what ends.
static INTERPRETER: AtomicU8 = AtomicU8::new(RUNS);

/// True from where the interpreter begins to end: nothing more is taken.
pub(crate) fn is_ending() -> bool {
    INTERPRETER.load(Acquire) != RUNS
}

/// True from where no worker may enter the interpreter.
pub(crate) fn has_ended() -> bool {
    INTERPRETER.load(Acquire) == ENDED
}

/// What `threading` calls before the interpreter ends: all that was taken is run first.
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
            // A signal's handler has raised: nothing is waited for any more.
            set(ENDED);
            return Err(error);
        }
    }
}

/// Names of Python's that the compiled half needs.
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

/// Called once, by the package's Python half, with an object that has these as attributes.
#[pyfunction]
#[pyo3(name = "_set_classes")]
pub(crate) fn set_classes(py: Python<'_>, classes: Classes) -> PyResult<()> {
    check_interpreter()?;
    // If it is set already, the module was imported anew: the classes of the first time stay.
    let _ = CLASSES.set(py, classes);
    Ok(())
}

/// Fails in an interpreter that is not the process's first. From CPython 3.12 on, the interpreter itself refuses the compiled half there.
pub(crate) fn check_interpreter() -> PyResult<()> {
    // SAFETY: the caller has Python's lock, so there is a current interpreter.
    let number = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if number == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(format!(
        "coreshard works in a process's main interpreter alone, and this is subinterpreter {number}: its workers belong to the process"
    )))
}

pub(crate) fn classes(py: Python<'_>) -> PyResult<&'static Classes> {
    CLASSES
        .get(py)
        .ok_or_else(|| PyRuntimeError::new_err("import coreshard, not coreshard._native"))
}

/// An exception of one of Python's classes, which says so.
pub(crate) fn raised(py: Python<'_>, class: &Py<PyAny>, message: Option<&str>) -> PyErr {
    let class = class.bind(py);
    let raised = match message {
        Some(message) => class.call1((message,)),
        None => class.call0(),
    };
    raised.map_or_else(|error| error, PyErr::from_value)
}

/// A call has forked, and this is the child's copy of its thread, the only one there: nothing waits for it. The process ends
/// as if its main function had returned.
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
