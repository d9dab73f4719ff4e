//! The threads that run tasks. Each belongs to one CPU and one priority.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, Parker, Policy, RealTime, ThreadId};

use super::priority_array::Task;

/// A pinned thread of one CPU and one priority.
pub(super) struct PriorityThread<P: RealTime> {
    policy: Policy,
    parker: Parker<P>,
    assignment: Lock<P, Assignment>,
    /// 0 until it runs.
    id: P::AtomicU32,
    /// Its CPU time when its task began, if the task has a budget: in nanoseconds, or [`NOT_BEGUN`]. Reset
    /// under the CPU's lock, by the thread that assigns the task.
    task_began: P::AtomicU64,
}

const NOT_BEGUN: u64 = u64::MAX;

/// The next step of a thread that wakes up.
pub(super) enum Assignment {
    None,
    Run(Task),
    Exit,
}

impl<P: RealTime> PriorityThread<P> {
    pub(super) fn new(policy: Policy) -> Arc<Self> {
        Arc::new(Self {
            policy,
            parker: Parker::new(),
            assignment: Lock::new(Assignment::None),
            id: P::AtomicU32::new(0),
            task_began: P::AtomicU64::new(NOT_BEGUN),
        })
    }

    /// Called on the thread, at its start.
    pub(super) fn started(&self) {
        self.id.store(P::this_thread().0, Relaxed);
    }

    pub(super) fn id(&self) -> Option<ThreadId> {
        Some(ThreadId(self.id.load(Relaxed))).filter(|id| id.0 != 0)
    }

    /// Called on the thread: sleeps until there may be an assignment.
    pub(super) fn park(&self) {
        self.parker.park();
    }

    /// Called on the thread: takes its assignment.
    pub(super) fn take_assignment(&self) -> Assignment {
        std::mem::replace(&mut *self.assignment.lock(), Assignment::None)
    }

    /// Called on the thread when it begins a task with a budget.
    pub(super) fn begins_task(&self) {
        let used = P::cpu_time_of(P::this_thread()).unwrap_or_default();
        self.task_began.store(u64::try_from(used.as_nanos()).unwrap_or(NOT_BEGUN), Relaxed);
    }

    /// Called on the thread after the watchdog has set it to normal priority.
    pub(super) fn restore_policy(&self) {
        // The policy was granted before, so it is granted again.
        let _ = P::set_policy(P::this_thread(), self.policy);
    }

    /// Returns its CPU time when its task began, for a task with a budget. Called under the CPU's lock.
    pub(super) fn task_began(&self) -> Option<Duration> {
        let began = self.task_began.load(Relaxed);
        (began != NOT_BEGUN).then(|| Duration::from_nanos(began))
    }

    /// Assigns a task to the thread. The caller unparks it after releasing the CPU's lock.
    pub(super) fn assign(&self, task: Task) {
        if task.budget.is_some() {
            self.task_began.store(NOT_BEGUN, Relaxed);
        }
        *self.assignment.lock() = Assignment::Run(task);
    }

    pub(super) fn unpark(&self) {
        self.parker.unpark();
    }

    pub(super) fn exit(&self) {
        *self.assignment.lock() = Assignment::Exit;
        self.unpark();
    }
}
