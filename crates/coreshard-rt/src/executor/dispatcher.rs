//! Decides which CPU runs which task, by push and pull. `README.md` has the protocol.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Padded, RealTime};
use coreshard_topology::{CpuId, CpuSet};

use super::cpu::{AfterTask, Cpu};
use super::priority_array::Task;
use super::priority_thread::PriorityThread;
use crate::error::RtError;
use crate::index::{CpuMask, LevelWriter, MAX_INDEX_CPUS, PriorityIndex};
use crate::level::Level;

/// The CPUs of an executor, and the index over them.
pub(super) struct Dispatcher<P: RealTime> {
    index: Arc<PriorityIndex<P>>,
    cpus: Box<[Padded<Cpu<P>>]>,
    /// The position in `cpus`, by CPU number.
    positions: Box<[Option<usize>]>,
    /// The number of tasks of equal priority that take turns on a CPU.
    round_robin: Option<NonZeroUsize>,
    max_tries: P::AtomicU32,
}

impl<P: RealTime> Dispatcher<P> {
    pub(super) fn new(
        index: Arc<PriorityIndex<P>>,
        writers: Vec<LevelWriter<P>>,
        round_robin: Option<NonZeroUsize>,
    ) -> Self {
        let number = writers.len();
        let cpu = |writer| Padded::new(Cpu::new(writer, number, round_robin.is_some()));
        let cpus: Box<[_]> = writers.into_iter().map(cpu).collect();
        let mut positions = vec![None; index.cpus().last().map_or(0, |cpu| cpu.index() + 1)];
        cpus.iter().zip(0..).for_each(|(cpu, at)| positions[cpu.id.index()] = Some(at));
        let max_tries = P::AtomicU32::new(0);
        Self { index, cpus, positions: positions.into(), round_robin, max_tries }
    }

    pub(super) fn priority_index(&self) -> &Arc<PriorityIndex<P>> {
        &self.index
    }

    /// Returns the CPUs, by position.
    pub(super) fn cpus(&self) -> &[Padded<Cpu<P>>] {
        &self.cpus
    }

    pub(super) fn all_cpus(&self) -> CpuMask {
        self.index.mask(self.index.cpus()).expect("the index's own CPUs are valid and not empty")
    }

    pub(super) fn position_of(&self, cpu: CpuId) -> Option<usize> {
        self.positions.get(cpu.index()).copied().flatten()
    }

    /// Returns the position of a CPU that a caller named.
    pub(super) fn checked(&self, cpu: CpuId) -> Result<usize, RtError> {
        self.position_of(cpu).ok_or_else(|| self.outside(&[cpu].into_iter().collect()))
    }

    /// Returns the error for CPUs that are not the executor's.
    pub(super) fn outside(&self, given: &CpuSet) -> RtError {
        RtError::outside_cpus(given, self.index.cpus())
    }

    fn cpu_of(&self, cpu: CpuId) -> &Cpu<P> {
        let position = self.position_of(cpu);
        &self.cpus[position.expect("the index contains only the executor's CPUs")]
    }

    /// Returns the most CPUs that were tried for one task.
    pub(super) fn max_tries(&self) -> u32 {
        self.max_tries.load(Relaxed)
    }

    fn note_tries(&self, tries: u32) {
        if tries > self.max_tries() {
            self.max_tries.store(tries, Relaxed);
        }
    }

    /// Begins a task on the CPU at the lowest level, or queues it near `near`.
    pub(super) fn dispatch(&self, mut task: Task, near: CpuId) {
        let level = task.priority.level();
        let mut tries = 0;
        while let Some(cpu) = self.find_cpu(level, &task.allowed, near) {
            tries += 1;
            self.note_tries(tries);
            match cpu.start(task, false) {
                None => return,
                // Another task was faster. There is no storm of retries: each failure is another task's
                // success.
                Some(back) => task = back,
            }
        }
        let home = self.home_of(&task, near);
        let (priority, allowed, id) = (task.priority, task.allowed, task.id);
        if !self.wait_at(home, task) {
            return;
        }
        // The task is published. A CPU that lowers its level from now on sees it; a CPU that did so before is
        // found here (see "At rest" in the index's README).
        P::fence();
        while let Some(cpu) = self.find_cpu(level, &allowed, self.cpus[home].id) {
            tries += 1;
            self.note_tries(tries);
            let Some(task) = self.cpus[home].take_id(priority, id) else {
                return; // Another CPU has it.
            };
            let Some(back) = cpu.start(task, false) else { return };
            if !self.wait_at(home, back) {
                return;
            }
            P::fence();
        }
    }

