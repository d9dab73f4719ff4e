//! What a process has once: the queue that executors share, Python's classes, and the interpreter's end.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use coreshard::{ProcessGeneration, Scope, Workqueue};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::threads;

/// A lock of ours. A panic while one is held leaves nothing half done that the next would trip over.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error that Python sees for one of the library's.
pub(crate) fn runtime_error(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// What the calls do whose runners a queue has.
#[derive(Clone, Copy)]
pub(crate) enum Calls {
    /// Calls that may wait at any time, and do not say so: so many are to be in progress at once.
    Wait { at_once: usize },
    /// Calls that compute: as many workers run as there are CPUs.
    Compute,
}

/// The queue on which executors' runners are, made at the first call in this process that asks for such.
pub(crate) fn executors_queue(calls: Calls, stack_bytes: usize) -> PyResult<Workqueue> {
    let workers = match calls {
        Calls::Compute => None,
        // Few kinds of pools, which executors share. Where one has waiting calls on all workers, and another one would
        // begin a call, the pool's monitor finds out and lets one more worker run.
        Calls::Wait { at_once } => {
            Some(at_once.clamp(LEAST_WORKERS, MOST_WORKERS).next_power_of_two())
        }
    };
    let mut queues = lock(&QUEUES);
    let kind = (workers, stack_bytes, ProcessGeneration::current());
    let made = queues.iter().find(|made| made.kind == kind);
    if let Some(made) = made {
        return Ok(made.queue.clone());
    }
    let runtime = match workers {
        None => coreshard::runtime().map_err(runtime_error)?,
        Some(workers) => {
            let builder = coreshard::runtime_builder().map_err(runtime_error)?;
            // A long call is no news here.
            let builder = builder.workers(workers).cpu_intensive_threshold(Duration::ZERO);
            // Never freed: its workers serve the process to its end.
            Box::leak(Box::new(builder.build().map_err(runtime_error)?))
        }
    };
    let builder = threads::for_python(runtime.workqueue().name("python"), stack_bytes);
    let builder = if workers.is_some() { builder.scope(Scope::System) } else { builder };
    let queue = builder.build().map_err(runtime_error)?;
    queues.push(Made { kind, queue: queue.clone() });
    Ok(queue)
}

/// Bounds of a pool's workers that run at once; the upper one is the library's.
const LEAST_WORKERS: usize = 8;
const MOST_WORKERS: usize = 512;

/// Those of the process, and of those that it was forked from: their locks may be held for ever, so they stay untouched.
static QUEUES: Mutex<Vec<Made>> = Mutex::new(Vec::new());

struct Made {
    /// Workers, the size of their stacks, and the process.
    kind: (Option<usize>, usize, ProcessGeneration),
    queue: Workqueue,
}

/// What has to be over before the interpreter is.
pub(crate) trait Ends: Send + Sync {
    /// Takes no more, and waits until nothing of it runs or will run. Fails with what a signal's handler raised.
    fn end(&self, py: Python<'_>) -> PyResult<()>;
}

/// With the process in which each was made: those of a parent's end there.
static ENDING: Mutex<Vec<(ProcessGeneration, Weak<dyn Ends>)>> = Mutex::new(Vec::new());

/// Has `one` end before the interpreter does.
pub(crate) fn ends_before_interpreter(one: &Arc<impl Ends + 'static>) {
    let weak = Arc::downgrade(one);
    let weak: Weak<dyn Ends> = weak;
    let mut ending = lock(&ENDING);
    if ending.len() == ending.capacity() {
        // As often as the memory doubles.
        ending.retain(|(_, other)| other.strong_count() > 0);
    }
    ending.push((ProcessGeneration::current(), weak));
}

const RUNS: u8 = 0;
const ENDS: u8 = 1;
const ENDED: u8 = 2;
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
    INTERPRETER.store(ENDS, Release);
    loop {
        let Some((made_in, next)) = lock(&ENDING).pop() else { break };
        if let Some(next) = next.upgrade().filter(|_| made_in.is_current()) {
            next.end(py)?;
        }
    }
    INTERPRETER.store(ENDED, Release);
    Ok(())
}

/// Names of Python's that the compiled half needs.
pub(crate) struct Classes {
    pub(crate) future: Py<PyAny>,
    pub(crate) cancelled_error: Py<PyAny>,
    pub(crate) timeout_error: Py<PyAny>,
    pub(crate) invalid_state_error: Py<PyAny>,
    pub(crate) broken_executor: Py<PyAny>,
    pub(crate) condition: Py<PyAny>,
    pub(crate) no_condition: Py<PyAny>,
    pub(crate) logger: Py<PyAny>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

/// Called once, by the package's Python half.
#[pyfunction]
#[pyo3(name = "_set_classes")]
#[allow(clippy::too_many_arguments, reason = "each a name, given by it")]
pub(crate) fn set_classes(
    py: Python<'_>,
    future: Py<PyAny>,
    cancelled_error: Py<PyAny>,
    timeout_error: Py<PyAny>,
    invalid_state_error: Py<PyAny>,
    broken_executor: Py<PyAny>,
    condition: Py<PyAny>,
    no_condition: Py<PyAny>,
    logger: Py<PyAny>,
) {
    // Where it is there, the module was imported anew: the classes of the first time stay.
    let _ = CLASSES.set(
        py,
        Classes {
            future,
            cancelled_error,
            timeout_error,
            invalid_state_error,
            broken_executor,
            condition,
            no_condition,
            logger,
        },
    );
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
