//! The process's runtime, one per machine type that has one.

use std::borrow::Borrow;
use std::panic::Location;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coreshard_platform::{Host, Platform};
use coreshard_topology::{Topology, Usable};
use coreshard_workqueue::{Runtime, RuntimeBuilder, Timeout, Workqueue};

use crate::runtime_error::{RuntimeError, RuntimeErrorKind};

/// The settings of a process's runtime. They are applied again in each forked process.
pub(crate) type Settings<P> = Arc<dyn Fn(RuntimeBuilder<P>) -> RuntimeBuilder<P> + Send + Sync>;

/// A process's runtime.
pub(crate) struct Process<P: Platform> {
    /// The generation of the process that made it. Forked processes have another one.
    generation: u32,
    pub(crate) runtime: Runtime<P>,
    /// The first call that requested it.
    made_at: &'static Location<'static>,
    settings: Option<Settings<P>>,
    /// Runs `join` for threads that are not workers.
    join_queue: OnceLock<Workqueue<P>>,
}

/// The runtimes of this process, and of a process forked from one with a runtime. Runtimes of other processes are never
/// freed: their threads do not exist here.
pub(crate) struct Slots<P: Platform> {
    first: OnceLock<Process<P>>,
    forked: AtomicPtr<Process<P>>,
}

/// A platform on which this process has a runtime.
pub(crate) trait Machine: Platform {
    /// A handle to the process's queue for `join`.
    type JoinQueue: Borrow<Workqueue<Self>>;

    /// Returns the process's runtime, creating it at the first call.
    #[track_caller]
    fn process() -> Result<&'static Process<Self>, RuntimeError>;

    /// Creates the process's runtime with these settings, unless it exists.
    #[track_caller]
    fn configure(settings: Settings<Self>) -> Result<(), RuntimeError>;

    /// Returns a builder set to the CPUs that this process may use.
    fn runtime_builder() -> Result<RuntimeBuilder<Self>, RuntimeError>;

    /// Returns the queue of `join` for callers that are not workers.
    #[track_caller]
    fn join_queue() -> Result<Self::JoinQueue, RuntimeError>;

    #[track_caller]
    fn runtime() -> Result<&'static Runtime<Self>, RuntimeError> {
        Ok(&Self::process()?.runtime)
    }

    /// # Panics
    /// If the process has no runtime, or the runtime's timekeeper cannot be started.
    #[track_caller]
    fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F, Self> {
        let timed = Self::runtime().map(|runtime| runtime.timeout(duration, future));
        let timed = timed.unwrap_or_else(|error| panic!("a time-out needs a runtime: {error}"));
        timed.unwrap_or_else(|error| panic!("a time-out needs a timekeeper: {error}"))
    }
}

impl Machine for Host {
    type JoinQueue = &'static Workqueue<Self>;

    #[track_caller]
    fn process() -> Result<&'static Process<Self>, RuntimeError> {
        host().get()
    }

    #[track_caller]
    fn configure(settings: Settings<Self>) -> Result<(), RuntimeError> {
        host().configure(settings)
    }

    fn runtime_builder() -> Result<RuntimeBuilder<Self>, RuntimeError> {
        this_machine()
    }

    #[track_caller]
    fn join_queue() -> Result<Self::JoinQueue, RuntimeError> {
        host().get()?.join_queue()
    }
}

fn host() -> &'static Slots<Host> {
    static SLOTS: Slots<Host> = Slots::new();
    &SLOTS
}

impl<M: Machine> Process<M> {
    pub(crate) fn new(
        settings: Option<Settings<M>>,
        made_at: &'static Location<'static>,
    ) -> Result<Self, RuntimeError> {
        let builder = M::runtime_builder()?;
        let builder = settings.iter().fold(builder, |builder, settings| settings(builder));
        let runtime =
            builder.build().map_err(|error| RuntimeError::new(RuntimeErrorKind::Build(error)))?;
        let generation = M::process_generation();
        Ok(Self { generation, runtime, made_at, settings, join_queue: OnceLock::new() })
    }

