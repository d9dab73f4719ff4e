//! One CPU of an executor: the tasks that run and wait there, and its threads.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Padded, Platform, RealTime, ThreadId, Time};
use coreshard_topology::{CpuId, CpuSet};

use super::priority_array::{LevelSet, PriorityArray, Task};
use super::priority_thread::PriorityThread;
use crate::index::{CpuMask, LevelWriter};
use crate::level::{Level, Priority};
use crate::lock::{InheritGuard, InheritMutex};

/// The number of a CPU's threads at its level that run a task, for searches at that level. Written under the
/// CPU's lock.
type RrRunning<P> = Arc<Padded<<P as Platform>::AtomicU32>>;

/// Counts of events on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuStats {
    /// Tasks that began here.
    pub started: u64,
    /// Tasks among `started` that this CPU pulled from another.
    pub pulled: u64,
    /// Tasks that had to wait here.
    pub waited: u64,
    /// How often a task arrived here after another one had begun.
    pub too_late: u64,
}

/// The state of a CPU, as reported by [`Executor::snapshot`](crate::Executor::snapshot).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuSnapshot {
    /// The CPU.
    pub cpu: CpuId,
    /// Whether it is in use.
    pub online: bool,
    /// The level of its running tasks.
    pub level: Level,
    /// The tasks that wait there: priority, and the CPUs that each may use.
    pub waiting: Vec<(Priority, CpuSet)>,
    /// Counts of events there.
    pub stats: CpuStats,
}

/// An activation of a periodic task that has begun on a CPU and has not finished.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) thread: ThreadId,
    pub(super) level: Level,
    pub(super) budget: Option<Duration>,
    /// The CPU time of its thread when it began, if it has a budget.
    pub(super) began: Duration,
    /// `None` for a task of fixed priority.
    pub(super) deadline: Option<Time>,
    /// Whether the watchdog demoted it, and with that counted it out.
    pub(super) demoted: bool,
}

/// The task that a thread runs.
#[derive(Clone, Copy, Debug)]
struct RunningTask {
    id: u64,
    budget: Option<Duration>,
    /// Whether it exceeded its budget and the watchdog set its thread to normal priority. It still counts
    /// until the supervisor has replaced its thread.
    demoted: bool,
}

/// A CPU's thread of a level, and the task that it runs.
struct ThreadSlot<P: RealTime> {
    thread: Arc<PriorityThread<P>>,
    running: Option<RunningTask>,
}

/// The highest-priority task of a CPU, alone at its level.
#[derive(Clone, Copy, Debug)]
pub(super) struct HighestTask {
    pub(super) id: u64,
    pub(super) thread: ThreadId,
    pub(super) level: Level,
}

/// The next step of a thread whose task has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterTask {
    /// Run the next task, which is assigned.
    RunNext,
    Sleep,
    /// Exit: the thread was replaced.
    Exit,
}

/// The state that a CPU's lock protects.
pub(super) struct CpuState<P: RealTime> {
    writer: LevelWriter<P>,
    online: bool,
    /// By level: the number of tasks that have begun and have not finished.
    begun: Box<[u16]>,
    active: LevelSet,
    waiting: PriorityArray,
    /// By level: one thread, or as many as take turns (SCHED_RR).
    threads: Vec<Vec<ThreadSlot<P>>>,
    /// `None` if no tasks take turns.
    rr_running: Option<RrRunning<P>>,
    jobs: Vec<Job>,
    /// The CPUs whose `pull_sources` contain this one.
    announced_to: CpuMask,
    stats: CpuStats,
}

pub(super) struct Cpu<P: RealTime> {
    pub(super) id: CpuId,
    state: InheritMutex<P, CpuState<P>>,
    /// The highest level that waits here, for CPUs that pull. Written under the lock. On its own lines, since
    /// it changes less often than the lock.
    highest_waiting: Padded<P::AtomicU32>,
    /// The CPUs to pull from: a bit is set if a task ever waited at that CPU which may run here. One set for
    /// the whole machine, like the kernel's `rto_mask`, would be a line that all CPUs write.
    pull_sources: Padded<Box<[P::AtomicU64]>>,
    rr_running: Option<RrRunning<P>>,
    /// 1 if the watchdog has demoted a task. Written under the lock.
    needs_supervisor: P::AtomicU32,
}

