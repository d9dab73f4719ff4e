//! `coreshard.Periodic`: a call at a fixed rate.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coreshard::MissedTick;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyWeakrefMethods, PyWeakrefReference};

use super::queue::{Queue, wait_for};
use crate::call::Call;
use crate::process::{self, Ends, value_error};
use crate::threads;

struct Ticks {
    ticks: coreshard::Periodic,
    is_stopped: Arc<AtomicBool>,
    /// Keeps the queue, so that the ticks' handle is not the last one.
    _queue: Arc<Queue>,
}

impl Ticks {
    fn stop(&self) {
        self.is_stopped.store(true, Release);
        self.ticks.stop();
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Ends for Ticks {
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.is_stopped.store(true, Release);
        let work = self.ticks.work().clone();
        wait_for(py, move || work.disable_and_wait()).map(drop)
    }
}

/// A call at a fixed rate, until this object is stopped or collected.
// Collector: ticks reach the call through a weak reference to this object. The collector clears it before it clears the call.
#[pyclass(frozen, weakref, module = "coreshard")]
pub(crate) struct Periodic {
    call: Call,
    /// Set by `start`, before it returns.
    ticks: OnceLock<Arc<Ticks>>,
}

impl Periodic {
    /// Starts the calls, first after one period.
    pub(super) fn start(
        py: Python<'_>,
        queue: Arc<Queue>,
        period: Duration,
        missed: MissedTick,
        call: Call,
    ) -> PyResult<Py<Self>> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_stopped);
        let periodic = Bound::new(py, Self { call, ticks: OnceLock::new() })?;
        let called = PyWeakrefReference::new(&periodic)?.unbind();
        let tick = move || {
            threads::on_worker(|py| match called.bind(py).upgrade_as::<Self>() {
                // Another thread may have stopped the ticks while this one waited for the GIL.
                Ok(Some(periodic)) if !stopped.load(Acquire) => {
                    periodic.get().call.run_and_report(py);
                }
                Ok(_) => {}
                Err(error) => error.write_unraisable(py, None),
            });
        };
        let ticks = coreshard::Periodic::start(queue.handle(), period, missed, tick);
        let ticks = ticks.map_err(value_error)?;
        let ticks = Arc::new(Ticks { ticks, is_stopped, _queue: queue });
        process::ends_before_interpreter(&ticks);
        periodic.get().ticks.get_or_init(|| ticks);
        Ok(periodic.unbind())
    }

    fn ticks(&self) -> PyResult<&Arc<Ticks>> {
        self.ticks.get().ok_or_else(|| PyRuntimeError::new_err("the first tick is not set up yet"))
    }
}

#[pymethods]
impl Periodic {
    /// Stops further ticks. A run in progress continues.
    fn stop(&self) -> PyResult<()> {
        self.ticks().map(|ticks| ticks.stop())
    }

    /// Stops further ticks, and waits for a run in progress.
    fn stop_and_wait(&self, py: Python<'_>) -> PyResult<()> {
        self.ticks()?.end(py)
    }

    #[getter]
    fn skipped_ticks(&self) -> PyResult<u64> {
        self.ticks().map(|ticks| ticks.ticks.skipped_ticks())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.call.traverse(&visit)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.stop_and_wait(py)
    }
}
