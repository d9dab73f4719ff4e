//! A thread's part in the contest for a CPU.

use crate::machine::Ps;

/// The weight of a thread with nice value 0.
const WEIGHT: i64 = 1024;

/// What a fair thread has had of a CPU, and is to have, in virtual time: CPU time in proportion to its weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) had: i64,
    pub(super) deadline: i64,
    /// What it was owed when it left.
    pub(super) lag: i64,
    pub(super) weight: i64,
    /// It sleeps, and is in the contest.
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
