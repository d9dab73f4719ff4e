//! Periodic tasks: their description, their handle, and the list of all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, RealTime, Time};
use coreshard_topology::{CpuId, CpuSet};

use super::admission::AdmissionControl;
use crate::error::RtError;
use crate::level::Priority;

/// The precedence of a periodic task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// By its priority.
    Fixed(Priority),
    /// By the nearest deadline. The task runs above all fixed priorities up to 95, below those from 96 on,
    /// and before tasks with later deadlines on its CPU. It must have a budget, and is admitted only if its
    /// CPU has room.
    Deadline,
}

/// Handling of a task that is still running when its next period begins.
#[derive(Default)]
pub enum Overrun {
    /// Skips the missed activations.
    #[default]
    Skip,
    /// Runs the missed activations one right after the other.
    CatchUp,
    /// Calls the function with the activation that took too long, and then skips the missed ones.
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

/// The description of a periodic task.
#[derive(Debug)]
pub struct Periodic {
    /// The task's precedence.
    pub urgency: Urgency,
    /// The time from one activation to the next.
    pub period: Duration,
    /// The time from the task's start to its first activation.
    pub phase: Duration,
    /// The time from an activation to its deadline; the period if `None`.
    pub deadline: Option<Duration>,
    /// The CPU time that an activation may use. With a budget, the task is admitted only if there is room,
    /// and demoted for the rest of an activation that uses more.
    pub budget: Option<Duration>,
    /// The CPUs that it may be placed on; all of the executor's if `None`.
    pub cpus: Option<CpuSet>,
    /// Handling of missed activations.
    pub overrun: Overrun,
}

impl Periodic {
    /// Creates a task of `priority` that starts at once, runs every `period`, has no budget, and skips missed
    /// activations.
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
            return Err(RtError::new("invalid period 0: expected a period above 0"));
        }
        if deadline.is_zero() || deadline > self.period {
            return Err(RtError::new(format!(
                "invalid deadline {deadline:?} after each activation: expected more than 0 and up \
                 to the period, which is {:?}",
                self.period
            )));
        }
        match self.budget {
            Some(budget) if budget.is_zero() || budget > deadline => Err(RtError::new(format!(
                "invalid budget {budget:?}: expected more than 0 and up to the deadline, which is \
                     {deadline:?}"
            ))),
            None if self.urgency == Urgency::Deadline => {
                Err(RtError::new("a task by deadline needs a budget above 0"))
            }
            _ => Ok(deadline),
        }
    }
}

/// One activation of a periodic task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The number, counted from 0. Skipped activations are counted as well.
    pub number: u64,
    /// When it was due.
    pub wanted: Time,
    /// When its thread woke up.
    pub woke: Time,
    /// When it must have finished.
    pub deadline: Time,
}

/// Counts of a periodic task's activations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeriodicStats {
    /// Activations that have finished.
    pub activations: u64,
    /// Activations among these that finished after their deadline.
    pub late: u64,
    /// Activations that were skipped.
    pub skipped: u64,
    /// Activations that panicked.
    pub panics: u64,
}

/// The last part of a long sleep: ended only by a timer, not by a stop.
const LAST_SLEEP: Duration = Duration::from_millis(20);

/// One of the counts of a periodic task.
#[derive(Clone, Copy)]
pub(super) enum Count {
    Activation,
    Late,
    Skipped,
    Panic,
}

/// State that a periodic task's handle and its thread share.
pub(super) struct PeriodicControl<P: RealTime> {
    /// 1 once the task is to stop; its thread sleeps on this.
    stops: P::AtomicU32,
    /// 1 once its thread has finished.
    over: P::AtomicU32,
    /// Its thread's id, once that runs.
    thread: P::AtomicU32,
    /// The generation of the thread's process.
    process_generation: u32,
    /// Indexed by [`Count`].
    counts: [P::AtomicU64; 4],
}

