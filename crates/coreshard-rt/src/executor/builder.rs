//! The executor's builder, and its degradations.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use coreshard_platform::{Lock, Policy, RealTime, ThreadHandle, ThreadSpec};
use coreshard_topology::{CpuSet, Topology};

use super::dispatcher::Dispatcher;
use super::options::Options;
use super::shared::Shared;
use super::{Executor, supervision, watchdog};
use crate::error::RtError;
use crate::index::{PriorityIndex, Rung};
use crate::level::Priority;

/// The part of a CPU that real-time threads get if there is no other limit: the Linux kernel's default.
const UTILISATION_LIMIT: f64 = 0.95;

const STACK_BYTES: usize = 256 << 10;

/// A real-time feature that the machine does not grant, and its consequence.
#[derive(Debug)]
#[non_exhaustive]
pub enum Degradation {
    /// Tasks run at normal priority: in no order of importance, and without precedence over other load.
    Priorities(RtError),
    /// Memory may be paged out, so a task may have to wait for it.
    MemoryLock(RtError),
    /// No watchdog runs above the tasks: a runaway of the highest priority is found only when it pauses.
    Watchdog(RtError),
}

impl fmt::Display for Degradation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Priorities(error) => {
                write!(f, "degraded: tasks run at normal priority: {error}")
            }
            Self::MemoryLock(error) => {
                write!(f, "degraded: tasks may wait for paged-out memory: {error}")
            }
            Self::Watchdog(error) => {
                write!(f, "degraded: the watchdog does not run above all tasks: {error}")
            }
        }
    }
}

/// Configures an [`Executor`].
#[derive(Debug)]
pub struct ExecutorBuilder<P: RealTime> {
    topology: Topology,
    cpus: Option<CpuSet>,
    variant: Rung,
    lock_memory: bool,
    priorities: Vec<Priority>,
    options: Options,
    _platform: std::marker::PhantomData<fn(P)>,
}

impl<P: RealTime> Executor<P> {
    /// Returns a builder for an executor on the CPUs of a machine.
    pub fn builder(topology: &Topology) -> ExecutorBuilder<P> {
        ExecutorBuilder::new(topology.clone())
    }
}

impl<P: RealTime> ExecutorBuilder<P> {
    fn new(topology: Topology) -> Self {
        let throttle = P::real_time_limits().throttle;
        let share = throttle.map_or(UTILISATION_LIMIT, |limit| limit.share());
        Self {
            topology,
            cpus: None,
            variant: Rung::default(),
            lock_memory: false,
            priorities: Vec::new(),
            options: Options {
                round_robin: None,
                stack_bytes: STACK_BYTES,
                budget: None,
                watchdog_period: Some(Duration::from_millis(10)),
                utilisation_limit: share.min(UTILISATION_LIMIT),
                highest: Priority::MIN,
                has_priorities: false,
            },
            _platform: std::marker::PhantomData,
        }
    }

    /// Sets the CPUs to use.
    ///
    /// The default is the CPUs of the topology that the process may use: those in the affinity mask of its
    /// main thread, which taskset and cpusets limit. A program that was started with fewer CPUs, and isolates
    /// others for its real-time tasks, names them here.
    #[must_use]
    pub fn cpus(mut self, cpus: CpuSet) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Sets the layout of the index. Default: the fastest one known.
    #[must_use]
    pub fn rung(mut self, variant: Rung) -> Self {
        self.variant = variant;
        self
    }

    /// Lets tasks of equal priority take turns (SCHED_RR).
    ///
    /// Up to `tasks` of them run on a CPU at once, each on its own thread, and the kernel gives each its
    /// slice (`/proc/sys/kernel/sched_rr_timeslice_ms`). Periodic tasks of that priority take turns with
    /// them. By default (SCHED_FIFO) a running task is not interrupted by others of its priority.
    ///
    /// A task still begins on a CPU that runs lower-priority work, if there is one; else on the CPU where the
    /// fewest tasks of its priority take turns. It stays there, so with long tasks one CPU may finish before
    /// another.
    ///
    /// The threads are started with the first task of a priority. At most
    /// [`MAX_ROUND_ROBIN`](crate::MAX_ROUND_ROBIN) tasks may take turns.
    #[must_use]
    pub fn round_robin(mut self, tasks: NonZeroUsize) -> Self {
        self.options.round_robin = Some(tasks);
        self
    }

