//! Periodic tasks: each is a thread of its own, pinned to its CPU.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Policy, RealTime, ThreadId, Time, user};
use coreshard_topology::{CpuId, CpuSet};

use super::cpu::CpuState;
use super::{Executor, Shared};
use crate::error::RtError;
use crate::level::{Level, Priority};

/// The priorities of tasks by deadline: the one of the nearest deadline runs, those of later ones wait,
/// and one that wakes up comes before both, to find out which it is.
const WAITS: u8 = 96;
const RUNS: u8 = 97;
const WAKES: u8 = 98;

/// The part of a long sleep that is slept to the moment itself, and not until told to stop.
const LAST_SLEEP: Duration = Duration::from_millis(20);

/// By what a periodic task is more important than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// By its priority.
    Fixed(Priority),
    /// By the nearest deadline: the task runs above all fixed priorities up to 95 (those from 96 on
    /// come before it), and before tasks of later deadlines on its CPU. It must have a budget, and is
    /// admitted only where its CPU has room.
    Deadline,
}

/// What becomes of a task that is not done when its next period begins.
#[derive(Default)]
pub enum Overrun {
    /// The activations that were missed are left out.
    #[default]
    Skip,
    /// They are made up for, one right after the other.
    CatchUp,
    /// The function is called with the activation that lasted too long; then they are left out.
    Call(Box<dyn FnMut(&Activation) + Send>),
}

impl fmt::Debug for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Skip => "Skip",
            Self::CatchUp => "CatchUp",
            Self::Call(_) => "Call",
        })
    }
}

/// A periodic task, described.
#[derive(Debug)]
pub struct Periodic {
    /// By what it is more important than others.
    pub urgency: Urgency,
    /// From one activation to the next.
    pub period: Duration,
    /// From its start to its first activation.
    pub phase: Duration,
    /// From an activation until it must be done; the period where `None`.
    pub deadline: Option<Duration>,
    /// The CPU time that an activation may use. With it the task is admitted only where there is room,
    /// and demoted for the rest of an activation that uses more.
    pub budget: Option<Duration>,
    /// The CPUs that it may be put on; all of the executor's where `None`.
    pub cpus: Option<CpuSet>,
    /// What becomes of missed activations.
    pub overrun: Overrun,
}

impl Periodic {
    /// A task of `priority` every `period`, at once, without a budget, that skips what it misses.
    pub fn every(period: Duration, priority: Priority) -> Self {
        Self {
            urgency: Urgency::Fixed(priority),
            period,
            phase: Duration::ZERO,
            deadline: None,
            budget: None,
            cpus: None,
            overrun: Overrun::Skip,
        }
    }

    fn checked(&self) -> Result<Duration, RtError> {
        let deadline = self.deadline.unwrap_or(self.period);
        if self.period.is_zero() {
            return Err(RtError::period());
        }
        if deadline.is_zero() || deadline > self.period {
            return Err(RtError::deadline(deadline, self.period));
        }
        match self.budget {
            Some(budget) if budget.is_zero() || budget > deadline => {
                Err(RtError::budget(budget, deadline))
            }
            None if self.urgency == Urgency::Deadline => Err(RtError::no_budget()),
            _ => Ok(deadline),
        }
    }
}

/// One activation of a periodic task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Counted from 0; those that were left out are counted too.
    pub number: u64,
    /// When it was to begin.
    pub wanted: Time,
    /// When its thread woke up.
    pub woke: Time,
    /// When it must be done.
    pub deadline: Time,
}

/// What a periodic task has come to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeriodicStats {
    /// Activations that are over.
    pub activations: u64,
    /// Of these, the ones that were done after their deadline.
    pub late: u64,
    /// Activations that were left out.
    pub skipped: u64,
    /// Activations that threw.
    pub panics: u64,
}

pub(super) struct Control<P: RealTime> {
    /// 1 once the task is to stop.
    stops: P::AtomicU32,
    /// 1 once its thread is done.
    over: P::AtomicU32,
    /// Its thread, from when that runs.
    thread: P::AtomicU32,
    counts: [P::AtomicU64; 4],
}

