//! The compiled half of `coreshard.Executor`.

use std::sync::{Arc, OnceLock};

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::call::Call;
use crate::future::{Executes, FutureCore};
use crate::intake::{Intake, Settings};
use crate::process::classes;
use crate::{threads, waiting};

/// The compiled half of `coreshard.Executor`.
// Collector: runners use the initializer, which is shown only while there is no runner. Calls that wait own their futures.
#[pyclass(subclass, frozen, module = "coreshard._native")]
pub(crate) struct ExecutorCore {
    /// Set by `__init__`.
    intake: OnceLock<Arc<Intake>>,
}

impl ExecutorCore {
    fn intake(&self) -> PyResult<&Arc<Intake>> {
        self.intake.get().ok_or_else(|| {
            PyRuntimeError::new_err(
                "the executor is not initialized: call super().__init__() first",
            )
        })
    }
}

#[pymethods]
impl ExecutorCore {
    /// Accepts any arguments of a subclass.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self { intake: OnceLock::new() }
    }

    /// Does the work of `__init__`.
    #[pyo3(signature = (max_workers, thread_name_prefix, initializer, initargs, computes))]
    fn _set_up(
        &self,
        py: Python<'_>,
        max_workers: isize,
        thread_name_prefix: String,
        initializer: Option<&Bound<'_, PyAny>>,
        initargs: &Bound<'_, PyTuple>,
        computes: bool,
    ) -> PyResult<()> {
        let max_workers = usize::try_from(max_workers).ok().filter(|workers| *workers > 0);
        let Some(max_workers) = max_workers else {
            return Err(PyValueError::new_err("max_workers must be greater than 0"));
        };
        if initializer.is_some_and(|initializer| !initializer.is_callable()) {
            return Err(PyTypeError::new_err("initializer must be a callable"));
        }
        let initializer = initializer.map(|initializer| Call::new(initializer, initargs, None));
        let settings = Settings { max_workers, thread_name_prefix, initializer, computes };
        // The first time, this reads the machine.
        let stack_bytes = threads::stack_bytes(py)?;
        let intake = waiting::without_lock(py, || Intake::new(settings, stack_bytes))?;
        self.intake.set(intake).map_err(|_| {
            PyRuntimeError::new_err(
                "the executor is already initialized: __init__ must be called once",
            )
        })
    }

    #[pyo3(signature = (r#fn, /, *args, **kwargs))]
    fn submit(
        &self,
        py: Python<'_>,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let made = classes(py)?.future.bind(py).call0()?;
        let future = made.cast::<FutureCore>()?;
        let intake = self.intake()?;
        let executor: Arc<dyn Executes> = intake.clone();
        future.get().set_call(Call::new(r#fn, args, kwargs), Some(executor));
        intake.submit(py, future)?;
        Ok(made.unbind())
    }

    #[pyo3(signature = (wait=true, *, cancel_futures=false))]
    fn shutdown(&self, py: Python<'_>, wait: bool, cancel_futures: bool) -> PyResult<()> {
        let intake = self.intake()?;
        intake.shut_down(py, cancel_futures);
        if wait { intake.wait_until_idle(py) } else { Ok(()) }
    }

    /// Lends the place of the call that this thread runs, which is about to wait. No effect elsewhere.
    fn _lend(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.intake()?.lend(py))
    }

    /// Waits for the place that was lent.
    fn _reclaim(&self, py: Python<'_>) -> PyResult<()> {
        self.intake()?.reclaim(py)
    }

    /// Lets a running call continue without its place: another one may run beside it.
    fn _abandon(&self, py: Python<'_>, future: &Bound<'_, FutureCore>) -> PyResult<()> {
        self.intake()?.lend_until_end(py, future.get());
        Ok(())
    }

    /// Called by Dask at the start of each computation, on the thread that then waits for it. If that is one of this
    /// executor's threads, it lends its place until its call ends. Nested computations would otherwise wait for one
    /// another's places.
    #[getter]
    fn _max_workers(&self, py: Python<'_>) -> PyResult<usize> {
        let intake = self.intake()?;
        intake.lend_this_until_end(py);
        Ok(intake.max_workers())
    }

    #[getter]
    fn _broken(&self) -> PyResult<bool> {
        Ok(self.intake()?.is_broken())
    }

    #[getter]
    fn _shutdown(&self) -> PyResult<bool> {
        Ok(self.intake()?.is_shut_down())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.intake.get().map_or(Ok(()), |intake| intake.traverse(&visit))
    }
}
