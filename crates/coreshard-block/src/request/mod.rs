//! What a user asks of a device, and how it ends.

mod completed;
mod refused;
#[expect(clippy::module_inception, reason = "the folder is a request's life, the file the request")]
mod request;

pub(crate) use crate::op::Op;
pub use completed::Completed;
pub use refused::Refused;
pub use request::{Payload, Priority, Request};
