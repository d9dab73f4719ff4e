//! Which CPU runs which task: push and pull. `README.md` has the protocol.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, RealTime};
use coreshard_topology::CpuId;

use super::cpu::CpuState;
use super::priority_thread::{AfterTask, PriorityThread};
use super::shared::Shared;
use super::task::Task;
use crate::index::CpuMask;
use crate::level::{Level, Priority};

impl<P: RealTime> Shared<P> {
    /// Begins a task on the CPU at the lowest level, or queues it near `near`.
    pub(super) fn dispatch(&self, mut task: Task, near: CpuId) {
        let level = task.priority.level();
        let mut tries = 0;
        while let Some(cpu) = self.find_cpu(level, &task.allowed, near) {
            tries += 1;
            self.note_tries(tries);
            match self.start_on(cpu, task, false) {
                None => return,
                // Another task was faster. So this is no storm: each failure is another's success.
                Some(back) => task = back,
            }
        }
        let home = self.home_of(&task, near);
        let (priority, allowed, id) = (task.priority, task.allowed, task.id);
        if !self.wait_at(home, task) {
            return;
        }
        // The task is published; from here on a CPU that comes down sees it. One that came down
        // before is found here: see "At rest" in the index's README.
        P::fence();
        let near = self.cpus[home].id;
        while let Some(cpu) = self.find_cpu(level, &allowed, near) {
            tries += 1;
            self.note_tries(tries);
            let Some(task) = self.take_back(home, |state| state.waiting.take_id(priority, id))
            else {
                return; // Another CPU has it.
            };
            match self.start_on(cpu, task, false) {
                None => return,
                Some(back) => {
                    if !self.wait_at(home, back) {
                        return;
                    }
                    P::fence();
                }
            }
        }
    }

    /// The CPU at the lowest level below `level`; or else, where tasks of equal priority take turns, the one
    /// at `level` where the fewest do.
    fn find_cpu(&self, level: Level, allowed: &CpuMask, near: CpuId) -> Option<CpuId> {
        if let Some((cpu, _)) = self.index.find(level, allowed, near) {
            return Some(cpu);
        }
        let most = self.options.round_robin?.get();
        let (equal, _) = self.index.find_all(level.above(), allowed)?;
        let rr_running = |cpu| (self.cpus[self.position_of(cpu)].rr_nr_running(), cpu != near);
        let equal = self.index.cpus_of(&equal);
        let fewest = equal.iter().map(|cpu| (rr_running(cpu), cpu)).min_by_key(|it| it.0)?;
        Some(fewest.1).filter(|_| fewest.0.0 < most)
    }

    /// Begins a task on a CPU, or gives it back where that runs something as important by now.
    fn start_on(&self, cpu: CpuId, task: Task, pulled: bool) -> Option<Task> {
        let cpu = &self.cpus[self.position_of(cpu)];
        let mut state = cpu.lock();
        if !state.takes(task.priority) {
            state.stats.too_late += 1;
            return Some(task);
        }
        let thread = state.assign(task, None);
        state.stats.pulled += u64::from(pulled);
        state.publish();
        drop(state);
        thread.parker.unpark();
        None
    }

    /// The CPU at which a task waits: `near`, if it may run there.
    fn home_of(&self, task: &Task, near: CpuId) -> usize {
        let near = self.positions.get(near.index()).copied().flatten();
        let allowed =
            |position: &usize| self.index.is_allowed(&task.allowed, self.cpus[*position].id);
        near.filter(allowed)
            .or_else(|| (0..self.cpus.len()).find(allowed))
            .expect("a task's set of CPUs is not empty")
    }

    /// Queues a task at a CPU, or begins it there, if that is possible by now. True if it waits.
    fn wait_at(&self, home: usize, task: Task) -> bool {
        let cpu = &self.cpus[home];
        let mut state = cpu.lock();
        if state.takes(task.priority) {
            let thread = state.assign(task, None);
            state.publish();
            drop(state);
            thread.parker.unpark();
            return false;
        }
        state.stats.waited += 1;
        self.announce(home, &mut state, &task.allowed);
        state.waiting.push(task);
        self.publish_waiting(home, &state);
        true
    }

    fn take_back(
        &self,
        position: usize,
        take: impl FnOnce(&mut CpuState<P>) -> Option<Task>,
    ) -> Option<Task> {
        let mut state = self.cpus[position].lock();
        let task = take(&mut state);
        self.publish_waiting(position, &state);
        task
    }

    /// Publishes the highest priority that waits at a CPU. Whoever queues a task issues a fence afterwards.
    fn publish_waiting(&self, position: usize, state: &CpuState<P>) {
        let top = u32::from(state.waiting.highest().get());
        let cpu = &self.cpus[position];
        if cpu.highest_waiting.load(Relaxed) != top {
            // Release: whoever sees it sees the bit in its pull sources. SeqCst: in one order with the
            // index's words (its README, "At rest"). The lock makes it one writer at a time.
            cpu.highest_waiting.store(top, SeqCst);
        }
    }

    /// Makes the CPU at `home` a pull source of all CPUs that a task which is to wait there may use.
    fn announce(&self, home: usize, state: &mut CpuState<P>, allowed: &CpuMask) {
        if state.announced_to.contains(allowed) {
            return;
        }
        for cpu in &self.index.cpus_of(allowed) {
            let pull_sources = &self.cpus[self.position_of(cpu)].pull_sources;
            pull_sources[home / 64].fetch_or(1 << (home % 64), SeqCst);
        }
        state.announced_to.join(allowed);
    }

