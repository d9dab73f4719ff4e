//! Watching a run from outside, at intervals of virtual time.

use coreshard_topology::CpuId;

use super::state::SimState;
use crate::machine::NS;

/// What can be seen of a run from outside, at one moment of virtual time.
#[derive(Clone, Copy)]
pub struct View<'run> {
    pub(super) sim: &'run SimState,
    pub(super) now_ns: u64,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("now_ns", &self.now_ns).finish_non_exhaustive()
    }
}

impl View<'_> {
    /// Virtual time since the start, in nanoseconds. It does not jump where the program's clock
    /// does.
    #[must_use]
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// For how long a CPU has been idle, in nanoseconds; `None` where it runs, is
    /// being woken, is offline, or is not there.
    #[must_use]
    pub fn idle_ns(&self, cpu: CpuId) -> Option<u64> {
        let index = self.sim.index_of_cpu.get(cpu.index()).copied().flatten()? as usize;
        let since = self.sim.idle_since(index)?;
        Some(self.now_ns.saturating_sub(since / NS))
    }

    /// Threads that could not be started so far.
    #[must_use]
    pub const fn failed_spawns(&self) -> usize {
        self.sim.failed_spawns
    }

    /// When a call was last made to fail, in nanoseconds: by its number, or a start by chance.
    #[must_use]
    pub fn last_failure_ns(&self) -> Option<u64> {
        self.sim.call_failures.last().map(|last| last / NS)
    }

    /// What each thread that is not over does or waits for, a line each.
    #[must_use]
    pub fn threads(&self) -> Vec<super::stuck::WaitingThread> {
        self.sim.waiting_threads()
    }
}

/// Looks at a run: an error says which rule is broken.
pub(super) type Watcher<'a> = dyn FnMut(&View<'_>) -> Result<(), String> + 'a;
