//! Why a machine does not give a thread what was asked for.

use std::{fmt, io};

use coreshard_topology::CpuSet;

/// Why an affinity could not be had.
pub struct AffinityError {
    asked: Option<CpuSet>,
    kind: AffinityErrorKind,
    cause: Option<String>,
}

#[derive(Debug)]
enum AffinityErrorKind {
    Refused(io::Error),
    ReadBack(CpuSet),
}

impl AffinityError {
    /// An error for a platform that refuses `asked`.
    pub fn refused(asked: CpuSet, reason: io::Error) -> Self {
        Self { asked: Some(asked), kind: AffinityErrorKind::Refused(reason), cause: None }
    }

    /// Where the affinity that a thread has is not told.
    pub(crate) fn not_told(reason: io::Error) -> Self {
        Self { asked: None, kind: AffinityErrorKind::Refused(reason), cause: None }
    }

    /// Where `found` was set in place of `asked`.
    pub(crate) fn read_back(asked: CpuSet, found: CpuSet) -> Self {
        Self { asked: Some(asked), kind: AffinityErrorKind::ReadBack(found), cause: None }
    }

    /// With a cause that was found out.
    pub(crate) fn because(self, cause: Option<String>) -> Self {
        Self { cause, ..self }
    }
}

impl fmt::Display for AffinityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.asked, &self.kind) {
            (Some(asked), AffinityErrorKind::Refused(error)) => {
                write!(f, "the kernel refused to let a thread run on CPUs {asked}: {error}")?;
            }
            (None, AffinityErrorKind::Refused(error)) => {
                write!(f, "the kernel does not tell a thread's affinity: {error}")?;
            }
            (asked, AffinityErrorKind::ReadBack(found)) => {
                let asked = asked.as_ref().map(ToString::to_string).unwrap_or_default();
                write!(f, "a thread was to run on CPUs {asked}, but the kernel set {found}")?;
            }
        }
        self.cause.iter().try_for_each(|cause| write!(f, "; {cause}"))
    }
}

coreshard_topology::readable_debug!(AffinityError);

impl std::error::Error for AffinityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            AffinityErrorKind::Refused(error) => Some(error),
            AffinityErrorKind::ReadBack(_) => None,
        }
    }
}

/// Why a thread could not be had as asked for.
pub struct SpawnError {
    // Small where all goes well.
    inner: Box<(String, SpawnErrorKind)>,
}

#[derive(Debug)]
pub(crate) enum SpawnErrorKind {
    Create(io::Error),
    Affinity(AffinityError),
    /// With a cause that was found out.
    Nice {
        asked: i8,
        found: Result<i32, io::Error>,
        cause: Option<String>,
    },
}

impl SpawnError {
    pub(crate) fn new(thread: String, kind: SpawnErrorKind) -> Self {
        Self { inner: Box::new((thread, kind)) }
    }

    /// An error for a platform that cannot make threads, or is told to behave so.
    pub fn refused(thread: impl Into<String>, reason: io::Error) -> Self {
        Self::new(thread.into(), SpawnErrorKind::Create(reason))
    }

    /// An error for a platform that cannot give a thread its affinity.
    pub fn affinity(thread: impl Into<String>, reason: AffinityError) -> Self {
        Self::new(thread.into(), SpawnErrorKind::Affinity(reason))
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (thread, kind) = &*self.inner;
        write!(f, "thread {thread:?} cannot be started: ")?;
        match kind {
            SpawnErrorKind::Create(error) => write!(f, "{error}"),
            SpawnErrorKind::Affinity(error) => write!(f, "{error}"),
            SpawnErrorKind::Nice { asked, found: Err(error), cause } => {
                write!(f, "nice {asked} was refused ({error})")?;
                cause.iter().try_for_each(|cause| write!(f, ": {cause}"))
            }
            SpawnErrorKind::Nice { asked, found: Ok(found), .. } => {
                write!(
                    f,
                    "nice {asked} was asked for, but the kernel set {found}; allowed are -20 to 19"
                )
            }
        }
    }
}

coreshard_topology::readable_debug!(SpawnError);

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.inner.1 {
            SpawnErrorKind::Create(error) | SpawnErrorKind::Nice { found: Err(error), .. } => {
                Some(error)
            }
            SpawnErrorKind::Affinity(error) => Some(error),
            SpawnErrorKind::Nice { found: Ok(_), .. } => None,
        }
    }
}
