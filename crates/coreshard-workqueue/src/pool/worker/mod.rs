//! A worker's thread: its hooks, its loop, how it runs an item, sleeps and exits. `find_work` finds the items.

mod claims;
mod find_work;

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::user::Thrown;
use coreshard_platform::{AtomicInt, LocalKey, Platform, Time, user};
use coreshard_topology::PodId;

use claims::OpenClaims;

use super::accounts::WeighedVisits;
use super::batching::ServiceTimeEstimator;
use super::blocking::blocking;
use super::context::{Context, context_here};
use super::current::CurrentWorker;
use super::jobs::Frame;
use super::link::{LinkHead, LinkTag};
use super::placement::Homing;
use super::pool::Pool;
use super::slots::{Injectors, WorkerSlot};
use super::spin::SpinWait;
use super::state::State;
use super::team::end_if_over;
use super::waiting_items::{TaggedItem, Worklist};
use crate::base::canary::{Canary, planted};
use crate::base::error::message_of;
use crate::base::item::Item;
use crate::config::attributes::{Hook, Place};
use crate::config::reactor::InReactor;
use crate::insight::diagnostic::say;

/// After how many items a busy worker polls the reactor.
const ITEMS_BEFORE_LOOK: usize = 64;

/// Items of one link that were run and not yet counted as finished.
struct Batch<P: Platform> {
    tag: Option<LinkTag>,
    link: *mut LinkHead<P>,
    items: u64,
    /// When the first of them began, if this visit to the link is timed.
    weighed_since: Option<Time>,
}

impl<P: Platform> Batch<P> {
    const fn none() -> Self {
        Self { tag: None, link: ptr::null_mut(), items: 0, weighed_since: None }
    }
}

/// The next step of a worker that found no item.
enum Rest {
    /// There is work after all.
    None,
    /// Sleep until woken.
    Sleep,
    /// The pool stops, and there is nothing left to do.
    Exit,
}

/// A worker, as seen by its own thread.
struct Worker<'pool, P: Platform> {
    pool: &'pool Arc<Pool<P>>,
    index: usize,
    slot: &'pool WorkerSlot<P>,
    context: &'pool Context<P>,
    /// The outermost frame of this thread.
    inside: &'pool Frame<P>,
    /// Its estimate of how long its items run, and the resulting batch size.
    estimator: ServiceTimeEstimator,
    /// It may suppress wake-ups while its items are short.
    may_suppress: bool,
    claims: OpenClaims<'pool, P>,
    batch: Batch<P>,
    /// Counts visits to links until the next timed one; `None` if the platform cannot measure CPU time.
    visits: Option<WeighedVisits>,
    spin: SpinWait<P>,
    home: Homing,
    /// More workers run than should: this one is to sleep, and leave the work to the others.
    excess: bool,
    /// Time of its last look at the intake under the lock, after which some worker is designated to be woken for new
    /// items; 0 makes it look at the next opportunity.
    looked_ns: u64,
    /// Whether it may steal forked jobs, as of its last look under the lock.
    may_steal: bool,
    /// It is the thief that looks after a waiting item.
    is_lookout: bool,
    /// Items until it next polls the reactor; `None` if there is none.
    items_before_look: Option<usize>,
    /// It has not claimed since it slept.
    just_woke: bool,
    /// It is a member of a team.
    is_member: bool,
    /// For a guest: its own pool.
    home_pool: Option<&'pool Pool<P>>,
    /// The process that it runs items in.
    process_generation: u32,
}

/// Runs a hook. A panic ends the hook, not the worker.
fn run_hook(hook: Option<&Hook>, pod: PodId) {
    if let Some(hook) = hook
        && let Err(thrown) = hook.call(|hook| hook(pod))
    {
        let panic = message_of(thrown.payload());
        say(|| tracing::error!(%pod, panic, "a hook panicked"));
    }
}

/// Runs the worker with this index, which was reserved, on this thread. A program may give a team the thread of another
/// worker, whose pool then runs without that worker.
pub(super) fn start<P: Platform>(pool: &Arc<Pool<P>>, index: usize) {
    match context_here::<P>() {
        None => start_here(pool, index),
        Some(_) => blocking::<P, _>(|| start_here(pool, index)),
    }
}

#[inline(never)]
fn start_here<P: Platform>(pool: &Arc<Pool<P>>, index: usize) {
    be_worker(pool, index, None);
}

