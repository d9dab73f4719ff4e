//! Incidents: findings of the watchdog, and how many are kept.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use coreshard_platform::{RealTime, Throttle};
use coreshard_topology::CpuId;

use crate::lock::InheritMutex;

/// How many of the latest incidents are kept. Room for them is allocated at the start, so that the watchdog
/// allocates nothing.
pub(super) const MAX_KEPT: usize = if cfg!(loom) { 2 } else { 256 };

/// A finding of the watchdog.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Incident {
    /// A task used more CPU time than its budget, and continues at normal priority.
    Demoted {
        /// The CPU.
        cpu: CpuId,
        /// The priority it had; for a task by deadline, its band's.
        priority: u8,
        /// The budget.
        budget: Duration,
        /// The CPU time that it had used by then.
        used: Duration,
    },
    /// The highest-priority task of a CPU was ready but did not run for a long time: the kernel throttled
    /// real-time threads, or work above all priorities ran.
    Throttled {
        /// The CPU.
        cpu: CpuId,
        /// The priority of the task.
        priority: u8,
        /// How long it was kept from running, within the last period of throttling.
        lost: Duration,
        /// The limit that the kernel enforces, if it reports one.
        limit: Option<Throttle>,
    },
    /// There were more incidents than are kept, and the oldest were dropped.
    Dropped {
        /// The number of dropped incidents.
        count: u64,
    },
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Demoted { cpu, priority, budget, used } => write!(
                f,
                "a task of priority {priority} on CPU {cpu} has used {} µs of its budget of {} µs, and \
                 continues at normal priority",
                used.as_micros(),
                budget.as_micros()
            ),
            Self::Throttled { cpu, priority, lost, limit } => {
                write!(
                    f,
                    "a task of priority {priority} on CPU {cpu} was ready but did not run for \
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
                "{count} older incidents were dropped: take_incidents was not called, and only the latest {MAX_KEPT} are \
                 kept"
            ),
        }
    }
}

/// The latest incidents that were not taken yet.
pub(super) struct Incidents<P: RealTime> {
    /// The lock lends priority, since the watchdog also takes it.
    kept: InheritMutex<P, Kept>,
}

struct Kept {
    latest: VecDeque<Incident>,
    dropped: u64,
}

impl Kept {
    fn new() -> Self {
        Self { latest: VecDeque::with_capacity(MAX_KEPT), dropped: 0 }
    }
}

impl<P: RealTime> Incidents<P> {
    pub(super) fn new() -> Self {
        Self { kept: InheritMutex::new(Kept::new()) }
    }

    /// Adds incidents, and drops the oldest if there is no room. Allocates nothing.
    pub(super) fn record(&self, incidents: impl Iterator<Item = Incident>) {
        let mut kept = self.kept.lock_own();
        for incident in incidents {
            if kept.latest.len() == MAX_KEPT {
                kept.latest.pop_front();
                kept.dropped += 1;
            }
            kept.latest.push_back(incident);
        }
    }

    /// Takes the incidents in order, preceded by the number of dropped ones.
    pub(super) fn take(&self) -> Vec<Incident> {
        let mut taken = Kept::new();
        std::mem::swap(&mut taken, &mut *self.kept.lock_own());
        let Kept { latest, dropped } = taken;
        let dropped = Some(Incident::Dropped { count: dropped }).filter(|_| dropped > 0);
        dropped.into_iter().chain(latest).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use coreshard_platform::Host;

    use super::*;

    fn found(number: usize) -> Incident {
        let [budget, used] = [1, 2].map(Duration::from_millis);
        Incident::Demoted { cpu: CpuId(number as u32), priority: 7, budget, used }
    }

    #[test]
    fn the_latest_are_kept_and_the_others_are_counted() {
        let incidents = Incidents::<Host>::new();
        incidents.record((0..MAX_KEPT + 3).map(found));
        let taken = incidents.take();
        assert_eq!(taken.len(), MAX_KEPT + 1);
        assert_eq!(taken[0], Incident::Dropped { count: 3 });
        assert!(taken[0].to_string().starts_with("3 older incidents were dropped"));
        assert_eq!((&taken[1], taken.last()), (&found(3), Some(&found(MAX_KEPT + 2))));
        assert!(incidents.kept.lock_own().latest.capacity() >= MAX_KEPT);
        assert_eq!(incidents.take(), []);
    }
}
