//! A pool link: the connection between one queue and one pool. It counts the queue's items in that pool.
//!
//! | word | bits 0–62 | bit 63 | written by |
//! |---|---|---|---|
//! | `queued` | items that came in, and rejections | `CLOSED`: further items are rejected; see below | producers of the pod |
//! | `done`, in its `LinkHead` | items that have finished, and rejections | `WATCHED`: a thread waits for it to change | workers of the pod |
//!
//! A producer counts first, and then checks the bit that the same instruction returned. So either the thread that closes the
//! pool link sees the producer's count and waits for it, or the producer sees the bit and takes its count back. After a worker
//! has counted, it must not access the pool link, since the last count allows the queue to be freed. That is why the bit is in
//! the same word.
//!
//! The link of a queue with a capacity is always `CLOSED`, so that producers of other queues have nothing more to check. Bit 62
//! of its `queued`, `GATED`, says that it accepts items that have a permit.

use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use coreshard_platform::user::Thrown;
use coreshard_platform::{AtomicInt, Padded, Platform, Reading, fields};

use super::capacity::Permit;
use super::limiter::{GateAnswer, Limiter, SendItem};
use super::observed::{WatchedItem, pack};
use super::queue_core::QueueCore;
use crate::base::error::{Refused, RefusedReason};
use crate::base::item::{Item, ItemBody, Plain};
use crate::base::returned::Returned;
use crate::insight::{Label, TaskSpan};
use crate::pool::{self, Inside, LinkHead, LinkTag, Pool, QueueSide};

pub(crate) const CLOSED: u64 = 1 << 63;
pub(crate) const GATED: u64 = 1 << 62;
/// The bits that count items.
pub(crate) const COUNT: u64 = GATED - 1;

/// Larger than the number of counters, so that one bounds comparison also detects a missing counter.
const NO_INJECTOR_COUNTER: usize = usize::MAX;

#[repr(C)]
pub(crate) struct PoolLink<P: Platform> {
    /// The pool's view of the link. First, so that its address is the pool link's.
    head: LinkHead<P>,
    own_queued: Padded<P::AtomicU64>,
    /// Stands for this pool link in the slots of the pool's intake.
    tag: LinkTag,
    /// True if items go to the pool unchanged: the queue has no limit, and neither bounds nor measures them.
    is_direct: bool,
    /// As `is_direct`, except for items that are sampled for measurement.
    is_direct_unless_drawn: bool,
    /// The index of the word that counts `queued`: on the cache lines of the injectors' tails if there was room, otherwise
    /// here.
    injector_counter: usize,
    /// Items that were counted in twice; see [`Self::count_relayed`].
    relayed: P::AtomicU64,
    pub(crate) pool: Arc<Pool<P>>,
    pub(crate) core: Arc<QueueCore<P>>,
    /// Makes items wait for their turn, if the queue has a limit.
    limiter: Option<Arc<Limiter<P>>>,
}
fields!(PoolLink<P: Platform> {
    head, own_queued, tag, is_direct, is_direct_unless_drawn, injector_counter, relayed, pool,
    core, limiter,
});

/// Proof that an item was counted in: it must be sent, or the queue waits for it forever.
///
/// The item may finish, and its queue may change, while this thread is still inside the pool that it sends the item to. So the
/// pool link and its pool are accessed within an epoch section, which ends when the sending does.
#[must_use]
pub(crate) struct SubmitPermit<'queue, P: Platform> {
    link: NonNull<PoolLink<P>>,
    injector: usize,
    _reading: Reading<P>,
    _queue: PhantomData<&'queue PoolLink<P>>,
}