impl<P: RealTime> Cpu<P> {
    pub(super) fn new(writer: LevelWriter<P>, cpus: usize, take_turns: bool) -> Self {
        let rr_running = take_turns.then(|| Arc::new(Padded::new(P::AtomicU32::new(0))));
        let state = CpuState {
            online: true,
            begun: vec![0; Level::COUNT].into(),
            active: LevelSet::default(),
            waiting: PriorityArray::new(),
            threads: (0..Level::COUNT).map(|_| Vec::new()).collect(),
            rr_running: rr_running.clone(),
            jobs: Vec::new(),
            announced_to: CpuMask::EMPTY,
            stats: CpuStats::default(),
            writer,
        };
        let pull_sources = (0..cpus.div_ceil(64)).map(|_| P::AtomicU64::new(0)).collect();
        Self {
            id: state.writer.cpu(),
            state: InheritMutex::new(state),
            highest_waiting: Padded::new(P::AtomicU32::new(0)),
            pull_sources: Padded::new(pull_sources),
            rr_running,
            needs_supervisor: P::AtomicU32::new(0),
        }
    }

    pub(super) fn snapshot(&self, cpus_of: impl Fn(&CpuMask) -> CpuSet) -> CpuSnapshot {
        let state = self.lock_state();
        let waiting = state.waiting.iter();
        CpuSnapshot {
            cpu: self.id,
            online: state.online,
            level: state.current_level(),
            waiting: waiting.map(|task| (task.priority, cpus_of(&task.allowed))).collect(),
            stats: state.stats,
        }
    }

    /// Returns the number of tasks that wait here.
    pub(super) fn waiting(&self) -> usize {
        self.lock_state().waiting.len()
    }

    /// Returns how many threads of the CPU's level run a task, or the largest number if no tasks take turns.
    pub(super) fn rr_nr_running(&self) -> usize {
        // SeqCst: ordered after the caller's earlier publication, like a search of the index. Pairs with the
        // store in `publish`.
        self.rr_running.as_ref().map_or(usize::MAX, |rr_running| rr_running.load(SeqCst) as usize)
    }

