//! A thread's queue to a device.
//!
//! 1. A queue belongs to the thread that made it, and everything of a request happens there: its
//!    submission, its retries, its completion. Other threads send messages ([`RemoteQueue`]).
//! 2. A request waits in line (`pending`) until it has a tag; from then on it has a slot, which keeps
//!    its buffers. `at_device` is set from [`Lane::start`](crate::Lane::start) until the
//!    completion was seen; while it is, nobody touches or frees the buffers.
//! 3. Deadlines, and retries that are put off, are in one heap, looked at when the queue is polled.
#![allow(unsafe_code)]

mod admission;
#[cfg(all(test, not(loom)))]
mod admission_tests;
mod drain;
mod future;
mod landing;
mod options;
mod pending;
mod slot;
mod submission;
#[cfg(all(test, not(loom)))]
mod tests;
mod timers;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::future::Future;
use std::mem::{self, ManuallyDrop};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use coreshard_platform::{Platform, Time};

use crate::backend::{Lane, Reaped, Waker};
use crate::buffer::BufferPool;
use crate::counters::CounterLane;
use crate::error::Refused;
use crate::host::Device;
use crate::request::{Completed, Request};
use crate::tags::TagPort;

use admission::Admission;
use future::{FutureCell, Inbox, Message};
pub use future::{IoFuture, RemoteQueue};
pub use options::{QueueOptions, RequestId, RetryPolicy};
use pending::Pending;
use slot::{End, Slot, Then};
use submission::MOST_STAGED;
use timers::Timer;

/// A thread's queue to a device. Not to be sent to another thread; see [`RemoteQueue`].
///
/// ```
/// use std::sync::Arc;
/// use coreshard_block::{HostAdapter, HostOptions, Memory, QueueOptions, Request};
/// use coreshard_platform::Host;
///
/// let host = HostAdapter::<Host>::new(HostOptions::default())?;
/// let device = host.target("ram").device(Arc::new(Memory::new(1 << 20)))?;
/// let mut queue = device.queue(0, QueueOptions::default())?;
/// // By future:
/// let written = queue.send(Request::write(4096, vec![7; 512]));
/// assert_eq!(queue.block_on(written).result?, 512);
/// // By number:
/// queue.submit(Request::read(4096, vec![0; 512]), 42)?;
/// let completed = queue.wait_for_one().expect("one is on its way");
/// assert_eq!((completed.result?, completed.cookie), (512, 42));
/// assert_eq!(completed.payload.into_one().unwrap().into_vec(), [7; 512]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Queue<P: Platform> {
    device: Arc<Device<P>>,
    /// Leaked where the device is not done when the queue is dropped.
    lane: ManuallyDrop<Box<dyn Lane>>,
    admission: Admission<P>,
    counters: CounterLane<P>,
    options: QueueOptions,
    /// By the host's tag.
    slots: Vec<Slot<P>>,
    pending: Pending<P>,
    /// Slots whose lane had no room.
    stalled: VecDeque<usize>,
    /// Requests that have a tag.
    in_flight: u32,
    /// Of those: requests that the device has.
    at_device: u32,
    /// Of those: requests that it was not told of yet.
    staged: u32,
    /// So many are handed over at once: few where this thread sleeps and so has time to spare, so that the
    /// device has them early; many where it is behind, so that each costs less.
    batch: u32,
    reaped: Vec<Reaped>,
    timers: BinaryHeap<Reverse<(Time, Timer)>>,
    done: VecDeque<Completed>,
    delivered: usize,
    serial: u64,
    pool: Option<BufferPool>,
    inbox: Arc<Inbox<P>>,
    closing: bool,
}

