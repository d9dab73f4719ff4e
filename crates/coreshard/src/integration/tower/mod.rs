//! tower services that run on a queue, with the feature `tower`.
//!
//! [`WorkqueueLayer`] has the queue, the behaviour if it is full, and the deadline. Its
//! [`service_fn`](WorkqueueLayer::service_fn) makes a service of a computing function. As a `tower::Layer` it runs the
//! futures of another service on the queue.
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Duration;
//!
//! use coreshard::integration::tower::{ServiceErrorReason, WorkqueueLayer};
//! use tower_service::Service;
//! # use futures_lite::future::{block_on, poll_fn};
//!
//! let queue = coreshard::workqueue()?.name("thumbnails").capacity(64).build()?;
//! let mut thumbnails = WorkqueueLayer::new(queue)
//!     .shed()                                       // at once, if 64 wait already
//!     .deadline(Duration::from_secs(2))
//!     .service_fn(|picture: Vec<u8>, wanted| {
//!         // A long loop checks `wanted.is_cancelled()`: the client may have gone away.
//!         let _ = wanted;
//!         Ok::<usize, Infallible>(picture.len())
//!     });
//! # block_on(async {
//! poll_fn(|context| thumbnails.poll_ready(context)).await?;
//! match thumbnails.call(vec![0; 100]).await {
//!     Ok(bytes) => assert_eq!(bytes, 100),
//!     Err(error) if error.reason() == ServiceErrorReason::Overloaded => println!("503: {error}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Back-pressure
//!
//! A queue with a [`capacity`](crate::Builder::capacity) is full when this many items wait to start. Then
//!
//! - a service that **waits** (the default) is not ready. `poll_ready` is pending and joins the queue's waiting
//!   producers. Ready means *reserved*: the room belongs to this clone ([`Reservation`](crate::Reservation)), and its
//!   next `call` never finds the queue full. A clone that is ready and not called keeps that room from others. Poll for
//!   readiness only when there is a request, as `tower::ServiceExt::oneshot`, axum and hyper-util do. Dropping the
//!   clone returns the room. A clone of a ready service is not ready.
//! - a service that [sheds](WorkqueueLayer::shed) load is always ready, and `call` ends at once with an error that
//!   names the queue and its capacity.
//!
//! Without a capacity the queue is never full.
//!
//! # Deadlines and cancelled requests
//!
//! The time of a [`deadline`](WorkqueueLayer::deadline) starts with the first pending `poll_ready`, or with `call`. The
//! time between ready and `call` does not count. At the deadline, or when the response's future is dropped because the
//! client has gone away, a request that has not started is dropped at once and never runs. Its place in the queue
//! counts until a worker reaches it (see [`JoinHandle::cancel`](crate::JoinHandle::cancel)). A function that has
//! started runs to completion: its token is cancelled, and its result is dropped. A future is dropped after its current
//! poll.

mod admission;
mod error;
mod layer;
mod response;
mod service;

pub use error::{ServiceError, ServiceErrorReason};
pub use layer::WorkqueueLayer;
pub use response::ResponseFuture;
pub use service::{WorkqueueFn, WorkqueueService};
