//! Cost profiles: user space or kernel.

use std::fmt;
use std::str::FromStr;

use coreshard_topology::input::quoted;

use crate::machine::Costs;

/// The costs that apply to the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// A program in user space: sleeping and waking are system calls, and a thread may be
    /// preempted anywhere.
    #[default]
    Futex,
    /// Kernel code: sleeping and waking are function calls. A thread is preempted only where it reads the
    /// clock, sleeps, waits or yields, and never while it holds a [`Lock`](coreshard_platform::Lock), whose
    /// waiters spin. A thread that sleeps with a lock held breaks a rule, which ends the run
    /// ([`SimError::Broken`](crate::SimError::Broken)).
    InKernel,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 2] = [Self::Futex, Self::InKernel];

    pub(crate) fn apply(self, costs: &Costs) -> Costs {
        let mut costs = costs.clone();
        if self == Self::InKernel {
            costs.syscall = 0;
            costs.futex = 0;
            if let Some(scheduler) = costs.scheduler {
                costs.context_switch = scheduler.kernel_switch;
                costs.compute = scheduler.kernel_compute;
            }
        }
        costs
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Futex => "futex",
            Self::InKernel => "in-kernel",
        })
    }
}

/// The error when a text does not name a [`Profile`].
#[derive(Clone, PartialEq, Eq)]
pub struct ParseProfileError {
    /// The text as it is shown: in quotes, shortened.
    given: String,
}

impl fmt::Display for ParseProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid cost profile {}: expected futex or in-kernel", self.given)
    }
}

coreshard_topology::readable_debug!(ParseProfileError);

impl std::error::Error for ParseProfileError {}

impl FromStr for Profile {
    type Err = ParseProfileError;

    fn from_str(text: &str) -> Result<Self, ParseProfileError> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.to_string() == text)
            .ok_or_else(|| ParseProfileError { given: quoted(text).to_string() })
    }
}
