//! The watchdog: finds tasks that use more CPU time than their budget, and CPUs that the kernel throttles.
//!
//! Its priority is above all tasks, in case runaways of priority 99 occupy all CPUs. So a scan does nothing
//! that can wait:
//!
//! 1. It starts and joins no thread, and allocates nothing. A thread of normal priority, which gets no CPU
//!    just then, may hold the necessary locks. The supervisor does all that, once a CPU is free.
//! 2. CPUs whose lock is held are scanned last. The lock lends priority, and no user code runs under it.
//! 3. A task is demoted by one system call, under its CPU's lock, so that it cannot finish meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Policy, RealTime, ThreadId, Throttle, Time};

use super::cpu::{CpuState, HighestTask};
use super::incident::{Incident, MAX_KEPT};
use super::shared::Shared;
use crate::error::RtError;
use crate::lock::InheritGuard;

/// The watchdog may use the period divided by this. It runs above all tasks, so this bounds the time that it
/// takes from them.
const RUNTIME_DIVISOR: u32 = 10;

/// The longest period for its reservation, if it scans less often. The kernel refuses periods above 4.2 s
/// (`sched_deadline_period_max_us`), or above an administrator's setting.
const LONGEST_PERIOD: Duration = Duration::from_secs(1);

/// How long the highest-priority task of a CPU ran, and how long it was kept from running.
#[derive(Clone, Copy, Debug)]
struct RunSample {
    id: u64,
    /// The CPU time of its thread at the last scan.
    cpu_time: Duration,
    /// How long it was kept from running, within the time that this sample spans.
    lost: Duration,
    span: Duration,
}

/// The watchdog's record of a CPU.
#[derive(Clone, Copy, Debug)]
struct CpuWatch {
    highest: Option<HighestTask>,
    sample: Option<RunSample>,
    /// Whether its lock was held at first.
    is_held: bool,
}

/// Starts the watchdog. An error inside `Ok` says why it does not run above all tasks.
pub(super) fn start<P: RealTime>(shared: &Arc<Shared<P>>) -> Result<Option<RtError>, RtError> {
    let Some(period) = shared.options.watchdog_period else { return Ok(None) };
    let start = |policy| {
        let watched = Arc::clone(shared);
        let body = move || Watchdog::new(&watched).run(period);
        shared.supervisor.start_thread("rt-watchdog".to_owned(), None, policy, body)
    };
    if !shared.options.has_priorities {
        return start(Policy::Normal).map(|()| None);
    }
    // Not tried beforehand: admission may fail later, if another program has taken the reserved share.
    let bounded = period.min(LONGEST_PERIOD);
    let above = Policy::Deadline { runtime: bounded / RUNTIME_DIVISOR, period: bounded };
    match start(above) {
        Ok(()) => Ok(None),
        Err(lacking) => start(shared.options.highest_policy::<P>()).map(|()| Some(lacking)),
    }
}

struct Watchdog<'a, P: RealTime> {
    shared: &'a Shared<P>,
    limit: Option<Throttle>,
    /// Indexed by position.
    watched: Box<[CpuWatch]>,
    /// Findings of this scan; never more than are kept.
    found: Vec<Incident>,
    has_demoted: bool,
}

impl<'a, P: RealTime> Watchdog<'a, P> {
    fn new(shared: &'a Shared<P>) -> Self {
        let watch = CpuWatch { highest: None, sample: None, is_held: false };
        Self {
            shared,
            limit: P::real_time_limits().throttle,
            watched: vec![watch; shared.dispatcher.cpus().len()].into(),
            found: Vec::with_capacity(MAX_KEPT),
            has_demoted: false,
        }
    }

    fn run(&mut self, period: Duration) {
        let mut last = P::now();
        while self.shared.ends.load(Acquire) == 0 {
            P::wait(&self.shared.ends, 0, Some(period));
            self.scan(&mut last);
        }
    }

    fn scan(&mut self, last: &mut Time) {
        let now = P::now();
        let elapsed = now - *last;
        *last = now;
        for (position, cpu) in self.shared.dispatcher.cpus().iter().enumerate() {
            let state = cpu.try_lock_state();
            self.watched[position].is_held = state.is_none();
            if let Some(state) = state {
                self.scan_cpu(position, state);
            }
        }
        for (position, cpu) in self.shared.dispatcher.cpus().iter().enumerate() {
            if std::mem::take(&mut self.watched[position].is_held) {
                self.scan_cpu(position, cpu.lock_state());
            }
        }
        if self.shared.options.has_priorities {
            (0..self.watched.len()).for_each(|position| self.check_throttling(position, elapsed));
        }
        if !self.found.is_empty() {
            self.shared.incidents.record(self.found.drain(..));
        }
        // After the report: a thread that runs since the supervisor was notified finds the report there.
        if std::mem::take(&mut self.has_demoted) {
            self.shared.supervisor.notify();
        }
    }

    fn report(&mut self, incident: Incident) {
        // With more runaways than that in one scan, the rest is not reported.
        if self.found.len() < self.found.capacity() {
            self.found.push(incident);
        }
    }

    /// Demotes the tasks of a CPU that exceeded their budgets.
    fn scan_cpu(&mut self, position: usize, mut state: InheritGuard<'_, P, CpuState<P>>) {
        let shared = self.shared;
        let cpu = &shared.dispatcher.cpus()[position];
        let overused = |thread, began, budget| overused(shared, thread, began, budget);
        self.has_demoted |= cpu.demote_overused(&mut state, overused, |level, budget, used| {
            self.report(Incident::Demoted { cpu: cpu.id, priority: level.get(), budget, used });
        });
        self.watched[position].highest = state.highest_task();
    }

    /// Checks whether the highest-priority task of a CPU was kept from running.
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
        // A sleeping thread is not kept from running.
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
        // Half of the time that throttling takes, since scans are not aligned with its periods.
        if lost >= kept / 2 {
            let cpu = self.shared.dispatcher.cpus()[position].id;
            self.report(Incident::Throttled { cpu, priority: top.level.get(), lost, limit });
        }
    }
}

/// Returns the CPU time that a task has used if it exceeds the budget and the task was demoted.
fn overused<P: RealTime>(
    shared: &Shared<P>,
    thread: ThreadId,
    began: Duration,
    budget: Duration,
) -> Option<Duration> {
    let used = P::cpu_time_of(thread)?.saturating_sub(began);
    let demotes =
        || !shared.options.has_priorities || P::set_policy(thread, Policy::Normal).is_ok();
    (used > budget && demotes()).then_some(used)
}
