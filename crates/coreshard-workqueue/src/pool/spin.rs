//! How long a waiting thread spins before it sleeps: a worker that found nothing, a member, or a thread outside.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Parker, Platform, WatchLength, fields};

use super::batching::WakeCost;
use super::shared::PoolShared;
use super::slots::{Injectors, Watches, WorkerSlot};
use crate::base::latch::Latch;

/// Looks of a team member before it yields.
const SPINS_TO_A_ROUND: u32 = 32;

/// A yield that takes longer has given the CPU to a thread that computes. (A yield without a runnable thread takes 0.3 µs, and
/// a thread that injects jobs sleeps or spins sooner.)
const LONG_YIELD_NS: u64 = WakeCost::ASSUMED.latency_ns();

/// Yields of a thread outside before it sleeps: several members may have to run on its CPU, one after the other.
const MAX_YIELDS: u32 = 4;

/// A spin or a yield that takes longer lost the CPU to computing threads: the longest spin takes a tenth of this.
const CONTENDED_NS: u64 = 500_000;

/// How many later waits sleep at once, after such a loss.
const CONTENDED_TIMES: u32 = 1024;

/// Whether other threads compute on the waiting thread's CPU, judged by whether it lost the CPU while it spun or yielded.
///
/// If they do, the thread does better asleep. Linux runs a woken thread before threads that compute. But a thread that has
/// used its time slice by spinning comes after them, and one that yields loses a whole slice. (Two threads that wait for each
/// other's items among 20 that compute on 2 CPUs: one round trip in a hundred took 8 ms or more in each run, 2026-11.)
#[derive(Debug, Default)]
struct CpuContention {
    left: u32,
}

impl CpuContention {
    /// Called before each spin.
    fn is_here(&mut self) -> bool {
        let is_here = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_here
    }

    /// Records how long the thread waited awake.
    fn learn(&mut self, took_ns: u64) {
        if took_ns > CONTENDED_NS {
            self.left = CONTENDED_TIMES;
        }
    }
}

/// Yields the CPU once; returns how long that took.
fn yield_once<P: Platform>() -> u64 {
    let since_ns = P::rough_ns();
    P::yield_now();
    P::rough_ns().wrapping_sub(since_ns)
}

/// How a worker waits for work before it sleeps, learned from the outcome of earlier waits.
pub(super) struct SpinWait<P: Platform> {
    length: WatchLength,
    contention: CpuContention,
    /// The slots of the next items.
    next_slots: Option<Watches<P>>,
    /// It has yielded its CPU since it last had work.
    has_yielded: bool,
    /// It has seen a shared job, and has not looked for it since.
    saw_forks: bool,
}

impl<P: Platform> SpinWait<P> {
    pub(super) fn new() -> Self {
        Self {
            length: WatchLength::NEW,
            contention: CpuContention::default(),
            next_slots: None,
            has_yielded: false,
            saw_forks: false,
        }
    }

    /// Called after a claim found nothing; new items will appear in these slots.
    pub(super) fn set_next_slots(&mut self, slots: Watches<P>) {
        self.next_slots = Some(slots);
    }

    pub(super) fn take_next_slots(&mut self) -> Option<Watches<P>> {
        self.next_slots.take()
    }

    /// Called after a look for jobs. That a job was seen says little if all idle workers saw it; whether this worker got it
    /// says more.
    #[inline]
    pub(super) fn learn_of_forks(&mut self, has_got_one: bool) {
        if std::mem::take(&mut self.saw_forks) {
            self.length.watched(has_got_one);
        }
    }

    /// Called once the worker has claimed something.
    #[inline]
    pub(super) fn has_work(&mut self) {
        self.has_yielded = false;
    }

    /// Spins on the slots of the next items for a short while; only one worker of a pool does so at a time. Returns true if it
    /// is worth looking again.
    pub(super) fn watch_slots(
        &mut self,
        pool: &PoolShared<P>,
        intake: &Injectors<P>,
        places: &Watches<P>,
    ) -> bool {
        if self.contention.is_here() {
            return false;
        }
        if places[0].is_none() {
            // Work came only from this worker's own CPU. Its producer may be waiting for this CPU: yield once, so that it can
            // run.
            if std::mem::replace(&mut self.has_yielded, true) {
                return false;
            }
            self.contention.learn(yield_once::<P>());
            return true;
        }
        if pool.watchers.swap(1, Acquire) != 0 {
            return false;
        }
        let since_ns = P::rough_ns();
        let seen = P::watch(self.length.looks(), || intake.seen(places));
        self.contention.learn(P::rough_ns().wrapping_sub(since_ns));
        pool.watchers.store(0, Release);
        self.length.watched(seen);
        seen
    }

    /// Spins until any worker of the pool shares a job, or an item appears that this worker `is_to_look` after. All idle
    /// workers spin so, since the next job may be shared at any moment. (If every worker that saw a job learned from that,
    /// seventy idle workers would never sleep again, and the busy ones would wait for them at the pool's lock.)
    pub(super) fn watch_for_forks(
        &mut self,
        any_shares: impl Fn() -> bool,
        mut is_to_look: impl FnMut() -> bool,
    ) -> bool {
        let (mut forks, mut items) = (false, false);
        let _ = self.length.watch::<P>(|| {
            // Not `has_forks`: a worker that starts or stops forking would take that cache line from all spinning workers.
            forks = any_shares();
            items = is_to_look();
            forks || items
        });
        if items || !forks {
            self.length.watched(items);
        }
        self.saw_forks = forks;
        forks || items
    }