    /// Returns the CPU at the lowest level below `level`. If tasks of equal priority take turns, falls back
    /// to the CPU at `level` where the fewest do.
    fn find_cpu(&self, level: Level, allowed: &CpuMask, near: CpuId) -> Option<&Cpu<P>> {
        if let Some((cpu, _)) = self.index.find(level, allowed, near) {
            return Some(self.cpu_of(cpu));
        }
        let most = self.round_robin?.get();
        let (equal, _) = self.index.find_all(level.above(), allowed)?;
        let equal = self.index.cpus_of(&equal);
        let equal = equal.iter().map(|cpu| (self.cpu_of(cpu).rr_nr_running(), cpu != near, cpu));
        let (fewest, _, cpu) = equal.min_by_key(|it| (it.0, it.1))?;
        (fewest < most).then(|| self.cpu_of(cpu))
    }

    /// Returns the CPU at which a task waits: `near`, if the task may run there.
    fn home_of(&self, task: &Task, near: CpuId) -> usize {
        let allowed =
            |position: &usize| self.index.is_allowed(&task.allowed, self.cpus[*position].id);
        self.position_of(near)
            .filter(allowed)
            .or_else(|| (0..self.cpus.len()).find(allowed))
            .expect("a task's set of CPUs is not empty")
    }

    /// Queues a task at a CPU, or begins it there if that has become possible. Returns true if it waits.
    fn wait_at(&self, home: usize, task: Task) -> bool {
        self.cpus[home].enqueue(task, |allowed| {
            let pulling = self.index.cpus_of(allowed);
            pulling.iter().for_each(|cpu| self.cpu_of(cpu).add_pull_source(home));
        })
    }

    /// Records that a task of `level` has finished at a CPU, on the thread `own` or on a periodic task's
    /// thread.
    pub(super) fn finish(
        &self,
        position: usize,
        level: Level,
        own: Option<&Arc<PriorityThread<P>>>,
    ) -> AfterTask {
        let (next, may_pull) = self.cpus[position].finish(level, own);
        if may_pull {
            self.pull(position);
        }
        next
    }

    /// Begins waiting tasks at a CPU whose level fell although none of its threads finished a task.
    pub(super) fn take_waiting(&self, position: usize) {
        self.cpus[position].start_next();
        self.pull(position);
    }

    /// Called when the CPU's level fell: takes tasks that wait elsewhere with a higher priority than the
    /// CPU's level.
    fn pull(&self, position: usize) {
        let cpu = &self.cpus[position];
        let mut passed = [0_u64; MAX_INDEX_CPUS / 64];
        loop {
            let level = {
                let state = cpu.lock_state();
                if !state.is_online() {
                    return;
                }
                state.floor()
            };
            // The level was published before this, with a fence.
            let Some(from) = self.most_urgent(cpu, level, &passed) else { return };
            let may = |task: &Task| self.index.is_allowed(&task.allowed, cpu.id);
            match self.cpus[from].take_above(level, may).map(|task| cpu.start(task, true)) {
                // Another CPU may have one of higher priority.
                Some(None) => {}
                Some(Some(back)) => self.dispatch(back, cpu.id),
                // No task for this CPU waits there. A later one is pushed when it arrives.
                None => passed[from / 64] |= 1 << (from % 64),
            }
        }
    }

    /// Returns the pull source at which the highest-priority task above `level` waits, except those in
    /// `passed`.
    fn most_urgent(&self, cpu: &Cpu<P>, level: Level, passed: &[u64]) -> Option<usize> {
        let mut best = None;
        let mut bound = u32::from(level.get());
        for (at, word) in cpu.pull_sources().enumerate() {
            let mut bits = word & !passed[at];
            while bits != 0 {
                let position = at * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                // Ordered after the publication of this CPU's level by the fence there.
                let top = self.cpus[position].highest_waiting();
                if top > bound {
                    (best, bound) = (Some(position), top);
                }
            }
        }
        best
    }

    /// Takes a CPU out of use: tasks waiting there go elsewhere, running ones finish there.
    pub(super) fn take_offline(&self, position: usize) {
        let cpu = &self.cpus[position];
        cpu.take_offline().into_iter().for_each(|task| self.dispatch(task, cpu.id));
    }

    /// Brings a CPU back into use.
    pub(super) fn bring_online(&self, position: usize) {
        self.cpus[position].lock_state().bring_online();
        self.pull(position);
    }
}
