//! The part of a pool that is not under its lock: all of it is set when the pool is made, or atomic.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Padded, Parker, Platform, fields, user};

use super::accounts::Accounts;
use super::forked_jobs::Thieves;
use super::guests::Guests;
use super::link::LinkTable;
use super::roster::{RESCUER, WorkerCount};
use super::slots::{Injectors, Slots};
use crate::base::event::Event;
use crate::base::variants::Wake;
use crate::callbacks::{Callback, Callbacks, Threads};
use crate::config::attributes::{Attributes, Place};
use crate::config::team::TeamSpec;
use crate::insight::diagnostic::{Diagnostic, Watchdog};
use crate::insight::stats::PoolId;

/// CPUs of a team that share one list of injected jobs.
const CPUS_TO_A_LIST: usize = 16;

/// How pools of a runtime behave; see `RuntimeBuilder`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSettings {
    /// Whether lock-hold times are measured.
    pub(crate) measure_lock: bool,
    /// Time without work after which a worker exits, except the last.
    pub(crate) idle_timeout: Duration,
    /// Whether a thread that waits for work may spin before it gives up its CPU.
    pub(crate) may_spin: bool,
    /// Workers that a pool may have, at most [`MAX_WORKERS`](super::MAX_WORKERS).
    pub(crate) most_workers: usize,
    /// Workers treat items as short from the start: for models, which have no time to learn it.
    pub(crate) trusts_at_once: bool,
}

impl PoolSettings {
    /// Workers that sleep at once, and time-outs that may expire at any moment.
    #[cfg(all(test, loom))]
    pub(crate) fn for_models() -> Self {
        Self {
            measure_lock: false,
            idle_timeout: Duration::from_secs(1),
            may_spin: false,
            most_workers: super::MAX_WORKERS,
            trusts_at_once: false,
        }
    }
}

/// The words that only a team's pool has. All are atomic.
pub(super) struct TeamBoard<P: Platform> {
    /// 1 once the team is to end, and no member spins any more: a hint.
    is_ending: P::AtomicU32,
    /// Members that wait for another team, and run injected jobs meanwhile.
    pub(super) open_waits: P::AtomicU32,
    /// Jobs in the mail of all members.
    pub(super) mailed: Padded<P::AtomicU32>,
}
fields!(TeamBoard<P: Platform> { is_ending, open_waits, mailed });

impl<P: Platform> TeamBoard<P> {
    fn new() -> Self {
        Self {
            is_ending: P::AtomicU32::new(0),
            open_waits: P::AtomicU32::new(0),
            mailed: Padded::new(P::AtomicU32::new(0)),
        }
    }

    /// Stops all spinning for new work.
    pub(super) fn begin_end(&self) {
        self.is_ending.store(1, Relaxed);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed) != 0
    }
}

const ASLEEP: u32 = 0;
const AWAKE: u32 = 1;

/// The thread that reports diagnostics. If a handler never returns, later reports wait for it.
const TELLERS: Threads = Threads { name: "cs-trouble", most: 1 };
/// Pending reports, at most: a handler that never returns must not fill the memory.
const MAX_TOLD: usize = 64;

/// A pool's view of the monitor.
pub(crate) struct MonitorHandle<P: Platform> {
    /// Whether the monitor scans, or sleeps and must be woken. Read at every claim, written when the process falls asleep or
    /// wakes up.
    state: Padded<P::AtomicU32>,
    parker: Parker<P>,
    pub(super) watch: Arc<Watchdog>,
    pub(super) tells: Arc<Callbacks<P>>,
    worker_count: Arc<WorkerCount<P>>,
}
fields!(MonitorHandle<P: Platform> { state, parker, watch, tells, worker_count });

impl<P: Platform> MonitorHandle<P> {
    pub(super) fn new(watch: Watchdog, most_workers: usize) -> Self {
        Self {
            state: Padded::new(P::AtomicU32::new(AWAKE)),
            parker: Parker::new(),
            watch: Arc::new(watch),
            tells: Arc::new(Callbacks::new(TELLERS)),
            worker_count: Arc::new(WorkerCount::new(most_workers)),
        }
    }

    /// How many workers the runtime has.
    pub(super) fn worker_count(&self) -> Arc<WorkerCount<P>> {
        Arc::clone(&self.worker_count)
    }

    /// Called by a worker that has work. Wakes the monitor if it sleeps.
    #[inline]
    pub(super) fn notice_work(&self) {
        if self.state.load(Relaxed) != AWAKE {
            self.wake();
        }
    }

    /// Called when pools end: the monitor checks whether any is left.
    #[cold]
    pub(crate) fn wake(&self) {
        if self.state.swap(AWAKE, AcqRel) == ASLEEP {
            self.parker.unpark();
        }
    }

    /// Calls `call` soon, on another thread, unless too many reports are pending.
    pub(super) fn later(&self, call: impl FnOnce() + Send + 'static) {
        // A model has no such thread.
        if cfg!(loom) {
            return;
        }
        let refused = self.tells.offer(call_back(call), MAX_TOLD);
        drop(user::discard(refused));
    }

    /// Reports a diagnostic soon.
    pub(super) fn tell(&self, trouble: Diagnostic) {
        let watch = Arc::clone(&self.watch);
        self.later(move || watch.tell(&trouble));
    }

    /// Announces that the monitor is about to sleep: from here on a worker that has work wakes it.
    pub(super) fn announce_sleep(&self) {
        self.state.swap(ASLEEP, AcqRel);
    }

