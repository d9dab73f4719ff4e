//! What a user asks of a device, and how it ends.

mod completed;
mod io_error;
mod op;
mod refused;
#[expect(clippy::module_inception, reason = "the folder is a request's life, the file the request")]
mod request;
mod unfit;

pub use completed::Completed;
pub use io_error::{ErrorClass, IoError};
pub use op::Op;
pub use refused::Refused;
pub use request::{Payload, Priority, Request};
pub(crate) use unfit::Unfit;
pub use unfit::{MAX_BUFFERS, MAX_BYTES};
