//! `coreshard.Workqueue`, and what is queued on it again and again.

use std::sync::Arc;
use std::time::Duration;

use coreshard::{CpuId, MissedTick, Priority, RefusedReason, Scope};
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::call::Call;
use crate::future::FutureCore;
use crate::process::{self, Ends, classes, runtime_error};
use crate::threads;
use crate::waiting::{Deadline, interruptible};

/// A queue's last handle, which is not dropped where Python's lock is held: that waits for items, which need it.
struct Queue {
    handle: coreshard::Workqueue,
}

impl Drop for Queue {
    fn drop(&mut self) {
        let handle = self.handle.clone();
        // In an item of its own, where the drop waits for nothing.
        let item = self.handle.queue(move || drop(handle));
        if item.is_err() && !process::has_ended() {
            // It is shut down: what is to end is idle.
            let handle = self.handle.clone();
            std::thread::spawn(move || drop(handle));
        }
    }
}

impl Ends for Queue {
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        shut_down(py, &self.handle, Deadline::NEVER).map(drop)
    }
}

/// False where the time was over.
fn shut_down(py: Python<'_>, queue: &coreshard::Workqueue, deadline: Deadline) -> PyResult<bool> {
    loop {
        let step = deadline.step();
        if py.detach(|| queue.shutdown(step.unwrap_or_default())).is_ok() {
            return Ok(true);
        }
        if step.is_none() {
            return Ok(false);
        }
        py.check_signals()?;
    }
}

/// A queue of calls, which run on the workers of pools that follow the machine's caches.
#[pyclass(frozen, weakref, module = "coreshard")]
pub(crate) struct Workqueue {
    queue: Arc<Queue>,
}

impl Workqueue {
    fn handle(&self) -> &coreshard::Workqueue {
        &self.queue.handle
    }
}

fn seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| PyValueError::new_err(format!("{name}={seconds}: {error}")))
}

fn item(call: Call) -> impl FnOnce() + Send + 'static {
    move || {
        let mut call = Some(call);
        threads::on_worker(|py| {
            if let Some(call) = call.take() {
                call.run_and_report(py);
            }
        });
    }
}

#[pymethods]
impl Workqueue {
    #[new]
    #[pyo3(signature = (name="python".to_owned(), *, scope=None, shard_size=None, strict=false, max_active=None,
        ordered=false, capacity=None, nice=None, high_priority=false, cpus=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords, in Python")]
    fn new(
        py: Python<'_>,
        name: String,
        scope: Option<&str>,
        shard_size: Option<usize>,
        strict: bool,
        max_active: Option<usize>,
        ordered: bool,
        capacity: Option<usize>,
        nice: Option<i8>,
        high_priority: bool,
        cpus: Option<Vec<u32>>,
    ) -> PyResult<Self> {
        let mut builder = coreshard::workqueue().map_err(runtime_error)?;
        builder = builder.name(name).strict(strict).hooks(threads::hooks());
        if let Some(scope) = scope {
            let scope: Scope = scope.parse().map_err(value_error)?;
            builder = builder.scope(scope);
        }
        if let Some(cores) = shard_size {
            builder = builder.shard_size(cores);
        }
        if let Some(items) = max_active {
            builder = builder.max_active(items);
        }
        if ordered {
            builder = builder.ordered();
        }
        if let Some(items) = capacity {
            builder = builder.capacity(items);
        }
        if let Some(nice) = nice {
            builder = builder.nice(nice);
        }
        if high_priority {
            builder = builder.priority(Priority::High);
        }
        if let Some(cpus) = cpus {
            builder = builder.cpu_mask(cpus.into_iter().map(CpuId).collect());
        }
        let handle = py.detach(|| builder.build()).map_err(value_error)?;
        let queue = Arc::new(Queue { handle });
        process::ends_before_interpreter(&queue);
        Ok(Self { queue })
    }