/// Makes the worker of `home` on this thread a guest of `host`, with the index that it was given there.
#[inline(never)]
fn be_guest<P: Platform>(host: &Arc<Pool<P>>, index: usize, home: &Pool<P>) {
    be_worker(host, index, Some(home));
}

fn be_worker<P: Platform>(pool: &Arc<Pool<P>>, index: usize, home: Option<&Pool<P>>) {
    let inside = Frame::of_worker();
    let context = Context::new(pool, index, &inside);
    let outer = P::local(LocalKey::Worker);
    P::set_local(LocalKey::Worker, (&raw const context).cast_mut().cast());
    let worker = Worker::new(&context, &inside);
    match home {
        None => worker.run(),
        Some(home) => Worker { home_pool: Some(home), ..worker }.run_as_guest(),
    }
    // User code that still runs on this thread, such as destructors of thread-local values, must not find this
    // worker. Only then may another worker get the index.
    P::set_local(LocalKey::Worker, outer);
    let mut state = pool.lock_state();
    state.roster.retire(index);
    if state.roster.stopping {
        // Under the lock, exceptionally: no caller joins this thread from here on, so it must do nothing after the unlock.
        pool.event.notify();
    }
}

impl<'pool, P: Platform> Worker<'pool, P> {
    fn new(context: &'pool Context<P>, inside: &'pool Frame<P>) -> Self {
        let Context { pool, index, .. } = context;
        let slot = pool.slots.get(*index);
        Self {
            pool,
            index: *index,
            slot,
            context,
            inside,
            estimator: ServiceTimeEstimator::new(pool.settings.trusts_at_once),
            may_suppress: pool.may_suppress_wakes(),
            claims: OpenClaims::new(slot, context),
            batch: Batch::none(),
            visits: None,
            spin: SpinWait::new(),
            home: Homing::new(),
            excess: false,
            looked_ns: 0,
            may_steal: true,
            is_lookout: false,
            items_before_look: pool.attributes.hooks.reactor.as_ref().map(|_| ITEMS_BEFORE_LOOK),
            just_woke: false,
            is_member: pool.is_team(),
            home_pool: None,
            process_generation: P::process_generation(),
        }
    }

