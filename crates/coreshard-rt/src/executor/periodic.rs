//! Periodic tasks, as their users describe them.

use std::fmt;
use std::time::Duration;

use coreshard_platform::Time;
use coreshard_topology::CpuSet;

use crate::error::RtError;
use crate::level::Priority;

/// By what a periodic task is more important than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// By its priority.
    Fixed(Priority),
    /// By the nearest deadline: the task runs above all fixed priorities up to 95 (those from 96 on
    /// come before it), and before tasks of later deadlines on its CPU. It must have a budget, and is
    /// admitted only where its CPU has room.
    Deadline,
}

/// What becomes of a task that is not done when its next period begins.
#[derive(Default)]
pub enum Overrun {
    /// The activations that were missed are left out.
    #[default]
    Skip,
    /// They are made up for, one right after the other.
    CatchUp,
    /// The function is called with the activation that lasted too long; then they are left out.
    Call(Box<dyn FnMut(&Activation) + Send>),
}

impl fmt::Debug for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Skip => "Skip",
            Self::CatchUp => "CatchUp",
            Self::Call(_) => "Call",
        })
    }
}

/// A periodic task, described.
#[derive(Debug)]
pub struct Periodic {
    /// By what it is more important than others.
    pub urgency: Urgency,
    /// From one activation to the next.
    pub period: Duration,
    /// From its start to its first activation.
    pub phase: Duration,
    /// From an activation until it must be done; the period where `None`.
    pub deadline: Option<Duration>,
    /// The CPU time that an activation may use. With it the task is admitted only where there is room,
    /// and demoted for the rest of an activation that uses more.
    pub budget: Option<Duration>,
    /// The CPUs that it may be put on; all of the executor's where `None`.
    pub cpus: Option<CpuSet>,
    /// What becomes of missed activations.
    pub overrun: Overrun,
}

impl Periodic {
    /// A task of `priority` every `period`, at once, without a budget, that skips what it misses.
    pub fn every(period: Duration, priority: Priority) -> Self {
        Self {
            urgency: Urgency::Fixed(priority),
            period,
            phase: Duration::ZERO,
            deadline: None,
            budget: None,
            cpus: None,
            overrun: Overrun::Skip,
        }
    }

    pub(super) fn checked(&self) -> Result<Duration, RtError> {
        let deadline = self.deadline.unwrap_or(self.period);
        if self.period.is_zero() {
            return Err(RtError::new("the period is 0; allowed are periods above 0"));
        }
        if deadline.is_zero() || deadline > self.period {
            return Err(RtError::new(format!(
                "the deadline is {deadline:?} after each activation; allowed are deadlines above 0 and up \
                 to the period, which is {:?}",
                self.period
            )));
        }
        match self.budget {
            Some(budget) if budget.is_zero() || budget > deadline => Err(RtError::new(format!(
                "the budget is {budget:?}; allowed are budgets above 0 and up to the deadline, which is \
                     {deadline:?}"
            ))),
            None if self.urgency == Urgency::Deadline => {
                Err(RtError::new("a task by deadline has no budget; it needs one above 0"))
            }
            _ => Ok(deadline),
        }
    }
}

/// One activation of a periodic task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Counted from 0; those that were left out are counted too.
    pub number: u64,
    /// When it was to begin.
    pub wanted: Time,
    /// When its thread woke up.
    pub woke: Time,
    /// When it must be done.
    pub deadline: Time,
}

/// What a periodic task has come to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeriodicStats {
    /// Activations that are over.
    pub activations: u64,
    /// Of these, the ones that were done after their deadline.
    pub late: u64,
    /// Activations that were left out.
    pub skipped: u64,
    /// Activations that threw.
    pub panics: u64,
}
