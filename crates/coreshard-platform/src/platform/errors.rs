//! Errors of requests that a machine refused.

use std::error::Error;
use std::{fmt, io};

use coreshard_topology::CpuSet;

use super::thread::Policy;

/// Defines an error type: a sentence, and the kernel's reason if it gave one.
macro_rules! machine_error {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name {
            text: String,
            reason: Option<io::Error>,
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.text)
            }
        }

        coreshard_topology::readable_debug!($name);

        impl Error for $name {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                self.reason.as_ref().map(|reason| reason as _)
            }
        }
    };
}

machine_error!(
    /// The error when an affinity cannot be set or read.
    AffinityError
);

impl AffinityError {
    /// Creates the error of a platform that refuses `asked`.
    pub fn refused(asked: CpuSet, reason: io::Error) -> Self {
        let text = format!("the kernel refused to let a thread run on CPUs {asked}: {reason}");
        Self { text, reason: Some(reason) }
    }

    /// Creates the error of a kernel that does not report a thread's affinity.
    pub(crate) fn not_told(reason: io::Error) -> Self {
        let text = format!("the kernel does not report a thread's affinity: {reason}");
        Self { text, reason: Some(reason) }
    }

    /// Creates the error for `found` set in place of `asked`.
    pub(crate) fn read_back(asked: &CpuSet, found: &CpuSet) -> Self {
        let text = format!("a thread was to run on CPUs {asked}, but the kernel set {found}");
        Self { text, reason: None }
    }

    /// Adds a known cause.
    pub(crate) fn because(mut self, cause: Option<String>) -> Self {
        self.text.extend(cause.map(|cause| format!("; {cause}")));
        self
    }
}

machine_error!(
    /// The error when a thread cannot be scheduled as requested.
    PolicyError
);

impl PolicyError {
    /// Creates the error of a platform that refused `asked`.
    ///
    /// `cause` is the known cause and its remedy; without one, the reason stands alone.
    pub fn refused(asked: Policy, reason: io::Error, cause: Option<String>) -> Self {
        let text = format!("{asked} was refused ({reason}){}", behind_colon(cause));
        Self { text, reason: Some(reason) }
    }

    /// Creates the error of a platform that set another policy than requested.
    pub fn read_back(asked: Policy, found: Policy) -> Self {
        let text = format!("{asked} was requested, but the kernel set {found}");
        Self { text, reason: None }
    }
}

machine_error!(
    /// The error when memory cannot be locked.
    MemoryLockError
);

impl MemoryLockError {
    /// Creates the error of a platform that refused. `cause` is the known cause and its remedy.
    pub fn new(reason: io::Error, cause: Option<String>) -> Self {
        let text = format!("memory cannot be locked ({reason}){}", behind_colon(cause));
        Self { text, reason: Some(reason) }
    }
}

machine_error!(
    /// The error when no memory is available.
    NodeMemoryError
);

impl NodeMemoryError {
    /// Creates the error of a platform that lacks such memory.
    pub fn new(bytes: usize, reason: io::Error) -> Self {
        let text = format!("{bytes} bytes of memory cannot be mapped: {reason}");
        Self { text, reason: Some(reason) }
    }
}

fn behind_colon(cause: Option<String>) -> String {
    cause.map(|cause| format!(": {cause}")).unwrap_or_default()
}

/// The error when a thread cannot be started as requested.
pub struct SpawnError {
    // Boxed, so that results are small.
    inner: Box<(String, SpawnFailure)>,
}

/// A failure at the start of a thread.
pub(crate) struct SpawnFailure {
    text: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl SpawnFailure {
    /// Creates the error for a refused nice value; `cause` is the known cause and its remedy.
    pub(crate) fn nice_refused(asked: i8, reason: io::Error, cause: Option<String>) -> Self {
        let text = format!("nice {asked} was refused ({reason}){}", behind_colon(cause));
        Self { text, source: Some(Box::new(reason)) }
    }

    /// Creates the error for a nice value other than the one requested.
    pub(crate) fn nice_read_back(asked: i8, found: i32) -> Self {
        let text =
            format!("nice {asked} was requested, but the kernel set {found}; expected -20 to 19");
        Self { text, source: None }
    }
}

impl From<io::Error> for SpawnFailure {
    fn from(error: io::Error) -> Self {
        Self { text: error.to_string(), source: Some(Box::new(error)) }
    }
}

impl From<AffinityError> for SpawnFailure {
    fn from(error: AffinityError) -> Self {
        Self { text: error.to_string(), source: Some(Box::new(error)) }
    }
}

impl SpawnError {
    pub(crate) fn new(thread: String, failure: SpawnFailure) -> Self {
        Self { inner: Box::new((thread, failure)) }
    }

    /// Creates the error of a platform that cannot create threads, or simulates that.
    pub fn refused(thread: impl Into<String>, reason: io::Error) -> Self {
        Self::new(thread.into(), reason.into())
    }

    /// Creates the error of a platform that cannot give a thread its affinity.
    pub fn affinity(thread: impl Into<String>, reason: AffinityError) -> Self {
        Self::new(thread.into(), reason.into())
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (thread, failure) = &*self.inner;
        write!(f, "thread {thread:?} cannot be started: {}", failure.text)
    }
}

coreshard_topology::readable_debug!(SpawnError);

impl Error for SpawnError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.inner.1.source.as_deref().map(|source| source as _)
    }
}