    /// Takes the lock, unless it is held.
    pub(super) fn try_lock_state(&self) -> Option<InheritGuard<'_, P, CpuState<P>>> {
        self.state.try_lock().map_or_else(|error| error.into_guard(), Some)
    }

    #[track_caller]
    pub(super) fn lock_state(&self) -> InheritGuard<'_, P, CpuState<P>> {
        self.state.lock_own()
    }

    /// Begins a task. Returns it if the CPU now runs a task of at least its priority.
    pub(super) fn start(&self, task: Task, pulled: bool) -> Option<Task> {
        let mut state = self.lock_state();
        if !state.takes(task.priority) {
            state.stats.too_late += 1;
            return Some(task);
        }
        state.stats.pulled += u64::from(pulled);
        Self::begin(state, task);
        None
    }

    #[inline(always)]
    fn begin(mut state: InheritGuard<'_, P, CpuState<P>>, task: Task) {
        let thread = state.assign(task, None);
        state.publish();
        drop(state);
        thread.unpark();
    }

    /// Queues a task here, or begins it if that has become possible. Returns whether it waits.
    ///
    /// `announce` makes this CPU a pull source of the CPUs in the mask.
    pub(super) fn enqueue(&self, task: Task, announce: impl FnOnce(&CpuMask)) -> bool {
        let mut state = self.lock_state();
        if state.takes(task.priority) {
            Self::begin(state, task);
            return false;
        }
        state.stats.waited += 1;
        if !state.announced_to.contains(&task.allowed) {
            announce(&task.allowed);
            state.announced_to.join(&task.allowed);
        }
        state.waiting.push(task);
        self.publish_waiting(&state);
        true
    }

    /// Takes back the task with this number, if it still waits here.
    pub(super) fn take_id(&self, priority: Priority, id: u64) -> Option<Task> {
        let mut state = self.lock_state();
        let task = state.waiting.take_id(priority, id);
        self.publish_waiting(&state);
        task
    }

    /// Takes the highest-priority task above `level` that `may` accepts.
    pub(super) fn take_above(&self, level: Level, may: impl Fn(&Task) -> bool) -> Option<Task> {
        let mut state = self.lock_state();
        let task = state.waiting.take(level, may);
        self.publish_waiting(&state);
        task
    }

    /// Publishes the highest priority that waits here. A thread that queues a task executes a fence
    /// afterwards.
    fn publish_waiting(&self, state: &CpuState<P>) {
        let top = u32::from(state.waiting.highest().get());
        if self.highest_waiting.load(Relaxed) != top {
            // Release: a CPU that sees the level also sees the bit in its pull sources. SeqCst: in one order
            // with the index's words (see "At rest" in the index's README). The lock admits one writer at a
            // time.
            self.highest_waiting.store(top, SeqCst);
        }
    }

    /// Returns the highest level that waits here. The calling CPU must have published its own level with a
    /// fence before.
    pub(super) fn highest_waiting(&self) -> u32 {
        self.highest_waiting.load(SeqCst)
    }

    /// Makes this CPU pull from the one at `position`.
    pub(super) fn add_pull_source(&self, position: usize) {
        self.pull_sources[position / 64].fetch_or(1 << (position % 64), SeqCst);
    }

    /// Returns the words of the set of CPUs to pull from.
    pub(super) fn pull_sources(&self) -> impl Iterator<Item = u64> + '_ {
        self.pull_sources.iter().map(|word| word.load(SeqCst))
    }

    /// Counts out a task of `level`, which ran on the thread `own` or was a job. Then begins the
    /// highest-priority task that waits here, if it can begin.
    ///
    /// Returns the next step of `own`, and whether the CPU may pull.
    pub(super) fn finish(
        &self,
        level: Level,
        own: Option<&Arc<PriorityThread<P>>>,
    ) -> (AfterTask, bool) {
        let mut state = self.lock_state();
        let before = state.floor();
        if let Some(own) = own {
            let slots = &mut state.threads[level.index()];
            let Some(slot) = slots.iter_mut().find(|slot| Arc::ptr_eq(&slot.thread, own)) else {
                // The supervisor has replaced the thread, and has counted the task out.
                return (AfterTask::Exit, false);
            };
            if slot.running.take().is_some_and(|task| task.demoted) {
                // The thread was not replaced.
                own.restore_policy();
            }
        }
        state.leave(level);
        let woken = self.assign_next(&mut state, own);
        let may_pull = state.online && state.floor() < before;
        drop(state);
        let next = match (woken, own) {
            (Some(thread), Some(own)) if Arc::ptr_eq(&thread, own) => AfterTask::RunNext,
            (Some(thread), _) => {
                thread.unpark();
                AfterTask::Sleep
            }
            (None, _) => AfterTask::Sleep,
        };
        (next, may_pull)
    }

    /// Begins waiting tasks after the CPU's level fell although none of its threads finished a task.
    pub(super) fn start_next(&self) {
        let mut state = self.lock_state();
        let thread = self.assign_next(&mut state, None);
        drop(state);
        if let Some(thread) = thread {
            thread.unpark();
        }
    }

    /// Assigns the highest-priority task that waits here, if it can begin, and updates the index.
    fn assign_next(
        &self,
        state: &mut CpuState<P>,
        own: Option<&Arc<PriorityThread<P>>>,
    ) -> Option<Arc<PriorityThread<P>>> {
        let floor = state.floor();
        let CpuState { online, waiting, writer, .. } = state;
        // No `then`, which would move the task once more.
        let next =
            if *online { waiting.take(floor, |task| writer.is_in(&task.allowed)) } else { None };
        let thread = next.map(|task| state.assign(task, own));
        if thread.is_some() {
            self.publish_waiting(state);
        }
        state.publish();
        thread
    }

    /// Takes the CPU out of use. Returns the tasks that waited here.
    pub(super) fn take_offline(&self) -> Vec<Task> {
        let mut state = self.lock_state();
        state.online = false;
        state.writer.withdraw();
        let moved = state.waiting.drain();
        self.publish_waiting(&state);
        moved
    }

    /// Demotes the tasks that exceeded their budgets. `overused` gets the thread, its CPU time at the task's
    /// beginning and the budget, and returns the used time if the task is to be demoted. `report` gets the
    /// level, the budget and that time. Returns whether the supervisor must be notified.
    pub(super) fn demote_overused(
        &self,
        state: &mut CpuState<P>,
        overused: impl Fn(ThreadId, Duration, Duration) -> Option<Duration>,
        mut report: impl FnMut(Level, Duration, Duration),
    ) -> bool {
        let mut has_demoted = false;
        for (level, slots) in state.threads.iter_mut().enumerate().skip(1) {
            for ThreadSlot { thread, running } in slots {
                let Some(running) = running.as_mut().filter(|it| !it.demoted) else { continue };
                let Some(budget) = running.budget else { continue };
                let (Some(id), Some(began)) = (thread.id(), thread.task_began()) else { continue };
                if let Some(used) = overused(id, began, budget) {
                    running.demoted = true;
                    has_demoted = true;
                    report(Level::from_index(level), budget, used);
                }
            }
        }
        let mut is_lower = false;
        for at in 0..state.jobs.len() {
            let job = &mut state.jobs[at];
            let level = job.level;
            let Some(budget) = job.budget.filter(|_| !job.demoted) else { continue };
            let Some(used) = overused(job.thread, job.began, budget) else { continue };
            job.demoted = true;
            state.leave(level);
            is_lower = true;
            report(level, budget, used);
        }
        if is_lower {
            state.publish();
        }
        if has_demoted || is_lower {
            // The supervisor replaces threads, and begins waiting tasks.
            self.needs_supervisor.store(1, Relaxed);
        }
        has_demoted || is_lower
    }

    /// Returns whether the supervisor must check this CPU, and resets that.
    pub(super) fn take_needs_supervisor(&self) -> bool {
        // Relaxed: the flag was set under the CPU's lock, which is taken next.
        self.needs_supervisor.load(Relaxed) != 0 && self.needs_supervisor.swap(0, Relaxed) != 0
    }

    /// Makes the supervisor check this CPU again.
    pub(super) fn keep_needs_supervisor(&self) {
        self.needs_supervisor.store(1, Relaxed);
    }

    /// Puts `fresh` in the place of the thread that runs the demoted task `id`; that thread exits after the
    /// task. If the task has finished meanwhile, its thread stays and `fresh` exits.
    pub(super) fn replace_thread(
        &self,
        priority: Priority,
        id: u64,
        fresh: Arc<PriorityThread<P>>,
    ) {
        let level = priority.level();
        let mut state = self.lock_state();
        let mut slots = state.threads[level.index()].iter_mut();
        match slots.find(|slot| slot.running.is_some_and(|running| running.id == id)) {
            Some(slot) => {
                *slot = ThreadSlot { thread: fresh, running: None };
                state.leave(level);
                state.publish();
            }
            None => {
                drop(state);
                fresh.exit();
            }
        }
    }

    /// Tells all threads to exit.
    pub(super) fn exit_threads(&self) {
        let slots: Vec<_> = self.lock_state().threads.iter_mut().flat_map(std::mem::take).collect();
        slots.iter().for_each(|slot| slot.thread.exit());
    }
}