impl<P: RealTime> PeriodicControl<P> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            stops: P::AtomicU32::new(0),
            over: P::AtomicU32::new(0),
            thread: P::AtomicU32::new(0),
            process_generation: P::process_generation(),
            counts: std::array::from_fn(|_| P::AtomicU64::new(0)),
        })
    }

    /// Called on its thread, at the start.
    pub(super) fn started(&self) {
        self.thread.store(P::this_thread().0, Relaxed);
    }

    fn stop(&self) {
        self.stops.store(1, Release);
        P::wake_all(&raw const self.stops);
    }

    /// Records that its thread has finished, or could not be started.
    pub(super) fn finished(&self) {
        // Release pairs with the Acquire of `PeriodicHandle::stop`.
        self.over.store(1, Release);
        P::wake_all(&raw const self.over);
    }

    /// Sleeps until a moment. Returns false if the task is to stop.
    pub(super) fn sleep_to(&self, moment: Time) -> bool {
        loop {
            if self.stops.load(Acquire) != 0 {
                return false;
            }
            let left = moment - P::now();
            if left <= LAST_SLEEP {
                P::sleep_to(moment);
                return self.stops.load(Acquire) == 0;
            }
            P::wait(&self.stops, 0, Some(left - LAST_SLEEP / 2));
        }
    }

    pub(super) fn add_count(&self, what: Count, times: u64) {
        self.counts[what as usize].fetch_add(times, Relaxed);
    }
}

/// The periodic tasks of an executor, and their reservations.
pub(super) struct PeriodicTasks<P: RealTime> {
    running: Lock<P, Vec<Arc<PeriodicControl<P>>>>,
    admitted: Lock<P, AdmissionControl>,
}

impl<P: RealTime> PeriodicTasks<P> {
    pub(super) fn new(cpus: usize, utilisation_limit: f64) -> Self {
        let admitted = Lock::new(AdmissionControl::new(cpus, utilisation_limit));
        Self { running: Lock::new(Vec::new()), admitted }
    }

    pub(super) fn admitted(&self) -> &Lock<P, AdmissionControl> {
        &self.admitted
    }

    pub(super) fn add(&self, control: Arc<PeriodicControl<P>>) {
        self.running.lock().push(control);
    }

    pub(super) fn remove(&self, control: &Arc<PeriodicControl<P>>) {
        self.running.lock().retain(|known| !Arc::ptr_eq(known, control));
    }

    /// Tells all of them to stop.
    pub(super) fn stop(&self) {
        let running = self.running.lock().clone();
        running.iter().for_each(|control| control.stop());
    }
}

/// A handle to a periodic task. If it is dropped, the task continues until the executor shuts down.
pub struct PeriodicHandle<P: RealTime> {
    control: Arc<PeriodicControl<P>>,
    cpu: CpuId,
}

impl<P: RealTime> PeriodicHandle<P> {
    pub(super) fn new(control: Arc<PeriodicControl<P>>, cpu: CpuId) -> Self {
        Self { control, cpu }
    }

    /// Returns the CPU that it was placed on.
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Returns its counts so far.
    pub fn stats(&self) -> PeriodicStats {
        let [activations, late, skipped, panics] =
            self.control.counts.each_ref().map(|count| count.load(Relaxed));
        PeriodicStats { activations, late, skipped, panics }
    }

    /// Stops the task after the current activation.
    ///
    /// Waits for that, and until the task's values are dropped. Does not wait if it is called by the task
    /// itself (its body, its hook, or one of their destructors), or in a process that was forked from the
    /// task's.
    pub fn stop(self) -> PeriodicStats {
        self.control.stop();
        // While it has not finished, no other thread has its thread's id.
        let is_itself = self.control.thread.load(Relaxed) == P::this_thread().0
            || P::process_generation() != self.control.process_generation;
        // Acquire pairs with the Release in `PeriodicControl::finished`.
        while !is_itself && self.control.over.load(Acquire) == 0 {
            P::wait(&self.control.over, 0, None);
        }
        self.stats()
    }
}

impl<P: RealTime> fmt::Debug for PeriodicHandle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicHandle")
            .field("cpu", &self.cpu)
            .field("stats", &self.stats())
            .finish()
    }
}
