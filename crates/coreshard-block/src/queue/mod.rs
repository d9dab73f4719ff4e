//! A thread's queue to a device.
//!
//! 1. A queue belongs to the thread that made it. All of a request happens there: submission, retries and
//!    completion. Other threads send messages ([`RemoteQueue`]).
//! 2. A request has a slot from its acceptance to its end, and waits (`pending`) until it has a tag. Its
//!    buffers are lent to the device (`request_buffers`) from before [`Channel::start`](crate::Channel::start)
//!    until the completion was seen; meanwhile nobody touches or frees them, whatever panics.
//! 3. Deadlines, and retries with a backoff, are in one heap, checked when the queue is polled.
//! 4. Users' callbacks and wakers are called when the queue's state is consistent (`notify`), and a panic of
//!    one is caught. The first panic is resumed in whoever polled, after all were called.
//! 5. A channel may be a user's as well, and its panics are not caught. So the state is consistent before each
//!    call of a channel, and completions that were reaped are in a field, where the next poll finds them.
#![allow(unsafe_code)]

mod admission;
#[cfg(all(test, not(loom)))]
mod admission_tests;
mod completion;
mod drain;
#[cfg(all(test, not(loom)))]
mod drain_tests;
mod expiry;
mod forked;
mod future;
mod future_cell;
#[cfg(all(test, loom))]
mod loom_tests;
mod mailbox;
mod open;
mod options;
mod pending;
mod remote;
mod request_buffers;
mod request_id;
mod slot;
mod submission;
#[cfg(all(test, not(loom)))]
mod tests;
mod timers;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem::{self, ManuallyDrop};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use coreshard_platform::Platform;
use coreshard_platform::user::Thrown;

use crate::backend::{Channel, Completion, Waker};
use crate::buffer::BufferPool;
use crate::counters::ThreadCounters;
use crate::host::Device;
use crate::request::{Completed, Refused, Request};
use crate::tags::TagPort;

use admission::Admission;
pub use future::IoFuture;
use future_cell::FutureCell;
use mailbox::{Mailbox, Message};
pub use options::{QueueOptions, RetryPolicy};
use pending::Pending;
pub use remote::RemoteQueue;
pub use request_id::RequestId;
use request_id::SlotKey;
use slot::{Abort, OnComplete, Slots};
use timers::Timers;

/// The most requests that are handed to the device at once without being asked to.
const MAX_STAGED: u32 = 32;

/// How long a queue that is dropped waits for its device before it leaks the memory.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Why [`Queue::block_on`] panics in a forked process.
const NEVER_READY: &str = "the future waits for a queue of the process that this one was forked from: open the device \
     anew here";

/// Tells the queues of a process apart.
static QUEUES: AtomicU64 = AtomicU64::new(0);

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
    channel: ManuallyDrop<Box<dyn Channel>>,
    admission: Admission<P>,
    counters: ThreadCounters<P>,
    options: QueueOptions,
    number: u64,
    slots: Slots<P>,
    pending: Pending,
    /// Requests that found no room in the channel; some may be over.
    stalled: VecDeque<SlotKey>,
    /// Requests that have a tag.
    in_flight: u32,
    /// Of those: requests that the device has.
    at_device: u32,
    /// Of those: requests that were not flushed yet.
    staged: u32,
    /// So many are flushed at once: one where this thread sleeps, so that the device has it early; more where
    /// the thread is behind, so that each costs less.
    batch: u32,
    completions: Vec<Completion>,
    /// So many of those are handled.
    handled: usize,
    timers: Timers,
    done: VecDeque<Completed>,
    /// Completed requests whose callbacks and futures were not notified yet.
    to_notify: VecDeque<(OnComplete<P>, Completed)>,
    /// The first panic among those.
    thrown: Option<Thrown>,
    delivered: usize,
    serial: u64,
    pool: Option<BufferPool>,
    mailbox: Arc<Mailbox<P>>,
    /// Taken out of the mailbox, to be handled.
    messages: VecDeque<Message<P>>,
    closing: bool,
    /// How long the drop waits for the device.
    drain_timeout: Duration,
}