    /// Cancels the announced sleep.
    pub(super) fn stay_awake(&self) {
        self.state.store(AWAKE, Relaxed);
    }

    /// Sleeps until it is woken, after [`Self::announce_sleep`].
    pub(super) fn sleep(&self) {
        while self.state.load(Acquire) == ASLEEP {
            self.parker.park();
        }
    }
}

pub(super) fn call_back(call: impl FnOnce() + Send + 'static) -> Callback {
    Callback::new(move || {
        call();
        Ok(())
    })
}

/// The part of a pool that is not under its lock.
pub(crate) struct PoolShared<P: Platform> {
    /// Identifies the pool in the process.
    pub(crate) id: PoolId,
    pub(crate) place: Place,
    pub(crate) attributes: Arc<Attributes>,
    /// Notifies drainers that a pool link they watch has changed.
    pub(crate) event: Arc<Event<P>>,
    /// Is notified of work, and detects workers that wait inside an item.
    pub(super) monitor: Arc<MonitorHandle<P>>,
    pub(super) settings: PoolSettings,
    /// The lock-free intake; `None` with the locked one.
    pub(super) intake: Option<Injectors<P>>,
    pub(super) slots: Slots<P>,
    /// Forked jobs.
    pub(super) thieves: Thieves<P>,
    pub(super) guests: Guests<P>,
    /// Present in a team's pool.
    pub(super) board: Option<TeamBoard<P>>,
    /// 1 while a worker spins before it sleeps.
    pub(super) watchers: Padded<P::AtomicU32>,
    /// The links of the queues that this pool serves, by tag.
    pub(crate) links: LinkTable<P>,
    /// Items that workers have run.
    ran: Padded<P::AtomicU64>,
    /// 1 if a busy worker must poll the reactor soon.
    pub(super) look_is_due: P::AtomicU32,
    pub(super) accounts: Accounts<P>,
}
fields!(PoolShared<P: Platform> {
    id, place, attributes, event, monitor, settings, intake, slots, thieves, guests, board, watchers, links, ran, look_is_due, accounts,
});

impl<P: Platform> PoolShared<P> {
    pub(super) fn new(
        place: Place,
        attributes: Arc<Attributes>,
        settings: PoolSettings,
        event: Arc<Event<P>>,
        monitor: Arc<MonitorHandle<P>>,
        intake: Option<Injectors<P>>,
    ) -> Self {
        let board = attributes.team.is_some().then(TeamBoard::new);
        let lists = board.as_ref().map_or(0, |_| place.cpus.len().div_ceil(CPUS_TO_A_LIST));
        Self {
            id: PoolId::next(),
            place,
            attributes,
            event,
            monitor,
            settings,
            intake,
            slots: Slots::new(),
            thieves: Thieves::new(lists),
            guests: Guests::new(),
            board,
            watchers: Padded::new(P::AtomicU32::new(0)),
            links: LinkTable::new(),
            ran: Padded::new(P::AtomicU64::new(0)),
            look_is_due: P::AtomicU32::new(0),
            accounts: Accounts::new(),
        }
    }

    /// The team's description, if this is a team's pool.
    #[inline]
    pub(crate) fn team(&self) -> Option<&TeamSpec> {
        self.attributes.team.as_ref().map(|team| &*team.0)
    }

    #[inline]
    pub(crate) fn is_team(&self) -> bool {
        self.board.is_some()
    }

    /// For a team: true in the child of a fork, which has no workers.
    pub(crate) fn is_forked(&self) -> bool {
        self.team().is_some_and(|team| team.process_generation != P::process_generation())
    }

    /// True if this is the rescuer's index.
    pub(super) fn is_rescuer(&self, worker: usize) -> bool {
        worker == RESCUER && self.attributes.rescuer.is_some()
    }

    /// True if at most one wake-up is on its way at a time.
    pub(super) fn coalesces_wakes(&self) -> bool {
        self.attributes.wake == Wake::Coalesced
    }

    /// Whether workers are woken though others are on their way, if that pays. Only the newest variants do so; the others keep
    /// their original behaviour.
    pub(crate) fn calls_several(&self) -> bool {
        self.coalesces_wakes() && self.intake.is_some()
    }

    /// True if its workers and the workers of neighbouring pods may run each other's items.
    pub(super) fn shares_workers(&self) -> bool {
        self.calls_several() && !self.attributes.strict && !self.is_team()
    }

    /// True if workers may leave sleepers alone while their items are short. False if a rescuer guarantees progress,
    /// and in a team.
    pub(super) fn may_suppress_wakes(&self) -> bool {
        !self.is_team() && self.attributes.rescuer.is_none()
    }

    /// True if there is a job that only one member of the team may run.
    #[inline]
    pub(super) fn has_mail(&self) -> bool {
        self.board.as_ref().is_some_and(|board| board.mailed.load(SeqCst) > 0)
    }

    /// Jobs that no worker has begun, not counting forked ones.
    pub(crate) fn jobs_waiting(&self) -> u64 {
        self.thieves.jobs_waiting(&self.slots)
    }

    /// Counts items, or a team's jobs, that a worker has run.
    #[inline]
    pub(super) fn count_ran(&self, items: u64) {
        self.ran.fetch_add(items, Relaxed);
    }

    pub(super) fn ran(&self) -> u64 {
        self.ran.load(Relaxed)
    }
}
