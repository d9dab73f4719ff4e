//! Looks after tasks that run away, and threads that are kept from running.
//!
//! It is above all tasks, and only that helps where tasks of the highest priority run away on all CPUs at
//! once. So between two CPUs' looks it does nothing that can wait:
//!
//! 1. It starts no thread, joins none, and allocates nothing: a thread of normal priority, which does not
//!    get a CPU just then, may hold what that needs. The supervisor does all that, once a CPU is free.
//! 2. CPUs whose lock is held are looked at last. It lends priority, and nobody runs a user's code under it.
//! 3. What a task is demoted by is one system call, under its CPU's lock: the task cannot end meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Policy, RealTime, ThreadId, Throttle, Time};
use coreshard_topology::CpuId;

use super::cpu::CpuState;
use super::incident::{Incident, Incidents, MAX_KEPT};
use super::shared::Shared;
use crate::error::RtError;
use crate::level::Level;
use crate::lock::InheritGuard;

/// How much of a look's time the watchdog may use: it is above all tasks, so this is their bound on it.
const RUNTIME_DIVISOR: u32 = 10;

/// The most important task of a CPU, alone at its level.
#[derive(Clone, Copy, Debug)]
struct HighestTask {
    id: u64,
    thread: ThreadId,
    level: Level,
}

/// How the most important task of a CPU sample.
#[derive(Clone, Copy, Debug)]
struct RunSample {
    id: u64,
    /// The CPU time of its thread at the last look.
    at_last: Duration,
    /// How long it was kept from running, in the period of throttling that began at `since`.
    lost: Duration,
    since: Duration,
}

/// What the watchdog knows of a CPU.
#[derive(Clone, Copy, Debug)]
struct CpuWatch {
    top: Option<HighestTask>,
    sample: Option<RunSample>,
    /// Its lock was held when it was looked for.
    is_held: bool,
}

impl<P: RealTime> Shared<P> {
    /// Starts the watchdog. An error inside is one that it can live with: it is not above all tasks.
    pub(super) fn start_watchdog(self: &Arc<Self>) -> Result<Option<RtError>, RtError> {
        let Some(period) = self.options.watchdog_period else { return Ok(None) };
        let start = |policy| {
            let shared = Arc::clone(self);
            let body = move || shared.watch(period);
            self.start_thread("rt-watchdog".to_owned(), None, policy, Box::new(body))
        };
        if !self.has_priorities {
            return start(Policy::Normal).map(|()| None);
        }
        // Not tried beforehand: the kernel grants a share of the machine, which another program may have
        // taken in between.
        let above = Policy::Deadline { runtime: period / RUNTIME_DIVISOR, period };
        match start(above) {
            Ok(()) => Ok(None),
            Err(lacking) => start(self.highest_policy()).map(|()| Some(lacking)),
        }
    }

    fn watch(&self, period: Duration) {
        let watch = CpuWatch { top: None, sample: None, is_held: false };
        let mut watchdog = Watchdog {
            shared: self,
            limit: P::real_time_limits().throttle,
            watched: vec![watch; self.cpus.len()].into(),
            found: Vec::with_capacity(MAX_KEPT),
            has_demoted: false,
        };
        let mut last = P::now();
        while !self.has_ended() {
            P::wait(&self.ends, 0, Some(period));
            watchdog.scan(&mut last);
        }
    }

    /// What the watchdog has found and nobody has taken.
    pub(super) fn take_incidents(&self) -> Vec<Incident> {
        let mut taken = Incidents::new();
        taken.take_from(&mut self.incidents.lock_own());
        taken.into_vec()
    }
}

struct Watchdog<'a, P: RealTime> {
    shared: &'a Shared<P>,
    limit: Option<Throttle>,
    /// By position.
    watched: Box<[CpuWatch]>,
    /// In this look, and no more of them than are kept.
    found: Vec<Incident>,
    has_demoted: bool,
}