    /// Spins on everything that may wake a member. Between the looks it yields: a team has as many members as there are CPUs,
    /// and injected jobs come from one more thread.
    pub(super) fn watch_as_member(
        &mut self,
        pool: &PoolShared<P>,
        slot: &WorkerSlot<P>,
        intake: &Injectors<P>,
        places: &Watches<P>,
    ) -> bool {
        let has_more =
            || slot.mail.has_jobs() || pool.thieves.has_forks(&pool.slots) || intake.seen(places);
        let rounds = self.length.looks() / SPINS_TO_A_ROUND;
        for _ in 0..=rounds {
            let seen = P::watch(SPINS_TO_A_ROUND, has_more);
            let yielded_ns = if seen { 0 } else { yield_once::<P>() };
            if seen || has_more() {
                self.saw_forks = true;
                return true;
            }
            let is_ending = pool.board.as_ref().is_some_and(|board| board.is_ending());
            if yielded_ns > LONG_YIELD_NS || is_ending {
                break;
            }
        }
        self.length.watched(false);
        false
    }

    /// Parks until it gets a permit, or for `timeout`, and learns whether spinning would have been better. Returns true if it
    /// took the permit.
    pub(super) fn park_timeout(
        &mut self,
        pool: &PoolShared<P>,
        parker: &Parker<P>,
        timeout: Duration,
    ) -> bool {
        // Items from the worker's own CPU cannot be seen by spinning: their producer needs that CPU.
        let can_watch = pool.settings.may_spin && pool.place.home.len() > 1;
        if !can_watch || pool.intake.is_none() && self.watch_permit(parker) {
            return parker.park_timeout(timeout);
        }
        let since = P::now();
        let woken = parker.park_timeout(timeout);
        if woken {
            self.length.slept(P::now() - since);
        }
        woken
    }

    /// With the locked intake, the worker can only spin on its own parker. Returns true if a permit is available.
    fn watch_permit(&mut self, parker: &Parker<P>) -> bool {
        let seen = P::watch(self.length.looks(), || parker.has_permit());
        self.length.watched(seen);
        seen
    }
}

/// Shared estimates of all threads outside the pool that wait for their jobs.
pub(super) struct OutsideWaits<P: Platform> {
    /// [`WatchLength`]; Relaxed.
    length: P::AtomicU32,
    /// [`CpuContention`]; Relaxed.
    contention: P::AtomicU32,
}
fields!(OutsideWaits<P: Platform> { length, contention });

impl<P: Platform> OutsideWaits<P> {
    pub(super) fn new() -> Self {
        Self {
            length: P::AtomicU32::new(WatchLength::NEW.to_bits()),
            contention: P::AtomicU32::new(0),
        }
    }

    /// Waits until `done` is open. Spins first, as long as recent spins paid off, then yields to threads that need its CPU,
    /// and then sleeps. Returns false in a process that was forked since: there the latch stays closed.
    pub(super) fn wait(&self, done: &Latch<P>) -> bool {
        let before = self.length.load(Relaxed);
        let mut length = WatchLength::of_bits(before);
        let seen = P::watch(length.looks(), || done.is_open());
        length.watched(seen);
        let is_open = seen || self.yield_until_open(done) || {
            let since = P::now();
            let is_open = done.wait();
            length.slept(P::now() - since);
            is_open
        };
        // Other threads may have stored a newer value meanwhile, which is as good.
        if length.to_bits() != before {
            self.length.store(length.to_bits(), Relaxed);
        }
        is_open
    }

    /// Yields its CPU a few times, unless a thread that computes gets it, and returns whether `done` is open then. If
    /// the member that opens it needs this CPU, this replaces a sleep and a wake-up.
    fn yield_until_open(&self, done: &Latch<P>) -> bool {
        let before = self.contention.load(Relaxed);
        let mut contention = CpuContention { left: before };
        let mut is_open = false;
        if !contention.is_here() {
            for _ in 0..MAX_YIELDS {
                let took_ns = yield_once::<P>();
                contention.learn(took_ns);
                is_open = done.is_open();
                if is_open || took_ns > LONG_YIELD_NS {
                    break;
                }
            }
        }
        if contention.left != before {
            self.contention.store(contention.left, Relaxed);
        }
        is_open
    }
}

#[cfg(test)]
mod tests {
    use super::{CONTENDED_NS, CONTENDED_TIMES, CpuContention};

    #[test]
    fn who_lost_the_cpu_while_it_watched_sleeps_at_once_for_a_while() {
        let mut contention = CpuContention::default();
        for took_ns in [0, CONTENDED_NS] {
            contention.learn(took_ns);
            assert!(!contention.is_here());
        }
        contention.learn(CONTENDED_NS + 1);
        assert!((0..CONTENDED_TIMES).all(|_| contention.is_here()));
        assert!(!contention.is_here(), "others may be gone by now");
    }
}
