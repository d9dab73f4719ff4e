//! Why there is no response.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Panic, RefusedReason, SleepError};

/// Why a service on a queue has no response; `E` is the service's own error. It names the queue.
pub struct ServiceError<E> {
    queue: Arc<str>,
    kind: Kind<E>,
}

#[derive(Debug)]
pub(super) enum Kind<E> {
    Overloaded { capacity: usize },
    DeadlineExceeded { deadline: Duration, has_begun: bool },
    Refused(RefusedReason),
    Dropped,
    Panicked(Panic),
    NoTimer(SleepError),
    Service(E),
}

/// The reasons of a [`ServiceError`], and what HTTP would call them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceErrorReason {
    /// As many items wait in the queue as its capacity is, and the service sheds load. Come later: 503.
    Overloaded,
    /// The deadline has passed. 504.
    DeadlineExceeded {
        /// False: the request never ran. True: what it did, or does yet, is lost.
        has_begun: bool,
    },
    /// The queue takes nothing. 503.
    Refused(RefusedReason),
    /// The queue was shut down, and the request dropped. 503.
    Dropped,
    /// The function or the service panicked; [`ServiceError::into_panic`] has what it threw. 500.
    Panicked,
    /// There is a deadline, and no thread that watches the clock. 500.
    NoTimer,
    /// The service's own error; [`ServiceError::into_service_error`] has it.
    Service,
}

impl<E> ServiceError<E> {
    pub(super) fn new(queue: &Arc<str>, kind: Kind<E>) -> Self {
        Self { queue: Arc::clone(queue), kind }
    }

    /// The queue's name.
    pub fn queue_name(&self) -> &str {
        &self.queue
    }

    /// Which of them it is.
    pub fn reason(&self) -> ServiceErrorReason {
        match &self.kind {
            Kind::Overloaded { .. } => ServiceErrorReason::Overloaded,
            Kind::DeadlineExceeded { has_begun, .. } => {
                ServiceErrorReason::DeadlineExceeded { has_begun: *has_begun }
            }
            Kind::Refused(reason) => ServiceErrorReason::Refused(*reason),
            Kind::Dropped => ServiceErrorReason::Dropped,
            Kind::Panicked(_) => ServiceErrorReason::Panicked,
            Kind::NoTimer(_) => ServiceErrorReason::NoTimer,
            Kind::Service(_) => ServiceErrorReason::Service,
        }
    }

    /// The service's own error.
    ///
    /// # Errors
    /// This error, where it is none.
    pub fn into_service_error(self) -> Result<E, Self> {
        match self.kind {
            Kind::Service(error) => Ok(error),
            kind => Err(Self { queue: self.queue, kind }),
        }
    }

    /// What was thrown.
    ///
    /// # Errors
    /// This error, where it is no panic.
    pub fn into_panic(self) -> Result<Panic, Self> {
        match self.kind {
            Kind::Panicked(panic) => Ok(panic),
            kind => Err(Self { queue: self.queue, kind }),
        }
    }
}

impl<E> ServiceError<E> {
    /// Writes the text; `service` writes the error of the service.
    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        service: impl FnOnce(&E, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let queue = &self.queue;
        match &self.kind {
            Kind::Overloaded { capacity } => write!(
                f,
                "the workqueue {queue:?} is full: {capacity} items wait in it, which is its capacity"
            ),
            Kind::DeadlineExceeded { deadline, has_begun } => {
                write!(f, "the request was given {deadline:?} on the workqueue {queue:?}, and ")?;
                f.write_str(match has_begun {
                    true => "had begun, but not ended by then",
                    false => "had not begun by then",
                })
            }
            Kind::Refused(reason) => {
                write!(f, "the workqueue {queue:?} refuses the request: {reason}")
            }
            Kind::Dropped => {
                write!(f, "the workqueue {queue:?} was shut down, and the request dropped")
            }
            Kind::Panicked(panic) => {
                write!(f, "the request panicked on the workqueue {queue:?}: {}", panic.message())
            }
            Kind::NoTimer(error) => write!(f, "the request has a deadline, and {error}"),
            Kind::Service(error) => service(error, f),
        }
    }
}

impl<E: fmt::Display> fmt::Display for ServiceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, E::fmt)
    }
}

/// As readable as its text; only the service's own error is shown by its `Debug`.
impl<E: fmt::Debug> fmt::Debug for ServiceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, E::fmt)
    }
}

impl<E: std::error::Error + 'static> std::error::Error for ServiceError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Refused(reason) => Some(reason),
            Kind::NoTimer(error) => Some(error),
            Kind::Service(error) => error.source(),
            _ => None,
        }
    }
}
