//! The part of a pool that is not under its lock: all of it is set when the pool is made, or atomic.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Padded, Platform, fields};

use super::accounts::Accounts;
use super::fork_thieves::Thieves;
use super::link::LinkTable;
use super::monitor_handle::MonitorHandle;
use super::roster::RESCUER;
use super::slots::{Injectors, Slots};
use crate::base::event::Event;
use crate::base::variants::Wake;
use crate::config::attributes::{Attributes, Place};
use crate::config::team::TeamSpec;
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

/// Guests: workers of neighbouring pods that help a pool with more waiting items than its own workers can run soon.
///
/// A pool whose places are all taken, and whose backlog is worth further wake-ups, publishes how many guests it wants, and
/// wakes sleepers of its neighbours. A worker that finds nothing in its own pool checks which neighbour wants guests. It hands
/// its place over as in [`blocking`](super::blocking), and becomes a worker of the other pool, on its own thread and CPU,
/// until it finds no item there or its own pool has work. The host counts it beyond its limit. Pools of strict queues and
/// teams have no guests.
///
/// Here is how many a pool wants. Relaxed: a guest looks for items under the host's lock.
pub(super) struct Guests<P: Platform> {
    wanted: Padded<P::AtomicU32>,
}
fields!(Guests<P: Platform> { wanted });

impl<P: Platform> Guests<P> {
    pub(super) fn new() -> Self {
        Self { wanted: Padded::new(P::AtomicU32::new(0)) }
    }

    /// Sets the number of guests that the pool wants. Returns how many more than before.
    pub(super) fn want(&self, guests: u32) -> u32 {
        let before = self.wanted.load(Relaxed);
        if guests != before {
            self.wanted.store(guests, Relaxed);
        }
        guests.saturating_sub(before)
    }

    pub(super) fn are_wanted(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Makes the caller one of the guests. Returns false if others were quicker.
    pub(super) fn claim(&self) -> bool {
        let mut wanted = self.wanted.load(Relaxed);
        while wanted > 0 {
            match self.wanted.compare_exchange(wanted, wanted - 1, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => wanted = now,
            }
        }
        false
    }
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
