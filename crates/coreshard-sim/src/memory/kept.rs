//! How long an owner has its line if requests are served in their order.
//!
//! A CPU that asks for a line is its owner at once in the table of lines, and has it when all before it have had it. Until it
//! leaves, the CPU that had it goes on with it: its stores to a line that is still on its way to it go out when it comes, and
//! a CPU that fetched a line uses it for a while before it answers the next request. This file keeps which CPU has a line until when.
//!
//! Ways and these times vary by chance, as they do in a machine: two loops whose lengths stand in a fixed proportion would else
//! meet at each turn, or never.

use super::lines::{ByPlace, Place};
use crate::machine::{Arbitration, Ps};
use crate::random::Random;

/// A way takes this share more or less at most: between the tenth and the ninetieth percentile of published ways from core
/// to core lie 2 to 14 % of their medians to either side.
const WAY_VARIES_BY: Ps = 16;
/// Entries after which expired ones are removed.
const MANY: usize = 1 << 12;

pub(super) struct Kept {
    hold: Ps,
    /// A load of a written line takes it, as where a store is to follow.
    pub(super) loads_take: bool,
    /// By line and CPU: until when it has it.
    by_line: ByPlace<Ps>,
    most: usize,
    random: Random,
}

impl Kept {
    pub(super) fn new(costs: &Arbitration) -> Self {
        Self {
            hold: costs.hold,
            loads_take: costs.loads_take,
            by_line: ByPlace::default(),
            most: MANY,
            random: Random::new(0),
        }
    }

    /// Until when a line is kept that came at `since`: for `hold` on average, as the request for it comes at any moment.
    pub(super) fn until(&mut self, since: Ps) -> Ps {
        since + if self.hold > 0 { self.random.below(2 * self.hold) } else { 0 }
    }

    /// How long a way takes this time.
    pub(super) fn way(&mut self, way: Ps) -> Ps {
        let most = way / WAY_VARIES_BY;
        way - most + self.random.below(2 * most + 1)
    }

    /// The line is another's from `until` on.
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

/// Lines of an arena are far below 2⁴⁸, and CPUs below 2¹⁶.
const fn key(line: Place, cpu: usize) -> Place {
    Place(line.0 << 16 | cpu as u64)
}
