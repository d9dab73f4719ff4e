//! Looks after tasks that run away, and threads that are kept from running.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Policy, RealTime, ThreadId, Throttle};
use coreshard_topology::CpuId;

use super::Shared;
use super::builder::grants;
use super::cpu::{Place, Running};
use crate::error::RtError;
use crate::level::{Level, Priority};

/// How much of a look's time the watchdog may use: it is above all tasks, so this is their bound on it.
const SHARE_OF_PERIOD: u32 = 10;

/// What the watchdog has found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Incident {
    /// A task has used more CPU time than its budget, and goes on at normal priority.
    Demoted {
        /// Where.
        cpu: CpuId,
        /// The priority it had; of a task by deadline, its band's.
        priority: u8,
        /// The budget.
        budget: Duration,
        /// What it had used when it was found.
        used: Duration,
    },
    /// The most important task of a CPU could run, and did not for a long time: the kernel has throttled
    /// real-time threads, or something above all priorities runs.
    Throttled {
        /// Where.
        cpu: CpuId,
        /// The priority of the task.
        priority: u8,
        /// How long it was kept from running, within the last period of throttling.
        lost: Duration,
        /// The limit that the kernel enforces, if it says one.
        limit: Option<Throttle>,
    },
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Demoted { cpu, priority, budget, used } => write!(
                f,
                "a task of priority {priority} on CPU {cpu} has used {} µs of its budget of {} µs, and \
                 goes on at normal priority",
                used.as_micros(),
                budget.as_micros()
            ),
            Self::Throttled { cpu, priority, lost, limit } => {
                write!(
                    f,
                    "a task of priority {priority} on CPU {cpu} could run and was kept from it for \
                     {} ms",
                    lost.as_millis()
                )?;
                match limit {
                    Some(Throttle { runtime, period }) => write!(
                        f,
                        "; real-time threads may run {} of {} ms (sched_rt_runtime_us)",
                        runtime.as_millis(),
                        period.as_millis()
                    ),
                    None => Ok(()),
                }
            }
        }
    }
}

/// What the watchdog remembers of a task.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The CPU time of its thread at the first look.
    at_first: Duration,
    at_last: Duration,
    /// How long it was kept from running, in the period of throttling that began at `since`.
    lost: Duration,
    since: Duration,
    look: u64,
}

/// A task as a look finds it.
struct Found {
    id: u64,
    thread: ThreadId,
    level: Level,
    budget: Option<Duration>,
    /// It is the most important one of its CPU, alone.
    is_top: bool,
    is_job: bool,
}

impl<P: RealTime> Shared<P> {
    /// Starts the watchdog. An error inside is one that it can live with: it is not above all tasks.
    pub(super) fn start_watchdog(self: &Arc<Self>) -> Result<Option<RtError>, RtError> {
        let Some(period) = self.options.watchdog_period else { return Ok(None) };
        let above = Policy::Deadline { runtime: period / SHARE_OF_PERIOD, period };
        let mut lacking = None;
        let policy = if !self.has_priorities {
            Policy::Normal
        } else {
            match grants::<P>(above) {
                Ok(()) => above,
                Err(error) => {
                    lacking = Some(error);
                    self.policy_of(Priority::MAX)
                }
            }
        };
        let shared = Arc::clone(self);
        let body = move || shared.watch(period);
        self.start_thread("rt-watchdog".to_owned(), None, policy, Box::new(body))?;
        Ok(lacking)
    }

    fn watch(self: &Arc<Self>, period: Duration) {
        let limit = P::real_time_limits().throttle;
        let mut seen: HashMap<u64, Seen> = HashMap::new();
        let mut last = P::now();
        let mut look = 0;
        while !self.has_ended() {
            P::wait(&self.ends, 0, Some(period));
            let now = P::now();
            let elapsed = now - last;
            last = now;
            look += 1;
            for place in 0..self.cpus.len() {
                for task in self.found_at(place) {
                    self.look_at(place, &task, &mut seen, (elapsed, look, limit));
                }
            }
            seen.retain(|_, seen| seen.look == look);
        }
    }

