//! Work that a CPU does while a line is in transit to it.
//!
//! An out-of-order core begins the instructions after a miss before the line arrives, as far as its reorder buffer and
//! its scheduler reach. In the replay this reach is an amount of work, `work_ahead_ns` of the machine's file. Code with
//! many independent instructions fills the reorder buffer soon; code whose instructions wait for one another is slower,
//! and fills the scheduler. In both, the reach is some 200 cycles.
//!
//! 1. A CPU continues after a load whose line is elsewhere. It stalls when it has done `work_ahead` of work since its oldest
//!    such load, until that line has arrived. So several lines can be in transit at once.
//! 2. A read-modify-write waits for all earlier loads and stores, and for its own line. Meanwhile the core computes what
//!    follows, up to the next load: at most `work_ahead` of computation after it then takes no time.
//! 3. Locks, waits and other events between threads wait for all earlier loads.

use std::collections::VecDeque;

use crate::replay::stores::Store;

/// A load whose line is in transit.
#[derive(Clone, Copy, Debug)]
struct Missing {
    line: u32,
    due: u64,
    /// The time of the load, without earlier stalls.
    begun: u64,
    /// The load, if its thread had the line before and lost it.
    taken_back: Option<Store>,
}

/// A stall: its duration, and the access that lost its line before, if any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    pub(super) lost_ps: u64,
    pub(super) taken_back: Option<Store>,
}

/// Computation that was done ahead: the part that is left, and the part that the thread has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) left_ps: u64,
    pub(super) hidden_ps: u64,
}

impl Done {
    /// Returns the time of computation without the part that was done ahead.
    #[inline]
    pub(super) fn rest_of(&mut self, work_ps: u64) -> u64 {
        let ahead_ps = work_ps.min(self.left_ps);
        self.left_ps -= ahead_ps;
        self.hidden_ps += ahead_ps;
        work_ps - ahead_ps
    }
}

/// The work of one CPU while lines are in transit to it.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The oldest first.
    loads: VecDeque<Missing>,
    /// The time of all stalls so far.
    stalled_ps: u64,
    /// Computation that was done while a read-modify-write waited.
    done_ps: u64,
    /// That read-modify-write, or the store that it waited for, if its line was lost before.
    taken_back: Option<Store>,
}

impl Ahead {
    #[inline]
    pub(super) fn has_loads(&self) -> bool {
        !self.loads.is_empty()
    }

    /// Whether a line is in transit at `now`, so that a further load of it waits for nothing else.
    #[inline]
    pub(super) fn awaits(&self, line: u32, now: u64) -> bool {
        self.loads.iter().any(|load| load.line == line && now < load.due)
    }

    /// Records a load at `now` whose line arrives at `due`.
    pub(super) fn begin(&mut self, line: u32, now: u64, due: u64, taken_back: Option<Store>) {
        self.loads.push_back(Missing { line, due, begun: now - self.stalled_ps, taken_back });
    }

    /// Returns the next stall of a CPU that has come to `now`, which then continues that much later.
    pub(super) fn next_stall(&mut self, now: u64, most_ps: u64) -> Option<Stall> {
        while let Some(Missing { due, begun, taken_back, .. }) = self.loads.front().copied() {
            let full = begun + self.stalled_ps + most_ps;
            if now < full && now < due {
                return None;
            }
            self.loads.pop_front();
            if let Some(lost_ps) = due.checked_sub(full).filter(|lost_ps| *lost_ps > 0) {
                self.stalled_ps += lost_ps;
                return Some(Stall { lost_ps, taken_back });
            }
        }
        None
    }

    /// Returns the next stall of a CPU that waits for all its loads.
    pub(super) fn next_wait(&mut self, now: u64) -> Option<Stall> {
        while let Some(Missing { due, taken_back, .. }) = self.loads.pop_front() {
            if due > now {
                self.stalled_ps += due - now;
                return Some(Stall { lost_ps: due - now, taken_back });
            }
        }
        None
    }

    /// Records a wait in which the CPU did nothing ahead.
    pub(super) fn note_stall(&mut self, lost_ps: u64) {
        self.stalled_ps += lost_ps;
    }

    /// Records that a read-modify-write waited, in which time the CPU did at most `most_ps` of the computation after it.
    pub(super) fn note_wait(&mut self, lost_ps: u64, most_ps: u64, taken_back: Option<Store>) {
        if lost_ps > 0 {
            self.done_ps = (self.done_ps + lost_ps).min(most_ps);
            self.taken_back = taken_back;
        }
    }

    /// Returns the computation that was done ahead, and the access whose wait it hides.
    #[inline]
    pub(super) fn done(&self) -> (Done, Option<Store>) {
        (Done { left_ps: self.done_ps, hidden_ps: 0 }, self.taken_back)
    }

    /// Sets the computation that was done ahead and is left.
    #[inline]
    pub(super) fn set_left(&mut self, done: &Done) {
        self.done_ps = done.left_ps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(ahead: &mut Ahead, mut now: u64, most_ps: u64) -> Vec<u64> {
        let mut lost = Vec::new();
        while let Some(stall) = ahead.next_stall(now, most_ps) {
            now += stall.lost_ps;
            lost.push(stall.lost_ps);
        }
        lost
    }

    #[test]
    fn a_cpu_stalls_once_it_has_done_all_work_that_fits() {
        let mut ahead = Ahead::default();
        ahead.begin(1, 1_000, 1_500, None);
        assert!(ahead.awaits(1, 1_499) && !ahead.awaits(2, 1_499) && !ahead.awaits(1, 1_500));
        assert!(lost(&mut ahead, 1_050, 100).is_empty());
        // It came to 1,100 and continued when the line arrived.
        assert_eq!(lost(&mut ahead, 1_130, 100), [400]);
        assert!(!ahead.has_loads());
        ahead.begin(1, 2_000, 2_050, None);
        assert!(lost(&mut ahead, 2_090, 100).is_empty(), "the line has arrived");
        assert!(!ahead.has_loads());
    }

    #[test]
    fn lines_that_were_requested_together_cost_one_stall() {
        let mut ahead = Ahead::default();
        ahead.begin(1, 1_000, 1_500, None);
        ahead.begin(2, 1_010, 1_520, None);
        assert_eq!(lost(&mut ahead, 1_100, 100), [400]);
        assert_eq!(lost(&mut ahead, 1_620, 100), [10], "110 of work after the second load");
    }

    #[test]
    fn a_wait_for_all_loads_ends_with_the_last_line() {
        let mut ahead = Ahead::default();
        ahead.begin(1, 1_000, 1_500, None);
        ahead.begin(2, 1_010, 1_400, None);
        assert_eq!(ahead.next_wait(1_100).unwrap().lost_ps, 400);
        assert!(ahead.next_wait(1_500).is_none() && !ahead.has_loads());
    }

    #[test]
    fn the_computation_done_ahead_is_bounded() {
        let mut ahead = Ahead::default();
        ahead.note_wait(30, 100, None);
        assert_eq!(ahead.done().0.left_ps, 30);
        ahead.note_wait(300, 100, None);
        assert_eq!(ahead.done().0.left_ps, 100);
    }
}
