//! One CPU of an executor: what runs there, what waits there, and its lanes.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, Padded, Parker, Platform, RealTime, ThreadId};
use coreshard_topology::CpuId;

use super::periodic::Job;
use super::waiting::{Levels, Task, Waiting};
use crate::index::{CpuMask, LevelWriter};
use crate::level::{Level, Priority};
use crate::lock::{InheritGuard, InheritMutex};

/// A thread of one CPU and one priority.
pub(super) struct Lane<P: RealTime> {
    pub(super) parker: Parker<P>,
    pub(super) order: Lock<P, Order>,
    /// 0 until it runs.
    thread: P::AtomicU32,
    /// The CPU time of its thread when the task that it has, and that has a budget, began: in
    /// nanoseconds, or [`NOT_BEGUN`]. Reset under the CPU's lock, by whoever gives it the task.
    task_began: P::AtomicU64,
}

const NOT_BEGUN: u64 = u64::MAX;

/// What a lane is to do when it wakes up.
pub(super) enum Order {
    Rest,
    Run(Task),
    End,
}

impl<P: RealTime> Lane<P> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            parker: Parker::new(),
            order: Lock::new(Order::Rest),
            thread: P::AtomicU32::new(0),
            task_began: P::AtomicU64::new(NOT_BEGUN),
        })
    }

    /// The calling thread is the lane's.
    pub(super) fn begins(&self) {
        self.thread.store(P::this_thread().0, Relaxed);
    }

    /// Its thread.
    pub(super) fn thread(&self) -> Option<ThreadId> {
        Some(ThreadId(self.thread.load(Relaxed))).filter(|thread| thread.0 != 0)
    }

    /// The calling thread is the lane's, and begins a task that has a budget.
    pub(super) fn begins_task(&self) {
        let used = P::cpu_time_of(P::this_thread()).unwrap_or_default();
        self.task_began.store(u64::try_from(used.as_nanos()).unwrap_or(NOT_BEGUN), Relaxed);
    }

    /// The CPU time of the lane's thread when its task began; for a task that has a budget, under the CPU's
    /// lock.
    pub(super) fn task_began(&self) -> Option<Duration> {
        let began = self.task_began.load(Relaxed);
        (began != NOT_BEGUN).then(|| Duration::from_nanos(began))
    }

    pub(super) fn end(&self) {
        *self.order.lock() = Order::End;
        self.parker.unpark();
    }
}

/// The task that a lane runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) id: u64,
    pub(super) budget: Option<Duration>,
    /// It has used more than that, and the watchdog has set its thread to normal priority. It counts, and
    /// keeps its lane's place, until the keeper has a fresh lane for that.
    pub(super) demoted: bool,
}

/// A lane in its place, and what it runs.
pub(super) struct Place<P: RealTime> {
    pub(super) lane: Arc<Lane<P>>,
    pub(super) running: Option<Running>,
}

impl<P: RealTime> Place<P> {
    pub(super) fn new(lane: Arc<Lane<P>>) -> Self {
        Self { lane, running: None }
    }
}

/// How many lanes of a CPU's level are taken, for those who look for a CPU at that level. Written under
/// the CPU's lock.
type Turns<P> = Arc<Padded<<P as Platform>::AtomicU32>>;

/// What has happened on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuStats {
    /// Tasks that were begun here.
    pub started: u64,
    /// Of these, the ones that came from another CPU's waiting ones, at this CPU's own wish.
    pub pulled: u64,
    /// Tasks that had to wait here.
    pub waited: u64,
    /// Times that a task which was to be started here was too late: another was faster.
    pub too_late: u64,
}

/// What a CPU's lock protects.
pub(super) struct CpuState<P: RealTime> {
    pub(super) writer: LevelWriter<P>,
    pub(super) online: bool,
    /// By level: how many tasks of it have been begun and are not over.
    begun: Box<[u16]>,
    active: Levels,
    pub(super) waiting: Waiting,
    /// By level: one, or as many as take turns.
    pub(super) lanes: Vec<Vec<Place<P>>>,
    /// Where tasks of equal priority take turns.
    turns: Option<Turns<P>>,
    /// Activations of periodic tasks.
    pub(super) jobs: Vec<Job>,
    /// The CPUs whose `peers` name this one.
    pub(super) reached: CpuMask,
    pub(super) stats: CpuStats,
}

