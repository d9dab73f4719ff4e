//! What can be wrong with what a caller asks for. Each sentence names the thing, what was given, and
//! what is allowed.

use std::fmt;
use std::time::Duration;

use coreshard_platform::{MemoryLockError, SpawnError};
use coreshard_topology::{CpuSet, input::quoted};

/// Why something cannot be had as asked for.
pub struct RtError {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Forked,
    RoundRobin {
        given: usize,
        most: usize,
    },
    WatchdogPeriod {
        given: Duration,
        least: Duration,
    },
    Priority {
        given: u8,
    },
    TooManyCpus {
        given: usize,
        most: usize,
    },
    NoCpu,
    NoUsableCpu {
        online: CpuSet,
        allowed: CpuSet,
    },
    OutsideCpus {
        given: CpuSet,
        allowed: CpuSet,
    },
    Offline {
        given: CpuSet,
    },
    ForeignMask {
        allowed: CpuSet,
    },
    /// `given` as it is shown: in quotes, shortened.
    Rung {
        given: String,
    },
    Period,
    Deadline {
        given: Duration,
        period: Duration,
    },
    Budget {
        given: Duration,
        deadline: Duration,
    },
    NoBudget,
    Utilisation {
        sum: f64,
        limit: f64,
    },
    Thread(SpawnError),
    /// The watchdog cannot be above the tasks.
    Watchdog(Box<RtError>),
    MemoryLock(MemoryLockError),
}

impl RtError {
    pub(crate) fn priority(given: u8) -> Self {
        Self { kind: Kind::Priority { given } }
    }

    /// True if the reason is that this process was forked from the executor's.
    pub fn is_forked(&self) -> bool {
        matches!(self.kind, Kind::Forked)
    }

    pub(crate) fn forked() -> Self {
        Self { kind: Kind::Forked }
    }

    pub(crate) fn round_robin(given: usize, most: usize) -> Self {
        Self { kind: Kind::RoundRobin { given, most } }
    }

    pub(crate) fn watchdog_period(given: Duration, least: Duration) -> Self {
        Self { kind: Kind::WatchdogPeriod { given, least } }
    }

    pub(crate) fn too_many_cpus(given: usize, most: usize) -> Self {
        Self { kind: Kind::TooManyCpus { given, most } }
    }

    pub(crate) fn no_cpu() -> Self {
        Self { kind: Kind::NoCpu }
    }

    pub(crate) fn no_usable_cpu(online: &CpuSet, allowed: &CpuSet) -> Self {
        Self { kind: Kind::NoUsableCpu { online: online.clone(), allowed: allowed.clone() } }
    }

    pub(crate) fn outside_cpus(given: &CpuSet, allowed: &CpuSet) -> Self {
        Self { kind: Kind::OutsideCpus { given: given.clone(), allowed: allowed.clone() } }
    }

    pub(crate) fn offline(given: &CpuSet) -> Self {
        Self { kind: Kind::Offline { given: given.clone() } }
    }

    pub(crate) fn foreign_mask(allowed: &CpuSet) -> Self {
        Self { kind: Kind::ForeignMask { allowed: allowed.clone() } }
    }

    pub(crate) fn rung(given: &str) -> Self {
        Self { kind: Kind::Rung { given: quoted(given).to_string() } }
    }

    pub(crate) fn period() -> Self {
        Self { kind: Kind::Period }
    }

    pub(crate) fn deadline(given: Duration, period: Duration) -> Self {
        Self { kind: Kind::Deadline { given, period } }
    }

    pub(crate) fn budget(given: Duration, deadline: Duration) -> Self {
        Self { kind: Kind::Budget { given, deadline } }
    }

    pub(crate) fn no_budget() -> Self {
        Self { kind: Kind::NoBudget }
    }

    pub(crate) fn utilisation(sum: f64, limit: f64) -> Self {
        Self { kind: Kind::Utilisation { sum, limit } }
    }

    pub(crate) fn thread(error: SpawnError) -> Self {
        Self { kind: Kind::Thread(error) }
    }

    pub(crate) fn watchdog(error: Self) -> Self {
        Self { kind: Kind::Watchdog(Box::new(error)) }
    }

    pub(crate) fn memory_lock(error: MemoryLockError) -> Self {
        Self { kind: Kind::MemoryLock(error) }
    }
}

impl fmt::Display for RtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Forked => f.write_str(
                "this process was forked from the executor's, whose threads are not here; make one in this process",
            ),
            Kind::RoundRobin { given, most } => write!(
                f,
                "{given} tasks of a priority cannot take turns on a CPU, since each has a thread; allowed are 1 \
                 to {most}"
            ),
            Kind::WatchdogPeriod { given, least } => write!(
                f,
                "the watchdog cannot scan every {given:?}, since it runs above all tasks; allowed are {least:?} \
                 and longer, or no watchdog"
            ),
            Kind::Priority { given } => {
                write!(f, "the priority {given} is not allowed; allowed are 1 to 99")
            }
            Kind::TooManyCpus { given, most } => {
                write!(f, "{given} CPUs are too many for a priority index; allowed are 1 to {most}")
            }
            Kind::NoCpu => f.write_str("the set of allowed CPUs is empty; at least one is needed"),
            Kind::NoUsableCpu { online, allowed } => write!(
                f,
                "this process may run on CPUs {allowed}, and none of them is online in the given topology, \
                 which has CPUs {online}; allowed are CPUs that are in both, or a set that names others"
            ),
            Kind::OutsideCpus { given, allowed } => {
                write!(f, "CPUs {given} are not among the allowed ones, which are {allowed}")
            }
            Kind::Offline { given } => write!(
                f,
                "the executor was told to take CPUs {given} offline; a periodic task needs one of its CPUs online"
            ),
            Kind::ForeignMask { allowed } => write!(
                f,
                "the CPU mask is of another index, and has CPUs that this one has not; allowed are \
                 masks that the executor's own index makes, of CPUs {allowed}"
            ),
            Kind::Rung { given } => {
                write!(
                    f,
                    "{given} is no rung of the priority index; \
                     there are packed, padded, split and per-llc"
                )
            }
            Kind::Period => f.write_str("the period is 0; allowed are periods above 0"),
            Kind::Deadline { given, period } => write!(
                f,
                "the deadline is {given:?} after each activation; allowed are deadlines above 0 and up \
                 to the period, which is {period:?}"
            ),
            Kind::Budget { given, deadline } => write!(
                f,
                "the budget is {given:?}; allowed are budgets above 0 and up to the deadline, which is \
                 {deadline:?}"
            ),
            Kind::NoBudget => f.write_str("a task by deadline has no budget; it needs one above 0"),
            Kind::Utilisation { sum, limit } => write!(
                f,
                "no CPU has room for the task: with it, the least used one would be promised {sum:.3} of \
                 its time; at most {limit:.3} is allowed"
            ),
            Kind::Thread(error) => error.fmt(f),
            Kind::Watchdog(error) => write!(
                f,
                "{error}; without it the watchdog is not above all tasks, which build_degraded accepts, and \
                 watchdog_period(None) needs no watchdog"
            ),
            Kind::MemoryLock(error) => error.fmt(f),
        }
    }
}

coreshard_topology::readable_debug!(RtError);

impl std::error::Error for RtError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Thread(error) => Some(error),
            Kind::Watchdog(error) => error.source(),
            Kind::MemoryLock(error) => Some(error),
            _ => None,
        }
    }
}