    fn current(&self) -> CurrentWorker<'pool, P> {
        CurrentWorker { context: self.context }
    }

    fn run(mut self) {
        let pool = self.pool;
        self.slot.set_thread(P::this_thread());
        let has_account = pool.accounts.open(self.slot, self.index, self.home_pool.is_none());
        self.visits = has_account.then(|| WeighedVisits::of_worker(self.index));
        let Place { home, roam, pod, .. } = &pool.place;
        if home != roam
            && let Err(error) = P::set_affinity(roam)
        {
            // It stays in its pod, which is stricter than requested.
            say(|| tracing::warn!(%pod, %error, "a worker may not leave its pod"));
        }
        run_hook(pool.attributes.hooks.on_start.as_ref(), *pod);
        if let Some(team) = pool.team() {
            team.run_hook(team.on_start.as_ref(), self.current().index());
        }
        let mut works = !self.is_rescuer() || self.stand_by();
        self.start_others();
        while works {
            self.run_items();
            works = self.sleep() || self.stand_by();
        }
        // The hook is user code, and may fork: the slot still belongs to this worker.
        if let Some(team) = pool.team() {
            team.run_hook(team.on_exit.as_ref(), self.current().index());
        }
        run_hook(pool.attributes.hooks.on_stop.as_ref(), *pod);
        self.current().stop_forking();
        pool.accounts.close(self.slot);
    }

    /// Runs the host's items until there are none, or its own pool has work. It does not sleep there or look for anything
    /// else.
    fn run_as_guest(mut self) {
        let pool = self.pool;
        self.slot.set_thread(P::this_thread());
        let has_account = pool.accounts.open(self.slot, self.index, false);
        self.visits = has_account.then(|| WeighedVisits::of_worker(self.index));
        self.run_items();
        pool.accounts.close(self.slot);
        let mut state = pool.lock_state();
        state.rejoin(self.index);
        state.let_go(self.index);
        let kick = state.pass_on_rest(pool);
        pool.unlock_and_kick(state, kick);
    }

    /// Starts more workers, since one was missing. If there is more work than this one can take, more are missing: each new
    /// worker starts two, so that the number doubles and more with each start.
    fn start_others(&self) {
        // Models have few threads.
        const STARTED_BY_EACH: usize = if cfg!(loom) { 0 } else { 2 };
        let pool = self.pool;
        for _ in 0..STARTED_BY_EACH {
            let mut state = pool.lock_state();
            let spare =
                if state.has_work_for_several(pool) { state.reserve_spare(pool) } else { None };
            drop(state);
            let Some(spare) = spare else { return };
            pool.start_spare(spare);
        }
    }

    fn is_rescuer(&self) -> bool {
        self.pool.is_rescuer(self.index)
    }

    /// Waits until the rescuer is called. Returns false if this worker is not the rescuer, or if the pool stops.
    fn stand_by(&self) -> bool {
        if !self.is_rescuer() || !self.pool.lock_state().roster.may_stand_by() {
            return false;
        }
        // One permit for each call or dismissal, and each is taken here: a leftover permit would end a later sleep without any
        // thread having woken this worker.
        self.slot.parker.park();
        self.pool.lock_state().roster.is_called(self.index)
    }

    /// Runs items and forked jobs until it finds none.
    fn run_items(&mut self) {
        while let Some(item) = self.next_item() {
            self.execute(item);
        }
        self.settle_items();
        self.current().stop_forking();
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    fn execute(&mut self, (mut item, tag): TaggedItem) {
        if self.batch.tag != Some(tag) {
            self.count_run();
            self.slot.set_link(tag);
            let link = self.pool.links.link(tag);
            let weighed_since = self.weigh_visit();
            self.batch = Batch { tag: Some(tag), link: link.as_ptr(), items: 0, weighed_since };
            // SAFETY: a link lives until its items are counted, and this one is not yet.
            self.context.forks.owner.set_serial(unsafe { LinkHead::is_serial(link) });
            // SAFETY: as above.
            if unsafe { LinkHead::is_stopped(link) } && !item.is_awaited() {
                return self.set_aside(&mut item);
            }
        }
        self.inside.set_link(self.batch.link);
        self.slot.begin(item.kind());
        // SAFETY: its one use.
        let outcome = user::call(|| unsafe { item.run_in_place() });
        if P::process_generation() != self.process_generation {
            self.end_in_fork();
        }
        let Some(link) = NonNull::new(self.batch.link) else { unreachable!("set above") };
        if let Err(thrown) = outcome {
            // SAFETY: a link lives until its items are counted, and this one is not yet.
            drop(user::call(|| unsafe { LinkHead::on_panic(link, thrown) }));
        }
        self.finish_item(link);
    }

    #[inline]
    #[allow(unsafe_code)]
    fn finish_item(&mut self, link: NonNull<LinkHead<P>>) {
        self.inside.set_link(ptr::null());
        self.batch.items += 1;
        // SAFETY: a link lives until its items are counted, and this one is not yet.
        if unsafe { LinkHead::item_is_over(link) } {
            self.look_anew();
        }
    }

    /// Makes the next item count as the first of its link again.
    #[cold]
    #[inline(never)]
    fn look_anew(&mut self) {
        self.count_run();
    }

    /// Sets aside an item whose queue no longer runs anything. That runs user code, which may panic.
    #[cold]
    #[inline(never)]
    #[allow(unsafe_code)]
    fn set_aside(&mut self, item: &mut Item) {
        let Some(link) = NonNull::new(self.batch.link) else { unreachable!("set by the caller") };
        self.inside.set_link(link.as_ptr());
        self.slot.begin(item.kind());
        // SAFETY: its one use.
        let outcome = user::call(|| unsafe { item.set_aside() });
        drop(user::call(|| match outcome {
            Ok(None) => {}
            // SAFETY: a link lives until its items are counted, which this one is not yet.
            Ok(Some(returned)) => unsafe { LinkHead::hand_back(link, returned) },
            // SAFETY: as above.
            Err(thrown) => unsafe { LinkHead::on_panic(link, thrown) },
        }));
        self.finish_item(link);
    }

    /// Runs the waiting items in the child, after an item has forked this process and returned in it.
    #[cold]
    fn end_in_fork(&self) -> ! {
        panic!(
            "a work item ({}) has returned in a process that it forked, which has no workers of its queue: end that process inside the item, by exec or _exit",
            self.slot.function()
        );
    }

    /// Counts the finished items at the queue, and releases them at the intake.
    #[inline]
    fn settle_items(&mut self) {
        self.count_run();
        self.claims.release_taken(self.pool);
    }

    /// Counts the items that were run at the queue. The link may be freed right after.
    #[inline]
    #[allow(unsafe_code)]
    fn count_run(&mut self) {
        let items = std::mem::take(&mut self.batch.items);
        if let Some(link) = NonNull::new(self.batch.link).filter(|_| items > 0) {
            if let (Some(since), Some(tag)) = (self.batch.weighed_since, self.batch.tag) {
                self.pool.accounts.weigh(tag, P::now().ns_since(since));
            }
            self.pool.count_ran(items);
            if self.is_rescuer() {
                // SAFETY: as below.
                unsafe { LinkHead::rescued(link, items) };
            }
            // SAFETY: as in `execute`: these items are not yet counted.
            if unsafe { LinkHead::finish(link, items) } {
                self.pool.event.notify();
            }
        }
        self.batch = Batch::none();
        // Jobs that this worker steals next belong to another item.
        self.context.forks.owner.set_serial(false);
    }

    /// Returns the start of a visit to a link if that visit is timed: the first one, and then a random one of every few.
    #[inline]
    fn weigh_visit(&mut self) -> Option<Time> {
        let visits = self.visits.as_mut()?;
        visits.is_weighed().then(P::now)
    }

    /// Sleeps until there may be work. Returns false if the worker was let go: it is off all lists then.
    fn sleep(&mut self) -> bool {
        let pool = self.pool;
        self.looked_ns = 0;
        let reactor = self.enter_reactor();
        let mut state = pool.lock_state();
        match self.prepare_sleep(&mut state, reactor.is_some()) {
            Rest::None => return true,
            Rest::Exit => {
                state.let_go(self.index);
                // A rescuer leaves its pool to the sleeping workers. One of these must be designated for new items.
                let kick = state.appoint_designated(pool);
                pool.unlock_and_kick(state, kick);
                return false;
            }
            Rest::Sleep => {
                if state.idle.has_more() {
                    pool.thieves.set_has_more_sleepers(true);
                }
                state.update_thieves(pool);
                let (kick, ending) = (state.choose_for_mail(pool), state.roster.ending);
                pool.unlock_and_kick(state, kick);
                if ending {
                    // This may have been the last active worker.
                    end_if_over(pool);
                }
            }
        }
        if let Some(reactor) = reactor {
            self.sleep_in(reactor);
        } else if self.park() {
            pool.notice_drawn(self.index);
            pool.learn_wake_cost(self.index);
            self.estimator.set_wake_cost(pool.wake_cost());
        } else {
            return false;
        }
        self.just_woke = true;
        self.context.forks.has_just_come.set(true);
        // Whether other workers sleep must be checked again.
        self.context.forks.uncalled.set((0, 0));
        self.home.return_to::<P>(&pool.place);
        true
    }

    /// Adds itself to a list of sleepers, unless there is work. Under the lock, so that a thread that adds work later finds it
    /// listed, and work added before is found here.
    fn prepare_sleep(&mut self, state: &mut State<P>, in_reactor: bool) -> Rest {
        let pool = self.pool;
        state.rejoin(self.index);
        if in_reactor {
            state.in_reactor = Some(self.index);
        } else if state.in_reactor == Some(self.index) {
            state.in_reactor = None;
        }
        state.placement.rests(self.index);
        // Relaxed: a hint for its waker.
        self.slot.slept_at.store(pool.place.injector_here::<P>() as u32, Relaxed);
        if state.active() > state.limit(pool) && !state.roster.stopping {
            // More workers run than should, since a blocked one has returned: the others do the work.
            state.idle.push_coldest(self.index);
            return Rest::Sleep;
        }
        if (state.has_work_for(pool, 0) || self.slot.mail.has_jobs())
            && !planted(Canary::LostWakeup)
        {
            return Rest::None;
        }
        if state.roster.stopping || self.is_rescuer() && state.idle.count() > 0 {
            return Rest::Exit;
        }
        let designated = state.idle.designated();
        if designated.is_some() && designated == state.in_reactor {
            // It stays designated, and runs the work that the reactor reports itself.
            state.idle.push::<P>(self.index);
            return Rest::Sleep;
        }
        let (Worklist::LockFree(takers), Some(intake)) = (&mut state.worklist, &pool.intake) else {
            state.idle.push::<P>(self.index);
            return Rest::Sleep;
        };
        let Ok(before) = intake.post(takers, self.index) else { return Rest::None };
        // The latest sleeper is woken first; the previously designated one sleeps on unposted. (If its name is off the wake
        // word, its producer has woken it.)
        state.idle.designate(self.index, before);
        // A job may have been shared since the look at `has_work_for`, by a worker that saw no designated waiter yet and woke
        // none. If another waker was quicker, that one delivers the permit, and the look.
        if state.may_steal(pool, 1)
            && pool.thieves.has_forks(&pool.slots)
            && state.idle.recall_designated(Some(intake)).is_some()
        {
            return Rest::None;
        }
        state.appoint_runner_ups(pool, self.estimator.runner_ups());
        Rest::Sleep
    }

    /// Sleeps until a thread that chose this worker wakes it. Returns false if the worker was idle for too
    /// long and must exit.
    ///
    /// The cull race: a worker that was chosen but has not run yet must not exit. It exits only after it has taken itself off
    /// its list under the lock, and a thread that chooses a worker takes it off (or marks it) under the lock. So one of the
    /// two comes second, and sees that.
    fn park(&mut self) -> bool {
        let pool = self.pool;
        let parker = &self.slot.parker;
        if self.spin.park_timeout(pool, parker, pool.settings.idle_timeout) {
            return true;
        }
        // This worker was idle for a while, so the memory of the last burst may no longer be needed either.
        pool.intake.iter().for_each(Injectors::trim);
        if self.may_exit() {
            return false;
        }
        parker.park();
        true
    }

    /// After the idle time: takes this worker off its list, unless it was chosen meanwhile, or is the last sleeper.
    fn may_exit(&self) -> bool {
        let pool = self.pool;
        if self.is_member {
            return false;
        }
        let mut state = pool.lock_state();
        let was_designated = state.idle.designated() == Some(self.index);
        let is_off = state.idle.leave(pool.intake.as_ref(), self.index);
        if is_off {
            state.let_go(self.index);
            let kick = if was_designated { state.appoint_designated(pool) } else { None };
            pool.unlock_and_kick(state, kick);
        }
        is_off
    }

    /// Enters the reactor, if there is one and no worker is in it.
    ///
    /// One worker at a time is in it. It sleeps as every worker does, and is the designated waiter while it is in the reactor:
    /// one that sleeps later does so unposted. So it runs the work that it sees become ready itself.
    /// Its parker's word records that it sleeps elsewhere; a thread that gives it a permit then calls the reactor.
    ///
    /// No worker is in the reactor while the one that was has work. So busy workers poll it now and then. If the
    /// monitor finds it empty, it has a worker poll it, or wakes a sleeper, which enters it when it sleeps again.
    fn enter_reactor(&self) -> Option<InReactor<'pool>> {
        if self.is_rescuer() {
            // It leaves its pool to the other workers.
            return None;
        }
        self.pool.attributes.hooks.reactor.as_ref()?.try_enter()
    }

    /// Waits in the reactor until a thread that chose this worker wakes it.
    fn sleep_in(&self, mut reactor: InReactor<'_>) {
        let parker = &self.slot.parker;
        while parker.begin_elsewhere() {
            let outcome = self.look_into(reactor, InReactor::wait);
            if parker.end_elsewhere() {
                break;
            }
            match outcome {
                Some(same) => reactor = same,
                None => return parker.park(),
            }
        }
    }

    /// Before a claim: polls the reactor every few items.
    #[cold]
    fn look_now_and_then(&mut self) {
        // The most that it may claim, which is usually about the number it does claim.
        let most = self.estimator.most();
        let left = self.items_before_look.and_then(|items| items.checked_sub(most));
        if left.is_some() && self.pool.look_is_due.load(Relaxed) == 0 {
            self.items_before_look = left;
            return;
        }
        self.items_before_look = Some(ITEMS_BEFORE_LOOK);
        // So that no caller waits meanwhile for items that have finished.
        self.settle_items();
        self.pool.look_is_due.store(0, Relaxed);
        if let Some(reactor) = self.enter_reactor() {
            let reactor = self.look_into(reactor, InReactor::poll);
            drop(reactor);
        }
    }

    /// Calls the reactor, marked as a thread that is not a worker. Returns `None` if it has panicked.
    fn look_into<'reactor>(
        &self,
        reactor: InReactor<'reactor>,
        look: impl FnOnce(&InReactor<'reactor>) -> Result<(), Thrown>,
    ) -> Option<InReactor<'reactor>> {
        P::set_local(LocalKey::Worker, ptr::null_mut());
        let outcome = look(&reactor);
        P::set_local(LocalKey::Worker, ptr::from_ref(self.context).cast_mut().cast());
        match outcome {
            Ok(()) => Some(reactor),
            Err(thrown) => {
                reactor.close();
                let panic = message_of(thrown.payload());
                say(|| tracing::error!(panic, "a reactor panicked; it is not used any more"));
                None
            }
        }
    }
}
