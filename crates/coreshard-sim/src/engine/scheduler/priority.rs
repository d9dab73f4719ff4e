//! Changing the priority of a thread that is there already.

use super::SimState;
use crate::engine::thread::ThreadState;
use crate::machine::Ps;

impl SimState {
    /// Gives a thread another SCHED_FIFO priority, or 0 for none, at `now`.
    pub(in crate::engine) fn set_priority(&mut self, thread: usize, priority: u8, now: Ps) {
        if self.threads[thread].fifo_priority == priority {
            return;
        }
        let target = self.threads[thread].cpu;
        let runs = self.cpus[target].current == Some(thread);
        let queued = self.threads[thread].state == ThreadState::Runnable && !runs;
        if queued {
            let cpu = &mut self.cpus[target];
            let before = cpu.waiting();
            cpu.fifo.retain(|other| *other != thread);
            cpu.queue.retain(|other| *other != thread);
            let left = cpu.waiting();
            self.note_queue(target);
            // One that is between two CPUs is in no queue, and will be put into one.
            if left == before {
                self.threads[thread].fifo_priority = priority;
                return;
            }
            self.queued -= 1;
        }
        self.threads[thread].fifo_priority = priority;
        if queued {
            self.enqueue(thread, target);
            self.consider_preemption(thread, target, now);
        } else if runs && let Some(first) = self.cpus[target].fifo.first().copied() {
            self.consider_preemption(first, target, now);
        }
    }
}
