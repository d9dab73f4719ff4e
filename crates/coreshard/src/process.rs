//! The process's own runtime: this machine, as this process may use it.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coreshard_topology::{Topology, TopologyError, Usable};
use coreshard_workqueue::BuildError;

use crate::Here as Host;
use crate::ProcessGeneration;
use crate::aliases::{Builder, Runtime, RuntimeBuilder, TeamBuilder, Timeout, Workqueue};

/// Why the process has no runtime of its own, or cannot [`configure`] it.
pub struct RuntimeError {
    kind: RuntimeErrorKind,
}

#[derive(Debug)]
enum RuntimeErrorKind {
    Topology(TopologyError),
    Build(BuildError),
    /// It is there; asked for first at this place.
    Runs(&'static Location<'static>),
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            RuntimeErrorKind::Topology(error) => write!(f, "this machine cannot be read: {error}"),
            RuntimeErrorKind::Build(error) => error.fmt(f),
            RuntimeErrorKind::Runs(made_at) => write!(
                f,
                "the process's runtime is there already: {made_at} asked for it first; configure it before, \
                 at the start of main, or make a runtime of your own with runtime_builder"
            ),
        }
    }
}

coreshard_topology::readable_debug!(RuntimeError);

impl std::error::Error for RuntimeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            RuntimeErrorKind::Topology(error) => Some(error),
            RuntimeErrorKind::Build(error) => Some(error),
            RuntimeErrorKind::Runs(_) => None,
        }
    }
}

/// The runtime of this process; of one that was forked from a process with a runtime, by the count
/// of forks that lie between. Runtimes of other processes are never freed: they hold no thread here.
static PROCESS: OnceLock<Process> = OnceLock::new();
static FORKED: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

/// A process's runtime.
struct Process {
    made_in: ProcessGeneration,
    runtime: Runtime,
    /// Where it was asked for first.
    made_at: &'static Location<'static>,
    /// What was said of it before it was made; for forked processes, too.
    settings: Option<Settings>,
    /// For those who are on no worker and fork.
    join_queue: OnceLock<Workqueue>,
}

type Settings = Arc<dyn Fn(RuntimeBuilder) -> RuntimeBuilder + Send + Sync>;

impl Process {
    fn new(
        settings: Option<Settings>,
        made_at: &'static Location<'static>,
    ) -> Result<Self, RuntimeError> {
        let builder = runtime_builder()?;
        let builder = settings.iter().fold(builder, |builder, settings| settings(builder));
        let runtime = builder
            .build()
            .map_err(|error| RuntimeError { kind: RuntimeErrorKind::Build(error) })?;
        let made_in = ProcessGeneration::current();
        Ok(Self { made_in, runtime, made_at, settings, join_queue: OnceLock::new() })
    }
}

/// That of this process, made at the first call.
#[track_caller]
fn process() -> Result<&'static Process, RuntimeError> {
    #[cfg(feature = "testing")]
    if simulated::is_here() {
        let made_at = Location::caller();
        return simulated::get_or_make(|| Process::new(None, made_at));
    }
    if let Some(process) = PROCESS.get() {
        return if process.made_in.is_current() { Ok(process) } else { forked(process) };
    }
    let process = Process::new(None, Location::caller())?;
    // Where two threads come here at once, the first one's is kept.
    Ok(PROCESS.get_or_init(|| process))
}

/// The process's runtime, made at the first call: this machine's topology, the CPUs that affinity
/// and cpusets leave to the process, and the cgroup's CPU quota; and what [`configure`] said before. It starts
/// no thread by itself. While there is work it follows the affinity and the cpusets; CPUs that come online
/// later than it was made are not known to it.
///
/// # Errors
/// Where the machine's description cannot be read. A later call tries again.
///
/// # Examples
/// ```
/// let runtime = coreshard::runtime()?;
/// println!("{} on CPUs {}", runtime.topology().name(), runtime.usable());
/// let queue = runtime.workqueue().name("mail").build()?;
/// # drop(queue);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn runtime() -> Result<&'static Runtime, RuntimeError> {
    Ok(&process()?.runtime)
}

