//! The services of a layer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use coreshard_platform::{Host, Platform};
use coreshard_workqueue::CancellationToken;
use tower_layer::Layer;
use tower_service::Service;

use super::admission::{Admission, Admitted};
use super::error::{Kind, ServiceError};
use super::layer::WorkqueueLayer;
use super::response::ResponseFuture;

impl<P: Platform> WorkqueueLayer<P> {
    /// Creates a service that calls `function` with each request as an item of the queue, and with a token that is
    /// cancelled when the response is no longer wanted.
    pub fn service_fn<F>(self, function: F) -> WorkqueueFn<F, P> {
        WorkqueueFn { admission: Admission::new(self), function }
    }
}

impl<S, P: Platform> Layer<S> for WorkqueueLayer<P> {
    type Service = WorkqueueService<S, P>;

    fn layer(&self, inner: S) -> WorkqueueService<S, P> {
        WorkqueueService { admission: Admission::new(self.clone()), inner }
    }
}

/// A function as a service on a queue; see [`WorkqueueLayer::service_fn`].
pub struct WorkqueueFn<F, P: Platform = Host> {
    admission: Admission<P>,
    function: F,
}

impl<F: Clone, P: Platform> Clone for WorkqueueFn<F, P> {
    fn clone(&self) -> Self {
        Self { admission: self.admission.clone(), function: self.function.clone() }
    }
}

impl<F, P: Platform> fmt::Debug for WorkqueueFn<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkqueueFn").field("admission", &self.admission).finish_non_exhaustive()
    }
}

impl<F, P, Request, Response, E> Service<Request> for WorkqueueFn<F, P>
where
    P: Platform,
    F: FnOnce(Request, CancellationToken<P>) -> Result<Response, E> + Clone + Send + 'static,
    Request: Send + 'static,
    Response: Send + 'static,
    E: Send + 'static,
{
    type Response = Response;
    type Error = ServiceError<E>;
    type Future = ResponseFuture<Response, E, P>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.admission.poll_ready(context)
    }

    /// # Panics
    /// If it waits for room and is not ready.
    fn call(&mut self, request: Request) -> Self::Future {
        let layer = &self.admission.layer;
        let (name, deadline) = (Arc::clone(&layer.name), layer.deadline);
        let Admitted { room, limit } = match self.admission.admit() {
            Ok(admitted) => admitted,
            Err(error) => return ResponseFuture::failed(error),
        };
        let function = self.function.clone();
        let wanted = CancellationToken::new();
        let token = wanted.clone();
        match room.submit(move || function(request, token)) {
            Ok(handle) => ResponseFuture::item(handle, wanted, name, limit, deadline),
            Err(refused) => {
                let error = ServiceError::new(&name, Kind::Refused(refused.reason()));
                ResponseFuture::failed(error)
            }
        }
    }
}

/// A service whose futures run on a queue, created by [`WorkqueueLayer`].
///
/// A clone of the inner service is also called there. As usual with tower, the ready one is taken.
pub struct WorkqueueService<S, P: Platform = Host> {
    admission: Admission<P>,
    inner: S,
}

impl<S: Clone, P: Platform> Clone for WorkqueueService<S, P> {
    fn clone(&self) -> Self {
        Self { admission: self.admission.clone(), inner: self.inner.clone() }
    }
}

impl<S, P: Platform> fmt::Debug for WorkqueueService<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkqueueService")
            .field("admission", &self.admission)
            .finish_non_exhaustive()
    }
}

impl<S, P, Request> Service<Request> for WorkqueueService<S, P>
where
    P: Platform,
    S: Service<Request> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
    Request: Send + 'static,
{
    type Response = S::Response;
    type Error = ServiceError<S::Error>;
    type Future = ResponseFuture<S::Response, S::Error, P>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match self.inner.poll_ready(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.admission.error(Kind::Service(error)))),
            Poll::Ready(Ok(())) => self.admission.poll_ready(context),
        }
    }

    /// # Panics
    /// As for [`WorkqueueFn`].
    fn call(&mut self, request: Request) -> Self::Future {
        let layer = &self.admission.layer;
        let (name, deadline) = (Arc::clone(&layer.name), layer.deadline);
        let Admitted { room, limit } = match self.admission.admit() {
            Ok(admitted) => admitted,
            Err(error) => return ResponseFuture::failed(error),
        };
        // Take the clone that is ready.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let has_begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&has_begun);
        let spawned = room.spawn(async move {
            // Relaxed: it is only used in an error message.
            begins.store(true, Relaxed);
            inner.call(request).await
        });
        match spawned {
            Ok(task) => ResponseFuture::task(task, has_begun, name, limit, deadline),
            Err(refused) => {
                let error = ServiceError::new(&name, Kind::Refused(refused.reason()));
                ResponseFuture::failed(error)
            }
        }
    }
}