impl<P: Platform> Queue<P> {
    pub(crate) fn new(
        device: Arc<Device<P>>,
        channel: Box<dyn Channel>,
        tags: TagPort<P>,
        target_tags: Option<TagPort<P>>,
        counters: ThreadCounters<P>,
        options: QueueOptions,
    ) -> Self {
        let waker = channel.waker();
        Self {
            device,
            channel: ManuallyDrop::new(channel),
            admission: Admission::new(tags, target_tags, &waker),
            counters,
            options: QueueOptions { depth: options.depth.max(1), ..options },
            number: QUEUES.fetch_add(1, Relaxed),
            slots: Slots::new(),
            pending: Pending::new(options.best_effort_share, options.idle_share),
            stalled: VecDeque::new(),
            in_flight: 0,
            at_device: 0,
            staged: 0,
            batch: 1,
            completions: Vec::new(),
            handled: 0,
            timers: Timers::default(),
            done: VecDeque::new(),
            to_notify: VecDeque::new(),
            thrown: None,
            delivered: 0,
            serial: 0,
            pool: None,
            mailbox: Mailbox::new(waker),
            messages: VecDeque::new(),
            closing: false,
            drain_timeout: DRAIN_TIMEOUT,
        }
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device<P>> {
        &self.device
    }

    /// Describes the channel, and what it could not have: for people.
    pub fn describe(&self) -> String {
        self.channel.describe()
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
        if self.device.is_forked() {
            return Err(std::io::Error::from_raw_os_error(libc::ECHILD));
        }
        let registered = self.channel.register(pool)?;
        if registered {
            self.pool = Some(pool.clone());
        }
        Ok(registered)
    }

    /// A handle to this queue for other threads, and for futures on this one.
    pub fn remote(&self) -> RemoteQueue<P> {
        RemoteQueue::new(Arc::clone(&self.mailbox), self.device.name())
    }

    /// Submits a request; [`next`](Self::next) hands out its completion, with this `cookie`.
    /// Requests are handed to the device in batches, at the latest when the queue is polled.
    ///
    /// # Errors
    /// Hands the request back where the device is offline, or the request can never succeed: past the end that the device had
    /// when it was opened, not aligned, not writable, of more than [`MAX_BUFFERS`](crate::MAX_BUFFERS) buffers or
    /// [`MAX_BYTES`](crate::MAX_BYTES) bytes of data.
    // Always: who submits has most of the request in registers.
    #[inline(always)]
    pub fn submit(&mut self, request: Request, cookie: u64) -> Result<RequestId, Refused> {
        match self.check(&request) {
            Ok(()) => Ok(self.accept(request, OnComplete::Cookie(cookie))),
            Err(why) => Err(self.refuse(request, why)),
        }
    }

    /// As [`submit`](Self::submit), with a callback, called when the queue is polled, or the request
    /// cancelled. A callback may panic: all others are called nevertheless, and then the first one's panic
    /// goes on in whoever polled.
    ///
    /// # Errors
    /// As [`submit`](Self::submit); then the callback is not called.
    pub fn call(
        &mut self,
        request: Request,
        then: impl FnOnce(Completed) + 'static,
    ) -> Result<RequestId, Refused> {
        match self.check(&request) {
            Ok(()) => Ok(self.accept(request, OnComplete::Callback(Box::new(then)))),
            Err(why) => Err(self.refuse(request, why)),
        }
    }

    /// As [`submit`](Self::submit), with a future; a refusal comes through it too. Something must
    /// poll the queue: [`block_on`](Self::block_on) does.
    pub fn send(&mut self, request: Request) -> IoFuture<P> {
        let cell = FutureCell::new();
        if let Some(refused) = self.send_to(request, &cell) {
            // Nobody waits for it yet, so no waker is called.
            drop(cell.complete(refused));
        }
        IoFuture::new(cell, Arc::clone(&self.mailbox))
    }

    /// Submits a future's request; where it is refused, its completion.
    fn send_to(&mut self, request: Request, cell: &Arc<FutureCell<P>>) -> Option<Completed> {
        match self.check(&request) {
            Ok(()) => {
                if cell.accepted(self.next_id()) {
                    self.accept(request, OnComplete::Future(Arc::clone(cell)));
                }
                None
            }
            Err(why) => {
                let Refused { request, error } = self.refuse(request, why);
                let Request { op, offset, payload, .. } = request;
                Some(Completed { result: Err(error), payload, op, offset, cookie: 0 })
            }
        }
    }

    /// Asks that a request end soon. It completes in any case: as cancelled, or as done where it
    /// was too late. Of a request that is over, and of another queue's, nothing comes.
    pub fn cancel(&mut self, id: RequestId) {
        if id.queue == self.number && !self.device.is_forked() {
            self.abort(id.key, Abort::Cancelled);
            self.flush();
            self.notify();
            self.rethrow();
        }
    }

    /// Looks what was completed, retries, starts what waits, and hands it to the device. Returns
    /// how many requests came to their end; does not wait.
    ///
    /// # Panics
    /// Where a callback does, or a future's waker, after all that came to their end were told.
    #[inline]
    pub fn poll(&mut self) -> usize {
        if self.device.is_forked() {
            return self.disown();
        }
        self.advance();
        if self.delivered > 0 {
            self.batch = (self.batch * 2).min(MAX_STAGED);
        }
        if self.staged > 0 {
            self.flush();
        }
        self.rethrow();
        mem::take(&mut self.delivered)
    }

    /// As `poll`, without the flush. Panics of users' code are kept.
    #[inline]
    fn advance(&mut self) {
        if self.mailbox.has_messages() || !self.messages.is_empty() {
            self.handle_messages();
        }
        if !self.timers.is_empty() {
            self.fire_timers();
        }
        self.reap();
        if !self.stalled.is_empty() {
            self.start_stalled();
        }
        if !self.pending.is_empty() || self.admission.is_waiting() {
            self.dispatch();
        }
        if !self.to_notify.is_empty() {
            self.notify();
        }
    }

    /// Resumes a panic of users' code, in whoever polled.
    #[inline]
    fn rethrow(&mut self) {
        if let Some(thrown) = self.thrown.take() {
            thrown.resume();
        }
    }

    /// As [`poll`](Self::poll), but sleeps until a request comes to its end, somebody sends a
    /// message, or for `timeout`. Returns at once where nothing is outstanding.
    ///
    /// # Panics
    /// As [`poll`](Self::poll).
    pub fn wait(&mut self, timeout: Option<Duration>) -> usize {
        if self.device.is_forked() {
            return self.disown();
        }
        self.advance();
        if self.delivered == 0 && self.outstanding() > 0 {
            // What is staged is flushed by the same system call that waits.
            self.staged = 0;
            self.sleep(timeout);
            self.advance();
        } else {
            self.batch = (self.batch * 2).min(MAX_STAGED);
        }
        if self.staged > 0 {
            self.flush();
        }
        self.rethrow();
        mem::take(&mut self.delivered)
    }

    fn sleep(&mut self, timeout: Option<Duration>) {
        let due = self.timers.next_due().map(|at| at - P::now());
        let timeout = match (timeout, due) {
            (Some(timeout), Some(due)) => Some(timeout.min(due)),
            (timeout, due) => timeout.or(due),
        };
        self.batch = 1;
        if self.channel.wait(timeout).is_err() {
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
    ///
    /// # Panics
    /// As [`poll`](Self::poll); and in a process that was forked from the queue's, where the future is not
    /// ready: nothing here would ever make it so.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        let waker = if self.device.is_forked() {
            std::task::Waker::noop().clone()
        } else {
            Arc::new(ChannelWaker(self.channel.waker())).into()
        };
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            assert!(!self.device.is_forked(), "{}", NEVER_READY);
            if self.poll() == 0 {
                self.sleep(None);
            }
        }
    }

    /// Handles the messages of other threads.
    #[cold]
    fn handle_messages(&mut self) {
        self.mailbox.take(&mut self.messages);
        while let Some(message) = self.messages.pop_front() {
            match message {
                Message::Cancel(id) => self.abort(id.key, Abort::Cancelled),
                Message::Submit(request, cell) => {
                    if let Some(refused) = self.send_to(request, &cell) {
                        self.to_notify.push_back((OnComplete::Future(cell), refused));
                    }
                }
            }
        }
    }
}

struct ChannelWaker(Waker);

impl Wake for ChannelWaker {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

impl<P: Platform> fmt::Debug for Queue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("device", &self.device.name())
            .field("channel", &self.channel.describe())
            .field("outstanding", &self.outstanding())
            .field("pending_visits", &self.pending.visits())
            .field("timer_visits", &self.timers.visits())
            .finish_non_exhaustive()
    }
}