    fn is_of_this_process(&self) -> bool {
        self.generation == M::process_generation()
    }

    /// Returns the error of a `configure` after this runtime was created.
    pub(crate) fn exists(&self) -> RuntimeError {
        RuntimeError::new(RuntimeErrorKind::Runs(self.made_at))
    }

    pub(crate) fn new_join_queue(&self) -> Result<Workqueue<M>, RuntimeError> {
        let queue = self.runtime.workqueue().name("join").build();
        queue.map_err(|error| RuntimeError::new(RuntimeErrorKind::Build(error)))
    }

    pub(crate) fn join_queue(&self) -> Result<&Workqueue<M>, RuntimeError> {
        if let Some(queue) = self.join_queue.get() {
            return Ok(queue);
        }
        let queue = self.new_join_queue()?;
        Ok(self.join_queue.get_or_init(|| queue))
    }
}

impl<M: Machine> Slots<M> {
    pub(crate) const fn new() -> Self {
        Self { first: OnceLock::new(), forked: AtomicPtr::new(std::ptr::null_mut()) }
    }

    #[track_caller]
    pub(crate) fn get(&'static self) -> Result<&'static Process<M>, RuntimeError> {
        if let Some(process) = self.first.get() {
            return if process.is_of_this_process() { Ok(process) } else { self.forked(process) };
        }
        let process = Process::new(None, Location::caller())?;
        // If two threads race, the first runtime is kept.
        Ok(self.first.get_or_init(|| process))
    }

    #[track_caller]
    pub(crate) fn configure(&'static self, settings: Settings<M>) -> Result<(), RuntimeError> {
        if let Some(process) = self.first.get() {
            return Err(process.exists());
        }
        let process = Process::new(Some(settings), Location::caller())?;
        self.first.set(process).map_err(|_| match self.first.get() {
            Some(first) => first.exists(),
            None => unreachable!("another thread has set it"),
        })
    }

    /// Returns the runtime of a process that was forked from one with a runtime.
    #[cold]
    #[track_caller]
    #[allow(unsafe_code)]
    fn forked(&'static self, parent: &Process<M>) -> Result<&'static Process<M>, RuntimeError> {
        let mut known = self.forked.load(Acquire);
        loop {
            // SAFETY: made by `Box::into_raw` below, and never freed.
            if let Some(process) = unsafe { known.as_ref() }
                && process.is_of_this_process()
            {
                return Ok(process);
            }
            let process = Process::new(parent.settings.clone(), Location::caller())?;
            let made = Box::into_raw(Box::new(process));
            match self.forked.compare_exchange(known, made, AcqRel, Acquire) {
                Ok(_) => known = made,
                Err(now) => {
                    // SAFETY: created above, and not seen by other threads.
                    drop(unsafe { Box::from_raw(made) });
                    known = now;
                }
            }
        }
    }
}

/// Returns a builder for this machine, on any platform that runs on it; see
/// [`runtime_builder`](crate::runtime_builder).
pub(crate) fn this_machine<P: Platform>() -> Result<RuntimeBuilder<P>, RuntimeError> {
    let read = |error| RuntimeError::new(RuntimeErrorKind::Topology(error));
    let topology = Topology::host().or_else(|error| match coreshard_platform::affinity() {
        Ok(cpus) => Topology::of_cpus(&cpus, format!("cannot read the topology: {error}")),
        Err(_) => Err(error),
    });
    let topology = topology.map_err(read)?;
    if !topology.is_described() {
        let why = topology.notes().first().map_or("", String::as_str);
        tracing::warn!(cpus = %topology.online(), "{why}");
    }
    let usable = Usable::host(&topology).map_err(read)?;
    let known = topology.clone();
    let probe = move || {
        let now = Topology::host().and_then(|topology| Usable::host(&topology)).ok()?;
        Some(now.cpus().intersection(known.online()))
    };
    let builder = Runtime::<P>::builder(topology).usable(usable.cpus().clone()).follow_cpus(probe);
    Ok(match usable.quota_cpus() {
        Some(cpus) => builder.cpu_quota(cpus),
        None => builder,
    })
}