impl<P: RealTime> Watchdog<'_, P> {
    fn scan(&mut self, last: &mut Time) {
        let now = P::now();
        let elapsed = now - *last;
        *last = now;
        for (position, cpu) in self.shared.cpus.iter().enumerate() {
            let state = cpu.try_lock();
            self.watched[position].is_held = state.is_none();
            if let Some(state) = state {
                self.scan_cpu(position, state);
            }
        }
        for (position, cpu) in self.shared.cpus.iter().enumerate() {
            if std::mem::take(&mut self.watched[position].is_held) {
                self.scan_cpu(position, cpu.lock());
            }
        }
        if self.shared.has_priorities {
            (0..self.watched.len()).for_each(|position| self.check_throttling(position, elapsed));
        }
        if !self.found.is_empty() {
            let mut incidents = self.shared.incidents.lock_own();
            self.found.drain(..).for_each(|incident| incidents.push(incident));
        }
        // After what has been found was told: whoever is let go on by the supervisor finds it there.
        if std::mem::take(&mut self.has_demoted) {
            self.shared.supervisor.call();
        }
    }

    fn report(&mut self, incident: Incident) {
        // With more CPUs than that, running away all at once, the rest is not told.
        if self.found.len() < self.found.capacity() {
            self.found.push(incident);
        }
    }

    /// Demotes the tasks of a CPU that have used more than their budgets.
    fn scan_cpu(&mut self, position: usize, mut state: InheritGuard<'_, P, CpuState<P>>) {
        let cpu = self.shared.cpus[position].id;
        let mut has_demoted = false;
        for level in 1..Level::COUNT {
            for slot in &mut state.threads[level] {
                let Some(running) = slot.running.as_mut().filter(|it| !it.demoted) else {
                    continue;
                };
                let Some(budget) = running.budget else { continue };
                let (Some(thread), Some(start)) = (slot.thread.id(), slot.thread.task_began())
                else {
                    continue;
                };
                if let Some(used) = self.overused(thread, start, budget) {
                    running.demoted = true;
                    has_demoted = true;
                    self.report(Incident::Demoted { cpu, priority: level as u8, budget, used });
                }
            }
        }
        let mut is_lower = false;
        for at in 0..state.jobs.len() {
            let job = &mut state.jobs[at];
            let Some(budget) = job.budget.filter(|_| !job.demoted) else { continue };
            let Some(used) = self.overused(job.thread, job.began, budget) else { continue };
            job.demoted = true;
            let level = job.level;
            state.leave(level);
            is_lower = true;
            self.report(Incident::Demoted { cpu, priority: level.get(), budget, used });
        }
        if is_lower {
            state.publish();
        }
        if has_demoted || is_lower {
            // The supervisor replaces threads, and begins what waits.
            self.shared.cpus[position].needs_supervisor.store(1, Relaxed);
            self.has_demoted = true;
        }
        self.watched[position].top = state.highest_task();
    }

    /// What a task has used, where that is more than its budget, and it was demoted.
    fn overused(&self, thread: ThreadId, began: Duration, budget: Duration) -> Option<Duration> {
        let used = P::cpu_time_of(thread)?.saturating_sub(began);
        let demotes =
            || !self.shared.has_priorities || P::set_policy(thread, Policy::Normal).is_ok();
        (used > budget && demotes()).then_some(used)
    }

    /// Whether the most important task of a CPU was kept from running.
    fn check_throttling(&mut self, position: usize, elapsed: Duration) {
        let watch = &mut self.watched[position];
        let Some(top) = watch.top else {
            watch.sample = None;
            return;
        };
        let Some(cpu_time) = P::cpu_time_of(top.thread) else { return };
        let Some(sample) = watch.sample.as_mut().filter(|sample| sample.id == top.id) else {
            let [lost, since] = [Duration::ZERO; 2];
            watch.sample = Some(RunSample { id: top.id, at_last: cpu_time, lost, since });
            return;
        };
        let ran = cpu_time.saturating_sub(sample.at_last);
        sample.at_last = cpu_time;
        // A task that waits is not kept from running.
        if P::is_waiting(top.thread) {
            (sample.lost, sample.since) = (Duration::ZERO, Duration::ZERO);
            return;
        }
        sample.lost += elapsed.saturating_sub(ran);
        sample.since += elapsed;
        let limit = self.limit;
        let period = limit.map_or(Duration::from_secs(1), |limit| limit.period);
        if sample.since < period {
            return;
        }
        let kept = limit.map_or(period / 20, |limit| limit.period - limit.runtime);
        let lost = std::mem::take(&mut sample.lost);
        sample.since = Duration::ZERO;
        // Half of what throttling takes: looks do not begin and end with its periods.
        if lost >= kept / 2 {
            let cpu: CpuId = self.shared.cpus[position].id;
            self.report(Incident::Throttled { cpu, priority: top.level.get(), lost, limit });
        }
    }
}

impl<P: RealTime> CpuState<P> {
    /// The most important task, where it is alone at its level, and a thread's: of several, or of
    /// activations, another one may run.
    fn highest_task(&self) -> Option<HighestTask> {
        let level = self.level();
        if !self.is_alone(level) {
            return None;
        }
        let mut running = self.threads[level.index()].iter().filter_map(|slot| {
            let running = slot.running.filter(|running| !running.demoted)?;
            Some(HighestTask { id: running.id, thread: slot.thread.id()?, level })
        });
        running.next()
    }
}