impl<P: RealTime> CpuState<P> {
    pub(super) fn is_online(&self) -> bool {
        self.online
    }

    /// Brings the CPU back into use.
    pub(super) fn bring_online(&mut self) {
        self.online = true;
        self.publish();
    }

    /// Returns the level of the running tasks.
    fn current_level(&self) -> Level {
        self.active.highest()
    }

    /// Returns whether a task of `priority` would run at once, or take turns with others of its priority.
    fn takes(&self, priority: Priority) -> bool {
        self.online && self.floor() < priority.level()
    }

    /// Returns the CPU's level. A task may begin here if its level is higher. If tasks of the CPU's priority can take
    /// turns, the result is one lower.
    pub(super) fn floor(&self) -> Level {
        let level = self.current_level();
        let has_turn = self.rr_running.is_some() && self.free_slot(level, None).is_some();
        if has_turn { Level::from_index(level.index() - 1) } else { level }
    }

    /// Returns the index of a slot of `level` that runs no task, preferably that of `own`.
    fn free_slot(&self, level: Level, own: Option<&Arc<PriorityThread<P>>>) -> Option<usize> {
        let threads = &self.threads[level.index()];
        let is_own = |slot: &ThreadSlot<P>| own.is_some_and(|own| Arc::ptr_eq(own, &slot.thread));
        let is_free = |slot: &ThreadSlot<P>| slot.running.is_none();
        let own = threads.iter().position(|slot| is_free(slot) && is_own(slot));
        own.or_else(|| threads.iter().position(is_free))
    }

