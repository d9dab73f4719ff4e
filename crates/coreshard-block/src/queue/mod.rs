//! A thread's queue to a device.
//!
//! 1. A queue belongs to the thread that made it, and everything of a request happens there: its
//!    submission, its retries, its completion. Other threads send messages ([`RemoteQueue`]).
//! 2. A request waits in line (`pending`) until it has a tag; from then on it has a slot, which keeps
//!    its buffers. `at_device` is set from [`Lane::start`](crate::Lane::start) until the
//!    completion was seen; while it is, nobody touches or frees the buffers.
//! 3. Deadlines, and retries that are put off, are in one heap, looked at when the queue is polled.
#![allow(unsafe_code)]

mod future;
mod pending;
mod slot;
#[cfg(all(test, not(loom)))]
mod tests;

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
use crate::counters::{CounterLane, Ended};
use crate::error::{ErrorClass, IoError, Refused};
use crate::host::Device;
use crate::request::{Completed, Op, Request};
use crate::tags::TagPort;

use future::{FutureCell, Inbox, Message, refused_completion};
pub use future::{IoFuture, RemoteQueue};
use pending::Pending;
use slot::{Accepted, End, Flight, Slot, Then};

/// The most requests that are handed to the device at once without being asked to.
const MOST_STAGED: u32 = 32;
/// The most completions that are worth waiting for in company.
const MOST_WANTED: u32 = 16;
/// How long a queue that is dropped waits for its device before it gives the memory up.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// Tells one request of a queue from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u64);

/// How often a request is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After transient failures.
    pub transient: u32,
    /// After failures of the medium.
    pub media: u32,
    /// How long the first retry after a transient failure is put off; each further one twice as
    /// long as the last.
    pub backoff: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { transient: 5, media: 1, backoff: Duration::from_micros(50) }
    }
}

/// What a [`Queue`] is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Most requests that the device has from this queue at a time.
    pub depth: u32,
    /// How often a request is tried again.
    pub retry: RetryPolicy,
    /// Where both classes wait for tags: so many turns of the best-effort class ...
    pub best_effort_share: u32,
    /// ... are followed by so many of the idle class.
    pub idle_share: u32,
}

impl Default for QueueOptions {
    fn default() -> Self {
        let retry = RetryPolicy::default();
        Self { depth: 128, retry, best_effort_share: 8, idle_share: 1 }
    }
}

