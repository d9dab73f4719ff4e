//! `coreshard.Workqueue`, and what is queued on it again and again.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use coreshard::{
    CpuId, MissedTick, Priority, ProcessGeneration, RefusedReason, Reservation, Scope,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyWeakrefMethods, PyWeakrefReference};

use crate::call::Call;
use crate::future::FutureCore;
use crate::process::{self, Ends, classes, runtime_error};
use crate::threads;
use crate::waiting::{self, Deadline, interruptible};

/// A queue's last handle but for those inside of the library. It is not dropped where Python's lock is held: that waits for
/// items, which need it.
struct Queue {
    handle: ManuallyDrop<coreshard::Workqueue>,
    made_in: ProcessGeneration,
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Another process's has nobody here to wait for, and locks that nobody will free.
        if process::has_ended() || !self.made_in.is_current() {
            return;
        }
        // SAFETY: this is the only place that takes it, and is reached once.
        let last = unsafe { ManuallyDrop::take(&mut self.handle) };
        let dropped = Arc::new(Dropped { is_over: AtomicU32::new(0) });
        Python::try_attach(|py| {
            // Before Python's lock is let go of, under which the interpreter may come to its end.
            process::ends_before_interpreter(&dropped);
            let elsewhere = move || {
                let thread = std::thread::Builder::new().name("cs-python-drop".to_owned());
                // Where no thread can be had, it waits here.
                let _ = thread.spawn(move || {
                    drop(last);
                    // Its partner is the load of who waits for it.
                    dropped.is_over.store(1, Release);
                    waiting::wake_all(&dropped.is_over);
                });
            };
            waiting::without_lock(py, elsewhere);
        });
    }
}

/// A queue whose items are run after nobody has it any more.
struct Dropped {
    is_over: AtomicU32,
}

impl Ends for Dropped {
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        while self.is_over.load(Acquire) == 0 {
            waiting::wait(py, &self.is_over, 0, Deadline::NEVER)?;
        }
        Ok(())
    }
}

impl Queue {
    /// Shuts it down, and waits. Nobody is left who would end a freeze.
    fn end_thawed(&self, py: Python<'_>) -> PyResult<()> {
        if self.made_in.is_current() {
            waiting::without_lock(py, || self.handle.thaw()).map_err(runtime_error)?;
        }
        shut_down(py, self, Deadline::NEVER).map(drop)
    }
}

impl Ends for Queue {
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.end_thawed(py)
    }
}

/// False where the time was over.
fn shut_down(py: Python<'_>, queue: &Queue, deadline: Deadline) -> PyResult<bool> {
    if !queue.made_in.is_current() {
        return Ok(true);
    }
    if deadline.is_never()
        && let Err(error) = queue.handle.flush_timeout(Duration::ZERO)
        && !error.is_timeout()
    {
        // Inside a call of the queue itself, which would wait for its own end.
        return Err(runtime_error(error));
    }
    loop {
        let step = deadline.step();
        if waiting::without_lock(py, || queue.handle.shutdown(step.unwrap_or_default())).is_ok() {
            return Ok(true);
        }
        if step.is_none() {
            return Ok(false);
        }
        py.check_signals()?;
    }
}

/// A queue of calls, which run on the workers of pools that follow the machine's caches.
// Collector: this holds no Python object. Items own their calls, by references that no object shows.
#[pyclass(frozen, weakref, module = "coreshard")]
pub(crate) struct Workqueue {
    queue: Arc<Queue>,
}

impl Workqueue {
    fn handle(&self) -> &coreshard::Workqueue {
        &self.queue.handle
    }

