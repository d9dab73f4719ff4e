//! The state under a pool's lock, and what concerns several of its parts: how many workers are active, whether there is work
//! for one more, and which worker takes the remaining work.

use std::sync::Arc;

use coreshard_platform::{Platform, fields};

use super::batching::{SHORT_CLAIMS, ServiceTimeEstimator};
use super::idle_workers::IdleWorkers;
use super::link::{LinkHead, LinkTag};
use super::placement::Placement;
use super::roster::{Blocked, Roster, WorkerCount};
use super::shared::PoolShared;
use super::waiting_items::{Aside, TaggedItem, Worklist};
use crate::intake::TAIL_COUNTERS;

/// Counters that seldom change; `PoolStats` documents them.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) repatriated: u64,
    pub(super) stolen: u64,
    pub(super) guests: u64,
    pub(super) presumed_blocked: u64,
    pub(super) hand_overs: u64,
    pub(super) cpu_hogs: u64,
    pub(super) rescues: u64,
    pub(super) refused_workers: u64,
    pub(super) failed_worker_starts: u64,
    pub(super) lock_holds: u64,
    pub(super) lock_hold_ns: u64,
    pub(super) lock_hold_max_ns: u64,
}

/// State that neither items nor wake-ups need. It has its own allocation, so that none of its cache lines moves with the lock.
pub(super) struct Cold {
    /// Bits of the intake's counters that no pool link uses.
    pub(super) free_counters: u32,
    pub(super) counters: Counters,
    /// Of a team: the thread that made it was a member and has ended.
    pub(super) has_lost_maker: bool,
    /// Items and loans that `has_aside` reports.
    pub(super) aside: Aside,
}
fields!(Cold { free_counters, counters, has_lost_maker, aside });

/// All of it is under the pool's lock. The fields that holders need most often come first.
#[repr(C)]
pub(super) struct State<P: Platform> {
    pub(super) idle: IdleWorkers,
    pub(super) worklist: Worklist<P>,
    pub(super) roster: Roster<P>,
    /// Items were taken out of the worklist and have not begun, or places of hogs are on loan.
    pub(super) has_aside: bool,
    /// Claims since a worker last took the lock after long items, as far as that matters.
    pub(super) since_long: u32,
    /// Items that arrived by the locked intake.
    pub(super) queued: u64,
    /// The worker that parked last in the reactor.
    pub(super) in_reactor: Option<usize>,
    /// The CPUs that the workers run on.
    pub(super) placement: Placement,
    cold: Box<Cold>,
}
fields!(State<P: Platform> {
    idle, worklist, roster, has_aside, since_long, queued, in_reactor, placement, cold,
});

impl<P: Platform> State<P> {
    pub(super) fn new(worklist: Worklist<P>, worker_count: Arc<WorkerCount<P>>) -> Self {
        let cold = Cold {
            free_counters: (1 << TAIL_COUNTERS) - 1,
            counters: Counters::default(),
            has_lost_maker: false,
            aside: Aside::default(),
        };
        Self {
            idle: IdleWorkers::new(),
            worklist,
            roster: Roster::new(worker_count),
            has_aside: false,
            since_long: SHORT_CLAIMS,
            queued: 0,
            in_reactor: None,
            placement: Placement::new(),
            cold: Box::new(cold),
        }
    }

    /// The rarely needed part, to read.
    pub(super) fn cold(&self) -> &Cold {
        P::touch_read(&raw const *self.cold);
        &self.cold
    }

    /// The rarely needed part, to change.
    pub(super) fn cold_mut(&mut self) -> &mut Cold {
        P::touch_write(&raw const *self.cold);
        &mut self.cold
    }

    /// Describes the fields of the rarely needed part to the platform.
    pub(super) fn describe_cold(&self) {
        P::describe(&raw const *self.cold);
        self.roster.describe();
    }

    /// Workers that run items, look for some, or are on their way.
    #[inline]
    pub(super) fn active(&self) -> usize {
        self.roster.unblocked() - self.idle.count()
    }

    /// How many workers may run: one for each CPU of the pod, and guests on CPUs of other pods.
    #[inline]
    pub(super) fn limit(&self, pool: &PoolShared<P>) -> usize {
        pool.place.limit + self.roster.running_guests()
    }