    /// A task of `level` is over at a CPU, on the thread `own` or on that of a periodic task.
    pub(super) fn leave(
        &self,
        position: usize,
        level: Level,
        own: Option<&Arc<PriorityThread<P>>>,
    ) -> AfterTask {
        let cpu = &self.cpus[position];
        let mut state = cpu.lock();
        let before = state.floor();
        if let Some(own) = own {
            let slots = &mut state.threads[level.index()];
            let Some(slot) = slots.iter_mut().find(|slot| Arc::ptr_eq(&slot.thread, own)) else {
                // The supervisor has replaced it, and has counted the task out.
                return AfterTask::Exit;
            };
            let task = slot.running.take();
            if self.has_priorities
                && task.is_some_and(|task| task.demoted)
                && let Some(priority) = Priority::of(level)
            {
                // It was not replaced. Its old policy was granted once, so it is again.
                let _ = P::set_policy(P::this_thread(), self.policy_of(priority));
            }
        }
        state.leave(level);
        let woken = self.next_here(position, &mut state, own);
        let may_pull = state.online && state.floor() < before;
        drop(state);
        let next = match (&woken, own) {
            (Some(thread), Some(own)) if Arc::ptr_eq(thread, own) => AfterTask::RunNext,
            (Some(thread), _) => {
                thread.parker.unpark();
                AfterTask::Sleep
            }
            (None, _) => AfterTask::Sleep,
        };
        if may_pull {
            self.pull(position);
        }
        next
    }

    /// Assigns the most important task that waits at a CPU, if it can begin, and tells the index.
    fn next_here(
        &self,
        position: usize,
        state: &mut CpuState<P>,
        own: Option<&Arc<PriorityThread<P>>>,
    ) -> Option<Arc<PriorityThread<P>>> {
        let here = self.cpus[position].id;
        let floor = state.floor();
        let next = if state.online {
            state.waiting.take(floor, |task| self.index.is_allowed(&task.allowed, here))
        } else {
            None
        };
        let thread = next.map(|task| state.assign(task, own));
        if thread.is_some() {
            self.publish_waiting(position, state);
        }
        state.publish();
        thread
    }

    /// A CPU's level fell, though none of its threads finished a task.
    pub(super) fn take_waiting(&self, position: usize) {
        let mut state = self.cpus[position].lock();
        let thread = self.next_here(position, &mut state, None);
        drop(state);
        if let Some(thread) = thread {
            thread.parker.unpark();
        }
        self.pull(position);
    }

    /// The CPU's level fell: takes what waits elsewhere and is more important than what runs here.
    pub(super) fn pull(&self, position: usize) {
        let here = self.cpus[position].id;
        let mut passed = [0_u64; crate::index::MAX_INDEX_CPUS / 64];
        loop {
            let level = {
                let state = self.cpus[position].lock();
                if !state.online {
                    return;
                }
                state.floor()
            };
            // The level was published before this, with a fence.
            let Some(from) = self.most_urgent(position, level, &passed) else { return };
            let taken = self.take_back(from, |state| {
                state.waiting.take(level, |task| self.index.is_allowed(&task.allowed, here))
            });
            match taken.map(|task| self.start_on(here, task, true)) {
                // Another CPU may have a more important one.
                Some(None) => {}
                Some(Some(back)) => self.dispatch(back, here),
                // Nothing for this CPU there. What comes later comes with its own push.
                None => passed[from / 64] |= 1 << (from % 64),
            }
        }
    }

    /// The pull source of the CPU at `here` where the most important task above `level` waits, except those
    /// in `passed`.
    fn most_urgent(&self, here: usize, level: Level, passed: &[u64]) -> Option<usize> {
        let mut best = None;
        let mut bound = u32::from(level.get());
        for (at, word) in self.cpus[here].pull_sources.iter().enumerate() {
            let mut bits = word.load(SeqCst) & !passed[at];
            while bits != 0 {
                let position = at * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                // Ordered after this CPU's level by the fence in its publishing.
                let top = self.cpus[position].highest_waiting.load(SeqCst);
                if top > bound {
                    (best, bound) = (Some(position), top);
                }
            }
        }
        best
    }

    /// Takes a CPU out: what waits there goes elsewhere, what was begun there ends there.
    pub(super) fn take_offline(&self, position: usize) {
        let cpu = &self.cpus[position];
        let mut state = cpu.lock();
        state.online = false;
        state.writer.withdraw();
        let moved = state.waiting.drain();
        self.publish_waiting(position, &state);
        drop(state);
        moved.into_iter().for_each(|task| self.dispatch(task, cpu.id));
    }

    /// Those of the positions whose CPUs are online.
    pub(super) fn online_of(&self, mut positions: Vec<usize>) -> Vec<usize> {
        positions.retain(|position| self.cpus[*position].lock().online);
        positions
    }

    /// Takes a CPU back.
    pub(super) fn bring_online(&self, position: usize) {
        let mut state = self.cpus[position].lock();
        state.online = true;
        state.publish();
        drop(state);
        self.pull(position);
    }
}
