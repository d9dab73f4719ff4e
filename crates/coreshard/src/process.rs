//! The process's own runtime: this machine, as this process may use it.

use std::fmt;
use std::sync::OnceLock;

use coreshard_platform::Host;
use coreshard_topology::{Topology, TopologyError, Usable};
use coreshard_workqueue::BuildError;

use crate::{Builder, Runtime, RuntimeBuilder};

/// Why the process has no runtime of its own.
#[derive(Debug)]
pub struct RuntimeError {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Topology(TopologyError),
    Build(BuildError),
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Topology(error) => write!(f, "this machine cannot be read: {error}"),
            Kind::Build(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RuntimeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Topology(error) => Some(error),
            Kind::Build(error) => Some(error),
        }
    }
}

static PROCESS: OnceLock<Runtime> = OnceLock::new();

/// The process's runtime, made at the first call: this machine's topology, the CPUs that affinity
/// and cpusets leave to the process, and the cgroup's CPU quota. It starts no thread by itself.
///
/// # Errors
/// Where the machine's description cannot be read. A later call tries again.
pub fn runtime() -> Result<&'static Runtime, RuntimeError> {
    if let Some(runtime) = PROCESS.get() {
        return Ok(runtime);
    }
    let runtime =
        runtime_builder()?.build().map_err(|error| RuntimeError { kind: Kind::Build(error) })?;
    // Where two threads come here at once, the first one's is kept.
    Ok(PROCESS.get_or_init(|| runtime))
}

/// A builder of further runtimes on this machine, set to what this process may use.
///
/// # Errors
/// Where the machine's description cannot be read.
pub fn runtime_builder() -> Result<RuntimeBuilder, RuntimeError> {
    let read = |error| RuntimeError { kind: Kind::Topology(error) };
    let topology = Topology::host().map_err(read)?;
    let usable = Usable::host(&topology).map_err(read)?;
    let builder =
        coreshard_workqueue::Runtime::<Host>::builder(topology).usable(usable.cpus().clone());
    Ok(match usable.quota_cpus() {
        Some(cpus) => builder.cpu_quota(cpus),
        None => builder,
    })
}

/// Makes a workqueue on the process's runtime.
///
/// # Errors
/// As [`runtime`].
pub fn workqueue() -> Result<Builder<'static>, RuntimeError> {
    Ok(runtime()?.workqueue())
}