    #[getter]
    fn name(&self) -> &str {
        self.handle().name()
    }

    #[getter]
    fn capacity(&self) -> Option<usize> {
        self.handle().capacity()
    }

    #[pyo3(signature = (r#fn, /, *args, **kwargs))]
    fn queue(
        &self,
        py: Python<'_>,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let item = item(Call::new(r#fn, args, kwargs));
        // Without a capacity it does not wait.
        let queued = match self.capacity() {
            None => self.handle().queue(item),
            Some(_) => py.detach(|| self.handle().queue(item)),
        };
        queued.map_err(runtime_error)
    }

    #[pyo3(signature = (r#fn, /, *args, **kwargs))]
    fn try_queue(
        &self,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        match self.handle().try_queue(item(Call::new(r#fn, args, kwargs))) {
            Ok(()) => Ok(true),
            Err(refused) if refused.reason() == RefusedReason::Full => Ok(false),
            Err(refused) => Err(runtime_error(refused)),
        }
    }

    #[pyo3(signature = (cpu, r#fn, /, *args, **kwargs))]
    fn queue_on(
        &self,
        py: Python<'_>,
        cpu: u32,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let item = item(Call::new(r#fn, args, kwargs));
        py.detach(|| self.handle().queue_on(CpuId(cpu), item)).map_err(runtime_error)
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
        future.get().set_call_alone(Call::new(r#fn, args, kwargs));
        let queued = future.clone().unbind();
        let item = move || {
            let mut queued = Some(queued);
            let sleepers = threads::on_worker(|py| {
                queued.take().and_then(|queued| FutureCore::run(queued.bind(py)))
            });
            if let Some(Some(sleepers)) = sleepers {
                sleepers.wake();
            }
        };
        match self.capacity() {
            None => self.handle().queue(item),
            Some(_) => py.detach(|| self.handle().queue(item)),
        }
        .map_err(runtime_error)?;
        Ok(made.unbind())
    }

    #[pyo3(signature = (r#fn, /, *args, **kwargs))]
    fn work(
        &self,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Work {
        let call = Arc::new(Call::new(r#fn, args, kwargs));
        let called = Arc::clone(&call);
        let work = coreshard::Work::new(move |_work: &coreshard::Work| {
            threads::on_worker(|py| called.run_and_report(py));
        });
        let work = Arc::new(Queued { work });
        process::ends_before_interpreter(&work);
        Work { work, call, queue: Arc::clone(&self.queue) }
    }

    #[pyo3(signature = (delay, r#fn, /, *args, **kwargs))]
    fn queue_after(
        &self,
        delay: f64,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Work> {
        let work = self.work(r#fn, args, kwargs);
        work.queue_after(delay)?;
        Ok(work)
    }

    #[pyo3(signature = (period, r#fn, /, *args, missed="skip", **kwargs))]
    fn every(
        &self,
        period: f64,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        missed: &str,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Periodic> {
        let missed = match missed {
            "burst" => MissedTick::Burst,
            "skip" => MissedTick::Skip,
            "delay" => MissedTick::Delay,
            other => {
                let message = format!("missed={other:?}: one of \"burst\", \"skip\", \"delay\"");
                return Err(PyValueError::new_err(message));
            }
        };
        let call = Call::new(r#fn, args, kwargs);
        let tick = move || {
            threads::on_worker(|py| call.run_and_report(py));
        };
        let period = seconds("period", period)?;
        let ticks = coreshard::Periodic::start(self.handle(), period, missed, tick);
        let ticks = Arc::new(Ticks { ticks: ticks.map_err(value_error)? });
        process::ends_before_interpreter(&ticks);
        Ok(Periodic { ticks })
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let queue = self.handle().clone();
        interruptible(py, move || queue.flush())?.map_err(runtime_error)
    }

    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let queue = self.handle().clone();
        interruptible(py, move || queue.drain())?.map_err(runtime_error)
    }

    fn freeze(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.handle().freeze()).map_err(runtime_error)
    }

    fn thaw(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.handle().thaw()).map_err(runtime_error)
    }

    #[pyo3(signature = (timeout=None))]
    fn shutdown(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        shut_down(py, self.handle(), Deadline::of(timeout)?)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.handle().stats());
        let known = PyDict::new(py);
        known.set_item("name", stats.name)?;
        known.set_item("scope", stats.scope.to_string())?;
        known.set_item("queued", stats.queued)?;
        known.set_item("run", stats.run)?;
        known.set_item("active", stats.active)?;
        known.set_item("waiting", stats.waiting)?;
        known.set_item("is_frozen", stats.is_frozen)?;
        known.set_item("capacity", stats.capacity)?;
        known.set_item("capacity_used", stats.capacity_used)?;
        known.set_item("refused", stats.refused)?;
        known.set_item("pools", stats.pools.len())?;
        Ok(known)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        shut_down(py, self.handle(), Deadline::NEVER).map(drop)
    }

    fn __repr__(&self) -> String {
        format!("<coreshard.Workqueue {:?}>", self.name())
    }
}

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

struct Queued {
    work: coreshard::Work,
}

impl Ends for Queued {
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let work = self.work.clone();
        interruptible(py, move || work.disable_and_wait().map(drop))?.map_err(runtime_error)
    }
}

/// A call that is queued as often as one likes: pending once at most, and never on two workers at once.
#[pyclass(frozen, weakref, module = "coreshard")]
pub(crate) struct Work {
    work: Arc<Queued>,
    call: Arc<Call>,
    queue: Arc<Queue>,
}

impl Work {
    fn inner(&self) -> &coreshard::Work {
        &self.work.work
    }
}

#[pymethods]
impl Work {
    fn queue(&self) -> PyResult<bool> {
        self.inner().queue(&self.queue.handle).map_err(runtime_error)
    }

    fn queue_after(&self, delay: f64) -> PyResult<bool> {
        self.inner()
            .queue_after(&self.queue.handle, seconds("delay", delay)?)
            .map_err(runtime_error)
    }

    fn modify_delay(&self, delay: f64) -> PyResult<bool> {
        self.inner()
            .modify_delay(&self.queue.handle, seconds("delay", delay)?)
            .map_err(runtime_error)
    }

    fn cancel(&self) -> bool {
        self.inner().cancel()
    }

    fn cancel_and_wait(&self, py: Python<'_>) -> PyResult<bool> {
        let work = self.inner().clone();
        interruptible(py, move || work.cancel_and_wait())?.map_err(runtime_error)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<bool> {
        let work = self.inner().clone();
        interruptible(py, move || work.flush())?.map_err(runtime_error)
    }

    fn disable(&self) -> PyResult<bool> {
        self.inner().disable().map_err(runtime_error)
    }

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
        // While it may run, nobody may take what it calls for garbage.
        if self.is_pending() || self.is_running() { Ok(()) } else { self.call.traverse(&visit) }
    }
}

struct Ticks {
    ticks: coreshard::Periodic,
}

impl Ends for Ticks {
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let work = self.ticks.work().clone();
        interruptible(py, move || work.disable_and_wait().map(drop))?.map_err(runtime_error)
    }
}

/// A call that is made at a fixed rate until this is stopped or collected.
#[pyclass(frozen, weakref, module = "coreshard")]
pub(crate) struct Periodic {
    ticks: Arc<Ticks>,
}

#[pymethods]
impl Periodic {
    fn stop(&self) {
        self.ticks.ticks.stop();
    }

    fn stop_and_wait(&self, py: Python<'_>) -> PyResult<()> {
        self.ticks.end(py)
    }

    #[getter]
    fn skipped_ticks(&self) -> u64 {
        self.ticks.ticks.skipped_ticks()
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.ticks.end(py)
    }
}
