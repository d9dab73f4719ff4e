//! The compiled half of `coreshard.Executor`.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::call::Call;
use crate::future::FutureCore;
use crate::intake::{Intake, Settings};
use crate::process::classes;
use crate::{threads, waiting};

/// The compiled half of `coreshard.Executor`.
#[pyclass(subclass, frozen, module = "coreshard._native")]
pub(crate) struct ExecutorCore {
    intake: Arc<Intake>,
}

#[pymethods]
impl ExecutorCore {
    #[new]
    #[pyo3(signature = (max_workers, thread_name_prefix, initializer, initargs, computes))]
    fn new(
        py: Python<'_>,
        max_workers: isize,
        thread_name_prefix: String,
        initializer: Option<&Bound<'_, PyAny>>,
        initargs: &Bound<'_, PyTuple>,
        computes: bool,
    ) -> PyResult<Self> {
        let max_workers = usize::try_from(max_workers).ok().filter(|workers| *workers > 0);
        let Some(max_workers) = max_workers else {
            return Err(PyValueError::new_err("max_workers must be greater than 0"));
        };
        if initializer.is_some_and(|initializer| !initializer.is_callable()) {
            return Err(PyTypeError::new_err("initializer must be a callable"));
        }
        let initializer = initializer.map(|initializer| Call::new(initializer, initargs, None));
        let settings = Settings { max_workers, thread_name_prefix, initializer, computes };
        // Reads the machine, the first time.
        let stack_bytes = threads::stack_bytes(py)?;
        let intake = waiting::without_lock(py, || Intake::new(settings, stack_bytes))?;
        Ok(Self { intake })
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
        future.get().set_call(Call::new(r#fn, args, kwargs), Arc::clone(&self.intake));
        self.intake.submit(py, future)?;
        Ok(made.unbind())
    }

    #[pyo3(signature = (wait=true, *, cancel_futures=false))]
    fn shutdown(&self, py: Python<'_>, wait: bool, cancel_futures: bool) -> PyResult<()> {
        self.intake.shut_down(py, cancel_futures);
        if wait { self.intake.wait_until_idle(py) } else { Ok(()) }
    }

    /// The call that this thread is inside of is about to wait: another one may run meanwhile. Nothing elsewhere.
    fn _lend(&self, py: Python<'_>) -> bool {
        let is_here = self.intake.is_here();
        if is_here {
            self.intake.lend(py);
        }
        is_here
    }

    /// Waits for the place that was lent.
    fn _reclaim(&self, py: Python<'_>) -> PyResult<()> {
        self.intake.reclaim(py)
    }

    #[getter]
    fn _max_workers(&self) -> usize {
        self.intake.max_workers()
    }

    #[getter]
    fn _broken(&self) -> bool {
        self.intake.is_broken()
    }

    #[getter]
    fn _shutdown(&self) -> bool {
        self.intake.is_shut_down()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.intake.traverse(&visit)
    }
}
