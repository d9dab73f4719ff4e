//! Completed requests.

use super::io_error::IoError;
use super::op::Op;
use crate::request::Payload;

/// A completed request: its result, and its buffers.
#[derive(Debug)]
#[non_exhaustive]
pub struct Completed {
    /// Bytes transferred, or why it failed. A read may be shorter than asked for where a file ends: within the last block, with
    /// direct I/O, or where it was cut since it was opened. A write is whole or failed.
    pub result: Result<usize, IoError>,
    /// The request's buffers, each just as it was handed over but for what was read into it.
    pub payload: Payload,
    /// What was asked for.
    pub op: Op,
    /// Where.
    pub offset: u64,
    /// The number that was given with it; 0 where a callback or a future takes the completion.
    pub cookie: u64,
}
