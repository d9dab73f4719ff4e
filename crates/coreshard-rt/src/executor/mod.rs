//! The executor: tasks of fixed priorities on many CPUs.
//!
//! Access rules:
//!
//! 1. A CPU's running and waiting tasks are under that CPU's lock, which lends priority. No thread holds two
//!    of these locks, and no user code runs under one.
//! 2. A CPU's level writer is under its lock, so the index has one writer for each CPU.
//! 3. A CPU's `highest_waiting` is written under its lock and read by any thread. A bit in `pull_sources` is set under
//!    the lock of the CPU that the bit stands for, and never cleared.
//! 4. User code (tasks, activations, hooks, and their destructors) is called by
//!    [`user::call`](coreshard_platform::user::call). It runs on priority threads, on the threads of periodic
//!    tasks, and on the thread that drops the executor.
//! 5. Any thread may start threads, but only the supervisor joins them (`supervision.rs`).
//! 6. A priority thread belongs to one CPU and one priority. The kernel preempts among the threads of a CPU;
//!    the executor only decides which task begins where.
//!
//! `README.md` explains why no task waits for a CPU that it could have.

mod admission;
mod builder;
mod cpu;
mod dispatcher;
mod handle;
mod incident;
#[cfg(all(test, loom))]
mod loom_tests;
mod options;
mod periodic;
mod periodic_thread;
mod priority_array;
mod priority_thread;
mod shared;
mod supervision;
mod supervisor;
mod task_counts;
mod timers;
mod watchdog;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use admission::DeadlineHeap;
pub use builder::{Degradation, ExecutorBuilder};
use coreshard_platform::{Lock, RealTime, ThreadHandle};
use coreshard_topology::{CpuId, CpuSet};
pub use cpu::{CpuSnapshot, CpuStats};
pub use handle::{TaskHandle, TaskPanic};
pub use incident::Incident;
pub use options::{MAX_ROUND_ROBIN, MIN_WATCHDOG_PERIOD};
pub use periodic::{Activation, Overrun, Periodic, PeriodicHandle, PeriodicStats, Urgency};
use shared::Shared;
pub use timers::TimerHandle;

use crate::error::RtError;
use crate::index::{CpuMask, PriorityIndex};
use crate::level::Priority;

/// Runs tasks of fixed priorities on some CPUs.
///
/// Each CPU has a pinned SCHED_FIFO thread for each priority in use, so that the kernel preempts between
/// tasks. A task begins on the CPU with the lowest level among those it may use, or waits until there is one
/// below its priority. A running task stays on its CPU.
///
/// ```
/// use coreshard_platform::Host;
/// use coreshard_rt::{Executor, Priority};
/// use coreshard_topology::Topology;
///
/// let machine = Topology::host()?;
/// // Without privileges the same program runs at normal priority, and can report that.
/// let (executor, degradations) = Executor::<Host>::builder(&machine).build_degraded()?;
/// for degradation in &degradations {
///     eprintln!("{degradation}");
/// }
/// let sum = executor.spawn(Priority::new(40)?, || (1..=10).sum::<u32>())?;
/// assert_eq!(sum.join()?, 55);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping the executor drops pending timers, runs all accepted tasks, stops its threads, unlocks memory,
/// and then returns. If it is dropped on one of its own threads (by a task, a periodic body or hook, or a destructor of
/// these), the drop returns at once, and the shutdown completes in the background. Neither case needs to start a
/// thread.
pub struct Executor<P: RealTime> {
    shared: Arc<Shared<P>>,
    /// In a lock, so that an executor is `Sync` whatever a platform's handle is.
    supervisor: Lock<P, Option<P::Thread>>,
}

impl<P: RealTime> Executor<P> {
    /// Returns the CPUs.
    pub fn cpus(&self) -> &CpuSet {
        self.index().cpus()
    }

    /// Returns the index.
    pub fn index(&self) -> &Arc<PriorityIndex<P>> {
        self.shared.dispatcher.priority_index()
    }

    /// Returns whether tasks have their priorities; false on a degraded executor.
    pub fn has_priorities(&self) -> bool {
        self.shared.options.has_priorities
    }

    /// Starts the threads of a priority on all CPUs now, rather than with its first task.
    ///
    /// # Errors
    /// If they cannot be started.
    pub fn prepare(&self, priority: Priority) -> Result<(), RtError> {
        self.shared.check_process()?;
        self.shared.prepare(priority)
    }

    /// Runs `body` on the CPU with the lowest level.
    ///
    /// # Errors
    /// If the threads of a priority that was not in use yet cannot be started.
    pub fn spawn<T: Send + 'static>(
        &self,
        priority: Priority,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<TaskHandle<P, T>, RtError> {
        self.spawn_in(priority, self.shared.dispatcher.all_cpus(), None, body)
    }

    /// Runs `body` on one of `cpus`. If `budget` is given, demotes it once it has used that much CPU time.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn), and if a CPU is not the executor's.
    pub fn spawn_on<T: Send + 'static>(
        &self,
        priority: Priority,
        cpus: &CpuSet,
        budget: Option<Duration>,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<TaskHandle<P, T>, RtError> {
        self.spawn_in(priority, self.index().mask(cpus)?, budget, body)
    }

