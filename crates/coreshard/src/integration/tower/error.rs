//! Errors of services.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Panic, RefusedReason, SleepError};

/// Why a service on a queue returned no response. `E` is the service's own error. The message names the queue.
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

/// The reasons of a [`ServiceError`], with the corresponding HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceErrorReason {
    /// The queue is at its capacity, and the service sheds load: 503.
    Overloaded,
    /// The deadline has passed: 504.
    DeadlineExceeded {
        /// False if the request never ran. True if it has started: its effects or result are lost.
        has_begun: bool,
    },
    /// The queue rejected the request: 503.
    Refused(RefusedReason),
    /// The queue was shut down, and the request was dropped: 503.
    Dropped,
    /// The function or the service panicked: 500. [`ServiceError::into_panic`] returns the payload.
    Panicked,
    /// The request has a deadline, but the timekeeper thread could not be started: 500.
    NoTimer,
    /// The service's own error, which [`ServiceError::into_service_error`] returns.
    Service,
}

impl<E> ServiceError<E> {
    pub(super) fn new(queue: &Arc<str>, kind: Kind<E>) -> Self {
        Self { queue: Arc::clone(queue), kind }
    }

    /// Returns the queue's name.
    pub fn queue_name(&self) -> &str {
        &self.queue
    }

    /// Returns the reason.
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

    /// Returns the service's own error.
    ///
    /// # Errors
    /// Returns `self`, if the reason is another one.
    pub fn into_service_error(self) -> Result<E, Self> {
        match self.kind {
            Kind::Service(error) => Ok(error),
            kind => Err(Self { queue: self.queue, kind }),
        }
    }

    /// Returns the panic payload.
    ///
    /// # Errors
    /// Returns `self`, if the reason is not a panic.
    pub fn into_panic(self) -> Result<Panic, Self> {
        match self.kind {
            Kind::Panicked(panic) => Ok(panic),
            kind => Err(Self { queue: self.queue, kind }),
        }
    }
}

impl<E> ServiceError<E> {
    /// Writes the message. `service` writes the service's own error.
    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        service: impl FnOnce(&E, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let queue = &self.queue;
        match &self.kind {
            Kind::Overloaded { capacity } => {
                write!(f, "the workqueue {queue:?} is full (capacity {capacity})")
            }
            Kind::DeadlineExceeded { deadline, has_begun } => {
                write!(f, "the request exceeded {deadline:?} on the workqueue {queue:?}: it ")?;
                f.write_str(match has_begun {
                    true => "had begun, but not finished",
                    false => "had not begun",
                })
            }
            Kind::Refused(reason) => {
                write!(f, "the workqueue {queue:?} rejected the request: {reason}")
            }
            Kind::Dropped => {
                write!(f, "the workqueue {queue:?} was shut down and dropped the request")
            }
            Kind::Panicked(panic) => {
                write!(f, "the request panicked on the workqueue {queue:?}: {}", panic.message())
            }
            Kind::NoTimer(error) => write!(f, "the request's deadline cannot be observed: {error}"),
            Kind::Service(error) => service(error, f),
        }
    }
}

impl<E: fmt::Display> fmt::Display for ServiceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, E::fmt)
    }
}

/// Prints the readable message. Only the service's own error is printed by its `Debug`.
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
