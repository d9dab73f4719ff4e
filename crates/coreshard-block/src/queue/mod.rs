//! A thread's queue to a device.
//!
//! 1. A queue belongs to the thread that created it. Submission, retries and completion all happen there.
//!    Other threads send messages ([`RemoteQueue`]).
//! 2. A request has a slot from its acceptance to its end, and waits (`pending`) until it has a tag. Its
//!    buffers are lent to the device (`request_buffers`) from before
//!    [`Channel::start`](crate::Channel::start) until the completion was seen. Meanwhile no code accesses or
//!    frees them, whatever panics.
//! 3. Deadlines, and retries with a backoff, are in one heap, which is checked when the queue is polled.
//! 4. Users' callbacks and wakers are called when the queue's state is consistent (`outbox`), and their
//!    panics are caught. The first panic is resumed in the polling caller, after all were called.
//! 5. A channel may be user code as well, and its panics are not caught. The state is therefore consistent
//!    before each call of a channel, and reaped completions are in a field, where the next poll finds them.

mod admission;
#[cfg(all(test, not(loom)))]
mod admission_tests;
mod check;
mod device_channel;
mod drain;
#[cfg(all(test, not(loom)))]
mod drain_tests;
#[cfg(all(test, loom))]
mod loom_tests;
mod options;
mod outbox;
mod pending;
mod remote;
mod request_buffers;
mod request_id;
mod requests;
mod slot;
#[cfg(all(test, not(loom)))]
mod tests;
mod timers;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use admission::Admission;
use check::check;
use coreshard_platform::Platform;
use device_channel::DeviceChannel;
pub use options::{QueueOptions, RetryPolicy};
use outbox::OnComplete;
use remote::{FutureCell, Mailbox, Message};
pub use remote::{IoFuture, RemoteQueue};
pub use request_id::RequestId;
use requests::Requests;
use slot::Abort;

use crate::backend::Waker;
use crate::buffer::BufferPool;
use crate::host::Device;
use crate::open_error::OpenError;
use crate::request::{Completed, Refused, Request};
use crate::tags::TagUser;

/// How long a dropped queue waits for its device before it leaks the memory.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// The panic message of [`Queue::block_on`] in a forked process.
const NEVER_READY: &str = "the future waits for a queue of the process that this one was forked from: open the device \
     anew here";

/// Numbers the queues of a process.
static QUEUES: AtomicU64 = AtomicU64::new(0);

/// A thread's queue to a device. It cannot be sent to another thread; see [`RemoteQueue`].
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
    requests: Requests<P>,
    number: u64,
    mailbox: Arc<Mailbox<P>>,
    /// Messages taken from the mailbox and not handled yet.
    messages: VecDeque<Message<P>>,
    /// How long the drop waits for the device.
    drain_timeout: Duration,
}

impl<P: Platform> Device<P> {
    /// Creates the queue of thread number `thread` (below the host's `threads`), on the thread that uses it,
    /// after that was pinned.
    ///
    /// # Errors
    /// If that thread already has a queue, if there is no such number, or if the backend cannot create a
    /// channel.
    pub fn queue(
        self: &Arc<Self>,
        thread: usize,
        options: QueueOptions,
    ) -> Result<Queue<P>, OpenError> {
        let host = self.target().host().options();
        let counters = self.counters.for_thread(thread).ok_or_else(|| {
            let (name, threads) = (self.name(), host.threads);
            OpenError::new(if thread < threads {
                format!(
                    "{name}: thread {thread} already has a queue; each of the host's {threads} threads has one, and \
                     another one after that is dropped"
                )
            } else {
                format!(
                    "{name}: invalid thread {thread}: expected a number below the host's {threads} threads"
                )
            })
        })?;
        let (tags, target_tags) = (self.user.port(), self.target_user.as_ref().map(TagUser::port));
        let channel = self.backend.channel(host.depth.min(options.depth.max(1)))?;
        let waker = channel.waker();
        let admission = Admission::new(tags, target_tags, &waker);
        let channel = DeviceChannel::new(Arc::clone(self), channel);
        Ok(Queue {
            requests: Requests::new(channel, admission, counters, options),
            number: QUEUES.fetch_add(1, Relaxed),
            mailbox: Mailbox::new(waker),
            messages: VecDeque::new(),
            drain_timeout: DRAIN_TIMEOUT,
        })
    }
}