    fn found_at(&self, place: usize) -> Vec<Found> {
        let state = self.cpus[place].lock();
        let top = state.level();
        let levels = state.lanes.iter().enumerate();
        let lanes = levels.flat_map(|(level, lanes)| lanes.iter().map(move |lane| (level, lane)));
        let lanes = lanes.filter_map(|(level, lane)| {
            let running = lane.running?;
            let level = Level::from_index(level);
            Some(Found {
                id: running.id,
                thread: lane.lane.thread()?,
                level,
                budget: running.budget,
                is_top: level == top && state.is_alone(level),
                is_job: false,
            })
        });
        let jobs = state.jobs.iter().filter(|job| !job.demoted).map(|job| Found {
            id: job.id,
            thread: job.thread,
            level: job.level,
            budget: job.budget,
            // Several may be at one level, and one of them runs.
            is_top: false,
            is_job: true,
        });
        lanes.chain(jobs).collect()
    }

    fn look_at(
        self: &Arc<Self>,
        place: usize,
        task: &Found,
        seen: &mut HashMap<u64, Seen>,
        (elapsed, look, limit): (Duration, u64, Option<Throttle>),
    ) {
        let Some(cpu_time) = P::cpu_time_of(task.thread) else { return };
        let is_new = !seen.contains_key(&task.id);
        let known = seen.entry(task.id).or_insert(Seen {
            at_first: cpu_time,
            at_last: cpu_time,
            lost: Duration::ZERO,
            since: Duration::ZERO,
            look,
        });
        known.look = look;
        if is_new {
            return;
        }
        let ran = cpu_time.saturating_sub(known.at_last);
        known.at_last = cpu_time;
        let used = cpu_time.saturating_sub(known.at_first);
        let cpu = self.cpus[place].id;
        let priority = task.level.get();
        if let Some(budget) = task.budget.filter(|budget| used > *budget) {
            if self.demote(place, task) {
                self.incidents.lock().push(Incident::Demoted { cpu, priority, budget, used });
            }
            return;
        }
        if !task.is_top || !self.has_priorities {
            return;
        }
        // A task that waits is not kept from running.
        if P::is_waiting(task.thread) {
            known.lost = Duration::ZERO;
            known.since = Duration::ZERO;
            return;
        }
        known.lost += elapsed.saturating_sub(ran);
        known.since += elapsed;
        let period = limit.map_or(Duration::from_secs(1), |limit| limit.period);
        if known.since >= period {
            let kept = limit.map_or(period / 20, |limit| limit.period - limit.runtime);
            // Half of what throttling takes: looks do not begin and end with its periods.
            if known.lost >= kept / 2 {
                let lost = known.lost;
                self.incidents.lock().push(Incident::Throttled { cpu, priority, lost, limit });
            }
            known.lost = Duration::ZERO;
            known.since = Duration::ZERO;
        }
    }

    /// Lets a task that has run away go on at normal priority, and its CPU take other work. False where
    /// it was over just then.
    fn demote(self: &Arc<Self>, place: usize, task: &Found) -> bool {
        // First of all the CPU is freed; everything else can wait for this thread.
        let demoted = !self.has_priorities || P::set_policy(task.thread, Policy::Normal).is_ok();
        let Ok(priority) = Priority::new(task.level.get()) else { return false };
        if task.is_job {
            let mut state = self.cpus[place].lock();
            let job = state.jobs.iter_mut().find(|job| job.id == task.id && !job.demoted);
            let Some(job) = job else { return false };
            job.demoted = true;
            state.leave(task.level);
            state.publish();
            drop(state);
            self.take_waiting(place);
            return demoted;
        }
        let fresh = self.new_lane(place, priority);
        let level = task.level.index();
        let mut state = self.cpus[place].lock();
        let is_task = |running: Running| running.id == task.id;
        let runs = |place: &&mut Place<P>| place.running.is_some_and(is_task);
        match (fresh, state.lanes[level].iter_mut().find(runs)) {
            (Ok(lane), Some(place_of_task)) => {
                // The old one goes home after its task.
                *place_of_task = Place::new(lane);
                state.leave(task.level);
                state.publish();
                drop(state);
                self.take_waiting(place);
                demoted
            }
            (fresh, _) => {
                drop(state);
                // Over just then, or there is no lane to take its place: it stays what it was.
                let _ = P::set_policy(task.thread, self.policy_of(priority));
                if let Ok(lane) = fresh {
                    lane.end();
                }
                false
            }
        }
    }
}
