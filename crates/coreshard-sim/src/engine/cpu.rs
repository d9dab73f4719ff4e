//! A virtual CPU, and its run queue.

use std::collections::VecDeque;

use coreshard_topology::CpuId;

use super::looking::Looking;
use super::spin_detector::SpinDetector;
use crate::machine::{Machine, Ps};
use crate::memory::Place;

/// What the host needs for a CPU's next turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    /// Near the end of its thread's stack.
    pub(super) stack: usize,
    /// A word that is accessed.
    pub(super) word: usize,
}

pub(super) struct Cpu {
    pub(super) id: CpuId,
    /// Its time, while it does not run.
    pub(super) clock: Ps,
    pub(super) current: Option<usize>,
    /// Fair threads that wait.
    pub(super) queue: VecDeque<usize>,
    /// Fair threads that sleep and are in the contest for the CPU all the same.
    pub(super) delayed: Vec<usize>,
    /// The average of what its fair threads had, when the last one left.
    pub(super) virtual_time: i64,
    /// Until when its current thread's time was counted.
    pub(super) charged_until: Ps,
    /// FIFO threads that wait, highest priority first, then first come.
    pub(super) fifo: Vec<usize>,
    /// When its event comes; any other is stale.
    pub(super) step_at: Option<Ps>,
    /// The lines that it sleeps on, while its thread looks at them again and again; and how it does that.
    pub(super) spins_on: Vec<Place>,
    pub(super) looking: Looking,
    /// The lines of the looks of its thread's turn, see `looks`.
    pub(super) looks_at: Vec<Place>,
    pub(super) spin_detector: SpinDetector,
    pub(super) needs: Needs,
    /// Since when it waits for a contended line.
    pub(super) awaits_since: Ps,
    pub(super) idle_since: Ps,
    /// When it has switched away from its last thread.
    pub(super) idle_from: Ps,
    /// Since when its current thread runs.
    pub(super) on_since: Ps,
    pub(super) slice_end: Ps,
    /// Its load is balanced no sooner than this, and was in vain so often.
    pub(super) balances_at: Ps,
    pub(super) balances_in_vain: u32,
    /// An event will be there for its next tick.
    pub(super) tick_is_expected: bool,
    /// Its current thread is to be preempted (the kernel's `need_resched`).
    pub(super) resched: bool,
    /// Until when its run queue is locked.
    pub(super) runqueue_free: Ps,
    /// The CPUs of its LLC, and of its node, a bit for each.
    pub(super) llc: Box<[u64]>,
    pub(super) node: Box<[u64]>,
}

impl Cpu {
    pub(super) fn all(machine: &Machine) -> Vec<Self> {
        let cpus = machine.topology().cpus();
        let words = cpus.len().div_ceil(64);
        let set = |member: &dyn Fn(&coreshard_topology::Cpu) -> bool| {
            let mut set = vec![0; words];
            for (place, _) in cpus.iter().enumerate().filter(|(_, cpu)| member(cpu)) {
                set[place / 64] |= 1 << (place % 64);
            }
            set.into_boxed_slice()
        };
        cpus.iter()
            .map(|cpu| Self {
                id: cpu.id,
                clock: 0,
                current: None,
                queue: VecDeque::new(),
                delayed: Vec::new(),
                virtual_time: 0,
                charged_until: 0,
                fifo: Vec::new(),
                step_at: None,
                spins_on: Vec::new(),
                looking: Looking::default(),
                looks_at: Vec::new(),
                spin_detector: SpinDetector::default(),
                needs: Needs::default(),
                awaits_since: 0,
                idle_since: 0,
                idle_from: 0,
                on_since: 0,
                slice_end: 0,
                balances_at: 0,
                balances_in_vain: 0,
                tick_is_expected: false,
                resched: false,
                runqueue_free: 0,
                llc: set(&|other| other.llc == cpu.llc),
                node: set(&|other| other.node == cpu.node),
            })
            .collect()
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len() + self.fifo.len()
    }

    /// The thread that runs here, or the one that is about to.
    pub(super) fn current_or_next(&self) -> Option<usize> {
        self.current.or(self.fifo.first().copied()).or(self.queue.front().copied())
    }

    /// When its current thread must make room, if at all.
    #[inline]
    pub(super) fn preempts_at(&self) -> Ps {
        if self.resched {
            0
        } else if self.queue.is_empty() && self.delayed.is_empty() {
            Ps::MAX
        } else {
            self.slice_end
        }
    }
}
