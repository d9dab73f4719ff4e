//! A worker: takes items, runs them, and counts them.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, LocalKey, Platform, SpawnError, ThreadSpec, Time, user};
use coreshard_topology::{PodId, Scope};

use super::accounts::WeighedVisits;
use super::forks::Forks;
use super::link::LinkHead;
use super::rescuer::RESCUER;
use super::running::Frame;
use super::state::Worklist;
use super::{Claim, LinkTag, Pool, Segment, SegmentQueue, Watches, WorkerSlot, idle};
use crate::base::item::Item;
use crate::insight::trouble::say;
use crate::spec::attributes::{Hook, Place};

/// The most items a worker claims at once: enough to make the lock's cost small per item, and few
/// enough to be copied to a thief's cache in good time.
const MAX_CLAIMED: usize = 32;

/// What code on a worker's thread may ask about it; reached through the platform's local pointer.
pub(super) struct Context<P: Platform> {
    pub(super) pool: Arc<Pool<P>>,
    pub(super) index: usize,
    pub(super) slot: NonNull<WorkerSlot<P>>,
    pub(super) forks: Forks<P>,
    /// What this thread is inside of, see `running`: never null.
    pub(super) frame: Cell<*const Frame<P>>,
    /// Where the thread's stack begins, about.
    pub(super) base: usize,
}

/// The context of the worker on this thread, if there is one. It is not `Sync`, so the reference
/// stays on this thread; what it is used for must be over before the worker's item is.
#[inline]
#[allow(unsafe_code)]
pub(super) fn context_here<'item, P: Platform>() -> Option<&'item Context<P>> {
    let context = P::local(LocalKey::Worker).cast::<Context<P>>();
    // SAFETY: the pointer is set by `Worker::start` to a context on its own stack, for as long as it
    // lives, on this very thread; it is null elsewhere.
    unsafe { context.as_ref() }
}

/// Calls `ask` with the context of the worker on this thread, if there is one.
pub(super) fn with_context<P: Platform, R>(ask: impl FnOnce(&Context<P>) -> R) -> Option<R> {
    context_here().map(ask)
}

/// The index of the worker on this thread, if it is one of `pool`'s.
pub(super) fn index_in<P: Platform>(pool: &Pool<P>) -> Option<usize> {
    with_context::<P, _>(|context| {
        ptr::eq(Arc::as_ptr(&context.pool), pool).then_some(context.index)
    })
    .flatten()
}

/// A hook that panics costs its own work, not the worker.
fn run_hook(hook: Option<&Hook>, pod: PodId) {
    if let Some(hook) = hook
        && let Err(thrown) = hook.call(|hook| hook(pod))
    {
        let panic = crate::base::error::message_of(thrown.payload());
        say(|| tracing::error!(%pod, panic, "a hook panicked"));
    }
}

/// At most 15 bytes are seen by the kernel: the scope in short, the pod, the worker.
fn thread_name(scope: Scope, pod: PodId, index: usize) -> String {
    let scope = match scope {
        Scope::Cpu => "cpu",
        Scope::Smt => "smt",
        Scope::CacheShard => "shard",
        Scope::Cache => "llc",
        Scope::Numa => "node",
        Scope::System => "sys",
    };
    format!("cs-{scope}{pod}:{index}")
}

/// An item, and its link's tag.
type TaggedItem = (Item, LinkTag);

/// Items of one link that were run and not yet counted.
struct Batch<P: Platform> {
    tag: Option<LinkTag>,
    link: *mut LinkHead<P>,
    items: u64,
    /// When the first was begun, where this visit to the link is weighed.
    weighed_since: Option<Time>,
}

impl<P: Platform> Batch<P> {
    const fn none() -> Self {
        Self { tag: None, link: ptr::null_mut(), items: 0, weighed_since: None }
    }
}

pub(super) struct Worker<'pool, P: Platform> {
    pub(super) pool: &'pool Arc<Pool<P>>,
    pub(super) index: usize,
    pub(super) slot: &'pool WorkerSlot<P>,
    pub(super) context: &'pool Context<P>,
    /// The outermost frame of this thread.
    inside: &'pool Frame<P>,
    /// How many items to claim next: doubled while claims come back full.
    claim_items: usize,
    /// More run than should: this one is to lie down, and leave the work to the others.
    pub(super) excess: bool,
    /// What it has claimed is open to thieves, and it has not seen the end of it.
    has_open_claim: bool,
    /// Items copied out of the claimed segment and not yet told.
    taken: u32,
    segment: *mut Segment<P>,
    tally: Batch<P>,
    /// Visits to links until one is weighed; `None` where CPU time cannot be told.
    visits: Option<WeighedVisits>,
    /// Where the next items will be seen first.
    pub(super) next_slots: Option<Watches<P>>,
    /// How long to watch for work before sleeping; learned from what watching brought.
    pub(super) spins: u32,
    /// How long not to look at all; learned too.
    pub(super) gather_spins: u32,
    /// The last look for work succeeded by watching.
    pub(super) watched: bool,
    /// It has let others run on its CPU since it last had work.
    pub(super) yielded: bool,
    /// It has not claimed since it slept.
    pub(super) just_woke: bool,
    pub(super) repatriated: u64,
    /// In which process it runs items.
    process_generation: u32,
}

