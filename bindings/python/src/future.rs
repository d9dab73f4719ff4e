//! A future whose state is one word.
//!
//! The word holds the state, and whether a thread sleeps on it. The other fields are behind a lock, which is held for a
//! few instructions and never across a Python call or allocation: these may collect garbage, and stop threads that wait
//! for the lock.
//!
//! `concurrent.futures.wait` and `as_completed` hold `_condition` while they read `_state` and add themselves to
//! `_waiters`. A future whose condition was requested therefore changes to a final state only while it holds that
//! condition. Most futures never have one. A final future without one returns a condition that all such futures share
//! and that excludes no thread, because nothing changes any more.
#![allow(unsafe_code)]

use std::mem;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use coreshard::{JoinHandle, ProcessGeneration};
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::call::Call;
use crate::process::{self, classes, lock, raised, runtime_error};
use crate::waiting::{self, Deadline};

const PENDING: u32 = 0;
const RUNNING: u32 = 1;
const CANCELLED: u32 = 2;
const CANCELLED_AND_NOTIFIED: u32 = 3;
const FINISHED: u32 = 4;
/// The bits of the state.
const STATE: u32 = 7;
/// A thread sleeps on the word, or is about to.
const WAITED: u32 = 8;
/// The call has lent its place until it ends. Never cleared.
const LENT: u32 = 16;
/// The call has lent its place while it waits.
const LENDS: u32 = 32;

/// The compiled half of `coreshard.Future`.
// Collector: an item or an intake that will run the call owns a reference to this future, which no object shows.
#[pyclass(subclass, frozen, module = "coreshard._native")]
pub(crate) struct FutureCore {
    word: AtomicU32,
    /// The process that made it.
    made_in: ProcessGeneration,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The call, until it starts or is cancelled.
    call: Option<Call>,
    /// The executor, until the call has finished.
    executor: Option<Arc<dyn Executes>>,
    /// The item of a queue, until it has finished, or a worker waits for it.
    item: Option<JoinHandle<()>>,
    outcome: Option<Outcome>,
    callbacks: Vec<Py<PyAny>>,
    condition: Option<Py<PyAny>>,
    waiters: Option<Py<PyList>>,
}

/// An executor as seen by its futures.
pub(crate) trait Executes: Send + Sync {
    /// Runs a call on this thread, if the thread is inside one of the executor's calls. The caller must wake the
    /// returned sleepers.
    fn run_if_here(&self, future: &Bound<'_, FutureCore>) -> Option<Sleepers>;
}

enum Outcome {
    Result(Py<PyAny>),
    Exception(Py<PyAny>),
}

impl Outcome {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Result(result) => Self::Result(result.clone_ref(py)),
            Self::Exception(exception) => Self::Exception(exception.clone_ref(py)),
        }
    }
}

/// The word of a future whose sleeping threads must be woken. The future may have been freed.
#[must_use = "threads sleep on it"]
pub(crate) struct Sleepers(*const AtomicU32);

impl Sleepers {
    pub(crate) fn wake(self) {
        waiting::wake_all(self.0);
    }
}

// SAFETY: it is an address that is never read.
unsafe impl Send for Sleepers {}

/// A future's condition while it is held, if it has one.
struct Held<'py>(Option<Bound<'py, PyAny>>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(condition) = &self.0 {
            let released = condition.call_method0(intern!(condition.py(), "release"));
            if let Err(error) = released {
                error.write_unraisable(condition.py(), Some(condition));
            }
        }
    }
}

impl FutureCore {
    /// Sets the call, and the executor if there is one.
    pub(crate) fn set_call(&self, call: Call, executor: Option<Arc<dyn Executes>>) {
        let mut inner = lock(&self.inner);
        inner.call = Some(call);
        inner.executor = executor;
    }

    /// Sets the item that will run the call.
    pub(crate) fn set_item(&self, item: JoinHandle<()>) {
        let mut inner = lock(&self.inner);
        if self.state_now() < CANCELLED {
            inner.item = Some(item);
        }
    }

