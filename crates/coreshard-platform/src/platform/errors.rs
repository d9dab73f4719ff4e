//! Why a machine does not give a thread what was asked for.

use std::{fmt, io};

use coreshard_topology::CpuSet;

/// Why an affinity could not be had.
pub struct AffinityError {
    asked: Option<CpuSet>,
    kind: AffinityErrorKind,
}

#[derive(Debug)]
enum AffinityErrorKind {
    Refused(io::Error),
    ReadBack(CpuSet),
}

impl AffinityError {
    /// An error for a platform that refuses `asked`.
    pub fn refused(asked: CpuSet, reason: io::Error) -> Self {
        Self { asked: Some(asked), kind: AffinityErrorKind::Refused(reason) }
    }

    /// Where the affinity that a thread has is not told.
    pub(crate) fn not_told(reason: io::Error) -> Self {
        Self { asked: None, kind: AffinityErrorKind::Refused(reason) }
    }

    /// Where `found` was set in place of `asked`.
    pub(crate) fn read_back(asked: CpuSet, found: CpuSet) -> Self {
        Self { asked: Some(asked), kind: AffinityErrorKind::ReadBack(found) }
    }
}

impl fmt::Display for AffinityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.asked, &self.kind) {
            (Some(asked), AffinityErrorKind::Refused(error)) => {
                write!(f, "the kernel refused to let a thread run on CPUs {asked}: {error}")
            }
            (None, AffinityErrorKind::Refused(error)) => {
                write!(f, "the kernel does not tell a thread's affinity: {error}")
            }
            (asked, AffinityErrorKind::ReadBack(found)) => {
                let asked = asked.as_ref().map(ToString::to_string).unwrap_or_default();
                write!(
                    f,
                    "a thread was to run on CPUs {asked}, but the kernel set {found}: \
                     a cpuset or an offline CPU stands between"
                )
            }
        }
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
    thread: String,
    kind: SpawnErrorKind,
}

#[derive(Debug)]
pub(crate) enum SpawnErrorKind {
    Create(io::Error),
    Affinity(AffinityError),
    Nice { asked: i8, found: Result<i32, io::Error> },
}

impl SpawnError {
    pub(crate) fn new(thread: String, kind: SpawnErrorKind) -> Self {
        Self { thread, kind }
    }

    /// An error for a platform that cannot make threads, or is told to behave so.
    pub fn refused(thread: impl Into<String>, reason: io::Error) -> Self {
        Self { thread: thread.into(), kind: SpawnErrorKind::Create(reason) }
    }

    /// An error for a platform that cannot give a thread its affinity.
    pub fn affinity(thread: impl Into<String>, reason: AffinityError) -> Self {
        Self { thread: thread.into(), kind: SpawnErrorKind::Affinity(reason) }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {:?} cannot be started: ", self.thread)?;
        match &self.kind {
            SpawnErrorKind::Create(error) => write!(f, "{error}"),
            SpawnErrorKind::Affinity(error) => write!(f, "{error}"),
            SpawnErrorKind::Nice { asked, found: Err(error) } => {
                write!(
                    f,
                    "nice {asked} was refused ({error}); allowed are -20 to 19, and below the \
                     current value only with CAP_SYS_NICE or RLIMIT_NICE"
                )
            }
            SpawnErrorKind::Nice { asked, found: Ok(found) } => {
                write!(f, "nice {asked} was asked for, but the kernel set {found}")
            }
        }
    }
}

coreshard_topology::readable_debug!(SpawnError);

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            SpawnErrorKind::Create(error) | SpawnErrorKind::Nice { found: Err(error), .. } => {
                Some(error)
            }
            SpawnErrorKind::Affinity(error) => Some(error),
            SpawnErrorKind::Nice { found: Ok(_), .. } => None,
        }
    }
}
