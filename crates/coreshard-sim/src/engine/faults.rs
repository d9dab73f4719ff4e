//! What goes wrong on purpose, to find what a program relies on without a right to.

use std::time::Duration;

use super::failing::Failing;
use crate::machine::{NS, Ps};
use crate::random::{Random, mix};

/// In which order the CPUs go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// As the machine's costs have it.
    #[default]
    Timed,
    /// Probabilistic concurrency testing (Burckhardt and others, ASPLOS 2010): each thread has a
    /// random priority, and while one that could go on has a higher one, a thread stands still as
    /// if its CPU were taken away, for a third of a millisecond at the most; at `depth` − 1 random
    /// moments, the thread that runs falls below all others, as does one that spins. A bug that needs `depth` moments in a
    /// certain order is found with a probability that does not shrink with the length of the run.
    Pct {
        /// How many moments must come in a certain order.
        depth: u32,
        /// Turns of threads that a run is expected to have; the moments lie within.
        turns: u32,
    },
}

/// What becomes of the starts after one that failed. A limit that is reached stays for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedStarts {
    /// How many more fail in a row, at the most.
    pub at_most: u32,
    /// For how long all fail, at the most.
    pub longest: Duration,
    /// How long it takes until a start has failed, at the most: memory is sought first.
    pub longest_try: Duration,
}

/// How often what goes wrong, in parts per million of the chances for it. The seed decides which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// In which order the CPUs go on.
    pub schedule: Schedule,
    /// A CPU stands still when it is its turn, as when a hypervisor takes it away: any thread may
    /// be overtaken between any two accesses.
    pub stalls_per_million: u32,
    /// How long a stall is at the most.
    pub longest_stall: Duration,
    /// A store is held back: others see it later, as x86's memory order allows. A CPU that holds stores
    /// back stands still after one look in four, for as long as it may hold them.
    pub held_stores_per_million: u32,
    /// How long a store is held back at the most.
    pub longest_hold: Duration,
    /// A wait on a futex returns though nobody woke it: at once, or later.
    pub spurious_wakeups_per_million: u32,
    /// A thread that was woken becomes runnable later.
    pub delayed_wakeups_per_million: u32,
    /// How much later, at the most; and how late a wait returns that nobody ended.
    pub longest_delay: Duration,
    /// A thread cannot be started,
    pub failed_spawns_per_million: u32,
    /// nor can those after it, for so long.
    pub failed_starts: FailedStarts,
    /// These calls fail by their number.
    pub failing: Option<Failing>,
    /// How long it is, on average, until a CPU goes offline; never where zero. Its threads move to
    /// the CPUs they may still use, or to any where there is none, as on Linux. One stays online.
    pub offline_every: Duration,
    /// How long a CPU is offline at the most.
    pub longest_offline: Duration,
    /// The clock that the program reads jumps ahead, when it is read; timers do not.
    pub clock_jumps_per_million: u32,
    /// How far it jumps at the most.
    pub longest_jump: Duration,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        schedule: Schedule::Timed,
        stalls_per_million: 0,
        longest_stall: Duration::ZERO,
        held_stores_per_million: 0,
        longest_hold: Duration::ZERO,
        spurious_wakeups_per_million: 0,
        delayed_wakeups_per_million: 0,
        longest_delay: Duration::ZERO,
        failed_spawns_per_million: 0,
        failed_starts: FailedStarts {
            at_most: 0,
            longest: Duration::ZERO,
            longest_try: Duration::ZERO,
        },
        failing: None,
        offline_every: Duration::ZERO,
        longest_offline: Duration::ZERO,
        clock_jumps_per_million: 0,
        longest_jump: Duration::ZERO,
    };
}

/// How long a thread is held back before the schedule looks again: in virtual time, the shortest
/// that two threads are kept apart.
const HELD_AT_ONCE: Ps = 1_000 * NS;
/// How long it is held back without a turn at the most: what it keeps waiting is not kept for ever.
const HELD_LONGEST: Ps = 300_000 * NS;

/// How long a thread goes on at a stretch where threads are held up, at the most: a few accesses.
const LONGEST_TURN: Ps = 50 * NS;

/// Who may go on, under [`Schedule::Pct`].
struct Priorities {
    /// By thread: the higher goes first.
    of: Vec<u64>,
    /// By CPU: since when its thread is held back.
    held_since: Vec<Option<Ps>>,
    /// Turns at which the thread that runs falls below all others, the last first.
    falls: Vec<u64>,
    turns: u64,
    /// Below all that were given so far.
    lowest: u64,
}

/// Faults, and the dice.
pub(super) struct Dice {
    faults: Faults,
    random: Random,
    priorities: Option<Priorities>,
    /// Starts that fail since one before them has.
    starts_to_fail: u64,
    starts_fail_until: Ps,
}

const MILLION: u64 = 1_000_000;

fn ps(duration: Duration) -> Ps {
    super::calls::ps(duration)
}

impl Dice {
    pub(super) fn new(faults: Faults, seed: u64, cpus: usize) -> Self {
        // Another sequence than that which settles ties.
        let mut random = Random::new(mix(!seed));
        let priorities = match faults.schedule {
            Schedule::Timed => None,
            Schedule::Pct { depth, turns } => {
                let moments = 1..u64::from(depth.max(1));
                let mut falls: Vec<u64> =
                    moments.map(|_| random.below(u64::from(turns.max(1)))).collect();
                falls.sort_unstable_by(|a, b| b.cmp(a));
                let held_since = vec![None; cpus];
                Some(Priorities { of: Vec::new(), held_since, falls, turns: 0, lowest: 1 << 62 })
            }
        };
        Self { faults, random, priorities, starts_to_fail: 0, starts_fail_until: 0 }
    }