/// A periodic task that runs. Dropped, it runs on until the executor ends.
pub struct PeriodicHandle<P: RealTime> {
    control: Arc<Control<P>>,
    cpu: CpuId,
}

impl<P: RealTime> PeriodicHandle<P> {
    /// The CPU it was put on.
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// What it has come to so far.
    pub fn stats(&self) -> PeriodicStats {
        let [activations, late, skipped, panics] =
            [0, 1, 2, 3].map(|at: usize| self.control.counts[at].load(Relaxed));
        PeriodicStats { activations, late, skipped, panics }
    }

    /// Ends it after the activation at hand, and waits for that, and until what it owns is dropped. Called
    /// by the task itself (its body, its hook, or a destructor of theirs), it does not wait.
    pub fn stop(self) -> PeriodicStats {
        self.control.stop();
        // While it is not over, nobody else has its thread's number.
        let is_itself = self.control.thread.load(Relaxed) == P::this_thread().0;
        // Acquire pairs with the Release in `Ends::drop`.
        while !is_itself && self.control.over.load(Acquire) == 0 {
            P::wait(&self.control.over, 0, None);
        }
        self.stats()
    }
}

impl<P: RealTime> fmt::Debug for PeriodicHandle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicHandle")
            .field("cpu", &self.cpu)
            .field("stats", &self.stats())
            .finish()
    }
}

impl<P: RealTime> Control<P> {
    fn stop(&self) {
        self.stops.store(1, Release);
        P::wake_all(&raw const self.stops);
    }

    /// Sleeps until a moment. False where the task is to stop.
    fn sleep_to(&self, moment: Time) -> bool {
        loop {
            if self.stops.load(Acquire) != 0 {
                return false;
            }
            let left = moment - P::now();
            if left <= LAST_SLEEP {
                P::sleep_to(moment);
                return self.stops.load(Acquire) == 0;
            }
            P::wait(&self.stops, 0, Some(left - LAST_SLEEP / 2));
        }
    }

    fn count(&self, what: usize, times: u64) {
        self.counts[what].fetch_add(times, Relaxed);
    }
}

/// An activation that has begun on a CPU and is not over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) thread: ThreadId,
    pub(super) level: Level,
    pub(super) budget: Option<Duration>,
    /// The CPU time of its thread when it began; where it has a budget.
    pub(super) began: Duration,
    /// Of a task by deadline.
    deadline: Option<Time>,
    /// The watchdog has counted it out.
    pub(super) demoted: bool,
}

impl<P: RealTime> Executor<P> {
    /// Runs `body` periodically.
    ///
    /// # Errors
    /// Where period, deadline and budget do not fit together, the priority is taken by the machine, a CPU
    /// is not the executor's, no CPU has room for the budget, or the thread cannot be had.
    pub fn periodic(
        &self,
        task: Periodic,
        body: impl FnMut(&Activation) + Send + 'static,
    ) -> Result<PeriodicHandle<P>, RtError> {
        let deadline = task.checked()?;
        let cpus = task.cpus.as_ref().unwrap_or_else(|| self.cpus());
        let shared = &self.shared;
        if let Some(outside) = Some(cpus - self.cpus()).filter(|outside| !outside.is_empty()) {
            return Err(RtError::outside_cpus(&outside, self.cpus()));
        }
        let places: Vec<usize> = cpus.iter().map(|cpu| shared.place_of(cpu)).collect();
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let density = task.budget.map(|budget| budget.as_secs_f64() / deadline.as_secs_f64());
        let place = match density {
            Some(density) => {
                let admitted = shared.admitted.lock().admit(&places, density, ns(deadline));
                admitted.map_err(|refused| RtError::utilisation(refused.sum, refused.limit))?
            }
            // Without a budget nothing is promised: the CPU that runs the least now.
            None => {
                let mask = shared.index.mask(cpus)?;
                let near = P::current_cpu();
                let found = shared.index.find(Level::TOP, &mask, near);
                found.map_or(places[0], |(cpu, _)| shared.place_of(cpu))
            }
        };
        let control = Arc::new(Control {
            stops: P::AtomicU32::new(0),
            over: P::AtomicU32::new(0),
            thread: P::AtomicU32::new(0),
            counts: std::array::from_fn(|_| P::AtomicU64::new(0)),
        });
        shared.periodics.lock().push(Arc::clone(&control));
        // From here on a failure undoes all this.
        let ends = Ends {
            shared: Arc::clone(shared),
            control: Arc::clone(&control),
            admitted: density.map(|density| (place, density, ns(deadline))),
        };
        let cpu = shared.cpus[place].id;
        let priority = match task.urgency {
            Urgency::Fixed(priority) => priority.get(),
            Urgency::Deadline => WAKES,
        };
        let policy = shared.policy_of(Priority::new(priority)?);
        let life = move || {
            let Ends { shared, control, .. } = &ends;
            control.thread.store(P::this_thread().0, Relaxed);
            let (mut task, mut body) = (task, body);
            Life { shared, place, policy, deadline, control }.run(&mut task, &mut body);
            drop(user::discard(body));
            drop(user::discard(task));
            drop(ends);
        };
        shared.start_thread(format!("rt-every-{cpu}"), Some(place), policy, Box::new(life))?;
        Ok(PeriodicHandle { control, cpu })
    }
}

