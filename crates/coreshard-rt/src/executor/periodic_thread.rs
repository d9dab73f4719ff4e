//! The threads of periodic tasks: one for each, pinned to its CPU.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Policy, RealTime, ThreadId, Time, user};

use super::Executor;
use super::cpu::CpuState;
use super::job::Job;
use super::periodic::{Activation, Overrun, Periodic, Urgency};
use super::periodic_control::{PeriodicControl, PeriodicHandle};
use super::shared::Shared;
use crate::error::RtError;
use crate::level::{Level, Priority};

/// The priorities of tasks by deadline (EDF): the job of the nearest deadline runs, later ones wait, and a
/// thread that wakes up preempts both, to find out which it is.
const EDF_WAITING: u8 = 96;
const EDF_RUNNING: u8 = 97;
const EDF_WAKING: u8 = 98;

impl<P: RealTime> Executor<P> {
    /// Runs `body` periodically.
    ///
    /// # Errors
    /// Where period, deadline and budget do not fit together, the priority is taken by the machine, a CPU
    /// is not the executor's, all of them are offline, none of the others has room for the budget, or the thread cannot be had.
    pub fn periodic(
        &self,
        task: Periodic,
        body: impl FnMut(&Activation) + Send + 'static,
    ) -> Result<PeriodicHandle<P>, RtError> {
        self.shared.check_process()?;
        let deadline = task.checked()?;
        let cpus = task.cpus.as_ref().unwrap_or_else(|| self.cpus());
        let shared = &self.shared;
        if let Some(outside) = Some(cpus - self.cpus()).filter(|outside| !outside.is_empty()) {
            return Err(RtError::outside_cpus(&outside, self.cpus()));
        }
        let positions: Vec<usize> = cpus.iter().map(|cpu| shared.position_of(cpu)).collect();
        let positions = shared.online_of(positions);
        if positions.is_empty() {
            return Err(RtError::offline(cpus));
        }
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let density = task.budget.map(|budget| budget.as_secs_f64() / deadline.as_secs_f64());
        let position = match density {
            Some(density) => {
                let admitted = shared.admitted.lock().admit(&positions, density, ns(deadline));
                admitted.map_err(|refused| RtError::utilisation(refused.sum, refused.limit))?
            }
            // Without a budget nothing is reserved: the CPU at the lowest level now.
            None => {
                let online = positions.iter().map(|position| shared.cpus[*position].id).collect();
                let mask = shared.index.mask(&online)?;
                let near = P::current_cpu();
                let found = shared.index.find(Level::TOP, &mask, near);
                found.map_or(positions[0], |(cpu, _)| shared.position_of(cpu))
            }
        };
        let control = Arc::new(PeriodicControl {
            stops: P::AtomicU32::new(0),
            over: P::AtomicU32::new(0),
            thread: P::AtomicU32::new(0),
            process_generation: P::process_generation(),
            counts: std::array::from_fn(|_| P::AtomicU64::new(0)),
        });
        shared.periodics.lock().push(Arc::clone(&control));
        // From here on a failure undoes this, by the guard.
        let ends = PeriodicGuard {
            shared: Arc::clone(shared),
            control: Arc::clone(&control),
            admitted: density.map(|density| (position, density, ns(deadline))),
        };
        let cpu = shared.cpus[position].id;
        let priority = match task.urgency {
            Urgency::Fixed(priority) => priority.get(),
            Urgency::Deadline => EDF_WAKING,
        };
        let policy = shared.policy_of(Priority::new(priority)?);
        let life = move || {
            let PeriodicGuard { shared, control, .. } = &ends;
            control.thread.store(P::this_thread().0, Relaxed);
            let (mut task, mut body) = (task, body);
            PeriodicLoop { shared, position, policy, deadline, control }.run(&mut task, &mut body);
            drop(user::discard(body));
            drop(user::discard(task));
            drop(ends);
        };
        shared.start_thread(format!("rt-every-{cpu}"), Some(position), policy, Box::new(life))?;
        Ok(PeriodicHandle { control, cpu })
    }
}

/// Dropped when the task's thread is done with it, or could not be had: ends the task.
struct PeriodicGuard<P: RealTime> {
    shared: Arc<Shared<P>>,
    control: Arc<PeriodicControl<P>>,
    /// What was admitted: the CPU's position, the density and the deadline.
    admitted: Option<(usize, f64, u64)>,
}

impl<P: RealTime> Drop for PeriodicGuard<P> {
    fn drop(&mut self) {
        let Self { shared, control, admitted } = self;
        if let Some((position, density, deadline_ns)) = *admitted {
            shared.admitted.lock().release(position, density, deadline_ns);
        }
        shared.periodics.lock().retain(|known| !Arc::ptr_eq(known, control));
        // Release pairs with the Acquire of `stop`.
        control.over.store(1, Release);
        P::wake_all(&raw const control.over);
    }
}