    fn falls(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.random.below(MILLION) < u64::from(per_million)
    }

    /// Between a picosecond and `most`.
    fn up_to(&mut self, most: Duration) -> Ps {
        self.random.below(ps(most).max(1)) + 1
    }

    /// How long a thread goes on before it is asked again whether it stands still; where nothing
    /// holds threads up, as long as no other is earlier.
    pub(super) fn turn(&mut self) -> Ps {
        if self.priorities.is_some() || self.faults.stalls_per_million > 0 {
            self.random.below(LONGEST_TURN) + 1
        } else {
            Ps::MAX
        }
    }

    /// How long a CPU stands still, if it does.
    pub(super) fn stall(&mut self) -> Option<Ps> {
        let stalls = self.falls(self.faults.stalls_per_million);
        stalls.then(|| self.up_to(self.faults.longest_stall))
    }

    #[inline]
    pub(super) const fn may_hold_stores(&self) -> bool {
        self.faults.held_stores_per_million > 0
    }

    /// How long a store is held back, if it is.
    pub(super) fn holds_store(&mut self) -> Option<Ps> {
        let holds = self.falls(self.faults.held_stores_per_million);
        holds.then(|| self.up_to(self.faults.longest_hold))
    }

    /// How long a CPU that holds stores back stands still after a look, if it does.
    pub(super) fn lingers(&mut self) -> Option<Ps> {
        let lingers = self.random.below(4) == 0;
        lingers.then(|| self.up_to(self.faults.longest_hold))
    }

    /// After how long a wait returns that nobody ended, if it does; 0: at once.
    pub(super) fn wakes_spuriously(&mut self) -> Option<Ps> {
        let wakes = self.falls(self.faults.spurious_wakeups_per_million);
        wakes.then(|| match self.faults.longest_delay {
            Duration::ZERO => 0,
            _ if self.random.below(2) == 0 => 0,
            longest => self.up_to(longest),
        })
    }

    /// How much later a woken thread becomes runnable, if it does.
    pub(super) fn wakes_late(&mut self) -> Option<Ps> {
        let late = self.falls(self.faults.delayed_wakeups_per_million);
        late.then(|| self.up_to(self.faults.longest_delay))
    }

    /// How long it takes until the start of a thread has failed, if it does.
    pub(super) fn fails_to_spawn(&mut self, now: Ps) -> Option<Ps> {
        let FailedStarts { at_most, longest, longest_try } = self.faults.failed_starts;
        let lasts = self.starts_to_fail > 0 || now < self.starts_fail_until;
        self.starts_to_fail = self.starts_to_fail.saturating_sub(1);
        if !lasts {
            if !self.falls(self.faults.failed_spawns_per_million) {
                return None;
            }
            self.starts_to_fail = self.random.below(u64::from(at_most) + 1);
            self.starts_fail_until = if longest.is_zero() { 0 } else { now + self.up_to(longest) };
        }
        Some(if longest_try.is_zero() { 0 } else { self.up_to(longest_try) })
    }

    /// How far the clock jumps, if it does.
    pub(super) fn clock_jump(&mut self) -> Option<Ps> {
        let jumps = self.falls(self.faults.clock_jumps_per_million);
        jumps.then(|| self.up_to(self.faults.longest_jump))
    }

    /// When the next CPU goes offline, from now on; `None` where none ever does.
    pub(super) fn next_offline(&mut self) -> Option<Ps> {
        let every = self.faults.offline_every;
        (!every.is_zero()).then(|| self.up_to(every * 2))
    }

    /// Which of `cpus` goes offline, and for how long.
    pub(super) fn offline(&mut self, cpus: usize) -> (usize, Ps) {
        let which = self.random.below(cpus as u64) as usize;
        (which, self.up_to(self.faults.longest_offline))
    }

    /// A thread that spins waits for another, which must not wait for it: it falls below all.
    pub(super) fn spins(&mut self, thread: usize) {
        if let Some(priorities) = &mut self.priorities
            && let Some(own) = priorities.of.get_mut(thread)
            && *own != priorities.lowest
        {
            priorities.lowest -= 1;
            *own = priorities.lowest;
        }
    }

    /// Until when `thread`, whose turn it is on `cpu`, is held back; `others` are the threads that
    /// could go on, on other CPUs.
    pub(super) fn holds_back(
        &mut self,
        thread: usize,
        cpu: usize,
        now: Ps,
        others: impl Iterator<Item = usize>,
    ) -> Option<Ps> {
        let priorities = self.priorities.as_mut()?;
        let mut priority = |thread: usize| {
            while priorities.of.len() <= thread {
                // Above those that have fallen.
                priorities.of.push(self.random.next() | 1 << 63);
            }
            priorities.of[thread]
        };
        let own = priority(thread);
        let highest_other = others.map(&mut priority).max().unwrap_or(0);
        priorities.turns += 1;
        let falls = priorities.falls.pop_if(|fall| *fall < priorities.turns).is_some();
        let own = if falls {
            priorities.lowest -= 1;
            priorities.lowest
        } else {
            own
        };
        priorities.of[thread] = own;
        if highest_other > own {
            let since = *priorities.held_since[cpu].get_or_insert(now);
            if now < since + HELD_LONGEST {
                // A turn that is not taken does not count.
                priorities.turns -= u64::from(!falls);
                return Some(now + HELD_AT_ONCE);
            }
        }
        priorities.held_since[cpu] = None;
        None
    }
}
