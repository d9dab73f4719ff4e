//! One CPU of an executor: what runs there, what waits there, and its threads.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, Padded, Platform, RealTime};
use coreshard_topology::CpuId;

use super::job::Job;
use super::level_set::LevelSet;
use super::priority_array::PriorityArray;
use super::priority_thread::{PriorityThread, RunningTask, ThreadSlot};
use super::task::Task;
use crate::index::{CpuMask, LevelWriter};
use crate::level::{Level, Priority};
use crate::lock::{InheritGuard, InheritMutex};

/// How many threads of a CPU's level run a task, for searches at that level. Written under the CPU's lock.
type RrRunning<P> = Arc<Padded<<P as Platform>::AtomicU32>>;

/// What has happened on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuStats {
    /// Tasks that were begun here.
    pub started: u64,
    /// Of these, the ones that this CPU pulled from where they waited.
    pub pulled: u64,
    /// Tasks that had to wait here.
    pub waited: u64,
    /// How often a task came here too late: another had begun.
    pub too_late: u64,
}

/// What a CPU's lock protects.
pub(super) struct CpuState<P: RealTime> {
    pub(super) writer: LevelWriter<P>,
    pub(super) online: bool,
    /// By level: how many tasks of it have been begun and are not over.
    begun: Box<[u16]>,
    active: LevelSet,
    pub(super) waiting: PriorityArray,
    /// By level: one, or as many as take turns (SCHED_RR).
    pub(super) threads: Vec<Vec<ThreadSlot<P>>>,
    /// `None` where no tasks take turns.
    rr_running: Option<RrRunning<P>>,
    pub(super) jobs: Vec<Job>,
    /// The CPUs whose `pull_sources` name this one.
    pub(super) announced_to: CpuMask,
    pub(super) stats: CpuStats,
}

pub(super) struct Cpu<P: RealTime> {
    pub(super) id: CpuId,
    state: InheritMutex<P, CpuState<P>>,
    /// The highest level that waits here, for CPUs that pull. Written under the lock; on lines of its own,
    /// since it changes less often than the lock.
    pub(super) highest_waiting: Padded<P::AtomicU32>,
    /// The CPUs to pull from: one bit for each at which a task ever waited that may run here. One set for the
    /// whole machine, as the kernel's `rto_mask`, would be a line that all CPUs write.
    pub(super) pull_sources: Padded<Box<[P::AtomicU64]>>,
    rr_running: Option<RrRunning<P>>,
    /// 1 where the watchdog has demoted something. Written under the lock.
    pub(super) needs_supervisor: P::AtomicU32,
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
        Self {
            id: state.writer.cpu(),
            state: InheritMutex::new(state),
            highest_waiting: Padded::new(P::AtomicU32::new(0)),
            pull_sources: Padded::new(
                (0..cpus.div_ceil(64)).map(|_| P::AtomicU64::new(0)).collect(),
            ),
            rr_running,
            needs_supervisor: P::AtomicU32::new(0),
        }
    }

    /// How many threads of the CPU's level run a task; the largest number where no tasks take turns.
    pub(super) fn rr_nr_running(&self) -> usize {
        // SeqCst: after what the caller published, as a search of the index.
        self.rr_running.as_ref().map_or(usize::MAX, |rr_running| rr_running.load(SeqCst) as usize)
    }

    /// The lock, unless it is held.
    pub(super) fn try_lock(&self) -> Option<InheritGuard<'_, P, CpuState<P>>> {
        self.state.try_lock().map_or_else(|error| error.into_guard(), Some)
    }

    #[track_caller]
    pub(super) fn lock(&self) -> InheritGuard<'_, P, CpuState<P>> {
        self.state.lock_own()
    }
}

impl<P: RealTime> CpuState<P> {
    /// The level of what has been begun here.
    pub(super) fn level(&self) -> Level {
        self.active.highest()
    }

    /// Whether a task of `priority` would be run at once, or by turns with others of its priority.
    pub(super) fn takes(&self, priority: Priority) -> bool {
        self.online && self.floor() < priority.level()
    }

    /// The level above which a task may begin here: the CPU's, or one below it where a task of the same
    /// priority can take turns with those that are there.
    pub(super) fn floor(&self) -> Level {
        let level = self.level();
        let has_turn = self.rr_running.is_some() && self.free_slot(level, None).is_some();
        if has_turn { Level::from_index(level.index() - 1) } else { level }
    }

    /// The index of a slot of `level` that runs no task: that of `own`, where it is one.
    fn free_slot(&self, level: Level, own: Option<&Arc<PriorityThread<P>>>) -> Option<usize> {
        let threads = &self.threads[level.index()];
        let is_own = |slot: &ThreadSlot<P>| own.is_some_and(|own| Arc::ptr_eq(own, &slot.thread));
        let is_free = |slot: &ThreadSlot<P>| slot.running.is_none();
        let own = threads.iter().position(|slot| is_free(slot) && is_own(slot));
        own.or_else(|| threads.iter().position(is_free))
    }

    /// Counts a task that begins.
    pub(super) fn enter(&mut self, level: Level) {
        self.begun[level.index()] += 1;
        self.active.add(level.index());
    }

    /// Counts a task that is over.
    pub(super) fn leave(&mut self, level: Level) {
        let begun = &mut self.begun[level.index()];
        *begun -= 1;
        if *begun == 0 {
            self.active.remove(level.index());
        }
    }

    /// Whether one task alone is begun and not over at a level.
    pub(super) fn is_alone(&self, level: Level) -> bool {
        self.begun[level.index()] == 1
    }

    /// Tells the index at which level this CPU is.
    pub(super) fn publish(&mut self) {
        if self.online {
            let level = self.level();
            if let Some(rr_running) = &self.rr_running {
                let threads = self.threads[level.index()].iter();
                let taken = threads.filter(|slot| slot.running.is_some()).count() as u32;
                if rr_running.load(Relaxed) != taken {
                    // SeqCst: before this CPU reads what waits elsewhere.
                    rr_running.store(taken, SeqCst);
                }
            }
            self.writer.set(level);
        }
    }

    /// Gives a task to a thread, to `own` if it can. The caller wakes the thread, after the lock.
    pub(super) fn assign(
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
}
