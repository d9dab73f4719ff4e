//! Admission of requests: room in the queue, and the request's deadline.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use coreshard_platform::{Platform, Time};
use coreshard_workqueue::{Reservation, ReserveAsync, Sleep};

use super::error::{Kind, ServiceError};
use super::layer::{Overload, WorkqueueLayer};
use crate::{RefusedReason, SleepError};

/// The state of a service's clone. A new clone is not ready.
#[derive(Debug)]
pub(super) struct Admission<P: Platform> {
    pub(super) layer: WorkqueueLayer<P>,
    readiness: Readiness<P>,
}

#[derive(Debug)]
enum Readiness<P: Platform> {
    No,
    Waiting {
        room: ReserveAsync<P>,
        since: Time,
        limit: Option<Sleep<P>>,
    },
    /// The result of the next call, and how long it waited.
    Ready {
        room: Result<Reservation<P>, Denied>,
        waited: Duration,
    },
}

#[derive(Debug)]
enum Denied {
    Late,
    Refused(RefusedReason),
}

/// An admitted request.
pub(super) struct Admitted<P: Platform> {
    pub(super) room: Reservation<P>,
    pub(super) limit: Option<Sleep<P>>,
}

impl<P: Platform> Clone for Admission<P> {
    fn clone(&self) -> Self {
        Self::new(self.layer.clone())
    }
}

impl<P: Platform> Admission<P> {
    pub(super) fn new(layer: WorkqueueLayer<P>) -> Self {
        Self { layer, readiness: Readiness::No }
    }

    pub(super) fn error<E>(&self, kind: Kind<E>) -> ServiceError<E> {
        ServiceError::new(&self.layer.name, kind)
    }

    /// # Errors
    /// If the queue accepts no more items.
    pub(super) fn poll_ready<E>(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ServiceError<E>>> {
        if self.layer.overload == Overload::Shed {
            return Poll::Ready(Ok(()));
        }
        if matches!(self.readiness, Readiness::No) {
            let limit = match self.limit(Duration::ZERO) {
                Err(error) => return Poll::Ready(Err(self.error(Kind::NoTimer(error)))),
                Ok(limit) => limit,
            };
            let room = self.layer.queue.reserve_async();
            self.readiness = Readiness::Waiting { room, since: P::now(), limit };
        }
        let Readiness::Waiting { room, since, limit } = &mut self.readiness else {
            return Poll::Ready(Ok(()));
        };
        let room = match Pin::new(room).poll(context) {
            Poll::Ready(Ok(room)) => Ok(room),
            // It will take some again.
            Poll::Ready(Err(RefusedReason::Draining)) => {
                Err(Denied::Refused(RefusedReason::Draining))
            }
            Poll::Ready(Err(reason)) => {
                self.readiness = Readiness::No;
                return Poll::Ready(Err(self.error(Kind::Refused(reason))));
            }
            Poll::Pending => {
                let is_late = |limit: &mut Sleep<P>| Pin::new(limit).poll(context).is_ready();
                if !limit.as_mut().is_some_and(is_late) {
                    return Poll::Pending;
                }
                Err(Denied::Late)
            }
        };
        let waited = P::now() - *since;
        self.readiness = Readiness::Ready { room, waited };
        Poll::Ready(Ok(()))
    }

    /// # Panics
    /// Takes the admission for a call. Panics if the service waits for room and is not ready.
    pub(super) fn admit<E>(&mut self) -> Result<Admitted<P>, ServiceError<E>> {
        let queue = &self.layer.queue;
        let (room, waited) = match self.layer.overload {
            Overload::Shed => (queue.try_reserve().map_err(Denied::Refused), Duration::ZERO),
            Overload::Wait => match std::mem::replace(&mut self.readiness, Readiness::No) {
                Readiness::Ready { room, waited } => (room, waited),
                _ => panic!("a service is called after `poll_ready` has said that it is ready"),
            },
        };
        let room = room.map_err(|denied| self.error(self.kind(denied)))?;
        let limit = self.limit(waited).map_err(|error| self.error(Kind::NoTimer(error)))?;
        Ok(Admitted { room, limit })
    }

    /// Returns the rest of a request's time after it has `waited`; `None` without a deadline, or beyond the clock's
    /// range.
    fn limit(&self, waited: Duration) -> Result<Option<Sleep<P>>, SleepError> {
        let Some(deadline) = self.layer.deadline else { return Ok(None) };
        match self.layer.queue.sleep(deadline.saturating_sub(waited)) {
            Err(error) if error.is_beyond_clock() => Ok(None),
            limit => limit.map(Some),
        }
    }

    fn kind<E>(&self, denied: Denied) -> Kind<E> {
        match (denied, self.layer.queue.capacity(), self.layer.deadline) {
            (Denied::Refused(RefusedReason::Full), Some(capacity), _) => {
                Kind::Overloaded { capacity }
            }
            (Denied::Late, _, Some(deadline)) => {
                Kind::DeadlineExceeded { deadline, has_begun: false }
            }
            (Denied::Refused(reason), ..) => Kind::Refused(reason),
            (Denied::Late, _, None) => unreachable!("only requests with a deadline are late"),
        }
    }
}