    /// Sets whether to lock the whole process's memory while the executor lives.
    #[must_use]
    pub fn lock_memory(mut self, lock: bool) -> Self {
        self.lock_memory = lock;
        self
    }

    /// Sets the priorities whose threads are started at once, rather than with their first task.
    #[must_use]
    pub fn priorities(mut self, priorities: impl IntoIterator<Item = Priority>) -> Self {
        self.priorities = priorities.into_iter().collect();
        self
    }

    /// Sets the size of a thread's stack in bytes. The stack is in memory from the start. Default: 256 KiB.
    #[must_use]
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.options.stack_bytes = bytes;
        self
    }

    /// Sets the CPU time after which a task without its own budget is demoted as a runaway.
    ///
    /// Default: no limit.
    #[must_use]
    pub fn budget(mut self, budget: Option<Duration>) -> Self {
        self.options.budget = budget;
        self
    }

    /// Sets how often the watchdog scans; `None` disables it.
    ///
    /// Default: every 10 ms. The minimum is [`MIN_WATCHDOG_PERIOD`](crate::MIN_WATCHDOG_PERIOD), since the
    /// watchdog runs above all tasks.
    #[must_use]
    pub fn watchdog_period(mut self, period: Option<Duration>) -> Self {
        self.options.watchdog_period = period;
        self
    }

    /// Starts the executor with everything that was requested.
    ///
    /// # Errors
    /// If the CPUs cannot be used, or if the machine does not grant priorities, locked memory or a watchdog
    /// above the tasks. The text says what is needed.
    pub fn build(self) -> Result<Executor<P>, RtError> {
        let (executor, degradations) = self.build_degraded()?;
        match degradations.into_iter().next() {
            None => Ok(executor),
            Some(Degradation::Priorities(error) | Degradation::MemoryLock(error)) => Err(error),
            Some(Degradation::Watchdog(error)) => Err(RtError::watchdog(error)),
        }
    }

    /// Starts the executor with whatever the machine grants.
    ///
    /// Also returns the missing features; the list is empty if none is missing.
    ///
    /// # Errors
    /// If the CPUs cannot be used, a number is out of range, or threads cannot be started even at normal
    /// priority.
    pub fn build_degraded(self) -> Result<(Executor<P>, Vec<Degradation>), RtError> {
        let Self { topology, cpus, variant, lock_memory, priorities, mut options, .. } = self;
        options.check()?;
        let cpus = match (cpus, P::process_cpus()) {
            (Some(named), _) => named,
            (None, None) => topology.online().clone(),
            (None, Some(allowed)) => {
                let usable = topology.online() & &allowed;
                if usable.is_empty() {
                    return Err(RtError::new(format!(
                        "this process may run on CPUs {allowed}, none of which is online in the given topology with \
                         CPUs {}: expected CPUs that are in both, or an explicit set",
                        topology.online()
                    )));
                }
                usable
            }
        };
        let (index, writers) = PriorityIndex::new(variant, &topology, &cpus)?;
        let mut degradations = Vec::new();
        options.highest = priorities.iter().max().copied().unwrap_or(Priority::MIN);
        let granted = grants::<P>(Policy::Fifo(options.highest.get()));
        options.has_priorities = granted.is_ok();
        degradations.extend(granted.err().map(Degradation::Priorities));
        let memory = lock_memory.then(P::lock_memory).and_then(|locked| {
            locked.map_err(|error| degradations.push(Degradation::MemoryLock(error.into()))).ok()
        });
        let dispatcher = Dispatcher::new(index, writers, options.round_robin);
        let has_priorities = options.has_priorities;
        let shared = Arc::new(Shared::new(options, dispatcher));
        let hook: Weak<Shared<P>> = Arc::downgrade(&shared);
        P::on_fork(hook);
        let supervisor = supervision::start(&shared, memory)?;
        // From now on a failure stops the threads that were started.
        let executor = Executor { shared, supervisor: Lock::new(Some(supervisor)) };
        for priority in priorities {
            executor.shared.prepare(priority)?;
        }
        let watched = watchdog::start(&executor.shared)?;
        degradations.extend(watched.filter(|_| has_priorities).map(Degradation::Watchdog));
        Ok((executor, degradations))
    }
}

/// Checks that a thread may have a policy, by starting one.
fn grants<P: RealTime>(policy: Policy) -> Result<(), RtError> {
    let spec = ThreadSpec { name: "rt-try".to_owned(), ..ThreadSpec::default() };
    P::spawn_as(spec, policy, Box::new(|| {}))?.join();
    Ok(())
}
