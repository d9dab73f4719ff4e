//! The functions of the process's own runtime.

use std::time::Duration;

use coreshard_platform::Host;

use crate::own_process::Machine;
use crate::runtime_error::RuntimeError;
use crate::types::{Builder, Runtime, RuntimeBuilder, TeamBuilder, Timeout};

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
    Host::runtime()
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
///         .on_diagnostic(|diagnostic| eprintln!("{diagnostic}"))
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
    Host::configure(std::sync::Arc::new(settings))
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
    Host::runtime_builder()
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
    Host::timeout(duration, future)
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