impl<P: Platform> SubmitPermit<'_, P> {
    /// Creates the permit of an item that was counted in.
    ///
    /// # Safety
    /// The pool link lives for as long as `reading` is held.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub(crate) unsafe fn new(
        link: NonNull<PoolLink<P>>,
        injector: usize,
        reading: Reading<P>,
    ) -> Self {
        Self { link, injector, _reading: reading, _queue: PhantomData }
    }

    #[allow(unsafe_code)]
    #[inline(always)]
    fn link(&self) -> &PoolLink<P> {
        // SAFETY: by `Self::new` and `Self::resume`.
        unsafe { self.link.as_ref() }
    }

    /// Sends a closure without a waiter.
    #[inline]
    #[track_caller]
    pub(crate) fn send<F: FnOnce() + Send + 'static>(self, work: F) {
        self.send_as(Label::item::<F>, Plain(work));
    }

    /// Sends `work` if it was counted in; otherwise returns it with the reason.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn send_entered<F: FnOnce() + Send + 'static>(
        entered: Result<Self, RefusedReason>,
        work: F,
    ) -> Result<(), Refused<F>> {
        match entered {
            Ok(entry) => {
                entry.send(work);
                Ok(())
            }
            Err(reason) => Err(Refused::new(work, reason)),
        }
    }

    /// Sends an item; `label` is called only if the queue records it.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn send_as<F: ItemBody>(self, label: impl FnOnce() -> Label, work: F) {
        if P::WATCHES_ITEMS {
            self.send_to_pool(label, WatchedItem::<P, F>::new(work));
        } else {
            self.send_to_pool(label, work);
        }
    }

    /// Returns true if an item goes to the pool unchanged.
    #[inline(always)]
    pub(crate) fn is_direct(&self) -> bool {
        !P::WATCHES_ITEMS && self.link().is_direct
    }

    /// Sends an item that goes to the pool unchanged, as the caller has checked.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn send_directly<F: ItemBody>(self, work: F) {
        debug_assert!(self.is_direct());
        let Self { link, injector, _reading: reading, .. } = self;
        // SAFETY: as in `send_to_pool`.
        let link = unsafe { link.as_ref() };
        link.pool.push(injector, Item::new(work), link.tag);
        drop(reading);
    }

    #[inline(always)]
    #[track_caller]
    #[allow(unsafe_code)]
    fn send_to_pool<F: ItemBody>(self, label: impl FnOnce() -> Label, work: F) {
        // As separate values, so that they stay in registers.
        let Self { link, injector, _reading: reading, .. } = self;
        // SAFETY: by `Self::new` and `Self::resume`, while `reading` is held: to the end of this function.
        let link = unsafe { link.as_ref() };
        if link.is_direct {
            link.pool.push(injector, Item::new(work), link.tag);
        } else {
            link.send_indirectly(injector, label, work);
        }
        drop(reading);
    }

    /// Returns the span of a future of type `F` on this queue.
    #[track_caller]
    pub(crate) fn task_span<F>(&self) -> TaskSpan<P> {
        let core = &self.link().core;
        if core.insight.spans {
            TaskSpan::on::<F>(&core.name, Location::caller())
        } else {
            TaskSpan::off()
        }
    }

    /// Returns true if the pool was not stopped.
    #[cfg(all(test, loom))]
    pub(crate) fn has_workers(&self) -> bool {
        self.link().pool.is_running()
    }

    /// Keeps the pool that the item is sent to alive, for a caller that does not hold the queue: otherwise the pool may be
    /// freed before the sending has ended.
    pub(crate) fn pool(&self) -> Arc<Pool<P>> {
        Arc::clone(&self.link().pool)
    }

    /// Gives the place up, since no item will be sent. The caller holds the queue.
    #[allow(unsafe_code)]
    pub(crate) fn abandon(self) {
        if let Some(capacity) = &self.link().core.capacity {
            capacity.give_back();
        }
        // SAFETY: the pool link lives until the end of this section.
        if unsafe { PoolLink::finish(self.link, 1) } {
            self.link().pool.event.notify();
        }
    }

    /// Returns true if the item may have to wait for others of the queue before it is sent to the pool.
    pub(crate) fn waits_for_turn(&self) -> bool {
        self.link().takes_turns()
    }

    /// Returns the place that was counted in: the pool link and the injector.
    pub(crate) fn place(&self) -> (&PoolLink<P>, usize) {
        (self.link(), self.injector)
    }

    /// Keeps the place for a later sending; see [`Self::resume`].
    pub(crate) fn keep(self) -> (NonNull<PoolLink<P>>, usize) {
        (self.link, self.injector)
    }

    /// Resumes a place that was kept.
    ///
    /// # Safety
    /// It comes from [`Self::keep`], and each is resumed once.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn resume(link: NonNull<PoolLink<P>>, injector: usize) -> Self {
        // SAFETY: the pool link lives until the item that it counted in has finished, which cannot happen before the item is
        // sent. So the link is not removed before this section has begun.
        unsafe { Self::new(link, injector, Reading::begin()) }
    }

    /// See [`PoolLink::queue_id`].
    pub(crate) fn queue_id(&self) -> u64 {
        self.link().queue_id()
    }

    /// Identifies the limiter that the item must pass; 0 for none.
    pub(crate) fn limiter_id(&self) -> u64 {
        self.link().limiter_id()
    }
}

