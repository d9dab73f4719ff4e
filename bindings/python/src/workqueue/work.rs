//! `coreshard.Work`: a call that is queued repeatedly.

use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use super::queue::{Queue, wait_for};
use crate::call::Call;
use crate::process::{self, Ends, runtime_error};
use crate::threads;
use crate::waiting::seconds;

struct Queued {
    work: coreshard::Work,
}

impl Ends for Queued {
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let work = self.work.clone();
        wait_for(py, move || work.disable_and_wait()).map(drop)
    }
}

/// A call that may be queued any number of times. It is pending at most once, and never runs on two workers at once.
// Collector: workers use the call while this is pending or runs, and it is shown at no other time. Only code that holds
// the GIL can queue it, which garbage does at most in a finalizer. The collector visits again after finalizers.
#[pyclass(frozen, weakref, module = "coreshard")]
pub(crate) struct Work {
    work: Arc<Queued>,
    call: Arc<Call>,
    queue: Arc<Queue>,
}

impl Work {
    pub(super) fn new(call: Call, queue: Arc<Queue>) -> Self {
        let call = Arc::new(call);
        let called = Arc::clone(&call);
        let work = coreshard::Work::new(move |_work: &coreshard::Work| {
            threads::on_worker(|py| called.run_and_report(py));
        });
        let work = Arc::new(Queued { work });
        process::ends_before_interpreter(&work);
        Self { work, call, queue }
    }

    fn inner(&self) -> &coreshard::Work {
        &self.work.work
    }
}

#[pymethods]
impl Work {
    /// Queues it. Returns False if it is pending already.
    fn queue(&self) -> PyResult<bool> {
        self.inner().queue(self.queue.handle()).map_err(runtime_error)
    }

    /// Queues it in `delay` seconds. Returns False if it is pending already.
    pub(super) fn queue_after(&self, delay: f64) -> PyResult<bool> {
        let delay = seconds("delay", delay)?;
        self.inner().queue_after(self.queue.handle(), delay).map_err(runtime_error)
    }

    /// Makes it due in `delay` seconds, pending or not. Returns True if it was pending.
    fn modify_delay(&self, delay: f64) -> PyResult<bool> {
        let delay = seconds("delay", delay)?;
        self.inner().modify_delay(self.queue.handle(), delay).map_err(runtime_error)
    }

    /// Cancels it. Returns True if it was pending. A run in progress continues.
    fn cancel(&self) -> bool {
        self.inner().cancel()
    }

    /// Cancels it, and waits for a run in progress.
    fn cancel_and_wait(&self, py: Python<'_>) -> PyResult<bool> {
        let work = self.inner().clone();
        wait_for(py, move || work.cancel_and_wait())
    }

    /// Waits until its last queueing has finished.
    fn flush(&self, py: Python<'_>) -> PyResult<bool> {
        let work = self.inner().clone();
        wait_for(py, move || work.flush())
    }

    /// Prevents queueing until `enable`; may be nested. Returns True if it was pending.
    fn disable(&self) -> PyResult<bool> {
        self.inner().disable().map_err(runtime_error)
    }

    /// Reverts one `disable`. Returns True if it was the last.
    fn enable(&self) -> PyResult<bool> {
        self.inner().enable().map_err(runtime_error)
    }

    #[getter]
    fn is_pending(&self) -> bool {
        self.inner().is_pending()
    }

    #[getter]
    fn is_running(&self) -> bool {
        self.inner().is_running()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if self.is_pending() || self.is_running() { Ok(()) } else { self.call.traverse(&visit) }
    }
}
