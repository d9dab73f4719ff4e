//! The threads that run tasks: each of one CPU and one priority.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, Parker, RealTime, ThreadId};

use super::task::Task;

/// A pinned thread of one CPU and one priority.
pub(super) struct PriorityThread<P: RealTime> {
    pub(super) parker: Parker<P>,
    pub(super) assignment: Lock<P, Assignment>,
    /// 0 until it runs.
    id: P::AtomicU32,
    /// Its CPU time when its task began, where that has a budget: in nanoseconds, or [`NOT_BEGUN`]. Reset
    /// under the CPU's lock, by whoever assigns the task.
    task_began: P::AtomicU64,
}

const NOT_BEGUN: u64 = u64::MAX;

/// What a thread is to do when it wakes up.
pub(super) enum Assignment {
    None,
    Run(Task),
    Exit,
}

/// What a thread does after a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterTask {
    /// It has its next task.
    RunNext,
    Sleep,
    /// It was replaced.
    Exit,
}

impl<P: RealTime> PriorityThread<P> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            parker: Parker::new(),
            assignment: Lock::new(Assignment::None),
            id: P::AtomicU32::new(0),
            task_began: P::AtomicU64::new(NOT_BEGUN),
        })
    }

    /// Called on it, at its start.
    pub(super) fn started(&self) {
        self.id.store(P::this_thread().0, Relaxed);
    }

    pub(super) fn id(&self) -> Option<ThreadId> {
        Some(ThreadId(self.id.load(Relaxed))).filter(|id| id.0 != 0)
    }

    /// Called on it, when it begins a task that has a budget.
    pub(super) fn begins_task(&self) {
        let used = P::cpu_time_of(P::this_thread()).unwrap_or_default();
        self.task_began.store(u64::try_from(used.as_nanos()).unwrap_or(NOT_BEGUN), Relaxed);
    }

    /// Its CPU time when its task began; for a task that has a budget, under the CPU's lock.
    pub(super) fn task_began(&self) -> Option<Duration> {
        let began = self.task_began.load(Relaxed);
        (began != NOT_BEGUN).then(|| Duration::from_nanos(began))
    }

    /// Gives it a task. Whoever called unparks it, after the CPU's lock.
    pub(super) fn assign(&self, task: Task) {
        if task.budget.is_some() {
            self.task_began.store(NOT_BEGUN, Relaxed);
        }
        *self.assignment.lock() = Assignment::Run(task);
    }

    pub(super) fn exit(&self) {
        *self.assignment.lock() = Assignment::Exit;
        self.parker.unpark();
    }
}

/// The task that a thread runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningTask {
    pub(super) id: u64,
    pub(super) budget: Option<Duration>,
    /// It has used more than that, and the watchdog has set its thread to normal priority. It counts until
    /// the supervisor has replaced its thread.
    pub(super) demoted: bool,
}

/// A CPU's thread of a level, and what it runs.
pub(super) struct ThreadSlot<P: RealTime> {
    pub(super) thread: Arc<PriorityThread<P>>,
    pub(super) running: Option<RunningTask>,
}

impl<P: RealTime> ThreadSlot<P> {
    pub(super) fn new(thread: Arc<PriorityThread<P>>) -> Self {
        Self { thread, running: None }
    }
}
