//! The watchdog: finds tasks that use more CPU time than their budget, and CPUs that the kernel throttles.
//!
//! Its priority is above all tasks, for the case that tasks of 99 run away on all CPUs at once. So during a
//! scan it does nothing that can wait:
//!
//! 1. It starts and joins no thread, and allocates nothing: a thread of normal priority, which gets no CPU
//!    just then, may hold what that needs. The supervisor does all that, once a CPU is free.
//! 2. CPUs whose lock is held are scanned last. The lock lends priority, and no user's code runs under it.
//! 3. A task is demoted by one system call, under its CPU's lock, so that it cannot end meanwhile.

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

/// Of its period the watchdog may use so much: it is above all tasks, so this bounds what it takes from them.
const RUNTIME_DIVISOR: u32 = 10;

/// Where it scans more seldom, it may use that of this time: the kernel refuses periods of more than 4.2 s
/// (`sched_deadline_period_max_us`), or of whatever an administrator has set.
const LONGEST_PERIOD: Duration = Duration::from_secs(1);

/// The most important task of a CPU, alone at its level.
#[derive(Clone, Copy, Debug)]
struct HighestTask {
    id: u64,
    thread: ThreadId,
    level: Level,
}

/// How long the most important task of a CPU ran, and did not.
#[derive(Clone, Copy, Debug)]
struct RunSample {
    id: u64,
    /// The CPU time of its thread at the last scan.
    cpu_time: Duration,
    /// How long it was kept from running, of the time that this sample spans.
    lost: Duration,
    span: Duration,
}

/// What the watchdog knows of a CPU.
#[derive(Clone, Copy, Debug)]
struct CpuWatch {
    highest: Option<HighestTask>,
    sample: Option<RunSample>,
    /// Its lock was held at first.
    is_held: bool,
}

impl<P: RealTime> Shared<P> {
    /// Starts the watchdog. An error inside `Ok` says why it is not above all tasks.
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
        // Not tried beforehand: admission may fail later, where another program has taken its share.
        let bounded = period.min(LONGEST_PERIOD);
        let above = Policy::Deadline { runtime: bounded / RUNTIME_DIVISOR, period: bounded };
        match start(above) {
            Ok(()) => Ok(None),
            Err(lacking) => start(self.highest_policy()).map(|()| Some(lacking)),
        }
    }

    fn watch(&self, period: Duration) {
        let watch = CpuWatch { highest: None, sample: None, is_held: false };
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
    /// In this scan; never more than are kept.
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
        // After the report: whoever runs since the supervisor was called finds it there.
        if std::mem::take(&mut self.has_demoted) {
            self.shared.supervisor.call();
        }
    }

    fn report(&mut self, incident: Incident) {
        // With more runaways than that in one scan, the rest is not reported.
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
        self.watched[position].highest = state.highest_task();
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
        let Some(top) = watch.highest else {
            watch.sample = None;
            return;
        };
        let Some(cpu_time) = P::cpu_time_of(top.thread) else { return };
        let Some(sample) = watch.sample.as_mut().filter(|sample| sample.id == top.id) else {
            let [lost, span] = [Duration::ZERO; 2];
            watch.sample = Some(RunSample { id: top.id, cpu_time, lost, span });
            return;
        };
        let ran = cpu_time.saturating_sub(sample.cpu_time);
        sample.cpu_time = cpu_time;
        // A thread that sleeps is not kept from running.
        if P::is_waiting(top.thread) {
            (sample.lost, sample.span) = (Duration::ZERO, Duration::ZERO);
            return;
        }
        sample.lost += elapsed.saturating_sub(ran);
        sample.span += elapsed;
        let limit = self.limit;
        let period = limit.map_or(Duration::from_secs(1), |limit| limit.period);
        if sample.span < period {
            return;
        }
        let kept = limit.map_or(period / 20, |limit| limit.period - limit.runtime);
        let lost = std::mem::take(&mut sample.lost);
        sample.span = Duration::ZERO;
        // Half of what throttling takes: scans do not begin and end with its periods.
        if lost >= kept / 2 {
            let cpu: CpuId = self.shared.cpus[position].id;
            self.report(Incident::Throttled { cpu, priority: top.level.get(), lost, limit });
        }
    }
}

impl<P: RealTime> CpuState<P> {
    /// The task at the CPU's level, where it is the only one there and no job: of several, another may run.
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