/// Says what the process's runtime is to be, and makes it: `settings` is called with the builder that
/// [`runtime`] would have used, as [`runtime_builder`] gives it. For a `main`, before anything uses the runtime; a library leaves
/// it alone. A process that is forked from this one has a runtime with the same settings, for which they
/// are called again.
///
/// # Errors
/// Where the process has its runtime already: the error tells the file and line that asked for it first. Else
/// as [`runtime`], and where what is asked for cannot be.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// coreshard::configure(|builder| {
///     builder
///         .workers(8)
///         .max_workers(64)
///         .cpu_intensive_threshold(Duration::from_millis(50))
///         .thread_names("mail-")
///         .on_trouble(|trouble| eprintln!("{trouble}"))
/// })?;
/// let queue = coreshard::workqueue()?.scope(coreshard::Scope::System).build()?;
/// assert_eq!(queue.stats().total().worker_limit, 8);
///
/// let error = coreshard::configure(|builder| builder).unwrap_err();
/// println!("{error}"); // the process's runtime is there already: ... asked for it first
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "build_global")]
#[track_caller]
pub fn configure(
    settings: impl Fn(RuntimeBuilder) -> RuntimeBuilder + Send + Sync + 'static,
) -> Result<(), RuntimeError> {
    let runs = |process: &Process| RuntimeError { kind: RuntimeErrorKind::Runs(process.made_at) };
    #[cfg(feature = "testing")]
    if simulated::is_here() {
        let made_at = Location::caller();
        return simulated::make(|| Process::new(Some(Arc::new(settings)), made_at))?
            .map(|_| ())
            .map_err(runs);
    }
    if let Some(process) = PROCESS.get() {
        return Err(runs(process));
    }
    let process = Process::new(Some(Arc::new(settings)), Location::caller())?;
    PROCESS.set(process).map_err(|_| runs(PROCESS.get().expect("somebody was first")))
}

/// The process's queue for those who are on no worker and fork.
#[cfg(not(feature = "testing"))]
pub(crate) type JoinQueue = &'static Workqueue;
/// That of a simulated process ends with it.
#[cfg(feature = "testing")]
pub(crate) type JoinQueue = Workqueue;

/// The queue for those who are on no worker and fork.
#[track_caller]
pub(crate) fn join_queue() -> Result<JoinQueue, RuntimeError> {
    let process = process()?;
    let make = || {
        let queue = process.runtime.workqueue().name("join").build();
        queue.map_err(|error| RuntimeError { kind: RuntimeErrorKind::Build(error) })
    };
    #[cfg(feature = "testing")]
    if simulated::is_here() {
        return simulated::join_queue(make);
    }
    let queue = match process.join_queue.get() {
        Some(queue) => queue,
        None => {
            let queue = make()?;
            process.join_queue.get_or_init(|| queue)
        }
    };
    #[cfg(feature = "testing")]
    let queue = queue.clone();
    Ok(queue)
}

/// That of a process that was forked from one that has a runtime: one of its own.
#[cold]
#[track_caller]
#[allow(unsafe_code)]
fn forked(parent: &Process) -> Result<&'static Process, RuntimeError> {
    let mut known = FORKED.load(Acquire);
    loop {
        // SAFETY: made by `Box::into_raw` below, and never freed.
        if let Some(process) = unsafe { known.as_ref() }
            && process.made_in.is_current()
        {
            return Ok(process);
        }
        let process = Process::new(parent.settings.clone(), Location::caller())?;
        let made = Box::into_raw(Box::new(process));
        match FORKED.compare_exchange(known, made, AcqRel, Acquire) {
            Ok(_) => known = made,
            Err(now) => {
                // SAFETY: made just now, and known to nobody else.
                drop(unsafe { Box::from_raw(made) });
                known = now;
            }
        }
    }
}

/// A builder of further runtimes on this machine, set to what this process may use.
///
/// Where `/sys` cannot be read, the machine is taken for the CPUs that affinity and control groups leave
/// to the process, with one last-level cache; a warning (`tracing`) says so.
///
/// # Errors
/// Where neither the machine's description nor the affinity can be read.
///
/// # Examples
/// ```
/// let runtime = coreshard::runtime_builder()?.workers(2).thread_names("mail-").build()?;
/// let queue = runtime.workqueue().name("mail").build()?;
/// queue.queue(|| println!("on a runtime of its own"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn runtime_builder() -> Result<RuntimeBuilder, RuntimeError> {
    #[cfg(feature = "testing")]
    if let Some(topology) = crate::test_machine::SimulatedProcess::topology() {
        return Ok(Runtime::builder(topology));
    }
    let read = |error| RuntimeError { kind: RuntimeErrorKind::Topology(error) };
    let topology = Topology::host().or_else(|error| match coreshard_platform::affinity() {
        Ok(cpus) => Topology::of_cpus(&cpus, format!("the machine is not told: {error}")),
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
    let builder = coreshard_workqueue::Runtime::<Host>::builder(topology)
        .usable(usable.cpus().clone())
        .follow_cpus(probe);
    Ok(match usable.quota_cpus() {
        Some(cpus) => builder.cpu_quota(cpus),
        None => builder,
    })
}

/// Gives `future` so long, on the process's runtime: what it yields, or [`Elapsed`](crate::Elapsed), with `future`
/// dropped, when the time is over before. It may be awaited under any executor.
///
/// ```
/// use std::time::Duration;
///
/// let queue = coreshard::workqueue()?.name("requests").build()?;
/// let answer = queue.submit(|| 42)?; // a handle is a future, too
/// let task = queue.spawn(async move {
///     match coreshard::timeout(Duration::from_secs(60), answer).await {
///         Ok(answer) => assert_eq!(answer.unwrap(), 42),
///         Err(elapsed) => println!("{elapsed}"),
///     }
/// })?;
/// # while !task.is_finished() { std::thread::yield_now() }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// Where the process has no runtime, or no thread can be had that watches the clock: [`runtime`] and
/// [`Runtime::timeout`](crate::Runtime::timeout) say so by errors.
#[doc(alias = "deadline")]
#[track_caller]
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    let timed = runtime().map(|runtime| runtime.timeout(duration, future));
    let timed = timed.unwrap_or_else(|error| panic!("a time-out needs a runtime: {error}"));
    timed.unwrap_or_else(|error| panic!("a time-out needs a timekeeper: {error}"))
}