    /// Lends its place until it ends. Returns false if it does not run, or has lent it already.
    pub(crate) fn set_lent(&self) -> bool {
        let lent = self.word.fetch_update(AcqRel, Acquire, |word| {
            (word & STATE == RUNNING && word & LENT == 0).then_some(word | LENT)
        });
        lent.is_ok()
    }

    /// Sets whether it lends its place while it waits. Returns the previous value.
    pub(crate) fn set_lending(&self, is_lending: bool) -> bool {
        let word = if is_lending {
            self.word.fetch_or(LENDS, AcqRel)
        } else {
            self.word.fetch_and(!LENDS, AcqRel)
        };
        word & LENDS != 0
    }

    pub(crate) fn is_lending(&self) -> bool {
        self.word.load(Acquire) & LENDS != 0
    }

    /// Returns true if its place is lent until its end.
    pub(crate) fn is_lent(&self) -> bool {
        self.word.load(Acquire) & LENT != 0
    }

    fn state_now(&self) -> u32 {
        self.word.load(Acquire) & STATE
    }

    /// Changes the state, unless another thread was faster. Sleeping threads are not woken.
    fn step(&self, from: u32, to: u32) -> Result<(), u32> {
        self.word
            .fetch_update(AcqRel, Acquire, |word| {
                (word & STATE == from).then_some(to | word & !STATE)
            })
            .map(|_| ())
            .map_err(|word| word & STATE)
    }

    /// Locks the inner fields, under the condition if there is one.
    fn hold<'py, 'a>(slf: &'a Bound<'py, Self>) -> PyResult<(Held<'py>, MutexGuard<'a, Inner>)> {
        let py = slf.py();
        let mut held = Held(None);
        loop {
            let inner = lock(&slf.get().inner);
            match &inner.condition {
                // A condition is never removed.
                Some(condition) if held.0.is_none() => {
                    let condition = condition.bind(py).clone();
                    drop(inner);
                    waiting::or_never(|| condition.call_method0(intern!(py, "acquire")))?;
                    held.0 = Some(condition);
                }
                _ => return Ok((held, inner)),
            }
        }
    }

    /// Runs the call, unless it has started or was cancelled. The caller must wake the returned sleepers.
    pub(crate) fn run(slf: &Bound<'_, Self>) -> Option<Sleepers> {
        let py = slf.py();
        let future = slf.get();
        match future.step(PENDING, RUNNING) {
            Ok(()) => {}
            Err(CANCELLED) => {
                Self::note_cancelled(slf);
                return None;
            }
            Err(_) => return None,
        }
        let call = lock(&future.inner).call.take()?;
        let outcome = match call.run(py) {
            Ok(result) => Outcome::Result(result.unbind()),
            Err(error) => Outcome::Exception(error.into_value(py).into_any()),
        };
        // Release the arguments before the result becomes visible.
        drop(call);
        if !future.made_in.is_current() {
            process::leave_fork(py);
        }
        match Self::finish(slf, outcome) {
            Ok(sleepers) => sleepers,
            Err(error) => {
                error.write_unraisable(py, Some(slf));
                None
            }
        }
    }

    /// Sets the outcome, notifies Python's waiters and runs callbacks. Fails if the state is final.
    fn finish(slf: &Bound<'_, Self>, outcome: Outcome) -> PyResult<Option<Sleepers>> {
        let py = slf.py();
        let future = slf.get();
        let told = match &outcome {
            Outcome::Result(_) => intern!(py, "add_result"),
            Outcome::Exception(_) => intern!(py, "add_exception"),
        };
        let (held, mut inner) = Self::hold(slf)?;
        let state = future.state_now();
        if state >= CANCELLED {
            drop(inner);
            drop(held);
            let classes = classes(py)?;
            let message = format!("{}: {}", name_of(py, state), slf.repr()?);
            return Err(raised(py, &classes.invalid_state_error, Some(&message)));
        }
        inner.outcome = Some(outcome);
        let callbacks = mem::take(&mut inner.callbacks);
        // A call that never started and was completed from outside.
        let unused = (inner.call.take(), inner.executor.take(), inner.item.take());
        let waiters = inner.waiters.as_ref().map(|waiters| waiters.clone_ref(py));
        let finished = |word: u32| Some(FINISHED | word & LENT);
        let word = future.word.fetch_update(AcqRel, Acquire, finished).unwrap_or_else(|word| word);
        drop(inner);
        drop(unused);
        if held.0.is_some() {
            Self::tell(slf, &held, waiters, told)?;
        }
        drop(held);
        let mut sleepers = (word & WAITED != 0).then(|| Sleepers(ptr::from_ref(&future.word)));
        if !callbacks.is_empty() {
            // Callbacks may take long.
            if let Some(sleepers) = sleepers.take() {
                sleepers.wake();
            }
            Self::call_back(slf, callbacks)?;
        }
        Ok(sleepers)
    }