    /// How many workers of neighbouring pods are worth waking for the waiting items, in addition to the pool's own.
    pub(super) fn wanted_guests(
        &self,
        pool: &PoolShared<P>,
        estimator: &ServiceTimeEstimator,
    ) -> u32 {
        let (Some(intake), Worklist::LockFree(takers)) = (&pool.intake, &self.worklist) else {
            return 0;
        };
        if !pool.shares_workers() {
            return 0;
        }
        let workers = estimator.workers_for(intake.waiting(takers));
        workers.saturating_sub(self.limit(pool) as u32)
    }

    /// Registers a worker of a neighbouring pod as a guest and returns its index here. `None` if no more may come.
    pub(super) fn receive_guest(&mut self, pool: &PoolShared<P>) -> Option<usize> {
        if self.roster.stopping || !self.items_wait(pool) {
            return None;
        }
        let index = self.roster.add_guest(&pool.slots)?;
        self.cold_mut().counters.guests += 1;
        Some(index)
    }

    /// True if the pool can spare one of its workers for a while, so that at most one more thread is started for it.
    pub(super) fn can_lend(&self, pool: &PoolShared<P>) -> bool {
        !self.roster.stopping
            && (self.idle.count() > 0 || self.roster.unblocked() == self.roster.alive())
            && self.active() <= self.limit(pool)
    }

    /// Workers that have a CPU, or would have one if there were enough.
    pub(super) fn running(&self) -> usize {
        self.active() + self.roster.hogs()
    }

    /// Marks a worker as blocked, not blocked, or blocked for another reason.
    pub(super) fn set_blocked(&mut self, worker: usize, blocked: Blocked) {
        self.roster.set_blocked(worker, blocked);
        if blocked != Blocked::No {
            self.placement.rests(worker);
        }
    }

    /// The worker has taken the lock: it is neither idle nor blocked. It may have seemed so while it waited for the lock, or
    /// while an item that has finished kept its `Blocking` guard.
    #[inline]
    pub(super) fn rejoin(&mut self, worker: usize) {
        if self.roster.blocked_as(worker) != Blocked::No {
            self.set_blocked(worker, Blocked::No);
        }
        self.idle.rejoin(worker);
    }

    /// Lets a worker that is on no list go. It exits, or stands by if it is the rescuer.
    ///
    /// It keeps its slot until [`Roster::retire`]: user code runs on it before that.
    pub(super) fn let_go(&mut self, worker: usize) {
        if self.roster.is_called(worker) {
            self.roster.stand_rescuer_by();
        } else {
            self.set_blocked(worker, Blocked::Leaving);
        }
    }

    /// True if the worker sleeps, stands by, exits, or does not exist.
    pub(super) fn rests(&self, worker: usize) -> bool {
        self.idle.is_asleep(worker) || self.roster.is_absent(worker)
    }

    /// Counts the workers that producers have woken and taken off the intake's words as active.
    #[inline]
    pub(super) fn notice_woken(&mut self, pool: &PoolShared<P>) {
        if self.idle.has_named() {
            let placement = &mut self.placement;
            self.idle.notice_woken(pool.intake.as_ref(), |worker| placement.mark_running(worker));
        }
    }

    /// True if an item waits in the intake, or was taken out and has not begun.
    #[inline]
    fn has_queued(&mut self, pool: &PoolShared<P>) -> bool {
        if self.has_aside && self.cold().aside.has_waiting() {
            return true;
        }
        match &mut self.worklist {
            Worklist::Locked(list) => !list.is_empty(),
            Worklist::LockFree(taker) => {
                pool.intake.as_ref().is_some_and(|intake| intake.ready(taker))
            }
        }
    }

    /// True if an item waits, in the intake or in a claim.
    pub(super) fn items_wait(&mut self, pool: &PoolShared<P>) -> bool {
        pool.slots.has_open_items() || self.has_queued(pool)
    }

    /// True if an item waits, or a forked job.
    pub(super) fn has_work(&mut self, pool: &PoolShared<P>) -> bool {
        self.items_wait(pool) || pool.thieves.has_forks(&pool.slots)
    }

    /// True if there is work for this many more workers.
    pub(super) fn has_work_for(&mut self, pool: &PoolShared<P>, more: usize) -> bool {
        self.items_wait(pool) || self.may_steal(pool, more) && pool.thieves.has_forks(&pool.slots)
    }

    /// True if more work waits than the caller will take.
    pub(super) fn has_work_for_several(&mut self, pool: &PoolShared<P>) -> bool {
        let waiting = match (&pool.intake, &self.worklist) {
            (Some(intake), Worklist::LockFree(takers)) => intake.waiting(takers),
            (_, Worklist::Locked(list)) => list.len() as u64,
            (None, Worklist::LockFree(_)) => 0,
        };
        waiting > 1 || pool.slots.has_open_items() || pool.thieves.has_forks(&pool.slots)
    }

