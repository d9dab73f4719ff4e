//! Errors of building a team.

use std::{error, fmt, io};

use crate::base::error::BuildError;

/// The reason why a team could not be built.
#[non_exhaustive]
pub enum TeamError {
    /// A thread could not be started, with the error of the operating system, or of the function that was to start it. The
    /// threads that were started have exited.
    Thread(io::Error),
    /// This thread was to be a member, and is a member of a team, or a worker of a queue, already.
    CurrentThreadTaken,
    /// An error that would also prevent a queue: the runtime is shut down, or has its maximum number of threads.
    Build(BuildError),
}

impl fmt::Display for TeamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(error) => write!(f, "a thread of the team cannot be started: {error}"),
            Self::CurrentThreadTaken => f.write_str(
                "this thread is a worker already, so it cannot be a member of another team; make the team on another thread",
            ),
            Self::Build(error) => error.fmt(f),
        }
    }
}

coreshard_topology::readable_debug!(TeamError);

impl error::Error for TeamError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Thread(error) => Some(error),
            Self::CurrentThreadTaken => None,
            Self::Build(error) => error.source(),
        }
    }
}