    /// As [`spawn_on`](Self::spawn_on), with a set of CPUs created beforehand by the [`index`](Self::index).
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn), and if the set is empty, or belongs to another index and has CPUs that this
    /// one lacks.
    pub fn spawn_in<T: Send + 'static>(
        &self,
        priority: Priority,
        allowed: CpuMask,
        budget: Option<Duration>,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<TaskHandle<P, T>, RtError> {
        self.shared.check_process()?;
        self.index().check(&allowed)?;
        self.shared.prepare(priority)?;
        let (run, handle) = handle::with_handle(body);
        let task = self.shared.new_task(priority, allowed, budget, run);
        self.shared.accept(task);
        Ok(handle)
    }

    /// Runs `body` at `priority` after `delay`, on the CPU with the lowest level at that time.
    ///
    /// Timers that are still pending when the executor is dropped are dropped as well.
    ///
    /// # Errors
    /// If the threads of a priority that was not in use yet cannot be started.
    pub fn after<T: Send + 'static>(
        &self,
        delay: Duration,
        priority: Priority,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(TimerHandle<P>, TaskHandle<P, T>), RtError> {
        let shared = &self.shared;
        shared.check_process()?;
        shared.prepare(priority)?;
        shared.timers.ensure_thread(|| {
            let theirs = Arc::clone(shared);
            // Above all tasks, since it only hands them on.
            let policy = shared.options.highest_policy::<P>();
            let body = move || theirs.timers.run(|task| theirs.accept(task));
            shared.supervisor.start_thread("rt-timers".to_owned(), None, policy, body)
        })?;
        let (run, handle) = handle::with_handle(body);
        let task = shared.new_task(priority, shared.dispatcher.all_cpus(), None, run);
        Ok((shared.timers.set(P::now() + delay, task), handle))
    }

    /// Runs `body` periodically.
    ///
    /// # Errors
    /// If period, deadline and budget are inconsistent, if the machine reserves the priority, if a CPU is not
    /// the executor's, if all CPUs are offline, if none of the others has room for the budget, or if the
    /// thread cannot be started.
    pub fn periodic(
        &self,
        task: Periodic,
        body: impl FnMut(&Activation) + Send + 'static,
    ) -> Result<PeriodicHandle<P>, RtError> {
        self.shared.check_process()?;
        periodic_thread::start(&self.shared, task, body)
    }

    /// Stops using a CPU: tasks waiting there go to others, running ones finish there.
    ///
    /// A periodic task counts as running: it continues there until it is stopped, and no other is placed
    /// there.
    ///
    /// # Errors
    /// If the CPU is not the executor's.
    pub fn take_offline(&self, cpu: CpuId) -> Result<(), RtError> {
        self.shared.check_process()?;
        let dispatcher = &self.shared.dispatcher;
        dispatcher.take_offline(dispatcher.checked(cpu)?);
        Ok(())
    }

    /// Brings a CPU back into use.
    ///
    /// # Errors
    /// If the CPU is not the executor's.
    pub fn bring_online(&self, cpu: CpuId) -> Result<(), RtError> {
        self.shared.check_process()?;
        let dispatcher = &self.shared.dispatcher;
        dispatcher.bring_online(dispatcher.checked(cpu)?);
        Ok(())
    }

    /// Returns the state of each CPU, read one after the other.
    ///
    /// The states are consistent with one another only while no task begins, finishes or moves.
    pub fn snapshot(&self) -> Vec<CpuSnapshot> {
        if self.shared.is_forked() {
            return Vec::new();
        }
        let cpus_of = |mask: &CpuMask| self.index().cpus_of(mask);
        self.shared.dispatcher.cpus().iter().map(|cpu| cpu.snapshot(cpus_of)).collect()
    }

    /// Returns the number of tasks that wait for a CPU.
    pub fn waiting(&self) -> usize {
        if self.shared.is_forked() {
            return 0;
        }
        self.shared.dispatcher.cpus().iter().map(|cpu| cpu.waiting()).sum()
    }

    /// Returns the most CPUs that were tried for one task.
    pub fn max_tries(&self) -> u32 {
        self.shared.dispatcher.max_tries()
    }

    /// Returns the watchdog's findings since the last call, in order.
    ///
    /// The latest 256 are kept; if there were more, the first one is an [`Incident::Dropped`] with the number
    /// of dropped ones.
    pub fn take_incidents(&self) -> Vec<Incident> {
        if self.shared.is_forked() { Vec::new() } else { self.shared.incidents.take() }
    }
}

impl<P: RealTime> Drop for Executor<P> {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // Its thread does not exist in this process, so it cannot be joined.
            std::mem::forget(self.supervisor.get_mut().take());
            return;
        }
        // On this thread, since users' destructors are called.
        self.shared.timers.discard();
        self.shared.supervisor.end();
        let supervisor = self.supervisor.get_mut().take();
        // A thread that the supervisor joins must not wait for it.
        if !self.shared.supervisor.is_own_thread() {
            supervisor.into_iter().for_each(ThreadHandle::join);
        }
    }
}

impl<P: RealTime> fmt::Debug for Executor<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("cpus", self.cpus())
            .field("rung", &self.index().rung())
            .field("has_priorities", &self.has_priorities())
            .finish_non_exhaustive()
    }
}
