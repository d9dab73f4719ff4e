//! Requests to a device that does nothing, from submission to completion: the cost of the layer itself.
//! Intended to be run under an instruction counter, see `lab/count_instructions.py`.
//!
//! Usage: null_path number|callback|future REQUESTS AT_A_TIME
//!
//! Buffers are reused, so that little but the layer is counted.

use std::cell::RefCell;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use coreshard_block::{
    Buffer, Completed, HostAdapter, HostOptions, IoFuture, Null, Queue, QueueOptions, Request,
};
use coreshard_platform::Host;

const DEVICE_BYTES: u64 = 1 << 30;
const BLOCK_BYTES: usize = 512;
const USAGE: &str = "usage: null_path number|callback|future REQUESTS AT_A_TIME";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, requests, at_a_time] = &arguments[..] else { return Err(USAGE.into()) };
    let (requests, at_a_time): (usize, usize) = (requests.parse()?, at_a_time.parse()?);
    let host = HostAdapter::<Host>::new(HostOptions::default())?;
    let device = host.target("null").device(Arc::new(Null::new(DEVICE_BYTES)))?;
    let mut queue = device.queue(0, QueueOptions::default())?;
    let free: Vec<Buffer> = (0..at_a_time).map(|_| vec![0; BLOCK_BYTES].into()).collect();
    match way.as_str() {
        "number" => by_number(&mut queue, free, requests)?,
        "callback" => by_callback(&mut queue, free, requests)?,
        "future" => by_future(&mut queue, free, requests)?,
        _ => return Err(USAGE.into()),
    }
    let done = device.counts().done;
    if done != requests as u64 {
        return Err(format!("{done} of {requests} requests completed").into());
    }
    Ok(())
}

fn by_number(
    queue: &mut Queue<Host>,
    mut free: Vec<Buffer>,
    requests: usize,
) -> Result<(), Box<dyn Error>> {
    let mut submitted = 0;
    while submitted < requests {
        while submitted < requests
            && let Some(buffer) = free.pop()
        {
            queue.submit(Request::read(offset(submitted), buffer), submitted as u64)?;
            submitted += 1;
        }
        while queue.outstanding() > 0 {
            queue.poll();
        }
        while let Some(completed) = queue.next() {
            free.push(buffer_of(completed));
        }
    }
    Ok(())
}

fn by_callback(
    queue: &mut Queue<Host>,
    free: Vec<Buffer>,
    requests: usize,
) -> Result<(), Box<dyn Error>> {
    let free = Rc::new(RefCell::new(free));
    let mut submitted = 0;
    while submitted < requests {
        while submitted < requests {
            let Some(buffer) = free.borrow_mut().pop() else { break };
            let back = Rc::clone(&free);
            let then = move |completed| back.borrow_mut().push(buffer_of(completed));
            queue.call(Request::read(offset(submitted), buffer), then)?;
            submitted += 1;
        }
        while queue.outstanding() > 0 {
            queue.poll();
        }
    }
    Ok(())
}

/// Polls each future before its completion and after it, with a waker that does nothing.
fn by_future(
    queue: &mut Queue<Host>,
    mut free: Vec<Buffer>,
    requests: usize,
) -> Result<(), Box<dyn Error>> {
    let mut context = Context::from_waker(Waker::noop());
    let mut poll = |future: &mut IoFuture<Host>| Pin::new(future).poll(&mut context);
    let mut futures = Vec::new();
    let mut submitted = 0;
    while submitted < requests {
        while submitted < requests
            && let Some(buffer) = free.pop()
        {
            let mut future = queue.send(Request::read(offset(submitted), buffer));
            assert!(poll(&mut future).is_pending());
            futures.push(future);
            submitted += 1;
        }
        while queue.outstanding() > 0 {
            queue.poll();
        }
        for mut future in futures.drain(..) {
            let Poll::Ready(completed) = poll(&mut future) else {
                return Err("a request has completed, but its future is pending".into());
            };
            free.push(buffer_of(completed));
        }
    }
    Ok(())
}

fn offset(request: usize) -> u64 {
    (request * BLOCK_BYTES) as u64 % DEVICE_BYTES
}

fn buffer_of(completed: Completed) -> Buffer {
    completed.payload.into_one().expect("the request had one buffer")
}