struct PeriodicLoop<'a, P: RealTime> {
    shared: &'a Shared<P>,
    position: usize,
    /// How its thread is scheduled while it sleeps.
    policy: Policy,
    deadline: Duration,
    control: &'a PeriodicControl<P>,
}

impl<P: RealTime> PeriodicLoop<'_, P> {
    fn run(&self, task: &mut Periodic, body: &mut impl FnMut(&Activation)) {
        let thread = P::this_thread();
        let mut wanted = P::now() + task.phase;
        let mut number = 0;
        while self.control.sleep_to(wanted) {
            let woke = P::now();
            let activation = Activation { number, wanted, woke, deadline: wanted + self.deadline };
            let id = self.begin(task, thread, activation.deadline);
            if user::call(|| body(&activation)).is_err() {
                self.control.count(3, 1);
            }
            self.end(id);
            let done = P::now();
            self.control.count(0, 1);
            self.control.count(1, u64::from(done > activation.deadline));
            wanted = wanted + task.period;
            number += 1;
            if done < wanted || matches!(task.overrun, Overrun::CatchUp) {
                continue;
            }
            if let Overrun::Call(call) = &mut task.overrun
                && user::call(|| call(&activation)).is_err()
            {
                self.control.count(3, 1);
            }
            // The next period that has not begun.
            let behind = P::now().ns_since(wanted);
            let period = u64::try_from(task.period.as_nanos()).unwrap_or(u64::MAX);
            let skipped = behind / period + 1;
            wanted =
                wanted + task.period.saturating_mul(u32::try_from(skipped).unwrap_or(u32::MAX));
            number += skipped;
            self.control.count(2, skipped);
        }
    }

    fn begin(&self, task: &Periodic, thread: ThreadId, deadline: Time) -> u64 {
        let (level, deadline) = match task.urgency {
            Urgency::Fixed(priority) => (priority.level(), None),
            Urgency::Deadline => (Level::from_index(EDF_RUNNING.into()), Some(deadline)),
        };
        let id = self.shared.new_id();
        let began = task.budget.and_then(|_| P::cpu_time_of(thread)).unwrap_or_default();
        let mut state = self.shared.cpus[self.position].lock();
        let before = state.nearest_job();
        let demoted = false;
        state.jobs.push(Job { id, thread, level, budget: task.budget, began, deadline, demoted });
        state.enter(level);
        state.publish();
        if deadline.is_some() {
            let nearest = state.nearest_job();
            if nearest == Some(thread) {
                self.schedule(before, EDF_RUNNING, EDF_WAITING);
                self.schedule(Some(thread), EDF_WAKING, EDF_RUNNING);
            } else {
                self.schedule(Some(thread), EDF_WAKING, EDF_WAITING);
            }
        }
        id
    }

    fn end(&self, id: u64) {
        let mut state = self.shared.cpus[self.position].lock();
        let Some(at) = state.jobs.iter().position(|job| job.id == id) else { return };
        let job = state.jobs.swap_remove(at);
        if job.demoted || job.deadline.is_some() {
            if self.shared.has_priorities {
                // Its old policy was granted once, so it is again.
                let _ = P::set_policy(job.thread, self.policy);
            }
            let nearest = state.nearest_job();
            self.schedule(nearest, EDF_WAITING, EDF_RUNNING);
        }
        if job.demoted {
            return;
        }
        drop(state);
        self.shared.leave(self.position, job.level, None);
    }

    /// Moves a thread from one priority of the band to another.
    fn schedule(&self, thread: Option<ThreadId>, from: u8, to: u8) {
        if let Some(thread) = thread.filter(|_| self.shared.has_priorities && from != to) {
            // Both are at most what the thread was granted.
            let _ = P::set_policy(thread, Policy::Fifo(to));
        }
    }
}

impl<P: RealTime> CpuState<P> {
    /// The thread of the job with the nearest deadline; among equal ones the first.
    fn nearest_job(&self) -> Option<ThreadId> {
        let by_deadline = self.jobs.iter().filter(|job| !job.demoted);
        let by_deadline = by_deadline.filter_map(|job| Some((job.deadline?, job.id, job.thread)));
        by_deadline.min_by_key(|job| (job.0, job.1)).map(|job| job.2)
    }
}

impl<P: RealTime> Shared<P> {
    pub(super) fn stop_periodics(&self) {
        let running = self.periodics.lock().clone();
        running.iter().for_each(|control| control.stop());
    }
}
