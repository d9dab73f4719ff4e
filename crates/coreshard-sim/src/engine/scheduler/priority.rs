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
        self.charge_running(target, now);
        let was_fair = self.threads[thread].is_fair();
        if queued {
            if was_fair {
                self.note_lag(target, thread);
            }
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
        } else if self.threads[thread].share.is_delayed {
            self.end_delays(target);
        } else if runs && was_fair {
            self.note_lag(target, thread);
        }
        self.threads[thread].fifo_priority = priority;
        if runs && priority == 0 {
            self.cpus[target].current = None;
            self.enter_contest(target, thread);
            self.cpus[target].current = Some(thread);
        }
        if queued {
            self.enqueue(thread, target, now);
            self.consider_preemption(thread, target, now);
        } else if runs && let Some(first) = self.cpus[target].fifo.first().copied() {
            self.consider_preemption(first, target, now);
        }
    }
}
