//! Probabilistic concurrency testing: holds threads back by random priorities. See
//! [`Schedule::Pct`](super::Schedule::Pct).

use crate::machine::{NS, Ps};
use crate::random::Random;

/// How long a thread is held back before it is checked again: the shortest separation of two threads, in
/// virtual time.
const HELD_AT_ONCE: Ps = 1_000 * NS;
/// The maximum time that a thread is held back without a turn, so that other threads do not wait for it
/// forever.
const HELD_LONGEST: Ps = 300_000 * NS;

pub(super) struct Pct {
    /// By thread: the higher priority goes first.
    priorities: Vec<u64>,
    /// By CPU: since when its thread has been held back.
    held_since: Vec<Option<Ps>>,
    /// Turns at which the running thread falls below all others, the last first.
    change_points: Vec<u64>,
    turns: u64,
    /// Below all priorities that were assigned so far.
    lowest: u64,
}

impl Pct {
    pub(super) fn new(depth: u32, turns: u32, cpus: usize, random: &mut Random) -> Self {
        let moments = 1..u64::from(depth.max(1));
        let mut change_points: Vec<u64> =
            moments.map(|_| random.below(u64::from(turns.max(1)))).collect();
        change_points.sort_unstable_by(|a, b| b.cmp(a));
        let held_since = vec![None; cpus];
        Self { priorities: Vec::new(), held_since, change_points, turns: 0, lowest: 1 << 62 }
    }

    /// Lowers the priority of a spinning thread below all others: it waits for another thread, which must not
    /// wait for it.
    pub(super) fn thread_spins(&mut self, thread: usize) {
        if let Some(own) = self.priorities.get_mut(thread)
            && *own != self.lowest
        {
            self.lowest -= 1;
            *own = self.lowest;
        }
    }

    /// Returns until when `thread`, whose turn it is on `cpu`, is held back. `others` are the threads on
    /// other CPUs that could continue.
    pub(super) fn held_back_until(
        &mut self,
        thread: usize,
        cpu: usize,
        now: Ps,
        others: impl Iterator<Item = usize>,
        random: &mut Random,
    ) -> Option<Ps> {
        let priorities = &mut self.priorities;
        let mut priority = |thread: usize| {
            while priorities.len() <= thread {
                // Above the lowered priorities.
                priorities.push(random.next() | 1 << 63);
            }
            priorities[thread]
        };
        let own = priority(thread);
        let highest_other = others.map(&mut priority).max().unwrap_or(0);
        self.turns += 1;
        let turns = self.turns;
        let falls = self.change_points.pop_if(|turn| *turn < turns).is_some();
        let own = if falls {
            self.lowest -= 1;
            self.lowest
        } else {
            own
        };
        self.priorities[thread] = own;
        if highest_other > own {
            let since = *self.held_since[cpu].get_or_insert(now);
            if now < since + HELD_LONGEST {
                // A turn that is not taken does not count.
                self.turns -= u64::from(!falls);
                return Some(now + HELD_AT_ONCE);
            }
        }
        self.held_since[cpu] = None;
        None
    }
}
