//! Requests of users, and how they end.

mod completed;
mod io_error;
#[expect(clippy::module_inception, reason = "the folder is a request's life, the file the request")]
mod request;

pub use completed::{Completed, Refused};
pub(crate) use io_error::Unfit;
pub use io_error::{ErrorClass, IoError, MAX_BUFFERS, MAX_BYTES};
pub use request::{Op, Payload, Priority, Request};
