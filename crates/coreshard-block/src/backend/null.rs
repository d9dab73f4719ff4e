//! A medium that does nothing: what the layer itself costs.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Parker, Platform};

use super::{Command, Geometry, Lane, Medium, Reaped, Waker};
use crate::error::OpenError;

/// Completes everything at once, and moves no data.
#[derive(Debug)]
pub struct Null<P: Platform> {
    bytes: u64,
    platform: PhantomData<P>,
}

impl<P: Platform> Null<P> {
    /// A medium that says it has `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, platform: PhantomData }
    }
}

impl<P: Platform> Medium<P> for Null<P> {
    fn name(&self) -> &str {
        "null"
    }

    fn geometry(&self) -> Geometry {
        Geometry { bytes: self.bytes, block_bytes: 1, memory_align: 1, writable: true }
    }

    fn lane(&self, depth: u32) -> Result<Box<dyn Lane>, OpenError> {
        let done = Vec::with_capacity(depth as usize);
        Ok(Box::new(NullLane { done, parker: Arc::new(Parker::<P>::new()) }))
    }
}

struct NullLane<P: Platform> {
    done: Vec<Reaped>,
    parker: Arc<Parker<P>>,
}

// SAFETY: it never touches a command's memory.
unsafe impl<P: Platform> Lane for NullLane<P> {
    unsafe fn start(&mut self, command: &Command) -> bool {
        self.done.push(Reaped { id: command.id, result: command.data_bytes() as i32 });
        true
    }

    fn reap(&mut self, into: &mut Vec<Reaped>) {
        into.append(&mut self.done);
    }

    fn wait(&mut self, _wanted: u32, timeout: Option<Duration>) -> io::Result<()> {
        if self.done.is_empty() {
            park(&self.parker, timeout);
        }
        Ok(())
    }

    fn cancel(&mut self, _id: u64) {}

    fn waker(&self) -> Waker {
        unparks(&self.parker)
    }

    fn describe(&self) -> String {
        "null".to_owned()
    }
}

pub(super) fn park<P: Platform>(parker: &Parker<P>, timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => {
            parker.park_timeout(timeout);
        }
        None => parker.park(),
    }
}

pub(super) fn unparks<P: Platform>(parker: &Arc<Parker<P>>) -> Waker {
    let parker = Arc::clone(parker);
    Arc::new(move || {
        parker.unpark();
    })
}