/// Something that happens at a time. The order of the fields is that of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Deadline(u64),
    Retry(u64),
}

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
    tags: TagPort<P>,
    counters: CounterLane<P>,
    options: QueueOptions,
    /// By tag.
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
    /// Completions that the next sleep is for: learned from the last ones.
    wanted: u32,
    /// What the last sleep was for, until its completions are looked at.
    slept_for: u32,
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
        mut tags: TagPort<P>,
        counters: CounterLane<P>,
        options: QueueOptions,
    ) -> Self {
        let waker = lane.waker();
        tags.set_waker(Arc::clone(&waker));
        Self {
            device,
            lane: ManuallyDrop::new(lane),
            tags,
            counters,
            options: QueueOptions { depth: options.depth.max(1), ..options },
            slots: Vec::new(),
            pending: Pending::new(options.best_effort_share, options.idle_share),
            stalled: VecDeque::new(),
            in_flight: 0,
            at_device: 0,
            staged: 0,
            wanted: 1,
            slept_for: 0,
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
        self.check(request).map(|request| self.accept(request, Then::Cookie(cookie)))
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
        self.check(request).map(|request| self.accept(request, Then::Call(Box::new(then))))
    }

    /// As [`submit`](Self::submit), with a future; a refusal comes through it too. Something must
    /// poll the queue: [`block_on`](Self::block_on) does.
    pub fn send(&mut self, request: Request) -> IoFuture<P> {
        let cell = FutureCell::new();
        self.send_to(request, Arc::clone(&cell));
        IoFuture::new(cell, Arc::clone(&self.inbox))
    }

    fn send_to(&mut self, request: Request, cell: Arc<FutureCell<P>>) {
        match self.check(request) {
            Ok(request) => {
                cell.accepted(self.serial + 1);
                self.accept(request, Then::Future(cell));
            }
            Err(refused) => {
                let Refused { request, error } = refused;
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

    fn check(&self, request: Request) -> Result<Request, Refused> {
        let geometry = self.device.geometry();
        let end = request.offset.checked_add(request.bytes as u64);
        let aligned = |number: u64, to: u32| to <= 1 || number.is_multiple_of(u64::from(to));
        let class_and_errno = if !self.device.is_online() {
            Some((ErrorClass::Gone, libc::ENODEV))
        } else if end.is_none_or(|end| end > geometry.bytes) {
            Some((ErrorClass::Invalid, libc::EFBIG))
        } else if request.op != Op::Read && !geometry.writable {
            Some((ErrorClass::Invalid, libc::EBADF))
        } else if !aligned(request.offset | request.bytes as u64, geometry.block_bytes)
            || geometry.memory_align > 1 && !memory_is_aligned(&request, geometry.memory_align)
            || request.bytes > i32::MAX as usize
        {
            Some((ErrorClass::Invalid, libc::EINVAL))
        } else {
            None
        };
        match class_and_errno {
            None => Ok(request),
            Some((class, errno)) => {
                let Request { op, offset, bytes, .. } = request;
                let name = self.device.name();
                let error = IoError::new(name, op, offset, bytes, 0, class, errno, 0);
                Err(Refused::new(request, error))
            }
        }
    }

    #[inline]
    fn accept(&mut self, request: Request, then: Then<P>) -> RequestId {
        self.serial += 1;
        let serial = self.serial;
        if let Some(timeout) = request.timeout {
            self.set_timer(P::now() + timeout, Timer::Deadline(serial));
        }
        let accepted = Accepted { request, serial, then };
        if self.pending.is_empty()
            && self.in_flight < self.options.depth
            && let Some(tag) = self.tags.get()
        {
            self.take_off(Flight::new(tag, accepted));
            if self.staged >= (self.at_device / 2).clamp(1, MOST_STAGED) {
                self.flush();
            }
        } else {
            self.pending.push(accepted);
        }
        RequestId(serial)
    }

    /// Gives a request with a tag its slot, and hands it to the lane.
    #[inline]
    fn take_off(&mut self, flight: Flight<P>) {
        let index = flight.tag.index();
        while self.slots.len() <= index {
            self.slots.push(Slot { generation: 0, flight: None });
        }
        let slot = &mut self.slots[index];
        debug_assert!(slot.flight.is_none(), "a tag has one holder");
        slot.generation = (slot.generation + 1) & (u32::MAX >> 1);
        slot.flight = Some(flight);
        self.in_flight += 1;
        self.counters.issued();
        self.start(index);
    }

    /// Hands what is left of a request to the lane.
    #[inline]
    fn start(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let id = slot.id(index);
        let flight = slot.flight.as_mut().expect("only requests in flight are started");
        let command = flight.command(id, self.pool.as_ref());
        // SAFETY: the command's memory is the payload's, which stays in the slot, untouched, until
        // the completion was seen (`at_device`). Where the queue is dropped before, it is leaked,
        // and the lane with it. The pieces are in the slot's Vec, on the heap.
        if unsafe { self.lane.start(&command) } {
            flight.at_device = true;
            flight.attempts += 1;
            self.at_device += 1;
            self.staged += 1;
        } else {
            self.stalled.push_back(index);
        }
    }

    #[inline]
    fn flush(&mut self) {
        self.staged = 0;
        if self.lane.flush().is_err() {
            // What the device has may or may not come back; it gets nothing more.
            self.device.set_offline();
        }
    }

    /// Looks what was completed, retries, starts what waits, and hands it to the device. Returns
    /// how many requests came to their end; does not wait.
    #[inline]
    pub fn poll(&mut self) -> usize {
        self.look();
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
        if self.slept_for > 0 {
            // A device that brings less than was waited for is not worth waiting for company.
            self.wanted = if reaped.len() as u32 >= self.slept_for {
                (self.slept_for * 2).min(MOST_WANTED)
            } else {
                (self.slept_for / 2).max(1)
            };
            self.slept_for = 0;
        }
        for one in reaped.drain(..) {
            self.land(one);
        }
        self.reaped = reaped;
        for _ in 0..self.stalled.len() {
            let index = self.stalled.pop_front().expect("as many as were counted");
            self.start(index);
        }
        if !self.pending.is_empty() || self.tags.is_enlisted() {
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
        let before = self.at_device;
        let wanted = self.wanted.min(before / 4).max(1);
        if self.lane.wait(wanted, timeout).is_err() {
            self.device.set_offline();
        }
        self.slept_for = wanted;
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
            Message::Submit(request, cell) if cell.is_abandoned() => drop((request, cell)),
            Message::Submit(request, cell) => self.send_to(request, cell),
        }
    }

    /// Hands tags to those who wait for one.
    fn dispatch(&mut self) {
        if !self.device.is_online() {
            while let Some(accepted) = self.pending.pop() {
                self.give_up(accepted, ErrorClass::Gone, libc::ENODEV);
            }
        }
        while !self.pending.is_empty() && self.in_flight < self.options.depth {
            let tag = if self.tags.is_enlisted() { self.tags.granted() } else { self.tags.get() };
            let Some(tag) = tag.or_else(|| self.tags.enlist()) else { return };
            let accepted = self.pending.pop().expect("it is not empty");
            self.take_off(Flight::new(tag, accepted));
        }
        // Nobody here waits any more, so others may have it.
        if let Some(tag) = self.tags.withdraw() {
            self.tags.put(tag);
        }
    }

    /// A completion was seen.
    #[inline]
    fn land(&mut self, reaped: Reaped) {
        let index = reaped.id as u32 as usize;
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.id(index) == reaped.id)
        else {
            return;
        };
        let Some(flight) = slot.flight.as_mut().filter(|flight| flight.at_device) else { return };
        flight.at_device = false;
        self.at_device -= 1;
        let Ok(moved) = usize::try_from(reaped.result) else {
            return self.land_badly(index, -reaped.result);
        };
        match flight.op {
            Op::Read | Op::Write => {
                flight.moved += moved;
                if flight.moved >= flight.bytes || moved == 0 && flight.op == Op::Read {
                    self.finish(index, Ok(()));
                } else if moved == 0 {
                    self.land_badly(index, libc::EIO);
                } else if flight.end != End::Natural || self.closing {
                    self.land_badly(index, libc::ECANCELED);
                } else {
                    self.start(index);
                }
            }
            _ => self.finish(index, Ok(())),
        }
    }

    #[cold]
    fn land_badly(&mut self, index: usize, errno: i32) {
        let online = self.device.is_online();
        let RetryPolicy { transient, media, backoff } = self.options.retry;
        let slot = &mut self.slots[index];
        let id = slot.id(index);
        let flight = slot.flight.as_mut().expect("it has just landed");
        let class = match (ErrorClass::of_errno(errno), flight.end) {
            (ErrorClass::Cancelled, End::TimedOut) => ErrorClass::Timeout,
            (class, _) => class,
        };
        let retries = match class {
            ErrorClass::Transient => transient,
            ErrorClass::Media => media,
            _ => 0,
        };
        if class == ErrorClass::Gone {
            self.device.set_offline();
        } else if flight.attempts <= retries
            && flight.end == End::Natural
            && online
            && !self.closing
        {
            if class == ErrorClass::Transient {
                let wait = backoff * (1 << (flight.attempts - 1).min(10));
                self.set_timer(P::now() + wait, Timer::Retry(id));
            } else {
                self.start(index);
            }
            return;
        }
        let errno = if class == ErrorClass::Timeout { libc::ETIMEDOUT } else { errno };
        self.finish(index, Err((class, errno)));
    }

    /// A request is over: its tag goes back, and its completion to whoever takes it.
    #[inline]
    fn finish(&mut self, index: usize, result: Result<(), (ErrorClass, i32)>) {
        let flight = self.slots[index].flight.take().expect("only requests in flight are over");
        self.in_flight -= 1;
        let Flight { tag, op, offset, bytes, payload, moved, attempts, then, .. } = flight;
        let ended = match result {
            Ok(()) => Ended::Well,
            Err((ErrorClass::Timeout, _)) => Ended::TimedOut,
            Err(_) => Ended::Failed,
        };
        self.counters.done(ended);
        self.tags.put(tag);
        let result = result.map(|()| moved).map_err(|(class, errno)| {
            IoError::new(self.device.name(), op, offset, bytes, moved, class, errno, attempts)
        });
        self.deliver(then, Completed { result, payload, op, offset, cookie: 0 });
    }

    /// Ends a request that has no tag.
    fn give_up(&mut self, accepted: Accepted<P>, class: ErrorClass, errno: i32) {
        let Accepted { request, then, .. } = accepted;
        let Request { op, offset, bytes, payload, .. } = request;
        let error = IoError::new(self.device.name(), op, offset, bytes, 0, class, errno, 0);
        self.deliver(then, Completed { result: Err(error), payload, op, offset, cookie: 0 });
    }

    #[inline]
    fn deliver(&mut self, then: Then<P>, mut completed: Completed) {
        self.delivered += 1;
        match then {
            Then::Cookie(cookie) => {
                completed.cookie = cookie;
                self.done.push_back(completed);
            }
            Then::Call(call) => call(completed),
            Then::Future(cell) => cell.complete(completed),
        }
    }

    /// Has a request end before its time, wherever it is.
    #[cold]
    fn end(&mut self, serial: u64, end: End) {
        let (class, errno) = match end {
            End::TimedOut => (ErrorClass::Timeout, libc::ETIMEDOUT),
            _ => (ErrorClass::Cancelled, libc::ECANCELED),
        };
        if let Some(accepted) = self.pending.remove(serial) {
            return self.give_up(accepted, class, errno);
        }
        let found = self.slots.iter_mut().enumerate().find_map(|(index, slot)| {
            let id = slot.id(index);
            let flight = slot.flight.as_mut().filter(|flight| flight.serial == serial)?;
            Some((index, id, flight))
        });
        let Some((index, id, flight)) = found else { return };
        if flight.end == End::Natural {
            flight.end = end;
        }
        if flight.at_device {
            self.lane.cancel(id);
            self.staged += 1;
        } else {
            // It waits for a retry, or for room.
            self.stalled.retain(|stalled| *stalled != index);
            self.finish(index, Err((class, errno)));
        }
    }

    fn set_timer(&mut self, at: Time, timer: Timer) {
        if self.timers.len() > 64 + 4 * self.outstanding() {
            // Most are of requests that are over.
            let timers = mem::take(&mut self.timers);
            let live = |timer: Timer| match timer {
                Timer::Retry(_) => true,
                Timer::Deadline(serial) => {
                    // Only those in flight are cheap to look up; of the others all are kept.
                    let oldest = self
                        .slots
                        .iter()
                        .filter_map(|slot| Some(slot.flight.as_ref()?.serial))
                        .min();
                    !self.pending.is_empty() || oldest.is_some_and(|oldest| serial >= oldest)
                }
            };
            self.timers = timers.into_iter().filter(|Reverse((_, timer))| live(*timer)).collect();
        }
        self.timers.push(Reverse((at, timer)));
    }

    fn fire_timers(&mut self) {
        let now = P::now();
        while let Some(Reverse((at, timer))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            match timer {
                Timer::Deadline(serial) => self.end(serial, End::TimedOut),
                Timer::Retry(id) => self.retry(id),
            }
        }
    }

    fn retry(&mut self, id: u64) {
        let index = id as u32 as usize;
        let slot = &self.slots[index];
        let waits = slot.flight.as_ref().is_some_and(|flight| !flight.at_device);
        if slot.id(index) != id || !waits {
            return;
        }
        if self.device.is_online() {
            self.start(index);
        } else {
            self.finish(index, Err((ErrorClass::Gone, libc::ENODEV)));
        }
    }

    /// Ends everything, and waits for the device. True if it is done with all memory.
    fn drain(&mut self) -> bool {
        self.closing = true;
        while let Some(accepted) = self.pending.pop() {
            self.give_up(accepted, ErrorClass::Cancelled, libc::ECANCELED);
        }
        for message in self.inbox.close() {
            if let Message::Submit(request, cell) = message {
                cell.complete(refused_completion(self.device.name(), request));
            }
        }
        let serials: Vec<u64> =
            self.slots.iter().filter_map(|slot| Some(slot.flight.as_ref()?.serial)).collect();
        serials.into_iter().for_each(|serial| self.end(serial, End::Cancelled));
        let give_up_at = P::now() + DRAIN_LIMIT;
        while self.at_device > 0 {
            if self.lane.wait(1, Some(Duration::from_millis(100))).is_err() || P::now() > give_up_at
            {
                return false;
            }
            self.poll();
            // What was done but not told when it was cancelled first is told when it is again.
            for index in 0..self.slots.len() {
                let slot = &self.slots[index];
                let id = slot.id(index);
                if slot.flight.as_ref().is_some_and(|flight| flight.at_device) {
                    self.lane.cancel(id);
                }
            }
        }
        true
    }
}

/// Everything that was accepted ends: what waits as cancelled, what the device has when it is done
/// with it. The drop waits for the device. Where that takes more than a minute, the memory that
/// the device may still touch is leaked.
impl<P: Platform> Drop for Queue<P> {
    fn drop(&mut self) {
        if self.drain() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.lane) };
        } else {
            mem::forget(mem::take(&mut self.slots));
            self.device.set_offline();
        }
    }
}

fn memory_is_aligned(request: &Request, to: u32) -> bool {
    use crate::request::Payload;
    let aligned =
        |buffer: &crate::buffer::Buffer| buffer.start().addr().is_multiple_of(to as usize);
    match &request.payload {
        Payload::None => true,
        Payload::One(buffer) => aligned(buffer),
        Payload::Many(buffers) => buffers.iter().all(aligned),
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