/// Makes a workqueue on the process's runtime.
///
/// # Errors
/// As [`runtime`].
///
/// # Examples
/// ```
/// let queue = coreshard::workqueue()?.name("mail").max_active(8).build()?;
/// queue.queue(|| println!("sent"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("alloc_workqueue", "thread pool"))]
#[track_caller]
pub fn workqueue() -> Result<Builder<'static>, RuntimeError> {
    Ok(runtime()?.workqueue())
}

/// Makes a team of threads on the process's runtime; the name is for reports and errors.
///
/// # Errors
/// As [`runtime`].
///
/// # Examples
/// ```
/// let team = coreshard::team("render")?.members(2).build()?;
/// assert_eq!(team.broadcast(|index| index), [0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ThreadPoolBuilder", "thread pool"))]
#[track_caller]
pub fn team(name: impl Into<String>) -> Result<TeamBuilder<'static>, RuntimeError> {
    Ok(runtime()?.team(name))
}

/// The runtime of the simulated process that the caller is in.
#[cfg(feature = "testing")]
pub(crate) mod simulated {
    use std::cell::{Cell, RefCell};

    use super::Process;
    use crate::aliases::{Runtime, Workqueue};

    thread_local! {
        // All virtual threads of a simulation are on one host thread, which runs no other.
        static PROCESS: Cell<Option<&'static Process>> = const { Cell::new(None) };
        static JOIN_QUEUE: RefCell<Option<Workqueue>> = const { RefCell::new(None) };
    }

    pub(super) fn is_here() -> bool {
        coreshard_sim::Sim::is_running()
    }

    /// If there is one.
    pub(crate) fn runtime() -> Option<&'static Runtime> {
        PROCESS.get().map(|process| &process.runtime)
    }

    pub(super) fn get_or_make<E>(
        make_it: impl FnOnce() -> Result<Process, E>,
    ) -> Result<&'static Process, E> {
        match PROCESS.get() {
            Some(process) => Ok(process),
            // Another virtual thread may have made one meanwhile.
            None => make(make_it).map(|made| made.unwrap_or_else(|first| first)),
        }
    }

    /// `Err` of one that is there.
    ///
    /// Never freed: programs have `&'static` references to it. It is small once its queues are gone.
    pub(super) fn make<E>(
        make: impl FnOnce() -> Result<Process, E>,
    ) -> Result<Result<&'static Process, &'static Process>, E> {
        if let Some(process) = PROCESS.get() {
            return Ok(Err(process));
        }
        let process = make()?;
        if let Some(first) = PROCESS.get() {
            return Ok(Err(first));
        }
        let process: &'static Process = Box::leak(Box::new(process));
        PROCESS.set(Some(process));
        Ok(Ok(process))
    }

    pub(super) fn join_queue<E>(
        make: impl FnOnce() -> Result<Workqueue, E>,
    ) -> Result<Workqueue, E> {
        if let Some(queue) = JOIN_QUEUE.with_borrow(Clone::clone) {
            return Ok(queue);
        }
        let queue = make()?;
        // Another virtual thread may have made one meanwhile. This one then goes after the borrow, since it waits.
        let first = JOIN_QUEUE.with_borrow_mut(|known| {
            let first = known.clone();
            known.get_or_insert_with(|| queue.clone());
            first
        });
        Ok(first.unwrap_or(queue))
    }

    /// The program is over: nobody joins any more.
    pub(crate) fn end_joins() {
        drop(JOIN_QUEUE.take());
    }
}
