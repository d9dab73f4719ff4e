//! Counts the calls of a run, and decides which of them fail by their number.

use super::failing::{Call, Failing, Lasts};
use crate::machine::{Ps, ps};

/// The number of calls of each kind in a run, and of failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallCounts {
    made: [u64; Call::ALL.len()],
    failed: u64,
}

impl CallCounts {
    /// Returns the number of calls of this kind, including failed ones.
    #[must_use]
    pub const fn made(&self, call: Call) -> u64 {
        self.made[call as usize]
    }

    /// Returns the number of calls that failed by their number.
    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.failed
    }
}

/// The calls of a run, and which of them fail.
pub(super) struct NumberedCalls {
    plan: Option<Failing>,
    counts: CallCounts,
    /// When the first call failed.
    began: Option<Ps>,
    /// When a call last failed, by its number or randomly.
    last: Option<Ps>,
}

impl NumberedCalls {
    pub(super) const fn new(plan: Option<Failing>) -> Self {
        let counts = CallCounts { made: [0; Call::ALL.len()], failed: 0 };
        Self { plan, counts, began: None, last: None }
    }

    pub(super) const fn counts(&self) -> &CallCounts {
        &self.counts
    }

    /// Returns when a call last failed.
    pub(super) const fn last_failure(&self) -> Option<Ps> {
        self.last
    }

    /// Records that a call failed randomly or for another reason.
    pub(super) fn note_failure(&mut self, now: Ps) {
        self.last = Some(now);
    }

    /// Returns true if calls fail for a time rather than by count.
    pub(super) fn fail_for_a_while(&self) -> bool {
        self.plan.is_some_and(|plan| matches!(plan.lasts, Lasts::For(_)))
    }

    /// Counts a call. Returns true if it must fail.
    pub(super) fn fails(&mut self, call: Call, now: Ps) -> bool {
        let made = &mut self.counts.made[call as usize];
        *made += 1;
        let Some(plan) = self.plan.filter(|plan| plan.call == call && plan.from <= *made) else {
            return false;
        };
        let began = *self.began.get_or_insert(now);
        let fails = match plan.lasts {
            Lasts::Calls(calls) => *made - plan.from < u64::from(calls),
            Lasts::For(time) => now - began <= ps(time),
        };
        if fails {
            self.counts.failed += 1;
            self.last = Some(now);
        }
        fails
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::machine::NS;

    fn failing(plan: Failing, calls: &[(Call, Ps)]) -> Vec<bool> {
        let mut failures = NumberedCalls::new(Some(plan));
        calls.iter().map(|(call, now)| failures.fails(*call, *now)).collect()
    }

    #[test]
    fn the_kth_call_of_a_kind_fails_and_as_many_as_are_to_follow() {
        let plan = Failing { call: Call::Start, from: 2, lasts: Lasts::Calls(2) };
        let calls =
            [Call::Start, Call::Wait, Call::Start, Call::Start, Call::Start].map(|call| (call, 5));
        assert_eq!(failing(plan, &calls), [false, false, true, true, false]);
        let plan = Failing { lasts: Lasts::For(Duration::from_nanos(10)), ..plan };
        let calls = [0, 3 * NS, 13 * NS, 14 * NS].map(|now| (Call::Start, now));
        assert_eq!(failing(plan, &calls), [false, true, true, false]);
    }
}
