//! Why there is no team.

use std::{error, fmt, io};

use crate::base::error::BuildError;

/// Why there is no team.
#[non_exhaustive]
pub enum TeamError {
    /// A thread could not be started: what the operating system, or whoever was to start it, said. No thread is left that
    /// was.
    Thread(io::Error),
    /// This thread was to be a member, and is one of a team, or a worker of a queue, already.
    CurrentThreadTaken,
    /// What no queue can be made for either: the runtime is shut down, or has as many threads as it may.
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