    pub(super) fn thread_count(&self, priority: Priority) -> usize {
        self.threads[priority.level().index()].len()
    }

    pub(super) fn add_thread(&mut self, priority: Priority, thread: Arc<PriorityThread<P>>) {
        let slots = &mut self.threads[priority.level().index()];
        slots.push(ThreadSlot { thread, running: None });
    }

    /// Counts a task that begins.
    fn enter(&mut self, level: Level) {
        self.begun[level.index()] += 1;
        self.active.add(level.index());
    }

    /// Counts a task that has finished.
    fn leave(&mut self, level: Level) {
        let begun = &mut self.begun[level.index()];
        *begun -= 1;
        if *begun == 0 {
            self.active.remove(level.index());
        }
    }

    /// Publishes the level of this CPU in the index.
    fn publish(&mut self) {
        if self.online {
            let level = self.current_level();
            if let Some(rr_running) = &self.rr_running {
                let threads = self.threads[level.index()].iter();
                let taken = threads.filter(|slot| slot.running.is_some()).count() as u32;
                if rr_running.load(Relaxed) != taken {
                    // SeqCst: ordered before this CPU reads which tasks wait elsewhere. Pairs with the load
                    // in `rr_nr_running`.
                    rr_running.store(taken, SeqCst);
                }
            }
            self.writer.set(level);
        }
    }

    /// Assigns a task to a thread, to `own` if possible. The caller wakes the thread after releasing the
    /// lock.
    fn assign(
        &mut self,
        task: Task,
        own: Option<&Arc<PriorityThread<P>>>,
    ) -> Arc<PriorityThread<P>> {
        let level = task.priority.level();
        let free = self.free_slot(level, own);
        let free = free.expect("a priority has its threads before a task of it is accepted");
        self.enter(level);
        self.stats.started += 1;
        let slot = &mut self.threads[level.index()][free];
        slot.running = Some(RunningTask { id: task.id, budget: task.budget, demoted: false });
        slot.thread.assign(task);
        Arc::clone(&slot.thread)
    }

    pub(super) fn begin_job(&mut self, job: Job) {
        self.jobs.push(job);
        self.enter(job.level);
        self.publish();
    }

    /// Removes a job. The caller counts it out, unless it was demoted.
    pub(super) fn end_job(&mut self, id: u64) -> Option<Job> {
        let at = self.jobs.iter().position(|job| job.id == id)?;
        Some(self.jobs.swap_remove(at))
    }

    /// Returns the thread of the job with the nearest deadline; the first of equal ones.
    pub(super) fn nearest_job(&self) -> Option<ThreadId> {
        let by_deadline = self.jobs.iter().filter(|job| !job.demoted);
        let by_deadline = by_deadline.filter_map(|job| Some((job.deadline?, job.id, job.thread)));
        by_deadline.min_by_key(|job| (job.0, job.1)).map(|job| job.2)
    }

    /// Returns the task at the CPU's level if it is the only one there and no job: of several, another may be
    /// running.
    pub(super) fn highest_task(&self) -> Option<HighestTask> {
        let level = self.current_level();
        if self.begun[level.index()] != 1 {
            return None;
        }
        self.threads[level.index()].iter().find_map(|slot| {
            let running = slot.running.filter(|running| !running.demoted)?;
            Some(HighestTask { id: running.id, thread: slot.thread.id()?, level })
        })
    }

    /// Returns a task that the watchdog has demoted and whose thread was not replaced yet.
    pub(super) fn demoted(&self) -> Option<(Priority, u64)> {
        let slots = self.threads.iter().zip(0..).flat_map(|(slots, level)| {
            slots.iter().filter_map(move |slot| Some((Level::from_index(level), slot.running?)))
        });
        let mut demoted = slots.filter(|(_, running)| running.demoted);
        demoted.find_map(|(level, running)| Some((Priority::of(level)?, running.id)))
    }
}
