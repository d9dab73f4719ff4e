//! The executor: tasks of fixed priorities on many CPUs.
//!
//! Who may touch what:
//!
//! 1. What runs and waits at a CPU is under that CPU's lock, which lends priority. No thread holds two of
//!    these locks, and no user's code runs under one.
//! 2. A CPU's level writer lies under its lock, so the index has one writer for each CPU.
//! 3. Each CPU's `highest_waiting` is written under its lock and read by anybody. A bit of a CPU's
//!    `pull_sources` is set under the lock of the CPU that it stands for, and stays.
//! 4. Users' code (tasks, activations, hooks, and what their destructors do) is called by
//!    [`user::call`](coreshard_platform::user::call), on priority threads, on the threads of periodic
//!    tasks, and on the thread that drops the executor.
//! 5. Any thread may start threads, but the supervisor alone joins them (`supervision.rs`).
//! 6. A priority thread is of one CPU and one priority. The kernel preempts among the threads of a CPU; the
//!    executor only decides which task begins where.
//!
//! `README.md` tells why no task waits for a CPU that it might have.

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
/// On each CPU there is a thread for each priority in use, scheduled SCHED_FIFO and pinned, so that the
/// kernel preempts between tasks. A task begins on the CPU that runs the least important work among
/// those it may use, or waits until there is one below its priority. A task that has begun stays on its
/// CPU.
///
/// ```
/// use coreshard_platform::Host;
/// use coreshard_rt::{Executor, Priority};
/// use coreshard_topology::Topology;
///
/// let machine = Topology::host()?;
/// // Without privilege the same program runs, at normal priority, and can say so.
/// let (executor, degradations) = Executor::<Host>::builder(&machine).build_degraded()?;
/// for degradation in &degradations {
///     eprintln!("{degradation}");
/// }
/// let sum = executor.spawn(Priority::new(40)?, || (1..=10).sum::<u32>())?;
/// assert_eq!(sum.join()?, 55);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropped, it drops the timers that are set, runs what was accepted, ends its threads, and unlocks what it
/// locked; and returns when that is done. Dropped on one of its own threads (by a task, a periodic body or
/// hook, or a destructor of one), it returns at once, and all that is done once the thread is no longer
/// needed for it. No thread has to be had for either.
pub struct Executor<P: RealTime> {
    shared: Arc<Shared<P>>,
    /// In a lock, so that an executor can be shared whatever a platform's handle is.
    supervisor: Lock<P, Option<P::Thread>>,
}

impl<P: RealTime> Executor<P> {
    /// The CPUs.
    pub fn cpus(&self) -> &CpuSet {
        self.index().cpus()
    }

    /// The index.
    pub fn index(&self) -> &Arc<PriorityIndex<P>> {
        self.shared.dispatcher.priority_index()
    }

    /// Whether tasks have their priorities; false on an executor that is degraded.
    pub fn has_priorities(&self) -> bool {
        self.shared.options.has_priorities
    }

    /// Starts the threads of a priority on all CPUs now, rather than with its first task.
    ///
    /// # Errors
    /// If they cannot be had.
    pub fn prepare(&self, priority: Priority) -> Result<(), RtError> {
        self.shared.check_process()?;
        self.shared.prepare(priority)
    }

    /// Runs `body` on whichever CPU runs the least important work.
    ///
    /// # Errors
    /// If the threads of a priority that was not in use yet cannot be had.
    pub fn spawn<T: Send + 'static>(
        &self,
        priority: Priority,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<TaskHandle<P, T>, RtError> {
        self.spawn_in(priority, self.shared.dispatcher.all_cpus(), None, body)
    }

    /// Runs `body` on one of `cpus`, and demotes it once it has used `budget` of CPU time, if that is
    /// given.
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

    /// As [`spawn_on`](Self::spawn_on), with the set of CPUs made beforehand by the
    /// [`index`](Self::index).
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn), and if the set is empty, or of another index and has CPUs that this
    /// one has not.
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

    /// Runs `body` at `priority` after `delay`, on whichever CPU runs the least important work then. A
    /// timer that is still set when the executor is dropped is dropped too.
    ///
    /// # Errors
    /// If the threads of a priority that was not in use yet cannot be had.
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
            // Above all tasks: it only hands them on.
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
    /// If period, deadline and budget do not fit together, the priority is taken by the machine, a CPU
    /// is not the executor's, all of them are offline, none of the others has room for the budget, or the thread cannot be had.
    pub fn periodic(
        &self,
        task: Periodic,
        body: impl FnMut(&Activation) + Send + 'static,
    ) -> Result<PeriodicHandle<P>, RtError> {
        self.shared.check_process()?;
        periodic_thread::start(&self.shared, task, body)
    }

    /// Stops using a CPU: what waits there goes to others, what has begun there ends there. A periodic task has begun: it goes on
    /// there until it is stopped, and no other is put there.
    ///
    /// # Errors
    /// If the CPU is not the executor's.
    pub fn take_offline(&self, cpu: CpuId) -> Result<(), RtError> {
        self.shared.check_process()?;
        let dispatcher = &self.shared.dispatcher;
        dispatcher.take_offline(dispatcher.checked(cpu)?);
        Ok(())
    }

    /// Uses a CPU again.
    ///
    /// # Errors
    /// If the CPU is not the executor's.
    pub fn bring_online(&self, cpu: CpuId) -> Result<(), RtError> {
        self.shared.check_process()?;
        let dispatcher = &self.shared.dispatcher;
        dispatcher.bring_online(dispatcher.checked(cpu)?);
        Ok(())
    }

    /// Returns the state of each CPU, one after the other: all of it is true together only while nothing moves.
    pub fn snapshot(&self) -> Vec<CpuSnapshot> {
        if self.shared.is_forked() {
            return Vec::new();
        }
        let cpus_of = |mask: &CpuMask| self.index().cpus_of(mask);
        self.shared.dispatcher.cpus().iter().map(|cpu| cpu.snapshot(cpus_of)).collect()
    }

    /// The number of tasks that wait for a CPU.
    pub fn waiting(&self) -> usize {
        if self.shared.is_forked() {
            return 0;
        }
        self.shared.dispatcher.cpus().iter().map(|cpu| cpu.waiting()).sum()
    }

    /// The most CPUs that were tried for one task at once.
    pub fn max_tries(&self) -> u32 {
        self.shared.dispatcher.max_tries()
    }

    /// Returns what the watchdog has found since the last call, in its order. The latest 256 are kept; if there
    /// were more, the first one is an [`Incident::Dropped`] that says how many were dropped.
    pub fn take_incidents(&self) -> Vec<Incident> {
        if self.shared.is_forked() { Vec::new() } else { self.shared.incidents.take() }
    }
}

impl<P: RealTime> Drop for Executor<P> {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // Its thread is not here to be joined.
            std::mem::forget(self.supervisor.get_mut().take());
            return;
        }
        // On this thread, since users' destructors are called.
        self.shared.timers.discard();
        self.shared.supervisor.end();
        let supervisor = self.supervisor.get_mut().take();
        // A thread that the supervisor joins does not wait for it.
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
