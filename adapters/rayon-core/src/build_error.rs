//! The error of building a pool.

use std::error::Error;
use std::fmt;
use std::io;

use coreshard_workqueue::TeamError;

/// The reason why a pool could not be built.
#[derive(Debug)]
pub struct ThreadPoolBuildError {
    kind: ErrorKind,
}

#[derive(Debug)]
enum ErrorKind {
    GlobalPoolAlreadyInitialized,
    CurrentThreadAlreadyInPool,
    /// A thread could not be started; also for errors that rayon has no kind for.
    IOError(io::Error),
}

impl ThreadPoolBuildError {
    pub(crate) fn global_exists() -> Self {
        Self { kind: ErrorKind::GlobalPoolAlreadyInitialized }
    }

    /// An error of invalid settings.
    pub(crate) fn invalid(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: ErrorKind::IOError(io::Error::new(io::ErrorKind::InvalidInput, why)) }
    }

    /// An error of a machine that cannot have a runtime.
    pub(crate) fn other(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: ErrorKind::IOError(io::Error::other(why)) }
    }

    // No `From`, which users would see.
    pub(crate) fn of(error: TeamError) -> Self {
        match error {
            TeamError::CurrentThreadTaken => Self { kind: ErrorKind::CurrentThreadAlreadyInPool },
            TeamError::Thread(error) => Self { kind: ErrorKind::IOError(error) },
            TeamError::Build(error) => Self::invalid(error),
            error => Self::other(error),
        }
    }
}

const GLOBAL_EXISTS: &str = "The global thread pool has already been initialized.";
const THREAD_TAKEN: &str = "The current thread is already part of another thread pool.";

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::GlobalPoolAlreadyInitialized => f.pad(GLOBAL_EXISTS),
            ErrorKind::CurrentThreadAlreadyInPool => f.pad(THREAD_TAKEN),
            ErrorKind::IOError(error) => error.fmt(f),
        }
    }
}

impl Error for ThreadPoolBuildError {
    #[allow(deprecated, reason = "some programs show errors by it")]
    fn description(&self) -> &str {
        match &self.kind {
            ErrorKind::GlobalPoolAlreadyInitialized => GLOBAL_EXISTS,
            ErrorKind::CurrentThreadAlreadyInPool => THREAD_TAKEN,
            ErrorKind::IOError(error) => error.description(),
        }
    }

    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ErrorKind::IOError(error) => Some(error),
            ErrorKind::GlobalPoolAlreadyInitialized | ErrorKind::CurrentThreadAlreadyInPool => None,
        }
    }
}
