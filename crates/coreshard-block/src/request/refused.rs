//! A request that was not accepted.

use std::fmt;

use super::io_error::IoError;
use super::request::Request;

/// A request that was not accepted, and why. Nothing happened, and the payload is here.
pub struct Refused {
    pub(crate) request: Request,
    pub(crate) error: IoError,
}

impl Refused {
    pub(crate) fn new(request: Request, error: IoError) -> Self {
        Self { request, error }
    }

    /// The request with its payload.
    pub fn into_request(self) -> Request {
        self.request
    }

    /// Why it was refused.
    pub fn error(&self) -> &IoError {
        &self.error
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not accepted: {}", self.error)
    }
}

coreshard_topology::readable_debug!(Refused);

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
