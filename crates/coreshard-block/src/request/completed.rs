//! The end of a request: completed, or refused.

use std::fmt;

use super::io_error::{ErrorClass, IoError, Unfit};
use super::request::{Op, Payload, Request};

/// A completed request: its result, and its buffers.
#[derive(Debug)]
#[non_exhaustive]
pub struct Completed {
    /// The bytes transferred, or the error. A read can be shorter than requested at the end of a file: within
    /// the last block with direct I/O, or if the file was truncated after it was opened. A write is complete
    /// or fails.
    pub result: Result<usize, IoError>,
    /// The request's buffers as they were submitted, apart from the data read into them.
    pub payload: Payload,
    /// The operation.
    pub op: Op,
    /// The offset on the device, in bytes.
    pub offset: u64,
    /// The number passed with the request; 0 if a callback or a future takes the completion.
    pub cookie: u64,
}

impl Completed {
    /// Creates the completion of a request that was refused.
    pub(crate) fn of_refused(request: Request, error: IoError) -> Self {
        let Request { op, offset, payload, .. } = request;
        Self { result: Err(error), payload, op, offset, cookie: 0 }
    }

    /// Creates the completion of a request whose queue was dropped.
    pub(crate) fn cancelled(device: &str, request: Request) -> Self {
        let Request { op, offset, bytes, .. } = request;
        let class = ErrorClass::Cancelled;
        let error = IoError::new(device, op, offset, bytes, 0, class, libc::ECANCELED, 0);
        Self::of_refused(request, error)
    }
}

/// A request that was refused, with the reason and its payload. Nothing was done.
pub struct Refused {
    pub(crate) request: Request,
    pub(crate) error: IoError,
}

impl Refused {
    #[cold]
    pub(crate) fn new(device: &str, request: Request, unfit: Unfit) -> Self {
        let error = IoError::unfit(device, request.op, request.offset, request.bytes, unfit);
        Self { request, error }
    }

    /// Returns the request with its payload.
    pub fn into_request(self) -> Request {
        self.request
    }

    /// Returns why it was refused.
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
