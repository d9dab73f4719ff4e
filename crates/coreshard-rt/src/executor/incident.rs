//! What the watchdog has found, and how much of it is kept.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use coreshard_platform::Throttle;
use coreshard_topology::CpuId;

/// How many incidents are kept for whoever asks: the latest. Room for them is there from the start, so
/// that the watchdog allocates nothing.
pub(super) const MAX_KEPT: usize = if cfg!(loom) { 2 } else { 256 };

/// What the watchdog has found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Incident {
    /// A task has used more CPU time than its budget, and goes on at normal priority.
    Demoted {
        /// Where.
        cpu: CpuId,
        /// The priority it had; of a task by deadline, its band's.
        priority: u8,
        /// The budget.
        budget: Duration,
        /// What it had used when it was found.
        used: Duration,
    },
    /// The most important task of a CPU could run, and did not for a long time: the kernel has throttled
    /// real-time threads, or something above all priorities runs.
    Throttled {
        /// Where.
        cpu: CpuId,
        /// The priority of the task.
        priority: u8,
        /// How long it was kept from running, within the last period of throttling.
        lost: Duration,
        /// The limit that the kernel enforces, if it says one.
        limit: Option<Throttle>,
    },
    /// There were more incidents than are kept, and these, the oldest, are gone.
    Dropped {
        /// How many.
        count: u64,
    },
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Demoted { cpu, priority, budget, used } => write!(
                f,
                "a task of priority {priority} on CPU {cpu} has used {} µs of its budget of {} µs, and \
                 goes on at normal priority",
                used.as_micros(),
                budget.as_micros()
            ),
            Self::Throttled { cpu, priority, lost, limit } => {
                write!(
                    f,
                    "a task of priority {priority} on CPU {cpu} could run and was kept from it for \
                     {} ms",
                    lost.as_millis()
                )?;
                match limit {
                    Some(Throttle { runtime, period }) => write!(
                        f,
                        "; real-time threads may run {} of {} ms (sched_rt_runtime_us)",
                        runtime.as_millis(),
                        period.as_millis()
                    ),
                    None => Ok(()),
                }
            }
            Self::Dropped { count } => write!(
                f,
                "{count} older incidents were dropped, since nobody took them: the latest {MAX_KEPT} are \
                 kept"
            ),
        }
    }
}

/// The latest incidents that nobody has taken.
pub(super) struct Incidents {
    kept: VecDeque<Incident>,
    dropped: u64,
}

impl Incidents {
    pub(super) fn new() -> Self {
        Self { kept: VecDeque::with_capacity(MAX_KEPT), dropped: 0 }
    }

    /// Keeps one more, and drops the oldest where there is no room. Allocates nothing.
    pub(super) fn push(&mut self, incident: Incident) {
        if self.kept.len() == MAX_KEPT {
            self.kept.pop_front();
            self.dropped += 1;
        }
        self.kept.push_back(incident);
    }

    /// Moves all of them out of `from`, which takes this empty one's room instead.
    pub(super) fn take_from(&mut self, from: &mut Self) {
        std::mem::swap(self, from);
    }

    /// In their order; before them, how many are gone.
    pub(super) fn into_vec(self) -> Vec<Incident> {
        let dropped = Some(Incident::Dropped { count: self.dropped }).filter(|_| self.dropped > 0);
        dropped.into_iter().chain(self.kept).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn found(number: usize) -> Incident {
        let [budget, used] = [1, 2].map(Duration::from_millis);
        Incident::Demoted { cpu: CpuId(number as u32), priority: 7, budget, used }
    }

    #[test]
    fn the_latest_are_kept_and_the_others_are_counted() {
        let mut incidents = Incidents::new();
        (0..MAX_KEPT + 3).for_each(|number| incidents.push(found(number)));
        let mut taken = Incidents::new();
        taken.take_from(&mut incidents);
        let taken = taken.into_vec();
        assert_eq!(taken.len(), MAX_KEPT + 1);
        assert_eq!(taken[0], Incident::Dropped { count: 3 });
        assert!(taken[0].to_string().starts_with("3 older incidents were dropped"));
        assert_eq!((&taken[1], taken.last()), (&found(3), Some(&found(MAX_KEPT + 2))));
        assert!(incidents.kept.capacity() >= MAX_KEPT);
        assert_eq!(incidents.into_vec(), []);
    }
}