/// Says that a periodic task is over, when its thread is done with it, or could not be had.
struct Ends<P: RealTime> {
    shared: Arc<Shared<P>>,
    control: Arc<Control<P>>,
    /// What it was promised: of which CPU, how much of it, and by when.
    admitted: Option<(usize, f64, u64)>,
}

impl<P: RealTime> Drop for Ends<P> {
    fn drop(&mut self) {
        let Self { shared, control, admitted } = self;
        if let Some((place, density, deadline_ns)) = *admitted {
            shared.admitted.lock().release(place, density, deadline_ns);
        }
        shared.periodics.lock().retain(|known| !Arc::ptr_eq(known, control));
        // Release pairs with the Acquire of `stop`.
        control.over.store(1, Release);
        P::wake_all(&raw const control.over);
    }
}

struct Life<'a, P: RealTime> {
    shared: &'a Shared<P>,
    place: usize,
    /// How its thread is scheduled while it sleeps.
    policy: Policy,
    deadline: Duration,
    control: &'a Control<P>,
}

impl<P: RealTime> Life<'_, P> {
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
            // The next one on the grid that is not over yet.
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
            Urgency::Deadline => (Level::from_index(RUNS.into()), Some(deadline)),
        };
        let id = self.shared.new_id();
        let began = task.budget.and_then(|_| P::cpu_time_of(thread)).unwrap_or_default();
        let mut state = self.shared.cpus[self.place].lock();
        let before = state.nearest_job();
        let demoted = false;
        state.jobs.push(Job { id, thread, level, budget: task.budget, began, deadline, demoted });
        state.enter(level);
        state.publish();
        if deadline.is_some() {
            let nearest = state.nearest_job();
            if nearest == Some(thread) {
                self.schedule(before, RUNS, WAITS);
                self.schedule(Some(thread), WAKES, RUNS);
            } else {
                self.schedule(Some(thread), WAKES, WAITS);
            }
        }
        id
    }

    fn end(&self, id: u64) {
        let mut state = self.shared.cpus[self.place].lock();
        let Some(at) = state.jobs.iter().position(|job| job.id == id) else { return };
        let job = state.jobs.swap_remove(at);
        if job.demoted || job.deadline.is_some() {
            if self.shared.has_priorities {
                // To be what it was when it began was granted once.
                let _ = P::set_policy(job.thread, self.policy);
            }
            let nearest = state.nearest_job();
            self.schedule(nearest, WAITS, RUNS);
        }
        if job.demoted {
            return;
        }
        drop(state);
        self.shared.leave(self.place, job.level, None);
    }

    /// Gives a job of a deadline another priority of its band.
    fn schedule(&self, thread: Option<ThreadId>, from: u8, to: u8) {
        if let Some(thread) = thread.filter(|_| self.shared.has_priorities && from != to) {
            // Both are below what the thread was granted.
            let _ = P::set_policy(thread, Policy::Fifo(to));
        }
    }
}

impl<P: RealTime> CpuState<P> {
    /// The thread of the job with the nearest deadline, first come first.
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
