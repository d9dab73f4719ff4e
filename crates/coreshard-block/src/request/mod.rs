//! What a user asks of a device, and how it ends.

mod completed;
mod error_class;
mod io_error;
mod op;
mod refused;
#[expect(clippy::module_inception, reason = "the folder is a request's life, the file the request")]
mod request;
mod unfit;

pub use completed::Completed;
pub use error_class::ErrorClass;
pub use io_error::IoError;
pub use op::Op;
pub use refused::Refused;
pub use request::{Payload, Priority, Request};
pub(crate) use unfit::Unfit;
pub use unfit::{MAX_BUFFERS, MAX_BYTES};