impl<P: Platform> PoolLink<P> {
    /// Creates a pool link for a queue; `None` if the pool serves as many queues as it can. The link accepts items once
    /// [`Self::settle`] was called at its final address.
    pub(crate) fn new(
        pool: Arc<Pool<P>>,
        core: Arc<QueueCore<P>>,
        limiter: Option<Arc<Limiter<P>>>,
    ) -> Option<Self> {
        let is_free = limiter.is_none() && core.capacity.is_none();
        Some(Self {
            tag: pool.links.reserve()?,
            is_direct: is_free && core.insight.is_off(),
            is_direct_unless_drawn: is_free && !core.insight.spans,
            injector_counter: pool.take_counters().unwrap_or(NO_INJECTOR_COUNTER),
            head: LinkHead::new(&Self::QUEUE_SIDE, limiter.is_some(), core.is_serial),
            own_queued: Padded::new(P::AtomicU64::new(0)),
            relayed: P::AtomicU64::new(0),
            pool,
            core,
            limiter,
        })
    }

    /// Sends an item that was counted in, and that may have to wait or is measured.
    #[inline(never)]
    #[track_caller]
    #[allow(unsafe_code)]
    fn send_indirectly<F: ItemBody>(
        &self,
        injector: usize,
        label: impl FnOnce() -> Label,
        work: F,
    ) {
        let drawn = self.draws(injector);
        if self.is_direct_unless_drawn && !drawn {
            return self.pool.push_indirectly(injector, Item::new(work), self.tag);
        }
        // SAFETY: the item keeps the pool link, and so the queue's core, alive until it has finished.
        let permit = self.core.capacity.as_ref().map(|capacity| unsafe { Permit::of(capacity) });
        let item = pack(&self.core, drawn, label, permit, work);
        match &self.limiter {
            None => self.pool.push_indirectly(injector, item, self.tag),
            Some(limiter) => {
                // From the whole link's address, not its head's: `SEND` accesses the fields behind the head.
                if let Some(item) = limiter.push(item, NonNull::from(self).cast()) {
                    self.send(item);
                }
            }
        }
    }

    /// Returns true if the item that was counted in last at this injector is to be measured.
    #[inline(never)]
    pub(crate) fn draws(&self, injector: usize) -> bool {
        self.core.insight.times.as_ref().is_some_and(|times| {
            // The caller has just counted its item there; counts that others have added since do not bias the sampling.
            let count = self.queued_word(injector).load(Relaxed) & COUNT;
            times.sampling.draws(count.saturating_sub(1))
        })
    }

    /// Registers the link's address with the pool. The link does not move from here on.
    pub(crate) fn settle(&self) {
        P::describe(&raw const *self);
        P::describe(&raw const self.head);
        self.limiter.iter().for_each(|limiter| limiter.describe());
        self.pool.links.set(self.tag, NonNull::from(self).cast());
        self.pool.open_tally(self.tag, &self.core.insight.tally);
    }

    /// Sends an item that waited for its turn.
    #[inline(never)]
    fn send(&self, item: Item) {
        // The sending thread may belong to another pod, with more injectors.
        let injector = self.pool.place.injector_here::<P>() % self.pool.injectors();
        self.pool.push_indirectly(injector, item, self.tag);
    }

    /// Sends an item like [`Self::send`], for a limiter that has the link's head.
    #[allow(unsafe_code)]
    pub(crate) const SEND: SendItem<P> = |link, item| {
        // SAFETY: a link's head is the start of a pool link, which lives while its items are not counted as finished.
        unsafe { link.cast::<Self>().as_ref() }.send(item);
    };

    #[inline]
    pub(crate) fn queued_word(&self, injector: usize) -> &P::AtomicU64 {
        self.pool.counter(injector, self.injector_counter).unwrap_or(&self.own_queued)
    }

    /// Returns the words that count `queued`.
    fn queued_words(&self) -> impl Iterator<Item = &P::AtomicU64> {
        let injectors =
            if self.injector_counter == NO_INJECTOR_COUNTER { 1 } else { self.pool.injectors() };
        (0..injectors).map(|injector| self.queued_word(injector))
    }

    /// Creates a pool link of no queue, for models of the pool.
    #[cfg(all(test, loom))]
    pub(crate) fn bare(pool: Arc<Pool<P>>) -> Box<Self> {
        let core = QueueCore::of_no_queue();
        let link = Box::new(Self::new(pool, core, None).expect("the pool serves no other"));
        link.settle();
        link
    }

