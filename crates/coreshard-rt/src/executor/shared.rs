//! What the threads of an executor share.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use coreshard_platform::{AtomicInt, ForkHook, Lock, Padded, RealTime};
use coreshard_topology::CpuId;

use super::admission::AdmissionControl;
use super::cpu::Cpu;
use super::incident::Incidents;
use super::options::Options;
use super::periodic_control::PeriodicControl;
use super::supervisor::Supervisor;
use super::task::Task;
use super::task_counts::TaskCounts;
use super::timers::Timers;
use crate::error::RtError;
use crate::index::{CpuMask, PriorityIndex};
use crate::level::Priority;
use crate::lock::InheritMutex;

pub(super) struct Shared<P: RealTime> {
    pub(super) index: Arc<PriorityIndex<P>>,
    pub(super) cpus: Box<[Padded<Cpu<P>>]>,
    /// By CPU number: the position in `cpus`.
    pub(super) positions: Box<[Option<usize>]>,
    pub(super) options: Options,
    pub(super) has_priorities: bool,
    /// One bit for each level: every CPU has its threads. Read by each spawn, written with the first task
    /// of a priority.
    pub(super) prepared: [P::AtomicU64; 2],
    /// Held by whoever starts threads.
    pub(super) preparing: Lock<P, ()>,
    pub(super) supervisor: Supervisor<P>,
    /// By the position of the CPU that spawns: the next task's number. One counter for all would be a line
    /// that every CPU writes.
    pub(super) next_ids: Box<[Padded<P::AtomicU64>]>,
    pub(super) max_tries: P::AtomicU32,
    pub(super) task_counts: TaskCounts<P>,
    /// 1 from the shutdown on.
    pub(super) ends: P::AtomicU32,
    pub(super) timers: Timers<P>,
    pub(super) periodics: Lock<P, Vec<Arc<PeriodicControl<P>>>>,
    pub(super) admitted: Lock<P, AdmissionControl>,
    /// The lock lends priority, since the watchdog takes it too.
    pub(super) incidents: InheritMutex<P, Incidents>,
    /// In which process its threads are.
    pub(super) process_generation: u32,
}

/// It registers a hook so that forks are counted, and so that the child never drops what it holds.
impl<P: RealTime> ForkHook for Shared<P> {
    fn forked(&self) {}
}

impl<P: RealTime> Shared<P> {
    /// True in a process that was forked from that of the threads: they are not here, and locks may be held by
    /// them.
    pub(super) fn is_forked(&self) -> bool {
        P::process_generation() != self.process_generation
    }

    pub(super) fn check_process(&self) -> Result<(), RtError> {
        if self.is_forked() { Err(RtError::forked()) } else { Ok(()) }
    }

    pub(super) fn position_of(&self, cpu: CpuId) -> usize {
        self.positions[cpu.index()].expect("the index knows the executor's CPUs alone")
    }

    /// Notes how many CPUs were tried for one task.
    pub(super) fn note_tries(&self, tries: u32) {
        if tries > self.max_tries.load(Relaxed) {
            self.max_tries.store(tries, Relaxed);
        }
    }

    /// A number that no other task of this executor has.
    pub(super) fn new_id(&self) -> u64 {
        let position = self.positions.get(P::current_cpu().index()).copied().flatten();
        // The last one is for CPUs that are not the executor's.
        let position = position.unwrap_or(self.cpus.len());
        (position as u64) << 48 | self.next_ids[position].fetch_add(1, Relaxed)
    }

    pub(super) fn new_task(
        &self,
        priority: Priority,
        allowed: CpuMask,
        budget: Option<Duration>,
        run: Box<dyn FnOnce() + Send>,
    ) -> Task {
        let id = self.new_id();
        Task { id, priority, allowed, budget: budget.or(self.options.budget), run }
    }

    pub(super) fn all_cpus(&self) -> CpuMask {
        self.index.mask(self.index.cpus()).expect("an index has CPUs, and they are its own")
    }

    /// Takes a task on.
    pub(super) fn accept(&self, task: Task) {
        let guard = self.task_counts.accept();
        self.dispatch(task, P::current_cpu());
        // The thread that runs it counts it out.
        guard.forget();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ends.load(Acquire) != 0
    }
}