pub(super) struct Cpu<P: RealTime> {
    pub(super) id: CpuId,
    state: InheritMutex<P, CpuState<P>>,
    /// The highest level that waits here, for those who think of pulling. Written under the lock, and on
    /// lines of its own: it changes less often than the lock.
    pub(super) top_waiting: Padded<P::AtomicU32>,
    /// One bit for each place at which a task has ever waited that might run here: where this CPU looks
    /// when it comes down. One set for the whole machine would be a line that all CPUs write.
    pub(super) peers: Padded<Box<[P::AtomicU64]>>,
    turns: Option<Turns<P>>,
    /// 1 where the watchdog has demoted something. Written under the lock.
    pub(super) needs_keeper: P::AtomicU32,
}

impl<P: RealTime> Cpu<P> {
    pub(super) fn new(writer: LevelWriter<P>, cpus: usize, take_turns: bool) -> Self {
        let turns = take_turns.then(|| Arc::new(Padded::new(P::AtomicU32::new(0))));
        let state = CpuState {
            online: true,
            begun: vec![0; Level::COUNT].into(),
            active: Levels::default(),
            waiting: Waiting::new(),
            lanes: (0..Level::COUNT).map(|_| Vec::new()).collect(),
            turns: turns.clone(),
            jobs: Vec::new(),
            reached: CpuMask::EMPTY,
            stats: CpuStats::default(),
            writer,
        };
        Self {
            id: state.writer.cpu(),
            state: InheritMutex::new(state),
            top_waiting: Padded::new(P::AtomicU32::new(0)),
            peers: Padded::new((0..cpus.div_ceil(64)).map(|_| P::AtomicU64::new(0)).collect()),
            turns,
            needs_keeper: P::AtomicU32::new(0),
        }
    }

    /// How many lanes of the CPU's level are taken; all of them, where nobody takes turns.
    pub(super) fn turns_taken(&self) -> usize {
        // SeqCst: after what the caller published, as a search of the index.
        self.turns.as_ref().map_or(usize::MAX, |turns| turns.load(SeqCst) as usize)
    }

    /// For who may not wait.
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
        let has_turn = self.turns.is_some() && self.free_lane(level, None).is_some();
        if has_turn { Level::from_index(level.index() - 1) } else { level }
    }

    /// The place of a lane of `level` that has no task: that of `own`, where it is one.
    fn free_lane(&self, level: Level, own: Option<&Arc<Lane<P>>>) -> Option<usize> {
        let lanes = &self.lanes[level.index()];
        let is_own = |place: &Place<P>| own.is_some_and(|own| Arc::ptr_eq(own, &place.lane));
        let is_free = |place: &Place<P>| place.running.is_none();
        let own = lanes.iter().position(|place| is_free(place) && is_own(place));
        own.or_else(|| lanes.iter().position(is_free))
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
            if let Some(turns) = &self.turns {
                let lanes = self.lanes[level.index()].iter();
                let taken = lanes.filter(|place| place.running.is_some()).count() as u32;
                if turns.load(Relaxed) != taken {
                    // SeqCst: before this CPU's look at what waits elsewhere.
                    turns.store(taken, SeqCst);
                }
            }
            self.writer.set(level);
        }
    }

    /// Gives a task to a lane, to `own` if it can. Whoever called wakes the lane, after the lock.
    pub(super) fn assign(&mut self, task: Task, own: Option<&Arc<Lane<P>>>) -> Arc<Lane<P>> {
        let level = task.priority.level();
        let free = self.free_lane(level, own);
        let free = free.expect("a priority has its lanes before a task of it is accepted");
        self.enter(level);
        self.stats.started += 1;
        let place = &mut self.lanes[level.index()][free];
        place.running = Some(Running { id: task.id, budget: task.budget, demoted: false });
        let lane = Arc::clone(&place.lane);
        if task.budget.is_some() {
            lane.task_began.store(NOT_BEGUN, Relaxed);
        }
        *lane.order.lock() = Order::Run(task);
        lane
    }
}
