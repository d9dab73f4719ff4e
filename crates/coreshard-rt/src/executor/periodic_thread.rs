//! The threads of periodic tasks: one for each task, pinned to its CPU.

use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Policy, RealTime, ThreadId, Time, user};

use super::admission::NoRoom;
use super::cpu::Job;
use super::periodic::{
    Activation, Count, Overrun, Periodic, PeriodicControl, PeriodicHandle, Urgency,
};
use super::shared::Shared;
use crate::error::RtError;
use crate::level::{Level, Priority};

/// The priorities of tasks by deadline (EDF). The job with the nearest deadline runs and later ones wait. A
/// thread that wakes up preempts both, to find out which it is.
const EDF_WAITING: u8 = 96;
const EDF_RUNNING: u8 = 97;
const EDF_WAKING: u8 = 98;

/// Runs `body` periodically.
pub(super) fn start<P: RealTime>(
    shared: &Arc<Shared<P>>,
    task: Periodic,
    body: impl FnMut(&Activation) + Send + 'static,
) -> Result<PeriodicHandle<P>, RtError> {
    let deadline = task.checked()?;
    let admitted = admit(shared, &task, deadline)?;
    let position = admitted.0;
    let control = PeriodicControl::new();
    shared.periodics.add(Arc::clone(&control));
    let (theirs, shares) = (Arc::clone(&control), Arc::clone(shared));
    // From now on a failure undoes this through the guard.
    let ends = PeriodicGuard { shared: shares, control: theirs, admitted };
    let priority = match task.urgency {
        Urgency::Fixed(priority) => priority,
        Urgency::Deadline => Priority::new(EDF_WAKING)?,
    };
    let policy = shared.options.policy_of(priority);
    let life = move || {
        let PeriodicGuard { shared, control, .. } = &ends;
        control.started();
        let (mut task, mut body) = (task, body);
        PeriodicLoop { shared, position, policy, deadline, control }.run(&mut task, &mut body);
        drop(user::discard(body));
        drop(user::discard(task));
        drop(ends);
    };
    let cpu = shared.dispatcher.cpus()[position].id;
    shared.supervisor.start_thread(format!("rt-every-{cpu}"), Some(cpu), policy, life)?;
    Ok(PeriodicHandle::new(control, cpu))
}

/// The position of the CPU of a task. For a task with a budget, also its density and its deadline in nanoseconds.
type Admitted = (usize, Option<(f64, u64)>);

/// Chooses the CPU of a task.
fn admit<P: RealTime>(
    shared: &Shared<P>,
    task: &Periodic,
    deadline: Duration,
) -> Result<Admitted, RtError> {
    let Shared { dispatcher, periodics, .. } = shared;
    let all = dispatcher.priority_index().cpus();
    let cpus = task.cpus.as_ref().unwrap_or(all);
    if let Some(outside) = Some(cpus - all).filter(|outside| !outside.is_empty()) {
        return Err(dispatcher.outside(&outside));
    }
    let positions = cpus.iter().filter_map(|cpu| dispatcher.position_of(cpu));
    let is_online = |position: &usize| dispatcher.cpus()[*position].lock_state().is_online();
    let positions: Vec<usize> = positions.filter(is_online).collect();
    if positions.is_empty() {
        return Err(RtError::new(format!(
            "CPUs {cpus} were taken offline: a periodic task needs one of its CPUs online"
        )));
    }
    if let Some(budget) = task.budget {
        let density = budget.as_secs_f64() / deadline.as_secs_f64();
        let deadline_ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        let admitted = periodics.admitted().lock().admit(&positions, density, deadline_ns);
        let position = admitted.map_err(|NoRoom { sum, limit }| {
            RtError::new(format!(
                "no CPU has room for the task: with it, {sum:.3} of the least used CPU's time would be reserved; \
                 expected at most {limit:.3}"
            ))
        })?;
        return Ok((position, Some((density, deadline_ns))));
    }
    // Nothing is reserved without a budget: the CPU at the lowest level now.
    let online = positions.iter().map(|position| dispatcher.cpus()[*position].id).collect();
    let mask = dispatcher.priority_index().mask(&online)?;
    let found = dispatcher.priority_index().find(Level::TOP, &mask, P::current_cpu());
    let found = found.and_then(|(cpu, _)| dispatcher.position_of(cpu));
    Ok((found.unwrap_or(positions[0]), None))
}