impl<P: Platform> Queue<P> {
    /// Returns the device.
    #[inline]
    pub fn device(&self) -> &Arc<Device<P>> {
        self.requests.channel.device()
    }

    /// Describes the channel for people, including the features that were unavailable.
    pub fn describe(&self) -> String {
        self.requests.channel.describe()
    }

    /// Returns the number of requests that were accepted and have not ended.
    pub fn outstanding(&self) -> usize {
        self.requests.outstanding()
    }

    /// Registers buffers that will be used often. Returns false if the device has no use for that.
    ///
    /// # Errors
    /// If the device refuses, for example because too little memory may be locked.
    pub fn register(&mut self, pool: &BufferPool) -> std::io::Result<bool> {
        if self.device().is_forked() {
            return Err(std::io::Error::from_raw_os_error(libc::ECHILD));
        }
        self.requests.channel.register(pool)
    }

    /// Returns a handle to this queue for other threads, and for futures on this one.
    pub fn remote(&self) -> RemoteQueue<P> {
        RemoteQueue::new(Arc::clone(&self.mailbox), self.device().name())
    }

    /// Submits a request. [`next`](Self::next) returns its completion, with this `cookie`. Requests reach the
    /// device in batches, at the latest when the queue is polled.
    ///
    /// # Errors
    /// Returns the request if the device is offline, or if the request can never succeed: past the end of the
    /// device as it was opened, not aligned, not writable, or of more than
    /// [`MAX_BUFFERS`](crate::MAX_BUFFERS) buffers or [`MAX_BYTES`](crate::MAX_BYTES) bytes of data.
    // Always inlined: the caller has most of the request in registers.
    #[inline(always)]
    pub fn submit(&mut self, request: Request, cookie: u64) -> Result<RequestId, Refused> {
        self.try_accept(request, || OnComplete::Cookie(cookie))
    }

    #[inline(always)]
    fn try_accept(
        &mut self,
        request: Request,
        on_complete: impl FnOnce() -> OnComplete<P>,
    ) -> Result<RequestId, Refused> {
        match check(self.device(), &request) {
            Ok(()) => {
                let key = self.requests.accept(request, on_complete());
                Ok(RequestId { queue: self.number, key })
            }
            Err(unfit) => Err(Refused::new(self.device().name(), request, unfit)),
        }
    }

    /// As [`submit`](Self::submit), with a callback.
    ///
    /// It is called when the queue is polled or the request is cancelled. A callback may panic: all others
    /// are still called, and then the first panic is resumed in the polling caller.
    ///
    /// # Errors
    /// As [`submit`](Self::submit). The callback is not called then.
    pub fn call(
        &mut self,
        request: Request,
        then: impl FnOnce(Completed) + 'static,
    ) -> Result<RequestId, Refused> {
        self.try_accept(request, || OnComplete::Callback(Box::new(then)))
    }

    /// As [`submit`](Self::submit), with a future, which also reports a refusal.
    ///
    /// The queue must be polled meanwhile, for example by [`block_on`](Self::block_on).
    pub fn send(&mut self, request: Request) -> IoFuture<P> {
        let cell = FutureCell::new();
        if let Some(refused) = self.send_to(request, &cell) {
            // Nothing waits for it yet, so no waker is called.
            drop(cell.complete(refused));
        }
        IoFuture::new(cell, Arc::clone(&self.mailbox))
    }

    /// Submits a future's request. If it is refused, returns its completion.
    fn send_to(&mut self, request: Request, cell: &Arc<FutureCell<P>>) -> Option<Completed> {
        if let Err(unfit) = check(self.device(), &request) {
            let Refused { request, error } = Refused::new(self.device().name(), request, unfit);
            return Some(Completed::of_refused(request, error));
        }
        if cell.accepted(RequestId { queue: self.number, key: self.requests.next_key() }) {
            self.requests.accept(request, OnComplete::Future(Arc::clone(cell)));
        }
        None
    }

    /// Requests that a request end soon.
    ///
    /// It completes in any case: as cancelled, or as done if it was too late. Does nothing to a request that
    /// has ended, or that belongs to another queue.
    pub fn cancel(&mut self, id: RequestId) {
        if id.queue == self.number && !self.device().is_forked() {
            self.requests.abort(id.key, Abort::Cancelled);
            self.requests.channel.flush();
            self.requests.outbox.notify();
            self.requests.outbox.rethrow();
        }
    }

