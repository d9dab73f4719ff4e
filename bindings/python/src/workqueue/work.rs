//! `coreshard.Work`: a call that is queued again and again.

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

/// A call that is queued as often as one likes: pending once at most, and never on two workers at once.
// Collector: workers use the call while this is pending or runs, and it is shown at no other time. Only code that holds Python's lock can
// queue it, which garbage does no later than in a finalizer; the collector visits again after those.
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
    /// False if it is pending already.
    fn queue(&self) -> PyResult<bool> {
        self.inner().queue(self.queue.handle()).map_err(runtime_error)
    }

    /// The same, `delay` seconds from now.
    pub(super) fn queue_after(&self, delay: f64) -> PyResult<bool> {
        let delay = seconds("delay", delay)?;
        self.inner().queue_after(self.queue.handle(), delay).map_err(runtime_error)
    }

    /// Pending or not: it is due `delay` seconds from now. True if it was pending.
    fn modify_delay(&self, delay: f64) -> PyResult<bool> {
        let delay = seconds("delay", delay)?;
        self.inner().modify_delay(self.queue.handle(), delay).map_err(runtime_error)
    }

    /// True if it was pending, and is not any more. A run goes on.
    fn cancel(&self) -> bool {
        self.inner().cancel()
    }

    /// The same, and waits for a run to be over.
    fn cancel_and_wait(&self, py: Python<'_>) -> PyResult<bool> {
        let work = self.inner().clone();
        wait_for(py, move || work.cancel_and_wait())
    }

    /// Waits for its last queueing to be over.
    fn flush(&self, py: Python<'_>) -> PyResult<bool> {
        let work = self.inner().clone();
        wait_for(py, move || work.flush())
    }

    /// It cannot be queued until `enable`; nests. True if it was pending.
    fn disable(&self) -> PyResult<bool> {
        self.inner().disable().map_err(runtime_error)
    }

    /// Ends one `disable`; true if it was the last.
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