    /// Identifies the limiter that the link's items pass; 0 if they pass none.
    pub(crate) fn limiter_id(&self) -> u64 {
        self.limiter.as_ref().map_or(0, |limiter| Arc::as_ptr(limiter).addr() as u64)
    }

    /// Returns true if the identified limiter lets one item go at a time, and an item of this pool link has that turn.
    pub(crate) fn has_only_turn_of(&self, limiter_id: u64) -> bool {
        self.limiter_id() == limiter_id && self.has_only_turn()
    }

    /// Returns true if items go to the pool unchanged.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Returns true if its items may have to wait for others of the queue.
    pub(crate) fn takes_turns(&self) -> bool {
        self.limiter.is_some()
    }

    /// Returns true if its limiter does more than freeze an unlimited queue.
    pub(crate) fn is_limited(&self) -> bool {
        self.limiter.as_ref().is_some_and(|limiter| !limiter.only_freezes())
    }

    /// The gate for an item that its waiter is to run in place of a worker. Claims it by `claim`, which returns whether the
    /// item had not begun, unless the queue is frozen or was shut down at once. A part of work that has begun passes in the
    /// latter case.
    ///
    /// If the link has a limiter, its lock serializes a freeze and this call, so none of these items begins after the freeze
    /// has returned. Without a limiter, the item was in its pool before any freeze, and may begin.
    pub(crate) fn begin_beside_pool(
        &self,
        is_part: bool,
        claim: impl FnOnce() -> bool,
    ) -> GateAnswer {
        if !is_part && self.head.stopped() {
            return GateAnswer::Stopped;
        }
        match &self.limiter {
            Some(limiter) => limiter.begin_beside_pool(claim),
            None if claim() => GateAnswer::Claimed,
            None => GateAnswer::Begun,
        }
    }

    /// Returns true if its limiter lets one item go at a time.
    pub(crate) fn has_only_turn(&self) -> bool {
        self.limiter.as_ref().is_some_and(|limiter| limiter.most() == 1)
    }

    /// Returns an identifier that is unique while the queue lives.
    pub(crate) fn queue_id(&self) -> u64 {
        self.core.queue_id()
    }

