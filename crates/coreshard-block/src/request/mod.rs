//! Users' requests, and how they end.

mod completed;
mod io_error;
#[expect(
    clippy::module_inception,
    reason = "the folder is about requests, the file about their type"
)]
mod request;

pub use completed::{Completed, Refused};
pub(crate) use io_error::Unfit;
pub use io_error::{ErrorClass, IoError, MAX_BUFFERS, MAX_BYTES};
pub use request::{Op, Payload, Priority, Request};
