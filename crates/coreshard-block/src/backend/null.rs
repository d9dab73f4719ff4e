//! A backend that does nothing, to measure the layer itself.

use std::marker::PhantomData;

use coreshard_platform::Platform;

use super::channel::{Backend, Channel, Geometry};
use super::command::Command;
use super::immediate::ImmediateChannel;
use crate::open_error::OpenError;

/// Completes everything at once, and moves no data.
#[derive(Debug)]
pub struct Null<P: Platform> {
    bytes: u64,
    platform: PhantomData<P>,
}

impl<P: Platform> Null<P> {
    /// A backend that says it has `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, platform: PhantomData }
    }
}

impl<P: Platform> Backend<P> for Null<P> {
    fn name(&self) -> &str {
        "null"
    }

    fn geometry(&self) -> Geometry {
        Geometry { bytes: self.bytes, block_bytes: 1, memory_align: 1, writable: true }
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, OpenError> {
        let perform = |command: &Command| command.data_bytes() as i32;
        Ok(Box::new(ImmediateChannel::<P, _>::new("null".to_owned(), depth, perform)))
    }
}