    /// Queues an item in the pod of `cpu`, or in the caller's; waits for room where the queue is full.
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
        let queued = match (self.room(py)?, cpu) {
            (Room::Reserved(room), None) => room.queue(item),
            (Room::Reserved(room), Some(cpu)) => room.queue_on(cpu, item),
            // Without a capacity it does not wait.
            (Room::Any, _) => queue(item),
            (Room::OnWorker, _) => waiting::without_lock(py, || queue(item)),
        };
        queued.map_err(runtime_error)
    }

    /// Room for an item. Where the queue is full it is waited for, in line; a signal's handler may end that by raising.
    fn room(&self, py: Python<'_>) -> PyResult<Room> {
        if self.capacity().is_none() || !self.queue.made_in.is_current() {
            return Ok(Room::Any);
        }
        if coreshard::current().is_some() {
            return Ok(Room::OnWorker);
        }
        let mut waits = pin!(self.handle().reserve_async());
        // Most find room at once.
        if let Poll::Ready(room) = waits.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return room.map(Room::Reserved).map_err(runtime_error);
        }
        let comes = Arc::new(Comes { count: AtomicU32::new(0) });
        let waker = Waker::from(Arc::clone(&comes));
        let mut context = Context::from_waker(&waker);
        loop {
            let seen = comes.count.load(Acquire);
            match waits.as_mut().poll(&mut context) {
                Poll::Ready(room) => return room.map(Room::Reserved).map_err(runtime_error),
                Poll::Pending => waiting::wait(py, &comes.count, seen, Deadline::NEVER)?,
            };
        }
    }
}

/// What an item needs to come into a queue.
enum Room {
    /// The queue has no capacity, or refuses whatever comes.
    Any,
    /// The caller is a worker: the library has to know that it waits, to refuse what would never end.
    OnWorker,
    Reserved(Reservation),
}

/// Tells a thread that there may be room now.
struct Comes {
    count: AtomicU32,
}

impl Wake for Comes {
    fn wake(self: Arc<Self>) {
        // Its partner is the load before each look.
        self.count.fetch_add(1, Release);
        waiting::wake_all(&self.count);
    }
}

