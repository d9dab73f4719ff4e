//! How long an owner keeps its line where requests are served in their order.
//!
//! A CPU that fetched a line uses it for a while before it answers whoever asks for it next: its accesses until then hit. Whoever
//! asks is the line's owner at once in the table of lines, and has it when the time is over; here stands who has it until then.

use std::collections::HashMap;

use super::lines::Place;
use crate::machine::{Arbitration, Ps};

pub(super) struct Kept {
    hold: Ps,
    /// A load of a written line takes it, as where a store is to follow.
    pub(super) loads_take: bool,
    /// By line: who has it, and until when.
    by_line: HashMap<Place, (usize, Ps)>,
}

impl Kept {
    pub(super) fn new(costs: &Arbitration) -> Self {
        Self { hold: costs.hold, loads_take: costs.loads_take, by_line: HashMap::new() }
    }

    /// Until when a line is kept that came at `since`.
    pub(super) const fn until(&self, since: Ps) -> Ps {
        since + self.hold
    }

    /// The line is another's from `until` on.
    pub(super) fn give(&mut self, line: Place, owner: usize, until: Ps) {
        self.by_line.insert(line, (owner, until));
    }

    pub(super) fn has(&self, line: Place, cpu: usize, now: Ps) -> bool {
        self.by_line.get(&line).is_some_and(|(owner, until)| *owner == cpu && now < *until)
    }
}
