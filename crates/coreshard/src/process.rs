//! The process's runtime.

use std::time::Duration;

use coreshard_platform::Host;

use crate::own_process::Machine;
use crate::runtime_error::RuntimeError;
use crate::types::{Builder, Runtime, RuntimeBuilder, TeamBuilder, Timeout};

/// Returns the process's runtime, creating it at the first call.
///
/// It uses this machine's topology, the CPUs that affinity and cpusets allow, the cgroup's CPU quota, and the settings
/// of [`configure`]. Creating it starts no thread. While there is work, it follows changes of the affinity and the
/// cpusets. It does not notice CPUs that come online later.
///
/// # Errors
/// If the machine's topology cannot be read. A later call tries again.
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

/// Creates the process's runtime with other settings.
///
/// Calls `settings` with the builder of [`runtime_builder`]. Call it in `main`, before the runtime is used. Libraries
/// should not call it. A forked process has a runtime with the same settings, which are applied again.
///
/// # Errors
/// If the process already has a runtime: the error names the file and line of its first use. Otherwise as [`runtime`],
/// and if the settings are not possible.
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
/// println!("{error}"); // the process's runtime exists already: first used at ...
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "build_global")]
#[track_caller]
pub fn configure(
    settings: impl Fn(RuntimeBuilder) -> RuntimeBuilder + Send + Sync + 'static,
) -> Result<(), RuntimeError> {
    Host::configure(std::sync::Arc::new(settings))
}

/// Returns a builder of additional runtimes on this machine, set to the CPUs that this process may use.
///
/// If `/sys` cannot be read, the machine consists of the CPUs that affinity and control groups allow, with one
/// last-level cache. A `tracing` warning reports it.
///
/// # Errors
/// If neither the machine's topology nor the affinity can be read.
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

/// Limits the duration of `future`, on the process's runtime. Yields its output, or drops it and yields
/// [`Elapsed`](crate::Elapsed) after the duration. May be awaited under any executor.
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
/// If the process has no runtime, or the timekeeper thread cannot be started. [`runtime`] and
/// [`Runtime::timeout`](crate::Runtime::timeout) return errors instead.
#[doc(alias = "deadline")]
#[track_caller]
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Host::timeout(duration, future)
}

/// Returns a builder of a workqueue on the process's runtime.
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

/// Returns a builder of a team of threads on the process's runtime. The name is used in reports and errors.
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