fn seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        let message = format!(
            "{name}={seconds}: it is a number of seconds, at least 0, that a clock can count"
        );
        PyValueError::new_err(message)
    })
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
            return Err(PyValueError::new_err("shard_size=0: at least one core"));
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
        let queue = Arc::new(Queue {
            handle: ManuallyDrop::new(handle),
            made_in: ProcessGeneration::current(),
        });
        process::begins_before_end(&queue)?;
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

    /// Has `fn(*args, **kwargs)` called in the pod of the CPU that this thread runs on. What it raises goes to
    /// `sys.unraisablehook`. Waits for room in a queue that has a capacity and is full.
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

    /// As `queue`, but False where the queue is full.
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

    /// As `queue`, with a future of the result.
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
        let submitted = match self.room(py)? {
            Room::Reserved(room) => room.submit(item),
            Room::Any => self.handle().submit(item),
            Room::OnWorker => waiting::without_lock(py, || self.handle().submit(item)),
        };
        future.get().set_item(submitted.map_err(runtime_error)?);
        Ok(made.unbind())
    }

    /// A call that can be queued again and again; queued by its own methods.
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

    /// Has it called once, `delay` seconds from now; what comes back cancels it.
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

    /// Has it called every `period` seconds, first one period from now, until what comes back is stopped or collected. A tick
    /// that comes while one runs is `missed`: "skip" leaves it out, "burst" makes up for it at once, "delay" shifts all.
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
                let message = format!("missed={other:?}: one of \"burst\", \"skip\", \"delay\"");
                return Err(PyValueError::new_err(message));
            }
        };
        let period = seconds("period", period)?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_stopped);
        let call = Call::new(r#fn, args, kwargs);
        let periodic = Bound::new(r#fn.py(), Periodic { call, ticks: OnceLock::new() })?;
        let called = PyWeakrefReference::new(&periodic)?.unbind();
        let tick = move || {
            threads::on_worker(|py| match called.bind(py).upgrade_as::<Periodic>() {
                // It may have waited for Python's lock while another thread, which had it, stopped the ticks.
                Ok(Some(periodic)) if !stopped.load(Acquire) => {
                    periodic.get().call.run_and_report(py);
                }
                Ok(_) => {}
                Err(error) => error.write_unraisable(py, None),
            });
        };
        let ticks = coreshard::Periodic::start(self.handle(), period, missed, tick);
        let ticks = ticks.map_err(value_error)?;
        let ticks = Arc::new(Ticks { ticks, is_stopped, _queue: Arc::clone(&self.queue) });
        process::ends_before_interpreter(&ticks);
        periodic.get().ticks.get_or_init(|| ticks);
        Ok(periodic.unbind())
    }

    /// Waits for what was queued before.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let queue = self.handle().clone();
        interruptible(py, move || queue.flush())?.map_err(runtime_error)
    }

    /// Waits until nothing is left; meanwhile only the queue's own items may queue more.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let queue = self.handle().clone();
        interruptible(py, move || queue.drain())?.map_err(runtime_error)
    }

    /// Lets nothing begin until `thaw`.
    fn freeze(&self, py: Python<'_>) -> PyResult<()> {
        waiting::without_lock(py, || self.handle().freeze()).map_err(runtime_error)
    }

    /// Ends `freeze`.
    fn thaw(&self, py: Python<'_>) -> PyResult<()> {
        waiting::without_lock(py, || self.handle().thaw()).map_err(runtime_error)
    }

    /// Takes no more, and waits until all that was taken is over, at most `timeout` seconds: False where it is not.
    #[pyo3(signature = (timeout=None))]
    fn shutdown(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        shut_down(py, &self.queue, Deadline::of(timeout)?)
    }

    /// Counts, by name.
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
        self.queue.end_thawed(py)
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
// Collector: workers use the call while this is pending or runs, and it is shown at no other time. Only code that holds Python's lock can
// queue it, which garbage does no later than in a finalizer; the collector visits again after those.
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
    /// False where it is pending already.
    fn queue(&self) -> PyResult<bool> {
        self.inner().queue(&self.queue.handle).map_err(runtime_error)
    }

    /// The same, `delay` seconds from now.
    fn queue_after(&self, delay: f64) -> PyResult<bool> {
        self.inner()
            .queue_after(&self.queue.handle, seconds("delay", delay)?)
            .map_err(runtime_error)
    }

    /// Pending or not: it is due `delay` seconds from now. True where it was pending.
    fn modify_delay(&self, delay: f64) -> PyResult<bool> {
        self.inner()
            .modify_delay(&self.queue.handle, seconds("delay", delay)?)
            .map_err(runtime_error)
    }

    /// True where it was pending, and is not any more. A run goes on.
    fn cancel(&self) -> bool {
        self.inner().cancel()
    }

    /// The same, and waits for a run to be over.
    fn cancel_and_wait(&self, py: Python<'_>) -> PyResult<bool> {
        let work = self.inner().clone();
        interruptible(py, move || work.cancel_and_wait())?.map_err(runtime_error)
    }

    /// Waits for its last queueing to be over.
    fn flush(&self, py: Python<'_>) -> PyResult<bool> {
        let work = self.inner().clone();
        interruptible(py, move || work.flush())?.map_err(runtime_error)
    }

    /// Nobody can queue it until `enable`; nests. True where it was pending.
    fn disable(&self) -> PyResult<bool> {
        self.inner().disable().map_err(runtime_error)
    }

    /// Ends one `disable`; true where it was the last.
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

struct Ticks {
    ticks: coreshard::Periodic,
    is_stopped: Arc<AtomicBool>,
    /// So that the ticks' own handle is not the last one.
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
        interruptible(py, move || work.disable_and_wait().map(drop))?.map_err(runtime_error)
    }
}

/// A call that is made at a fixed rate until this is stopped or collected.
// Collector: ticks reach the call through a weak reference to this object. The collector clears it before it clears the call.
#[pyclass(frozen, weakref, module = "coreshard")]
pub(crate) struct Periodic {
    call: Call,
    /// Set by `every`, before it returns.
    ticks: OnceLock<Arc<Ticks>>,
}

impl Periodic {
    fn ticks(&self) -> PyResult<&Arc<Ticks>> {
        self.ticks.get().ok_or_else(|| PyRuntimeError::new_err("the first tick is not set up yet"))
    }
}

#[pymethods]
impl Periodic {
    /// No tick begins any more; a run goes on.
    fn stop(&self) -> PyResult<()> {
        self.ticks().map(|ticks| ticks.stop())
    }

    /// The same, and waits for a run to be over.
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