impl<P: Platform> Queue<P> {
    pub(crate) fn new(
        device: Arc<Device<P>>,
        lane: Box<dyn Lane>,
        tags: TagPort<P>,
        target_tags: Option<TagPort<P>>,
        counters: CounterLane<P>,
        options: QueueOptions,
    ) -> Self {
        let waker = lane.waker();
        Self {
            device,
            lane: ManuallyDrop::new(lane),
            admission: Admission::new(tags, target_tags, &waker),
            counters,
            options: QueueOptions { depth: options.depth.max(1), ..options },
            slots: Vec::new(),
            pending: Pending::new(options.best_effort_share, options.idle_share),
            stalled: VecDeque::new(),
            in_flight: 0,
            at_device: 0,
            staged: 0,
            batch: 1,
            reaped: Vec::new(),
            timers: BinaryHeap::new(),
            done: VecDeque::new(),
            delivered: 0,
            serial: 0,
            pool: None,
            inbox: Inbox::new(waker),
            closing: false,
        }
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device<P>> {
        &self.device
    }

    /// How the device is reached, with what could not be had: for people.
    pub fn describe(&self) -> String {
        self.lane.describe()
    }

    /// Requests that were accepted and are not over.
    pub fn outstanding(&self) -> usize {
        self.in_flight as usize + self.pending.len()
    }

    /// Tells the device of buffers that will be used often. False where that is of no use.
    ///
    /// # Errors
    /// Where the device refuses, such as for lack of memory that may be locked.
    pub fn register(&mut self, pool: &BufferPool) -> std::io::Result<bool> {
        let registered = self.lane.register(pool)?;
        if registered {
            self.pool = Some(pool.clone());
        }
        Ok(registered)
    }

    /// The way to this queue from other threads, and for futures on this one.
    pub fn remote(&self) -> RemoteQueue<P> {
        RemoteQueue::new(Arc::clone(&self.inbox), self.device.name())
    }

    /// Submits a request; [`next`](Self::next) hands out its completion, with this `cookie`.
    /// Requests are handed to the device in batches, at the latest when the queue is polled.
    ///
    /// # Errors
    /// Hands the request back where the device is offline, or the request can never succeed: out
    /// of range, not aligned, not writable.
    #[inline]
    pub fn submit(&mut self, request: Request, cookie: u64) -> Result<RequestId, Refused> {
        match self.check(&request) {
            Ok(()) => Ok(self.accept(request, Then::Cookie(cookie))),
            Err(why) => Err(self.refuse(request, why)),
        }
    }

    /// As [`submit`](Self::submit), with a callback, called when the queue is polled.
    ///
    /// # Errors
    /// As [`submit`](Self::submit); then the callback is not called.
    pub fn call(
        &mut self,
        request: Request,
        then: impl FnOnce(Completed) + 'static,
    ) -> Result<RequestId, Refused> {
        match self.check(&request) {
            Ok(()) => Ok(self.accept(request, Then::Call(Box::new(then)))),
            Err(why) => Err(self.refuse(request, why)),
        }
    }

    /// As [`submit`](Self::submit), with a future; a refusal comes through it too. Something must
    /// poll the queue: [`block_on`](Self::block_on) does.
    pub fn send(&mut self, request: Request) -> IoFuture<P> {
        let cell = FutureCell::new();
        self.send_to(request, Arc::clone(&cell));
        IoFuture::new(cell, Arc::clone(&self.inbox))
    }

    fn send_to(&mut self, request: Request, cell: Arc<FutureCell<P>>) {
        match self.check(&request) {
            Ok(()) if cell.accepted(self.serial + 1) => {
                self.accept(request, Then::Future(cell));
            }
            Ok(()) => {}
            Err(why) => {
                let Refused { request, error } = self.refuse(request, why);
                let Request { op, offset, payload, .. } = request;
                cell.complete(Completed { result: Err(error), payload, op, offset, cookie: 0 });
            }
        }
    }

    /// Asks that a request end soon. It completes in any case: as cancelled, or as done where it
    /// was too late.
    pub fn cancel(&mut self, id: RequestId) {
        self.end(id.0, End::Cancelled);
        self.flush();
    }

    /// Looks what was completed, retries, starts what waits, and hands it to the device. Returns
    /// how many requests came to their end; does not wait.
    #[inline]
    pub fn poll(&mut self) -> usize {
        self.look();
        if self.delivered > 0 {
            self.batch = (self.batch * 2).min(MOST_STAGED);
        }
        if self.staged > 0 {
            self.flush();
        }
        mem::take(&mut self.delivered)
    }

    /// As `poll`, without handing anything to the device.
    #[inline]
    fn look(&mut self) {
        for message in self.inbox.take() {
            self.obey(message);
        }
        if !self.timers.is_empty() {
            self.fire_timers();
        }
        let mut reaped = mem::take(&mut self.reaped);
        self.lane.reap(&mut reaped);
        for one in reaped.drain(..) {
            self.land(one);
        }
        self.reaped = reaped;
        for _ in 0..self.stalled.len() {
            let index = self.stalled.pop_front().expect("as many as were counted");
            self.start(index);
        }
        if !self.pending.is_empty() || self.admission.is_waiting() {
            self.dispatch();
        }
    }

    /// As [`poll`](Self::poll), but sleeps until a request comes to its end, somebody sends a
    /// message, or for `timeout`. Returns at once where nothing is outstanding.
    pub fn wait(&mut self, timeout: Option<Duration>) -> usize {
        self.look();
        if self.delivered == 0 && self.outstanding() > 0 {
            // What is staged is handed over by the same system call that waits.
            self.staged = 0;
            self.sleep(timeout);
            self.look();
        } else {
            self.batch = (self.batch * 2).min(MOST_STAGED);
        }
        if self.staged > 0 {
            self.flush();
        }
        mem::take(&mut self.delivered)
    }

    fn sleep(&mut self, timeout: Option<Duration>) {
        let due = self.timers.peek().map(|Reverse((at, _))| *at - P::now());
        let timeout = match (timeout, due) {
            (Some(timeout), Some(due)) => Some(timeout.min(due)),
            (timeout, due) => timeout.or(due),
        };
        self.batch = 1;
        if self.lane.wait(timeout).is_err() {
            self.device.set_offline();
        }
    }

    /// A completion of a request that was submitted with a cookie, without waiting or polling.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a queue is no iterator: None is not its end"
    )]
    pub fn next(&mut self) -> Option<Completed> {
        self.done.pop_front()
    }

    /// As [`next`](Self::next), but waits for it; `None` where nothing is outstanding.
    pub fn wait_for_one(&mut self) -> Option<Completed> {
        loop {
            if let Some(completed) = self.next() {
                return Some(completed);
            }
            if self.wait(None) == 0 && self.outstanding() == 0 && self.done.is_empty() {
                return None;
            }
        }
    }

    /// Runs a future to its end on this thread, polling the queue meanwhile.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        let waker = Arc::new(LaneWake(self.lane.waker())).into();
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            if self.poll() == 0 {
                self.sleep(None);
            }
        }
    }

    fn obey(&mut self, message: Message<P>) {
        match message {
            Message::Cancel(RequestId(serial)) => self.end(serial, End::Cancelled),
            Message::Submit(request, cell) => self.send_to(request, cell),
        }
    }
}

struct LaneWake(Waker);

impl Wake for LaneWake {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

impl<P: Platform> fmt::Debug for Queue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("device", &self.device.name())
            .field("lane", &self.lane.describe())
            .field("outstanding", &self.outstanding())
            .finish_non_exhaustive()
    }
}