    /// Returns how many items came in, and how many have finished.
    #[cfg(all(test, loom))]
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.queued(), self.done())
    }

    /// Queues work through an injector of the pool; returns it if the pool link is closed.
    #[cfg(all(test, loom))]
    #[allow(unsafe_code)]
    pub(crate) fn queue<F: FnOnce() + Send + 'static>(
        &self,
        injector: usize,
        work: F,
    ) -> Result<(), F> {
        let reading = Reading::begin();
        if self.count_in(injector) & CLOSED != 0 {
            self.take_count_back(injector);
            return Err(work);
        }
        // SAFETY: the model keeps the pool link alive.
        unsafe { SubmitPermit::new(NonNull::from(self), injector, reading) }.send(work);
        Ok(())
    }

    /// Counts an item in. If the returned word has [`CLOSED`] set, the pool link rejects the item: the caller then takes the
    /// count back, unless the word is [`GATED`] and the item has a permit.
    #[inline]
    pub(crate) fn count_in(&self, injector: usize) -> u64 {
        self.queued_word(injector).fetch_add(1, AcqRel)
    }

    /// Counts an item in once more, because its place leaves the intake before it has finished; see [`super::claimable`]. The
    /// caller holds that place, so the pool link is alive, closed or not.
    pub(crate) fn count_relayed(&self, injector: usize) {
        self.relayed.fetch_add(1, AcqRel);
        self.queued_word(injector).fetch_add(1, AcqRel);
    }

    /// Takes that count back, before the place is counted as finished.
    pub(crate) fn take_relayed_back(&self, injector: usize) {
        self.queued_word(injector).fetch_sub(1, AcqRel);
        self.relayed.fetch_sub(1, AcqRel);
    }

    #[cold]
    #[allow(unsafe_code)]
    pub(crate) fn take_count_back(&self, injector: usize) {
        self.queued_word(injector).fetch_sub(1, AcqRel);
        // A read-modify-write, though nothing is added. Either the thread that waits for the pool link to be empty has set its
        // flag before, and is notified to check again; or it sets the flag later, and sees that the count was taken back. The
        // pool link is still alive, since it was found in a section that is still open.
        // SAFETY: as just explained.
        if unsafe { Self::finish(NonNull::from(self), 0) } {
            self.pool.event.notify();
        }
    }

    /// See [`LinkHead::finish`].
    ///
    /// # Safety
    /// The pool link lives until these items are counted.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) unsafe fn finish(link: NonNull<Self>, items: u64) -> bool {
        // SAFETY: by this function's contract; the link lies at the pool link's start.
        unsafe { LinkHead::finish(link.cast::<LinkHead<P>>(), items) }
    }

    /// The callbacks of pools.
    #[allow(unsafe_code)]
    const QUEUE_SIDE: QueueSide<P> = QueueSide {
        // SAFETY: a link's head is the start of a pool link, which lives while its items are not counted as finished.
        on_panic: |link, thrown| unsafe { link.cast::<Self>().as_ref() }.on_panic(thrown),
        // SAFETY: as above.
        item_is_over: |link| unsafe { link.cast::<Self>().as_ref() }.item_is_over(),
        hand_back: |link, returned| {
            // SAFETY: as above.
            unsafe { link.cast::<Self>().as_ref() }.hand_back(returned);
        },
        rescued: |link, items| {
            // SAFETY: as above.
            unsafe { link.cast::<Self>().as_ref() }.core.insight.tally.count_rescued(items);
        },
    };

    /// Takes an item that a worker has set aside.
    fn hand_back(&self, returned: Returned) {
        let late = self.core.backlog.lock().put(returned);
        if let Some(Err(thrown)) = late.map(Returned::discard) {
            self.on_panic(thrown);
        }
    }

    /// Called after each item, before it is counted: lets an item that waits for its turn go on.
    fn item_is_over(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.one_is_over();
        }
    }

    /// Reports a panic that no handle will report.
    #[cold]
    pub(crate) fn on_panic(&self, thrown: impl Into<Thrown>) {
        self.core.on_panic(thrown.into());
    }

    pub(crate) fn close(&self) {
        let gated = self.core.capacity.is_some();
        for word in self.queued_words() {
            word.fetch_or(CLOSED, AcqRel);
            if gated {
                word.fetch_and(!GATED, AcqRel);
            }
        }
    }

    pub(crate) fn open(&self) {
        let gated = self.core.capacity.is_some();
        for word in self.queued_words() {
            if gated {
                word.fetch_or(GATED, AcqRel)
            } else {
                word.fetch_and(!CLOSED, AcqRel)
            };
        }
    }

    /// See [`LinkHead::stop`].
    pub(crate) fn stop(&self) {
        self.head.stop();
    }

    pub(crate) fn watch(&self) {
        self.head.watch();
    }

    pub(crate) fn unwatch(&self) {
        self.head.unwatch();
    }

    pub(crate) fn queued(&self) -> u64 {
        self.queued_words().map(|word| word.load(Acquire) & COUNT).sum()
    }

    pub(crate) fn done(&self) -> u64 {
        self.head.done()
    }

    /// Returns how many items both counts include, or will include, once more than there are.
    pub(crate) fn relayed(&self) -> u64 {
        self.relayed.load(Acquire)
    }
}

impl<P: Platform> Drop for PoolLink<P> {
    fn drop(&mut self) {
        self.pool.close_tally(self.tag);
        self.pool.links.release(self.tag);
        if self.injector_counter != NO_INJECTOR_COUNTER {
            self.pool.return_counters(self.injector_counter);
        }
    }
}

/// Returns whether this thread is inside an item whose pool link satisfies `of`.
#[allow(unsafe_code)]
pub(crate) fn inside<P: Platform>(mut of: impl FnMut(&PoolLink<P>) -> bool) -> Inside {
    // SAFETY: links are the start of pool links, and live while they are examined.
    pool::inside::<P>(|link| of(unsafe { link.cast::<PoolLink<P>>().as_ref() }))
}

/// Returns true if this thread is inside an item whose pool link satisfies `of`.
pub(crate) fn runs_item_of<P: Platform>(of: impl FnMut(&PoolLink<P>) -> bool) -> bool {
    inside::<P>(of) != Inside::No
}

/// Returns the state shared by all links of the queue whose item this thread is inside of.
pub(crate) fn core_here<P: Platform>() -> Option<Arc<QueueCore<P>>> {
    let mut core = None;
    inside::<P>(|link| {
        core = Some(Arc::clone(&link.core));
        true
    });
    core
}

/// Returns true if this thread is inside an item of this queue that has one of its turns.
pub(crate) fn holds_turn_of<P: Platform>(queue: u64) -> bool {
    runs_item_of::<P>(|link| link.queue_id() == queue && link.is_limited())
}