    /// Whether this many more workers may steal forked jobs. A hog still has its CPU, and its stand-in exists for items. (A
    /// stand-in that stole a job would be inside a loop for as long as that lasts, and the next item would wait for the next
    /// stand-in.)
    pub(super) fn may_steal(&self, pool: &PoolShared<P>, more: usize) -> bool {
        self.roster.hogs() == 0
            || self.running() + more <= self.limit(pool) + self.roster.extra_thieves()
    }

    /// Records, for workers that share forked jobs, whether another thief may run. Called when a worker stops running.
    pub(super) fn update_thieves(&self, pool: &PoolShared<P>) {
        pool.thieves.set_refused(!self.may_steal(pool, 1));
    }

    /// True if a worker exists that does not wait inside an item, or is on its way.
    pub(super) fn goes_on(&self) -> bool {
        self.active() > 0 || self.idle.count() > 0 || self.roster.starting > 0
    }

    /// True if no worker runs, sleeps, or is on its way: all are blocked.
    pub(super) fn is_unattended(&self) -> bool {
        !self.roster.stopping
            && self.roster.alive() > 0
            && self.active() == 0
            && self.idle.count() == 0
    }

    /// True unless another worker may be in the reactor. That one stays posted, since it runs the work that it sees there
    /// itself.
    #[inline]
    pub(super) fn leaves_reactor_to(&self, worker: usize) -> bool {
        self.in_reactor.is_none_or(|inside| inside == worker)
    }

    /// Takes all sleepers off all lists, for the caller to wake.
    pub(super) fn take_sleepers(&mut self, pool: &PoolShared<P>) -> Vec<usize> {
        self.idle.take_all(pool.intake.as_ref())
    }

    /// Takes out items of queues that have no running item, other than the queues of starved workers. Returns how many of
    /// the items have not begun.
    pub(super) fn expedite(&mut self, pool: &PoolShared<P>, starved: &[usize]) -> usize {
        let is_running = |worker: &usize| {
            matches!(self.roster.blocked_as(*worker), Blocked::No | Blocked::Hog)
                && !self.rests(*worker)
                && !starved.contains(worker)
        };
        let running = self.roster.indices().filter(is_running);
        let links: Vec<LinkTag> =
            running.filter_map(|worker| pool.slots.get(worker).running_link()).collect();
        #[allow(unsafe_code)]
        let has_its_share = |tag: LinkTag| {
            // SAFETY: an item of it waits, so the link is alive.
            links.contains(&tag) && !unsafe { LinkHead::is_stopped(pool.links.link(tag)) }
        };
        let mut aside = std::mem::take(&mut self.cold_mut().aside);
        aside.fill(&mut self.worklist, pool, has_its_share);
        let expedited = aside.expedited.len();
        self.has_aside = aside.has_waiting() || !aside.on_loan.is_empty();
        self.cold_mut().aside = aside;
        expedited
    }

    /// Lets one more worker run in a hog's place, until the expedited items have begun.
    pub(super) fn lend_place(&mut self, hog: usize) {
        self.set_blocked(hog, Blocked::Hog);
        self.cold_mut().aside.on_loan.push(hog);
        self.has_aside = true;
    }

    /// Before a claim: takes the next item that was set aside; if more workers run than should, only an expedited one.
    /// Once those have begun, the loans of the hogs' places end.
    #[cold]
    #[inline(never)]
    pub(super) fn take_aside(&mut self, pool: &PoolShared<P>) -> Option<TaggedItem> {
        if self.cold().aside.expedited.is_empty() {
            for hog in std::mem::take(&mut self.cold_mut().aside.on_loan) {
                if self.roster.blocked_as(hog) == Blocked::Hog {
                    self.set_blocked(hog, Blocked::No);
                }
            }
            self.has_aside = self.cold().aside.has_waiting();
        }
        let is_excess = self.active() > self.limit(pool);
        let aside = &mut self.cold_mut().aside;
        let expedited = aside.expedited.pop_front();
        if expedited.is_some() || is_excess { expedited } else { aside.deferred.pop_front() }
    }