    fn finish_and_wake(slf: &Bound<'_, Self>, outcome: Outcome) -> PyResult<()> {
        if let Some(sleepers) = Self::finish(slf, outcome)? {
            sleepers.wake();
        }
        Ok(())
    }

    /// Notifies threads that wait with Python's means, under the condition.
    fn tell(
        slf: &Bound<'_, Self>,
        held: &Held<'_>,
        waiters: Option<Py<PyList>>,
        told: &Bound<'_, PyString>,
    ) -> PyResult<()> {
        let Some(condition) = &held.0 else { return Ok(()) };
        if let Some(waiters) = waiters {
            for waiter in waiters.bind(slf.py()) {
                waiter.call_method1(told, (slf,))?;
            }
        }
        condition.call_method0(intern!(slf.py(), "notify_all"))?;
        Ok(())
    }

    fn call_back(slf: &Bound<'_, Self>, callbacks: Vec<Py<PyAny>>) -> PyResult<()> {
        callbacks
            .into_iter()
            .try_for_each(|callback| Self::call_one_back(slf, callback.bind(slf.py())))
    }

    fn call_one_back(slf: &Bound<'_, Self>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        match waiting::or_never(|| callback.call1((slf,))) {
            Err(error) if error.is_instance_of::<PyException>(py) => {
                // `Logger.exception` reads the exception being handled, which a compiled function does not have.
                let kwargs = pyo3::types::PyDict::new(py);
                kwargs.set_item("exc_info", error.into_value(py))?;
                let args = ("exception calling callback for %r", slf);
                classes(py)?.logger.bind(py).call_method("error", args, Some(&kwargs))?;
                Ok(())
            }
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Marks it as cancelled and notified: it will not run.
    fn note_cancelled(slf: &Bound<'_, Self>) {
        let noted = (|| {
            let (held, inner) = Self::hold(slf)?;
            if slf.get().step(CANCELLED, CANCELLED_AND_NOTIFIED).is_err() {
                return Ok(());
            }
            let waiters = inner.waiters.as_ref().map(|waiters| waiters.clone_ref(slf.py()));
            drop(inner);
            Self::tell(slf, &held, waiters, intern!(slf.py(), "add_cancelled"))
        })();
        if let Err(error) = noted {
            error.write_unraisable(slf.py(), Some(slf));
        }
    }

    /// Cancels a call that no runner will run, and notifies its waiters.
    pub(crate) fn cancel_for_good(slf: &Bound<'_, Self>) -> PyResult<()> {
        if Self::cancel(slf)? {
            Self::note_cancelled(slf);
        }
        Ok(())
    }

    /// Completes it with an exception, unless it has started.
    pub(crate) fn fail(slf: &Bound<'_, Self>, exception: Py<PyAny>) {
        match slf.get().step(PENDING, RUNNING) {
            Ok(()) => {
                if let Err(error) = Self::finish_and_wake(slf, Outcome::Exception(exception)) {
                    error.write_unraisable(slf.py(), Some(slf));
                }
            }
            Err(CANCELLED) => Self::note_cancelled(slf),
            Err(_) => {}
        }
    }

    /// Waits until it is final, and returns the state.
    fn wait_for_end(slf: &Bound<'_, Self>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<u32> {
        let py = slf.py();
        let future = slf.get();
        if future.state_now() >= CANCELLED {
            return Ok(future.state_now());
        }
        let deadline = Deadline::of(timeout)?;
        if deadline.is_never() {
            // A worker that waits for a call in the same executor runs it, if no other thread has started it.
            let executor = lock(&future.inner).executor.clone();
            if let Some(sleepers) = executor.and_then(|executor| executor.run_if_here(slf)) {
                sleepers.wake();
            }
        }
        if coreshard::current().is_some() {
            Self::wait_on_worker(slf, deadline)?;
        }
        loop {
            let word = future.word.load(Acquire);
            if word & STATE >= CANCELLED {
                return Ok(word & STATE);
            }
            if !future.made_in.is_current() {
                let message =
                    "the process was forked: the worker of this call belongs to its parent";
                return Err(raised(py, &classes(py)?.broken_executor, Some(message)));
            }
            let slept_on = word | WAITED;
            if word != slept_on
                && future.word.compare_exchange(word, slept_on, AcqRel, Relaxed).is_err()
            {
                continue;
            }
            if !waiting::wait(py, &future.word, slept_on, deadline)? {
                let state = future.state_now();
                return if state >= CANCELLED {
                    Ok(state)
                } else {
                    Err(raised(py, &classes(py)?.timeout_error, None))
                };
            }
        }
    }

    /// On a worker: waits for a queue's item with the queue's means, unless there is a deadline. This may run the item
    /// here. Fails if the item is behind the one that this thread runs.
    fn wait_on_worker(slf: &Bound<'_, Self>, deadline: Deadline) -> PyResult<()> {
        let future = slf.get();
        // If two threads wait, the other one sleeps on the word.
        let Some(item) = lock(&future.inner).item.take() else { return Ok(()) };
        if let Err(deadlock) = item.check_join() {
            future.set_item(item);
            return Err(runtime_error(deadlock));
        }
        if !deadline.is_never() {
            future.set_item(item);
            return Ok(());
        }
        match waiting::without_lock(slf.py(), || item.join()) {
            Err(panic) if future.state_now() < CANCELLED => Err(runtime_error(panic)),
            _ => Ok(()),
        }
    }

    /// Returns the outcome of a future in this final state.
    fn outcome(&self, py: Python<'_>, state: u32) -> PyResult<Outcome> {
        if state == FINISHED
            && let Some(outcome) = &lock(&self.inner).outcome
        {
            return Ok(outcome.clone_ref(py));
        }
        Err(raised(py, &classes(py)?.cancelled_error, None))
    }
}

#[pymethods]
impl FutureCore {
    #[new]
    fn new() -> Self {
        let inner = Mutex::new(Inner::default());
        Self { word: AtomicU32::new(PENDING), made_in: ProcessGeneration::current(), inner }
    }

