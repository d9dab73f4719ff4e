//! Starting priority threads, and what they run.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use coreshard_platform::{AtomicInt, Policy, RealTime, user};

use super::priority_thread::{AfterTask, Assignment, PriorityThread, ThreadSlot};
use super::shared::Shared;
use crate::error::RtError;
use crate::level::Priority;

impl<P: RealTime> Shared<P> {
    /// Starts the threads of `priority` on every CPU, where they are not there yet.
    pub(super) fn prepare(self: &Arc<Self>, priority: Priority) -> Result<(), RtError> {
        let level = priority.level().index();
        let (word, bit) = (&self.prepared[level / 64], 1 << (level % 64));
        // Acquire pairs with the Release below: the threads are seen.
        if word.load(Acquire) & bit != 0 {
            return Ok(());
        }
        let _preparing = self.preparing.lock();
        let threads = self.options.round_robin.map_or(1, NonZeroUsize::get);
        for position in 0..self.cpus.len() {
            while self.cpus[position].lock().threads[level].len() < threads {
                let thread = self.new_thread(position, priority)?;
                self.cpus[position].lock().threads[level].push(ThreadSlot::new(thread));
            }
        }
        word.fetch_or(bit, Release);
        Ok(())
    }

    /// Starts a thread; the caller puts it into its CPU's slot.
    pub(super) fn new_thread(
        self: &Arc<Self>,
        position: usize,
        priority: Priority,
    ) -> Result<Arc<PriorityThread<P>>, RtError> {
        let thread = PriorityThread::new();
        let (theirs, shared) = (Arc::clone(&thread), Arc::clone(self));
        let name = format!("rt-{}-{priority}", self.cpus[position].id);
        let body = move || shared.work(position, priority, &theirs);
        self.start_thread(name, Some(position), self.policy_of(priority), Box::new(body))?;
        Ok(thread)
    }

    /// How a thread of a priority is scheduled, as far as that was granted.
    pub(super) fn policy_of(&self, priority: Priority) -> Policy {
        match (self.has_priorities, self.options.round_robin) {
            (false, _) => Policy::Normal,
            (true, None) => Policy::Fifo(priority.get()),
            (true, Some(_)) => Policy::RoundRobin(priority.get()),
        }
    }

    /// How a thread is scheduled that is to come before all tasks, as far as that is granted.
    pub(super) fn highest_policy(&self) -> Policy {
        let granted = Priority::new(P::real_time_limits().priority.min(Priority::MAX.get()));
        // The priorities were tried, whatever the limits say.
        self.policy_of(granted.map_or(self.options.highest, |it| it.max(self.options.highest)))
    }

    /// What a thread does until it exits.
    fn work(&self, position: usize, priority: Priority, thread: &Arc<PriorityThread<P>>) {
        let level = priority.level();
        thread.started();
        loop {
            thread.parker.park();
            loop {
                let assignment =
                    std::mem::replace(&mut *thread.assignment.lock(), Assignment::None);
                let task = match assignment {
                    Assignment::None => break,
                    Assignment::Exit => return,
                    Assignment::Run(task) => task,
                };
                let guard = self.task_counts.guard();
                if task.budget.is_some() {
                    thread.begins_task();
                }
                // What a task throws is its handle's; this is what came after: a destructor's.
                drop(user::call(task.run));
                let next = self.leave(position, level, Some(thread));
                drop(guard);
                match next {
                    AfterTask::RunNext => {}
                    AfterTask::Sleep => break,
                    AfterTask::Exit => return,
                }
            }
        }
    }
}
