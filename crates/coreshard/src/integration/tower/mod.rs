//! Services of tower's whose work is done on a queue, with the feature `tower`.
//!
//! [`WorkqueueLayer`] says on which queue, what becomes of requests that find it full, and how long a request may take.
//! Its [`service_fn`](WorkqueueLayer::service_fn) makes a service of a function that computes; as a `tower::Layer` it
//! brings the futures of another service there.
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
//!         // A long loop would look at `wanted.is_cancelled()`: nobody may be waiting any more.
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
//! A queue with a [`capacity`](crate::Builder::capacity) is full when so many items wait to begin. Then
//!
//! - a service that **waits** (the default) is not ready: `poll_ready` is pending, and gets into the line of all the queue's
//!   producers. Ready means *reserved*: the room is this very clone's ([`Reservation`](crate::Reservation)), and its next
//!   `call` never finds the queue full, whatever other clones do. A clone that is ready and not called keeps that room from
//!   others, so poll for readiness when there is a request, as `tower::ServiceExt::oneshot`, axum and hyper-util do; dropping it
//!   gives the room back. A clone of a ready service is not ready.
//! - one that [sheds](WorkqueueLayer::shed) load is always ready, and `call` ends at once with an error that names the queue
//!   and its capacity.
//!
//! Without a capacity nothing is ever full.
//!
//! # Time, and requests that nobody waits for
//!
//! The time of a [`deadline`](WorkqueueLayer::deadline) begins with the first `poll_ready` that is pending, or with `call`; what passes
//! between ready and `call` does not count. When it is over, or when the response's future is dropped since the client has
//! gone, a request that has not begun is taken back and dropped at once, and never runs (its place in the queue counts
//! until a worker comes by, see [`JoinHandle::cancel`](crate::JoinHandle::cancel)). A function that has begun runs to its end:
//! its token is cancelled, and its result dropped. A future is dropped as soon as its poll is over.

mod admission;
mod error;
mod layer;
mod response;
mod service;

pub use error::{ServiceError, ServiceErrorReason};
pub use layer::WorkqueueLayer;
pub use response::ResponseFuture;
pub use service::{WorkqueueFn, WorkqueueService};
