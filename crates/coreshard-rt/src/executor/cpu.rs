//! One CPU of an executor: what runs there, what waits there, and its lanes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, Padded, Parker, RealTime, ThreadId};
use coreshard_topology::CpuId;

use super::periodic::Job;
use super::waiting::{Levels, Task, Waiting};
use crate::index::{CpuChoice, Seat};
use crate::level::{Level, Priority};
use crate::lock::{InheritGuard, InheritMutex};

/// A thread of one CPU and one priority.
pub(super) struct Lane<P: RealTime> {
    pub(super) parker: Parker<P>,
    pub(super) order: Lock<P, Order>,
    /// 0 until it runs.
    thread: P::AtomicU32,
}

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
}

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
    pub(super) seat: Seat<P>,
    pub(super) online: bool,
    /// By level: how many tasks of it have been begun and are not over.
    begun: Box<[u16]>,
    active: Levels,
    pub(super) waiting: Waiting,
    /// By level.
    pub(super) lanes: Vec<Option<Arc<Lane<P>>>>,
    /// By level.
    pub(super) running: Vec<Option<Running>>,
    /// Activations of periodic tasks.
    pub(super) jobs: Vec<Job>,
    /// The CPUs whose `peers` name this one.
    pub(super) reached: CpuChoice,
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
}

impl<P: RealTime> Cpu<P> {
    pub(super) fn new(seat: Seat<P>, cpus: usize) -> Self {
        let state = CpuState {
            online: true,
            begun: vec![0; Level::COUNT].into(),
            active: Levels::default(),
            waiting: Waiting::new(),
            lanes: (0..Level::COUNT).map(|_| None).collect(),
            running: vec![None; Level::COUNT],
            jobs: Vec::new(),
            reached: CpuChoice::EMPTY,
            stats: CpuStats::default(),
            seat,
        };
        Self {
            id: state.seat.cpu(),
            state: InheritMutex::new(state),
            top_waiting: Padded::new(P::AtomicU32::new(0)),
            peers: Padded::new((0..cpus.div_ceil(64)).map(|_| P::AtomicU64::new(0)).collect()),
        }
    }

    #[track_caller]
    pub(super) fn lock(&self) -> InheritGuard<'_, P, CpuState<P>> {
        match self.state.lock() {
            Ok(guard) => guard,
            // No code of a user's runs under the lock; what is there is as whole as it was.
            Err(error) => match error.into_guard() {
                Some(guard) => guard,
                None => unreachable!("nobody takes a CPU's lock twice"),
            },
        }
    }
}

impl<P: RealTime> CpuState<P> {
    /// The level of what has been begun here.
    pub(super) fn level(&self) -> Level {
        self.active.highest()
    }

    /// Whether a task of `priority` would be run at once.
    pub(super) fn takes(&self, priority: Priority) -> bool {
        self.online && self.level() < priority.level()
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

    /// Tells the index at which level this CPU is.
    pub(super) fn publish(&mut self) {
        if self.online {
            let level = self.level();
            self.seat.set(level);
        }
    }

    /// Gives a task to its lane. Whoever called wakes the lane, after the lock.
    pub(super) fn assign(&mut self, task: Task) -> Arc<Lane<P>> {
        let level = task.priority.level();
        self.enter(level);
        self.stats.started += 1;
        self.running[level.index()] = Some(Running { id: task.id, budget: task.budget });
        let lane = self.lanes[level.index()].as_ref().map(Arc::clone);
        let lane = lane.expect("a priority has its lanes before a task of it is accepted");
        *lane.order.lock() = Order::Run(task);
        lane
    }
}
