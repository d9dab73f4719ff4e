//! How long an owner has its line if requests are served in order.
//!
//! In the table of lines, a CPU that requests a line becomes its owner at once; it gets the line when all
//! earlier owners have had it. Until the line leaves, its previous CPU continues to use it. Stores to a line
//! that is still in transit take effect when it arrives, and a CPU that fetched a line uses it for a while
//! before it answers the next request. This file stores which CPU has a line until when.
//!
//! If a CPU works while lines are in transit (`work_ahead_ns`), a line that it fetched for stores leaves as soon as they are
//! done: its further stores fill the buffer again and request the line themselves. On two CPUs of a Xeon (family 6,
//! model 207) with a round trip of 128 ns, loops with one plain store take at least 1.0 to 1.2 ns, as if 112
//! stores were done at each visit of the line. It uses a line that it loads from as soon as the line arrives. Snoops
//! wait for a locked instruction, and for one that follows at once, so only a CPU that uses locked instructions on a line keeps
//! it.
//!
//! Transfers and these times vary randomly, as in a machine. Otherwise two loops with a fixed ratio of
//! lengths would meet at each turn, or never.

use super::access::Access;
use super::lines::{ByPlace, Place};
use crate::machine::{Arbitration, Ps};
use crate::random::Random;

/// The largest variation of a transfer, as a divisor of its time. Between the tenth and the ninetieth
/// percentile, published core-to-core transfers lie within 2 to 14 % of their medians.
const WAY_VARIES_BY: Ps = 16;
/// The number of entries after which expired ones are removed.
const MANY: usize = 1 << 12;

pub(super) struct Kept {
    hold: Ps,
    /// Whether CPUs work while lines are in transit.
    works_ahead: bool,
    /// Whether a load of a written line takes it, as before a store.
    pub(super) loads_take: bool,
    /// By line and CPU: until when it has the line.
    by_line: ByPlace<Ps>,
    /// Lines that were last fetched for a plain store.
    for_stores: ByPlace<()>,
    /// Lines and CPUs that use locked instructions on them.
    locked: ByPlace<()>,
    most: usize,
    random: Random,
}

impl Kept {
    pub(super) fn new(costs: &Arbitration) -> Self {
        Self {
            hold: costs.hold,
            works_ahead: costs.work_ahead > 0,
            loads_take: costs.loads_take,
            by_line: ByPlace::default(),
            for_stores: ByPlace::default(),
            locked: ByPlace::default(),
            most: MANY,
            random: Random::new(0),
        }
    }

    /// Returns until when a line is kept that arrived at `since`: for `hold` on average, since the next
    /// request arrives at a random moment. A line that was fetched for pending stores or loads is not kept.
    pub(super) fn until(&mut self, line: Place, owner: usize, since: Ps) -> Ps {
        let is_kept = self.hold > 0
            && !self.for_stores.contains_key(&line)
            && (!self.works_ahead || self.locked.contains_key(&key(line, owner)));
        since + if is_kept { self.random.below(2 * self.hold) } else { 0 }
    }

    /// Records that a CPU uses locked instructions on a line.
    pub(super) fn note_locked(&mut self, line: Place, cpu: usize) {
        if self.works_ahead {
            self.locked.insert(key(line, cpu), ());
        }
    }

    /// Records the access that a line is fetched for.
    pub(super) fn note_fetch(&mut self, line: Place, access: Access) {
        if self.works_ahead && access == Access::Store {
            self.for_stores.insert(line, ());
        } else if !self.for_stores.is_empty() {
            self.for_stores.remove(&line);
        }
    }

    /// Draws how long a transfer takes.
    pub(super) fn way(&mut self, way: Ps) -> Ps {
        let most = way / WAY_VARIES_BY;
        way - most + self.random.below(2 * most + 1)
    }

    /// Records that the line belongs to another CPU from `until` on.
    pub(super) fn give(&mut self, line: Place, owner: usize, until: Ps, now: Ps) {
        if until <= now {
            return;
        }
        if self.by_line.len() >= self.most {
            self.by_line.retain(|_, until| *until > now);
            self.most = MANY.max(2 * self.by_line.len());
        }
        self.by_line.insert(key(line, owner), until);
    }

    pub(super) fn has(&self, line: Place, cpu: usize, now: Ps) -> bool {
        self.by_line.get(&key(line, cpu)).is_some_and(|until| now < *until)
    }
}

/// Combines line and CPU: lines of an arena are far below 2⁴⁸, and CPUs below 2¹⁶.
const fn key(line: Place, cpu: usize) -> Place {
    Place(line.0 << 16 | cpu as u64)
}
