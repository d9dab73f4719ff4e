//! What goes wrong with hosts, devices and queues as they are opened, and what may be done about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use coreshard_platform::NodeMemoryError;
use coreshard_topology::input;

use crate::tags::TagSetError;

/// Why a host, device or queue cannot be had. Its text names the file, and the remedy.
pub struct OpenError {
    kind: OpenErrorKind,
}

#[derive(Debug)]
pub(crate) enum OpenErrorKind {
    /// With a cause that was found out.
    File {
        path: PathBuf,
        reason: io::Error,
        writing: bool,
        cause: Option<String>,
    },
    NoSize {
        path: PathBuf,
    },
    Folder {
        path: PathBuf,
    },
    /// With a cause that was found out.
    Ring {
        name: String,
        steps: Vec<String>,
        cause: Option<String>,
    },
    Channel {
        name: String,
        reason: io::Error,
    },
    NoThread {
        name: String,
        thread: usize,
        threads: usize,
    },
    TooManyThreads {
        name: String,
        given: usize,
        most: usize,
    },
    Tags(TagSetError),
    Memory(NodeMemoryError),
}

impl OpenError {
    pub(crate) fn new(kind: OpenErrorKind) -> Self {
        Self { kind }
    }

    /// Whether the cause is what the caller named: a file that is not there, not allowed, or
    /// of the wrong kind.
    pub fn is_bad_input(&self) -> bool {
        use OpenErrorKind::{File, Folder, NoSize};
        matches!(self.kind, File { .. } | NoSize { .. } | Folder { .. })
    }
}

impl From<TagSetError> for OpenError {
    fn from(error: TagSetError) -> Self {
        Self::new(OpenErrorKind::Tags(error))
    }
}

impl From<NodeMemoryError> for OpenError {
    fn from(error: NodeMemoryError) -> Self {
        Self::new(OpenErrorKind::Memory(error))
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            OpenErrorKind::File { path, reason, writing, cause } => {
                let verb = if *writing { "opened for reading and writing" } else { "opened" };
                write!(f, "{} cannot be {verb}: {reason}", input::path(path))?;
                cause.iter().try_for_each(|cause| write!(f, "; {cause}"))
            }
            OpenErrorKind::NoSize { path } => write!(
                f,
                "{} has no size that can be found out; give a regular file or a block device",
                input::path(path)
            ),
            OpenErrorKind::Folder { path } => {
                write!(f, "{} is a folder; give a file or a block device", input::path(path))
            }
            OpenErrorKind::Ring { name, steps, cause } => {
                write!(f, "{name}: no io_uring can be had ({})", steps.join("; "))?;
                cause.iter().try_for_each(|cause| write!(f, ": {cause}"))?;
                f.write_str("; allowed are other engines (sync, threads)")
            }
            OpenErrorKind::Channel { name, reason } => {
                write!(f, "{name}: no queue can be had: {reason}")
            }
            OpenErrorKind::NoThread { name, thread, threads } if thread < threads => write!(
                f,
                "{name}: thread {thread} has a queue already; each of the host's {threads} threads has one, and \
                 another once that is dropped"
            ),
            OpenErrorKind::NoThread { name, thread, threads } => write!(
                f,
                "{name}: a queue for thread {thread} was asked for, but the host was made for threads below {threads}"
            ),
            OpenErrorKind::TooManyThreads { name, given, most } => {
                write!(f, "{name}: {given} threads cannot have queues; allowed are up to {most}")
            }
            OpenErrorKind::Tags(error) => error.fmt(f),
            OpenErrorKind::Memory(error) => error.fmt(f),
        }
    }
}

coreshard_topology::readable_debug!(OpenError);

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The texts of the other kinds have their reasons in them: told once is enough.
        match &self.kind {
            OpenErrorKind::Tags(error) => error.source(),
            OpenErrorKind::Memory(error) => error.source(),
            _ => None,
        }
    }
}
