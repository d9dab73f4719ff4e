//! A thread from the scheduler's point of view.

use coreshard_topology::CpuSet;

use crate::cpu_mask::CpuMask;
use crate::machine::Ps;

/// The weight of a thread with nice value 0.
const WEIGHT: i64 = 1024;

pub(crate) struct Task {
    /// The CPU that it runs on, or ran on last.
    pub(super) cpu: usize,
    /// The CPUs that it may run on: the requested ones that are online.
    pub(super) affinity: CpuMask,
    pub(super) asked: CpuMask,
    pub(super) affinity_set: CpuSet,
    /// The SCHED_FIFO priority, 1 to 99; 0 for a fair thread.
    pub(super) fifo_priority: u8,
    pub(super) share: Share,
    /// How long it was on CPUs, up to the last time it left one.
    pub(super) on_cpu: Ps,
    /// Until when it last ran on its CPU; `None` if it has not run there since it arrived.
    pub(super) ran_here_until: Option<Ps>,
}

impl Task {
    pub(super) const fn is_fair(&self) -> bool {
        self.fifo_priority == 0
    }
}

/// A fair thread's past and future share of a CPU, in virtual time: CPU time scaled by its weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) had: i64,
    pub(super) deadline: i64,
    /// Its lag when it left.
    pub(super) lag: i64,
    pub(super) weight: i64,
    /// Whether it sleeps, and is in the contest.
    pub(super) is_delayed: bool,
}

impl Share {
    /// Each nice value is a quarter more or less.
    pub(super) fn of_nice(nice: i8) -> Self {
        let weight = (WEIGHT as f64 / 1.25_f64.powi(i32::from(nice))).round() as i64;
        Self { had: 0, deadline: 0, lag: 0, weight, is_delayed: false }
    }

    pub(super) fn virtual_of(&self, time: Ps) -> i64 {
        (i128::from(time) * i128::from(WEIGHT) / i128::from(self.weight)) as i64
    }
}
