//! `coreshard.Workqueue`, and repeated work on it.

mod periodic;
mod queue;
mod work;

use std::sync::Arc;

use coreshard::{CpuId, MissedTick, Priority, RefusedReason, Scope};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

pub(crate) use self::periodic::Periodic;
use self::queue::{Queue, Room, wait_for};
pub(crate) use self::work::Work;
use crate::call::Call;
use crate::future::FutureCore;
use crate::process::{Ends as _, classes, runtime_error, value_error};
use crate::threads;
use crate::waiting::{self, Deadline, seconds};

/// A queue of calls, which run on the workers of pools that follow the machine's caches.
// Collector: this holds no Python object. Items own their calls, by references that no object shows.
#[pyclass(frozen, weakref, module = "coreshard")]
pub(crate) struct Workqueue {
    queue: Arc<Queue>,
}

impl Workqueue {
    fn handle(&self) -> &coreshard::Workqueue {
        self.queue.handle()
    }

    /// Queues an item in the pod of `cpu` or of the caller. Waits for room if the queue is full.
    fn put(
        &self,
        py: Python<'_>,
        cpu: Option<CpuId>,
        item: impl FnOnce() + Send + 'static,
    ) -> PyResult<()> {
        let queue = |item| match cpu {
            None => self.handle().queue(item),
            Some(cpu) => self.handle().queue_on(cpu, item),
        };
        let queued = match (self.queue.room(py)?, cpu) {
            (Room::Reserved(room), None) => room.queue(item),
            (Room::Reserved(room), Some(cpu)) => room.queue_on(cpu, item),
            // Without a capacity it does not wait.
            (Room::Any, _) => queue(item),
            (Room::OnWorker, _) => waiting::without_lock(py, || queue(item)),
        };
        queued.map_err(runtime_error)
    }
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
        builder = threads::for_python(builder, threads::stack_bytes(py)?).name(name).strict(strict);
        if let Some(scope) = scope {
            let scope: Scope = scope.parse().map_err(value_error)?;
            builder = builder.scope(scope);
        }
        if shard_size == Some(0) {
            return Err(PyValueError::new_err("invalid shard_size 0: expected at least 1"));
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
        let handle = waiting::without_lock(py, || builder.build()).map_err(value_error)?;
        Ok(Self { queue: Queue::of(handle)? })
    }

    #[getter]
    fn name(&self) -> &str {
        self.handle().name()
    }

    #[getter]
    fn capacity(&self) -> Option<usize> {
        self.handle().capacity()
    }

    /// Calls `fn(*args, **kwargs)` in the pod of this thread's CPU. Exceptions go to `sys.unraisablehook`. Waits for
    /// room if the queue has a capacity and is full.
    #[pyo3(signature = (r#fn, /, *args, **kwargs))]
    fn queue(
        &self,
        py: Python<'_>,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.put(py, None, item(Call::new(r#fn, args, kwargs)))
    }

    /// As `queue`, but returns False if the queue is full.
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

    /// As `queue`, in the pod of that CPU.
    #[pyo3(signature = (cpu, r#fn, /, *args, **kwargs))]
    fn queue_on(
        &self,
        py: Python<'_>,
        cpu: u32,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.put(py, Some(CpuId(cpu)), item(Call::new(r#fn, args, kwargs)))
    }

    /// As `queue`, but returns a future of the result.
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
        future.get().set_call(Call::new(r#fn, args, kwargs), None);
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
        let submitted = match self.queue.room(py)? {
            Room::Reserved(room) => room.submit(item),
            Room::Any => self.handle().submit(item),
            Room::OnWorker => waiting::without_lock(py, || self.handle().submit(item)),
        };
        future.get().set_item(submitted.map_err(runtime_error)?);
        Ok(made.unbind())
    }

    /// Returns a call that can be queued repeatedly with its own methods.
    #[pyo3(signature = (r#fn, /, *args, **kwargs))]
    fn work(
        &self,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Work {
        Work::new(Call::new(r#fn, args, kwargs), Arc::clone(&self.queue))
    }

    /// Calls it once, in `delay` seconds. The returned object cancels it.
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

    /// Calls it every `period` seconds, first after one period, until the returned object is stopped or collected.
    /// `missed` handles a tick that comes while one runs: "skip" drops it, "burst" makes up for it at once, "delay"
    /// shifts all later ones.
    #[pyo3(signature = (period, r#fn, /, *args, missed="skip", **kwargs))]
    fn every(
        &self,
        period: f64,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        missed: &str,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<Periodic>> {
        let missed = match missed {
            "burst" => MissedTick::Burst,
            "skip" => MissedTick::Skip,
            "delay" => MissedTick::Delay,
            other => {
                let message =
                    format!("invalid missed {other:?}: expected \"burst\", \"skip\" or \"delay\"");
                return Err(PyValueError::new_err(message));
            }
        };
        let period = seconds("period", period)?;
        let call = Call::new(r#fn, args, kwargs);
        Periodic::start(r#fn.py(), Arc::clone(&self.queue), period, missed, call)
    }

    /// Waits for items queued earlier.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let queue = self.handle().clone();
        wait_for(py, move || queue.flush())
    }

    /// Waits until the queue is empty. Meanwhile only its own items may queue more.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let queue = self.handle().clone();
        wait_for(py, move || queue.drain())
    }

    /// Prevents items from starting until `thaw`.
    fn freeze(&self, py: Python<'_>) -> PyResult<()> {
        waiting::without_lock(py, || self.handle().freeze()).map_err(runtime_error)
    }

    /// Ends `freeze`.
    fn thaw(&self, py: Python<'_>) -> PyResult<()> {
        waiting::without_lock(py, || self.handle().thaw()).map_err(runtime_error)
    }

    /// Stops accepting items, and waits until all have finished, at most `timeout` seconds. Returns False on a timeout.
    #[pyo3(signature = (timeout=None))]
    fn shutdown(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        self.queue.shut_down(py, Deadline::of(timeout)?)
    }

    /// Returns counts by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = waiting::without_lock(py, || self.handle().stats());
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
        self.queue.end(py)
    }

    fn __repr__(&self) -> String {
        format!("<coreshard.Workqueue {:?}>", self.name())
    }
}
