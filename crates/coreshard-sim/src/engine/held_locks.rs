//! Locks whose holder keeps its CPU.
//!
//! In a kernel, threads that wait for a lock spin. So its holder is not preempted, and may not sleep: the
//! next in line would spin on the CPU that the holder needs. Under [`Profile::InKernel`] the engine knows
//! which locks each thread holds. A thread that holds one is not preempted at preemption points; one that
//! sleeps breaks a rule (the kernel's "scheduling while atomic"), which ends the run with the lock and both
//! places in the source named.

use super::state::{SimState, current};
use super::thread::HeldLock;
use super::turn::with;
use crate::profile::Profile;
use crate::site::Site;
use crate::space::in_host;

/// The running thread has taken a lock.
#[inline]
pub(crate) fn lock_is_taken(address: usize, data: &'static str, taken_at: Site) {
    let Some(sim) = current() else { return };
    with(sim, |sim| {
        if sim.profile == Profile::InKernel {
            let held = HeldLock { address, data, taken_at };
            in_host(|| sim.threads[sim.thread].held_locks.push(held));
        }
    });
}

/// Whether whoever has taken a lock goes on while the lines that it protects are on their way.
pub(crate) fn stores_run_ahead() -> bool {
    current().is_some_and(|sim| with(sim, |sim| sim.memory.has_several_misses()))
}

/// The running thread has freed a lock.
#[inline]
pub(crate) fn lock_is_freed(address: usize) {
    let Some(sim) = current() else { return };
    with(sim, |sim| {
        let held = &mut sim.threads[sim.thread].held_locks;
        if let Some(at) = held.iter().rposition(|lock| lock.address == address) {
            held.remove(at);
        }
    });
}

impl SimState {
    /// True if the running thread may be preempted where it comes by a point of preemption.
    pub(super) fn may_be_preempted(&self) -> bool {
        self.profile == Profile::InKernel && self.threads[self.thread].held_locks.is_empty()
    }

    /// The running thread does what may take it off its CPU (the kernel's `might_sleep`): it breaks a rule if it holds a lock.
    pub(super) fn might_sleep(&mut self, does: &str, site: Site) {
        let thread = &self.threads[self.thread];
        let Some(lock) = thread.held_locks.last() else { return };
        if self.broken_rule.is_none() {
            self.broken_rule = Some(in_host(|| {
                format!(
                    "thread {:?} {does} at {site} and holds the lock over {} that it took at {}: \
                     whoever waits for that lock spins, and may keep the CPU from it for ever \
                     (costs in-kernel)",
                    thread.name, lock.data, lock.taken_at
                )
            }));
        }
    }
}
