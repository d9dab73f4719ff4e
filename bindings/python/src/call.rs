//! A call and its outcome.

use coreshard::ProcessGeneration;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::process;
use crate::waiting::or_never;

/// A function with its arguments.
pub(crate) struct Call {
    pub(crate) function: Py<PyAny>,
    pub(crate) args: Py<PyTuple>,
    pub(crate) kwargs: Option<Py<PyDict>>,
}

impl Call {
    pub(crate) fn new(
        function: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Self {
        Self {
            function: function.clone().unbind(),
            args: args.clone().unbind(),
            kwargs: kwargs.map(|kwargs| kwargs.clone().unbind()),
        }
    }

    pub(crate) fn run<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let kwargs = self.kwargs.as_ref().map(|kwargs| kwargs.bind(py));
        or_never(|| self.function.bind(py).call(self.args.bind(py), kwargs))
    }

    /// Runs a call without a future: its exceptions go to `sys.unraisablehook`. A child forked by the call ends with
    /// it.
    pub(crate) fn run_and_report(&self, py: Python<'_>) {
        let process = ProcessGeneration::current();
        if let Err(error) = self.run(py) {
            error.write_unraisable(py, Some(self.function.bind(py)));
        }
        if !process.is_current() {
            process::leave_fork(py);
        }
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.args)?;
        visit.call(&self.kwargs)
    }
}