    fn cancel(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let future = slf.get();
        let (held, mut inner) = Self::hold(slf)?;
        match future.step(PENDING, CANCELLED) {
            Ok(()) => {}
            Err(state) => return Ok(matches!(state, CANCELLED | CANCELLED_AND_NOTIFIED)),
        }
        let callbacks = mem::take(&mut inner.callbacks);
        let unused = (inner.call.take(), inner.executor.take(), inner.item.take());
        drop(inner);
        drop(unused);
        Self::tell(slf, &held, None, intern!(slf.py(), "add_cancelled"))?;
        drop(held);
        if future.word.load(Acquire) & WAITED != 0 {
            waiting::wake_all(&future.word);
        }
        Self::call_back(slf, callbacks)?;
        Ok(true)
    }

    fn cancelled(&self) -> bool {
        matches!(self.state_now(), CANCELLED | CANCELLED_AND_NOTIFIED)
    }

    fn running(&self) -> bool {
        self.state_now() == RUNNING
    }

    fn done(&self) -> bool {
        self.state_now() >= CANCELLED
    }

    #[pyo3(signature = (timeout=None))]
    fn result(slf: &Bound<'_, Self>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let state = Self::wait_for_end(slf, timeout)?;
        match slf.get().outcome(slf.py(), state)? {
            Outcome::Result(result) => Ok(result),
            Outcome::Exception(exception) => Err(PyErr::from_value(exception.into_bound(slf.py()))),
        }
    }

    #[pyo3(signature = (timeout=None))]
    fn exception(
        slf: &Bound<'_, Self>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let state = Self::wait_for_end(slf, timeout)?;
        Ok(match slf.get().outcome(slf.py(), state)? {
            Outcome::Result(_) => None,
            Outcome::Exception(exception) => Some(exception),
        })
    }