/// Ends the task when its thread has finished, or could not be started.
struct PeriodicGuard<P: RealTime> {
    shared: Arc<Shared<P>>,
    control: Arc<PeriodicControl<P>>,
    admitted: Admitted,
}

impl<P: RealTime> Drop for PeriodicGuard<P> {
    fn drop(&mut self) {
        let periodics = &self.shared.periodics;
        if let (position, Some((density, deadline_ns))) = self.admitted {
            periodics.admitted().lock().release(position, density, deadline_ns);
        }
        periodics.remove(&self.control);
        self.control.finished();
    }
}

struct PeriodicLoop<'a, P: RealTime> {
    shared: &'a Shared<P>,
    position: usize,
    /// The policy of its thread while it sleeps.
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
                self.control.add_count(Count::Panic, 1);
            }
            self.end(id);
            let done = P::now();
            self.control.add_count(Count::Activation, 1);
            self.control.add_count(Count::Late, u64::from(done > activation.deadline));
            wanted = wanted + task.period;
            number += 1;
            if done < wanted || matches!(task.overrun, Overrun::CatchUp) {
                continue;
            }
            if let Overrun::Call(call) = &mut task.overrun
                && user::call(|| call(&activation)).is_err()
            {
                self.control.add_count(Count::Panic, 1);
            }
            // The next period that has not begun.
            let behind = P::now().ns_since(wanted);
            let period = u64::try_from(task.period.as_nanos()).unwrap_or(u64::MAX);
            let skipped = behind / period + 1;
            wanted =
                wanted + task.period.saturating_mul(u32::try_from(skipped).unwrap_or(u32::MAX));
            number += skipped;
            self.control.add_count(Count::Skipped, skipped);
        }
    }

    fn begin(&self, task: &Periodic, thread: ThreadId, deadline: Time) -> u64 {
        let (level, deadline) = match task.urgency {
            Urgency::Fixed(priority) => (priority.level(), None),
            Urgency::Deadline => (Level::from_index(EDF_RUNNING.into()), Some(deadline)),
        };
        let id = self.shared.new_id();
        let began = task.budget.and_then(|_| P::cpu_time_of(thread)).unwrap_or_default();
        let mut state = self.shared.dispatcher.cpus()[self.position].lock_state();
        let before = state.nearest_job();
        let demoted = false;
        state.begin_job(Job { id, thread, level, budget: task.budget, began, deadline, demoted });
        if deadline.is_some() {
            let nearest = state.nearest_job();
            if nearest == Some(thread) {
                self.schedule(before, EDF_WAITING);
                self.schedule(Some(thread), EDF_RUNNING);
            } else {
                self.schedule(Some(thread), EDF_WAITING);
            }
        }
        id
    }

    fn end(&self, id: u64) {
        let mut state = self.shared.dispatcher.cpus()[self.position].lock_state();
        let Some(job) = state.end_job(id) else { return };
        if job.demoted || job.deadline.is_some() {
            if self.shared.options.has_priorities {
                // The thread had this policy before, so it is granted again.
                let _ = P::set_policy(job.thread, self.policy);
            }
            self.schedule(state.nearest_job(), EDF_RUNNING);
        }
        drop(state);
        if !job.demoted {
            self.shared.dispatcher.finish(self.position, job.level, None);
        }
    }

    /// Moves a thread to a priority of the band.
    fn schedule(&self, thread: Option<ThreadId>, to: u8) {
        if let Some(thread) = thread.filter(|_| self.shared.options.has_priorities) {
            // It is at most the priority that the thread was granted.
            let _ = P::set_policy(thread, Policy::Fifo(to));
        }
    }
}
