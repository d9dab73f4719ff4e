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

/// By what a periodic task is more important than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// By its priority.
    Fixed(Priority),
    /// By the nearest deadline: the task runs above all fixed priorities up to 95 (those from 96 on
    /// come before it), and before tasks of later deadlines on its CPU. It must have a budget, and is
    /// admitted only if its CPU has room.
    Deadline,
}

/// Handling of a task that is still running when its next period begins.
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
    /// From an activation until it must be done; the period if `None`.
    pub deadline: Option<Duration>,
    /// The CPU time that an activation may use. With it the task is admitted only if there is room,
    /// and demoted for the rest of an activation that uses more.
    pub budget: Option<Duration>,
    /// The CPUs that it may be put on; all of the executor's if `None`.
    pub cpus: Option<CpuSet>,
    /// Handling of missed activations.
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

/// Counts of a periodic task's activations.
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

/// The last part of a long sleep: by a timer alone, not woken by a stop.
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
    /// In which process that is.
    process_generation: u32,
    /// By [`Count`].
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

    /// Called on its thread, at its start.
    pub(super) fn started(&self) {
        self.thread.store(P::this_thread().0, Relaxed);
    }

    fn stop(&self) {
        self.stops.store(1, Release);
        P::wake_all(&raw const self.stops);
    }

    /// Its thread has finished, or could not be had.
    pub(super) fn finished(&self) {
        // Release pairs with the Acquire of `PeriodicHandle::stop`.
        self.over.store(1, Release);
        P::wake_all(&raw const self.over);
    }

    /// Sleeps until a moment. False if the task is to stop.
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

/// The periodic tasks of an executor, and what was promised to them.
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

/// A periodic task. Dropped, the task goes on until the executor ends.
pub struct PeriodicHandle<P: RealTime> {
    control: Arc<PeriodicControl<P>>,
    cpu: CpuId,
}

impl<P: RealTime> PeriodicHandle<P> {
    pub(super) fn new(control: Arc<PeriodicControl<P>>, cpu: CpuId) -> Self {
        Self { control, cpu }
    }

    /// The CPU it was put on.
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Returns its counts so far.
    pub fn stats(&self) -> PeriodicStats {
        let [activations, late, skipped, panics] =
            self.control.counts.each_ref().map(|count| count.load(Relaxed));
        PeriodicStats { activations, late, skipped, panics }
    }

    /// Stops it after the current activation, and waits for that, and until what it owns is dropped. Called by
    /// the task itself (its body, its hook, or a destructor of theirs), or in a process that was forked from its
    /// own, it does not wait.
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
