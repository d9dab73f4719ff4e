//! The end of a request: completed, or not accepted.

use std::fmt;

use super::io_error::{ErrorClass, IoError, Unfit};
use super::request::{Op, Payload, Request};

/// A completed request: its result, and its buffers.
#[derive(Debug)]
#[non_exhaustive]
pub struct Completed {
    /// Bytes transferred, or why it failed. A read may be shorter than asked for if a file ends: within the last block, with
    /// direct I/O, or if it was cut since it was opened. A write is whole or failed.
    pub result: Result<usize, IoError>,
    /// The request's buffers, each just as it was handed over but for what was read into it.
    pub payload: Payload,
    /// The operation.
    pub op: Op,
    /// Where.
    pub offset: u64,
    /// The number that was given with it; 0 if a callback or a future takes the completion.
    pub cookie: u64,
}

impl Completed {
    /// The completion of a request that was not accepted.
    pub(crate) fn of_refused(request: Request, error: IoError) -> Self {
        let Request { op, offset, payload, .. } = request;
        Self { result: Err(error), payload, op, offset, cookie: 0 }
    }

    /// The completion of a request whose queue is gone.
    pub(crate) fn cancelled(device: &str, request: Request) -> Self {
        let Request { op, offset, bytes, .. } = request;
        let class = ErrorClass::Cancelled;
        let error = IoError::new(device, op, offset, bytes, 0, class, libc::ECANCELED, 0);
        Self::of_refused(request, error)
    }
}

/// A request that was not accepted, and why. Nothing happened, and the payload is here.
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