    /// Handles completions and retries, starts waiting requests, and hands them to the device.
    ///
    /// Returns the number of requests that ended. Does not wait.
    ///
    /// # Panics
    /// If a callback or a future's waker does, after all ended requests were reported.
    #[inline]
    pub fn poll(&mut self) -> usize {
        if self.device().is_forked() {
            return self.disown();
        }
        self.advance();
        if self.requests.outbox.has_delivered() {
            self.requests.channel.grow_batch();
        }
        self.end_poll()
    }

    /// As `poll`, without the flush. Panics of user code are kept.
    #[inline]
    fn advance(&mut self) {
        if self.mailbox.has_messages() || !self.messages.is_empty() {
            self.handle_messages();
        }
        self.requests.advance();
    }

    /// Flushes, resumes a panic of user code, and returns how many requests ended.
    #[inline]
    fn end_poll(&mut self) -> usize {
        self.requests.channel.flush_staged();
        self.requests.outbox.rethrow();
        self.requests.outbox.take_delivered()
    }

    /// As [`poll`](Self::poll), but sleeps until a request ends, a message arrives, or for `timeout`.
    ///
    /// Returns at once if nothing is outstanding.
    ///
    /// # Panics
    /// As [`poll`](Self::poll).
    pub fn wait(&mut self, timeout: Option<Duration>) -> usize {
        if self.device().is_forked() {
            return self.disown();
        }
        self.advance();
        if !self.requests.outbox.has_delivered() && self.outstanding() > 0 {
            self.requests.sleep(timeout);
            self.advance();
        } else {
            self.requests.channel.grow_batch();
        }
        self.end_poll()
    }

    /// Forgets everything in a process that was forked from the queue's. The kernel's ring is not mapped
    /// there, and threads that hold locks or would answer do not exist. So nothing is submitted, waited for,
    /// called or dropped.
    #[cold]
    fn disown(&mut self) -> usize {
        std::mem::forget(std::mem::take(&mut self.messages));
        self.requests.disown();
        0
    }

    /// Returns the completion of a request that was submitted with a cookie, without waiting or polling.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a queue is not an iterator: after None, more completions may follow"
    )]
    pub fn next(&mut self) -> Option<Completed> {
        self.requests.outbox.next()
    }

    /// As [`next`](Self::next), but waits for a completion. Returns `None` if nothing is outstanding.
    pub fn wait_for_one(&mut self) -> Option<Completed> {
        loop {
            if let Some(completed) = self.next() {
                return Some(completed);
            }
            if self.wait(None) == 0 && self.outstanding() == 0 && !self.requests.outbox.has_next() {
                return None;
            }
        }
    }

    /// Runs a future to completion on this thread, polling the queue meanwhile.
    ///
    /// # Panics
    /// As [`poll`](Self::poll). Also in a process that was forked from the queue's if the future is not
    /// ready, since it could never become ready there.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        let waker = if self.device().is_forked() {
            std::task::Waker::noop().clone()
        } else {
            Arc::new(ChannelWaker(self.requests.channel.waker())).into()
        };
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            assert!(!self.device().is_forked(), "{}", NEVER_READY);
            if self.poll() == 0 {
                self.requests.sleep(None);
            }
        }
    }

    /// Handles the messages of other threads.
    #[cold]
    fn handle_messages(&mut self) {
        self.mailbox.take(&mut self.messages);
        while let Some(message) = self.messages.pop_front() {
            match message {
                Message::Cancel(id) => self.requests.abort(id.key, Abort::Cancelled),
                Message::Submit(request, cell) => {
                    if let Some(refused) = self.send_to(request, &cell) {
                        self.requests.outbox.refuse(cell, refused);
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
        let (pending_visits, timer_visits) = self.requests.visits();
        f.debug_struct("Queue")
            .field("device", &self.device().name())
            .field("channel", &self.describe())
            .field("outstanding", &self.outstanding())
            .field("pending_visits", &pending_visits)
            .field("timer_visits", &timer_visits)
            .finish_non_exhaustive()
    }
}