    /// Describes the invariant that does not hold; `README.md` beside this file explains why each holds.
    ///
    /// They hold whenever the lock is free. So they are checked before each unlock on platforms that ask for it
    /// ([`Platform::checks_rules`]: debug builds, models, simulations), and by the monitor at each scan on all platforms.
    pub(super) fn broken_rule(&self) -> Option<&'static str> {
        let broken = self.roster.broken_rule(self.idle.sleepers(), self.idle.count());
        if broken.is_some() {
            return broken;
        }
        if !self.idle.is_kicked_listed() {
            return Some("a kicked worker is listed until it runs");
        }
        self.is_stranded()
            .then_some("if workers sleep and none runs, one is woken by the next item")
    }

    /// True if work may wait for ever: no worker runs or is on its way, and no sleeper is designated for the next item.
    ///
    /// If no worker sleeps either, all are blocked. That is not checked here: the monitor stays awake then, and starts one
    /// more as soon as there is work.
    pub(super) fn is_stranded(&self) -> bool {
        !self.roster.stopping
            && self.active() == 0
            && self.idle.count() > 0
            && self.idle.designated().is_none()
            && self.idle.kicked().is_none()
            && match &self.worklist {
                Worklist::LockFree(_) => true,
                // The producer of the next item chooses a worker, under the lock.
                Worklist::Locked(list) => !list.is_empty(),
            }
    }

    /// The state in text, for a report on a broken invariant.
    pub(super) fn books(&self) -> String {
        format!("{}, {}", self.idle.books(), self.roster.books())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::mem::{offset_of, size_of};
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};

    use coreshard_platform::{Host, LINE_PAIR_BYTES, Lock};
    use coreshard_topology::{CpuSet, Scope, Topology, Usable};

    use super::super::slots::Injectors;
    use super::super::{CurrentWorker, Pool};
    use super::*;
    use crate::{Diagnostic, Runtime};

    /// The fields that each item needs move with the lock, in two cache lines and a word or two; the rest
    /// takes at most as much again.
    #[test]
    fn what_is_needed_most_often_comes_with_the_lock() {
        let last = offset_of!(State<Host>, roster) + Roster::<Host>::HOT_BYTES;
        let lock = size_of::<Lock<Host, u64>>() - size_of::<u64>();
        assert!(lock + last <= LINE_PAIR_BYTES + 16, "{lock} + {last}");
        assert!(size_of::<State<Host>>() <= 2 * LINE_PAIR_BYTES, "{}", size_of::<State<Host>>());
    }

    /// Longer than the test needs; only a failure takes this long.
    const NEVER: Duration = Duration::from_secs(30);

    /// Takes the sleeper off the wake word and designates no worker, as a bug might. Returns false if no worker sleeps.
    fn strand(pool: &Pool<Host>) -> bool {
        // Without the guard, which checks the invariants.
        let mut state = pool.state.lock();
        let Some(worker) = state.idle.designated() else { return false };
        let taken = pool.intake.as_ref().and_then(Injectors::recall);
        assert_eq!(taken, Some(worker), "nothing was queued");
        state.idle.forget_designated();
        assert!(state.is_stranded() && state.broken_rule().is_some());
        true
    }

    #[test]
    fn a_pool_that_nobody_would_come_for_is_kicked_by_the_monitor_and_told_of() {
        let (tell, told) = mpsc::channel();
        let topology = Topology::host().unwrap();
        let usable = Usable::host(&topology).unwrap().cpus().clone();
        let one: CpuSet = usable.iter().take(1).collect();
        let builder = Runtime::<Host>::builder(topology).usable(one);
        let runtime =
            builder.on_diagnostic(move |it| tell.send(it.clone()).unwrap()).build().unwrap();
        let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
        let find = || Arc::clone(CurrentWorker::<Host>::here().unwrap().pool());
        let pool = queue.submit(find).unwrap().join().unwrap();
        let since = Instant::now();
        while !strand(&pool) {
            assert!(since.elapsed() < NEVER, "the worker sleeps");
            std::thread::sleep(Duration::from_micros(100));
        }
        // As a worker does that leaves such a pool, since it had work.
        pool.monitor.notice_work();
        assert_eq!(queue.submit(|| 7).unwrap().join().unwrap(), 7);
        let Ok(Diagnostic::Bug(bug)) = told.recv_timeout(NEVER) else { panic!("it is reported") };
        assert!(bug.rule.contains("woken by the next item"), "{}", bug.rule);
        assert!(Diagnostic::Bug(bug).to_string().contains("idle [0]"));
    }
}