impl<P: Platform> Pool<P> {
    /// Starts the worker whose index was reserved. Returns an index to go on with: that of a worker that was
    /// wanted meanwhile, and left to whoever starts this one.
    ///
    /// While a start is on its way it counts as a worker that runs, so others may have lain down for
    /// it. One that fails leaves the pool as if it had never been on its way: somebody who sleeps takes
    /// its place, or the rescuer, or else the monitor tries again.
    pub(super) fn start_worker(
        self: &Arc<Self>,
        index: usize,
    ) -> (Result<(), SpawnError>, Option<usize>) {
        let spec = ThreadSpec {
            name: thread_name(self.attributes.scope, self.place.pod, index),
            affinity: Some(self.place.home.clone()),
            nice: self.attributes.nice,
            stack_bytes: self.attributes.stack_bytes,
        };
        let pool = Arc::clone(self);
        let (thread, outcome) = match P::spawn(spec, Box::new(move || Worker::start(&pool, index)))
        {
            Ok(thread) => (Some(thread), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let mut state = self.lock();
        state.put_handle(index, thread);
        let mut kick = None;
        if outcome.is_err() {
            state.cold_mut().counters.failed_worker_starts += 1;
            // Its first worker: the pool is not there.
            state.stopping |= state.alive == 0;
            state.spare_refused = true;
            let left = state.has_work(self);
            kick = state.pass_on(self, left);
        }
        state.starting -= 1;
        let wanted = std::mem::take(&mut state.spare_missed);
        let next = if wanted { state.reserve_spare(self) } else { None };
        let kick = kick.or_else(|| state.call_rescuer());
        let is_awaited = state.stopping;
        self.unlock_and_kick(state, kick);
        if is_awaited {
            self.event.notify();
        }
        // Perhaps nobody is left to do what comes.
        self.monitor.notice_work();
        (outcome, next)
    }

    /// Starts the worker whose index was reserved, and those that were wanted meanwhile: a worker
    /// that blocks while another is being started cannot see to its own replacement.
    pub(super) fn start_spare(self: &Arc<Self>, index: usize) {
        let mut next = Some(index);
        while let Some(index) = next {
            let (started, wanted) = self.start_worker(index);
            if let Err(error) = started {
                self.tell_of_missing(&error);
            }
            next = wanted;
        }
    }
}

impl<'pool, P: Platform> Worker<'pool, P> {
    fn new(context: &'pool Context<P>, inside: &'pool Frame<P>) -> Self {
        let Context { pool, index, .. } = context;
        Self {
            pool,
            index: *index,
            slot: pool.slot(*index),
            context,
            inside,
            claim_items: 1,
            excess: false,
            has_open_claim: false,
            taken: 0,
            segment: ptr::null_mut(),
            tally: Batch::none(),
            visits: None,
            next_slots: None,
            spins: idle::FIRST_SPINS,
            gather_spins: 0,
            watched: false,
            yielded: false,
            just_woke: false,
            repatriated: 0,
            process_generation: P::process_generation(),
        }
    }

    /// An item has forked this process, and returned in it: what waits here is run there.
    #[cold]
    fn end_in_fork(&self) -> ! {
        panic!(
            "a work item ({}) has returned in a process that it forked, where its queue's workers              are not: end that process inside the item, by exec or _exit",
            self.slot.function()
        );
    }

    fn start(pool: &Arc<Pool<P>>, index: usize) {
        let inside = Frame::of_worker();
        let context = Context {
            pool: Arc::clone(pool),
            index,
            slot: NonNull::from(pool.slot(index)),
            frame: Cell::new(&raw const inside),
            base: (&raw const inside).addr(),
            forks: Forks::new(),
        };
        P::set_local(LocalKey::Worker, (&raw const context).cast_mut().cast());
        Worker::new(&context, &inside).run();
        // What a user still runs on this thread, such as the destructors of thread-local values, finds no
        // worker here. Only then may another one have the index.
        P::set_local(LocalKey::Worker, ptr::null_mut());
        pool.lock().retire_worker(index);
    }

    fn run(mut self) {
        let pool = self.pool;
        self.slot.thread.store(P::this_thread().0, Release);
        self.visits = pool.open_account(self.index).then(|| WeighedVisits::of_worker(self.index));
        let Place { home, roam, pod, .. } = &pool.place;
        if home != roam
            && let Err(error) = P::set_affinity(roam)
        {
            // It stays at home: stricter than asked, and said.
            say(|| tracing::warn!(%pod, %error, "a worker may not leave its pod"));
        }
        run_hook(pool.attributes.hooks.on_start.as_ref(), *pod);
        let mut works = !self.is_rescuer() || self.stand_by();
        while works {
            while let Some(item) = self.next_item() {
                self.execute(item);
            }
            self.settle();
            works = self.sleep() || self.stand_by();
        }
        // The hook is a user's, and may fork: the slot is still this worker's.
        run_hook(pool.attributes.hooks.on_stop.as_ref(), *pod);
        self.stop_forking();
        pool.close_account(self.index);
    }

    #[allow(unsafe_code)]
    fn execute(&mut self, (item, tag): TaggedItem) {
        if self.tally.tag != Some(tag) {
            self.count_run();
            // Only this worker writes it.
            self.slot.link.store(u32::from(tag.0) + 1, Relaxed);
            self.tally = Batch {
                tag: Some(tag),
                link: self.pool.links.link(tag).as_ptr(),
                items: 0,
                weighed_since: self.weigh_visit(),
            };
        }
        self.inside.set_link(self.tally.link);
        self.slot.begin(item.kind());
        let outcome = user::call(|| item.run());
        if P::process_generation() != self.process_generation {
            self.end_in_fork();
        }
        let Some(link) = NonNull::new(self.tally.link) else { unreachable!("set above") };
        if let Err(thrown) = outcome {
            // SAFETY: a link lives until its items are counted, and this one is not yet.
            drop(user::call(|| unsafe { LinkHead::on_panic(link, thrown) }));
        }
        self.inside.set_link(ptr::null());
        self.tally.items += 1;
        // SAFETY: as above.
        unsafe { LinkHead::item_is_over(link) };
    }

    /// Tells the queue how many of its items were run. The link may be gone right after.
    #[allow(unsafe_code)]
    fn count_run(&mut self) {
        let items = std::mem::take(&mut self.tally.items);
        if let Some(link) = NonNull::new(self.tally.link).filter(|_| items > 0) {
            if let (Some(since), Some(tag)) = (self.tally.weighed_since, self.tally.tag) {
                self.pool.weigh_visit(tag, P::now().ns_since(since));
            }
            self.pool.ran.fetch_add(items, Relaxed);
            if self.index == RESCUER && self.pool.attributes.rescuer.is_some() {
                // SAFETY: as below.
                unsafe { LinkHead::rescued(link, items) };
            }
            // SAFETY: as in `execute`: these items are not yet told.
            if unsafe { LinkHead::finish(link, items) } {
                self.pool.event.notify();
            }
        }
        self.tally = Batch::none();
    }

    /// When a visit to a link begins that is to be weighed: the first one, and then one of so many.
    fn weigh_visit(&mut self) -> Option<Time> {
        let visits = self.visits.as_mut()?;
        visits.is_weighed().then(P::now)
    }

    fn next_item(&mut self) -> Option<TaggedItem> {
        loop {
            if let Some(item) = self.next_claimed() {
                return Some(item);
            }
            if let Some(item) = self.claim().or_else(|| self.steal()) {
                return Some(item);
            }
            if !self.run_fork() && !self.watch() {
                return None;
            }
        }
    }

    fn next_claimed(&mut self) -> Option<TaggedItem> {
        if !self.has_open_claim {
            return None;
        }
        if let Some(at) = self.slot.range.next() {
            return Some(self.take_at(at));
        }
        self.has_open_claim = false;
        // Relaxed: too high a count costs those who look a look at the ranges, no more.
        self.pool.open_claims.fetch_sub(1, Relaxed);
        None
    }

    /// Tells the queue and the intake what was done, before this worker rests.
    fn settle(&mut self) {
        self.settle_items();
        self.stop_forking();
    }

    pub(super) fn settle_items(&mut self) {
        self.count_run();
        self.release_taken();
    }

    #[allow(unsafe_code)]
    fn release_taken(&mut self) {
        if let Some(queue) = &self.pool.queue
            && self.taken > 0
        {
            // SAFETY: `take_at` counted the items that it took from this segment.
            unsafe { queue.release(self.segment, std::mem::take(&mut self.taken)) };
        }
    }

    #[allow(unsafe_code)]
    fn take_at(&mut self, at: usize) -> TaggedItem {
        self.taken += 1;
        // SAFETY: the place was claimed or stolen by this worker, from this segment, and each
        // place is given out once; it is released in `next_item`, later.
        let (item, tag) = unsafe { SegmentQueue::<P>::take(self.segment, at) };
        (item, LinkTag(tag))
    }

    /// Takes items out of the intake, under the lock; lets others know of what is left.
    fn claim(&mut self) -> Option<TaggedItem> {
        let pool = self.pool;
        let mut state = pool.lock();
        state.rejoin(self.index);
        if self.repatriated > 0 {
            state.cold_mut().counters.repatriated += std::mem::take(&mut self.repatriated);
        }
        self.excess = state.active() > pool.place.limit;
        if self.excess {
            return None;
        }
        let home = pool.place.injector_here::<P>();
        state.placement.runs_at(self.index, home);
        if std::mem::take(&mut self.just_woke)
            && let Some(other) = state.placement.other_at(self.index, home)
            && let Some(free) = state.placement.send_elsewhere(other, &pool.place)
        {
            // This worker runs here, so the other waits for this CPU. Under the lock, so that it
            // cannot end meanwhile.
            pool.steer(other, free, || ());
        }
        let (item, claim) = match (&mut state.worklist, &pool.queue) {
            (Worklist::Locked(list), _) => (Some(list.pop_front()?), None),
            (Worklist::LockFree(takers), Some(queue)) => {
                match queue.claim(takers, self.claim_items, home) {
                    Some(claim) => (None, Some(claim)),
                    None => {
                        self.next_slots = Some(queue.watch(takers, home));
                        return None;
                    }
                }
            }
            (Worklist::LockFree(_), None) => unreachable!("the lock-free rung has a queue"),
        };
        let spare = state.reserve_spare(pool);
        let (item, mut left) = match claim {
            None => (item, false),
            Some(claim) => {
                let items = claim.end - claim.start;
                self.claim_items =
                    if items == self.claim_items { (items * 2).min(MAX_CLAIMED) } else { items };
                // While this worker starts another, its items are open to all.
                (self.open(claim, spare.is_none()), items > 1)
            }
        };
        self.yielded = false;
        self.learn_to_gather(left);
        // Looking at the injectors takes lines from their producers: only if somebody can be sent. At the claims
        // of others, too: one kick may have stood for two who were blocked, and what they have claimed is
        // left to whoever came.
        left |= state.can_kick(pool) && state.has_work(pool);
        let kick = state.pass_on(pool, left).or_else(|| state.call_rescuer());
        pool.unlock_and_kick(state, kick);
        // After the lock was held: see the monitor's `run`.
        pool.monitor.notice_work();
        if let Some(spare) = spare {
            pool.start_spare(spare);
        }
        item.or_else(|| self.next_claimed())
    }

    /// Opens a claim to thieves, but for its first item where `keep_first` says so.
    fn open(&mut self, mut claim: Claim<P>, keep_first: bool) -> Option<TaggedItem> {
        if !ptr::eq(self.segment, claim.segment) {
            self.release_taken();
            self.segment = claim.segment;
        }
        let first = keep_first.then_some(claim.start);
        claim.start += usize::from(keep_first);
        if claim.start < claim.end {
            // Counted before it is published, and both before this worker next frees the lock (a
            // thief takes it next): whoever holds the lock later sees the count.
            self.pool.open_claims.fetch_add(1, Release);
            self.has_open_claim = true;
            self.slot.range.publish(&claim);
        }
        first.map(|at| self.take_at(at))
    }

    /// Takes what another worker of the pool has claimed and not yet run.
    fn steal(&mut self) -> Option<TaggedItem> {
        let pool = self.pool;
        if self.excess || pool.open_claims.load(Acquire) == 0 {
            return None;
        }
        let claim = pool
            .ranges()
            .filter(|(index, _)| *index != self.index)
            .find_map(|(_, range)| range.steal())?;
        let item = self.open(claim, true);
        let mut state = pool.lock();
        state.cold_mut().counters.stolen += 1;
        // Published before the lock was taken: whoever goes to sleep after this sees it.
        let left = state.can_kick(pool) && state.has_work(pool);
        let kick = state.pass_on(pool, left);
        pool.unlock_and_kick(state, kick);
        item
    }
}
