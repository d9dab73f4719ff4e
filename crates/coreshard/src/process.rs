//! The process's own runtime: this machine, as this process may use it.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};
use std::time::Duration;

use coreshard_platform::{Host, Platform};
use coreshard_topology::{Topology, TopologyError, Usable};
use coreshard_workqueue::BuildError;

use crate::aliases::{Builder, Runtime, RuntimeBuilder, Timeout};

/// Why the process has no runtime of its own.
#[derive(Debug)]
pub struct RuntimeError {
    kind: RuntimeErrorKind,
}

#[derive(Debug)]
enum RuntimeErrorKind {
    Topology(TopologyError),
    Build(BuildError),
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            RuntimeErrorKind::Topology(error) => write!(f, "this machine cannot be read: {error}"),
            RuntimeErrorKind::Build(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RuntimeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            RuntimeErrorKind::Topology(error) => Some(error),
            RuntimeErrorKind::Build(error) => Some(error),
        }
    }
}

/// The runtime of this process; of one that was forked from a process with a runtime, by the count
/// of forks that lie between. Runtimes of other processes are never freed: they hold no thread here.
static PROCESS: OnceLock<Runtime> = OnceLock::new();
static FORKED: AtomicPtr<(u32, Runtime)> = AtomicPtr::new(std::ptr::null_mut());
static MADE_IN: AtomicU32 = AtomicU32::new(0);

/// The process's runtime, made at the first call: this machine's topology, the CPUs that affinity
/// and cpusets leave to the process, and the cgroup's CPU quota. It starts no thread by itself. While
/// there is work it follows the affinity and the cpusets; CPUs that come online later than it was
/// made are not known to it.
///
/// # Errors
/// Where the machine's description cannot be read. A later call tries again.
pub fn runtime() -> Result<&'static Runtime, RuntimeError> {
    if let Some(runtime) = PROCESS.get() {
        return if Host::process_generation() == MADE_IN.load(Acquire) {
            Ok(runtime)
        } else {
            forked()
        };
    }
    let runtime = runtime_builder()?
        .build()
        .map_err(|error| RuntimeError { kind: RuntimeErrorKind::Build(error) })?;
    // Where two threads come here at once, the first one's is kept.
    Ok(PROCESS.get_or_init(|| {
        MADE_IN.store(Host::process_generation(), Release);
        runtime
    }))
}

/// The runtime of a process that was forked from one that has a runtime: one of its own.
#[cold]
#[allow(unsafe_code)]
fn forked() -> Result<&'static Runtime, RuntimeError> {
    let process_generation = Host::process_generation();
    let mut known = FORKED.load(Acquire);
    loop {
        // SAFETY: made by `Box::into_raw` below, and never freed.
        if let Some((made_in, runtime)) = unsafe { known.as_ref() }
            && *made_in == process_generation
        {
            return Ok(runtime);
        }
        let build = runtime_builder()?.build();
        let runtime =
            build.map_err(|error| RuntimeError { kind: RuntimeErrorKind::Build(error) })?;
        let made = Box::into_raw(Box::new((process_generation, runtime)));
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
pub fn runtime_builder() -> Result<RuntimeBuilder, RuntimeError> {
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
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    let timed = runtime().map(|runtime| runtime.timeout(duration, future));
    let timed = timed.unwrap_or_else(|error| panic!("a time-out needs a runtime: {error}"));
    timed.unwrap_or_else(|error| panic!("a time-out needs a timekeeper: {error}"))
}

/// Makes a workqueue on the process's runtime.
///
/// # Errors
/// As [`runtime`].
pub fn workqueue() -> Result<Builder<'static>, RuntimeError> {
    Ok(runtime()?.workqueue())
}