    fn add_done_callback(slf: &Bound<'_, Self>, r#fn: Py<PyAny>) -> PyResult<()> {
        let future = slf.get();
        {
            let mut inner = lock(&future.inner);
            if future.state_now() < CANCELLED {
                inner.callbacks.push(r#fn);
                return Ok(());
            }
        }
        Self::call_one_back(slf, r#fn.bind(slf.py()))
    }

    fn set_running_or_notify_cancel(slf: &Bound<'_, Self>) -> PyResult<bool> {
        match slf.get().step(PENDING, RUNNING) {
            Ok(()) => Ok(true),
            Err(CANCELLED) => {
                Self::note_cancelled(slf);
                Ok(false)
            }
            Err(state) => {
                let args = ("Future %s in unexpected state: %s", slf, name_of(slf.py(), state));
                classes(slf.py())?.logger.bind(slf.py()).call_method1("critical", args)?;
                Err(PyRuntimeError::new_err("Future in unexpected state"))
            }
        }
    }

    fn set_result(slf: &Bound<'_, Self>, result: Py<PyAny>) -> PyResult<()> {
        Self::finish_and_wake(slf, Outcome::Result(result))
    }

    fn set_exception(slf: &Bound<'_, Self>, exception: Py<PyAny>) -> PyResult<()> {
        Self::finish_and_wake(slf, Outcome::Exception(exception))
    }

    // Attributes that `concurrent.futures` reads.

    #[getter]
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        name_of(py, self.state_now()).clone()
    }

    #[getter]
    fn _result(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match &lock(&self.inner).outcome {
            Some(Outcome::Result(result)) => Some(result.clone_ref(py)),
            _ => None,
        }
    }

    #[getter]
    fn _exception(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match &lock(&self.inner).outcome {
            Some(Outcome::Exception(exception)) => Some(exception.clone_ref(py)),
            _ => None,
        }
    }

    #[getter]
    fn _condition(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let classes = classes(py)?;
        let known = |inner: &Inner| match &inner.condition {
            Some(condition) => Some(condition.clone_ref(py)),
            None if self.state_now() == FINISHED => Some(classes.no_condition.clone_ref(py)),
            None => None,
        };
        if let Some(condition) = known(&lock(&self.inner)) {
            return Ok(condition);
        }
        let made = classes.condition.call0(py)?;
        let mut inner = lock(&self.inner);
        if let Some(condition) = known(&inner) {
            return Ok(condition);
        }
        inner.condition = Some(made.clone_ref(py));
        Ok(made)
    }

    #[getter]
    fn _waiters(&self, py: Python<'_>) -> Py<PyList> {
        if let Some(waiters) = &lock(&self.inner).waiters {
            return waiters.clone_ref(py);
        }
        let made = PyList::empty(py).unbind();
        lock(&self.inner).waiters.get_or_insert(made).clone_ref(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The thread that holds the lock allocates nothing meanwhile, so this collection is not on that thread.
        let Ok(inner) = self.inner.try_lock() else { return Ok(()) };
        if let Some(call) = &inner.call {
            call.traverse(&visit)?;
        }
        match &inner.outcome {
            Some(Outcome::Result(value) | Outcome::Exception(value)) => visit.call(value)?,
            None => {}
        }
        for callback in &inner.callbacks {
            visit.call(callback)?;
        }
        visit.call(&inner.condition)?;
        visit.call(&inner.waiters)
    }

    fn __clear__(&self) {
        let inner = mem::take(&mut *lock(&self.inner));
        drop(inner);
    }
}

fn name_of<'py>(py: Python<'py>, state: u32) -> &'py Bound<'py, PyString> {
    match state {
        PENDING => intern!(py, "PENDING"),
        RUNNING => intern!(py, "RUNNING"),
        CANCELLED => intern!(py, "CANCELLED"),
        CANCELLED_AND_NOTIFIED => intern!(py, "CANCELLED_AND_NOTIFIED"),
        _ => intern!(py, "FINISHED"),
    }
}
