//! Fixed priorities of running threads, and locks that lend their waiters' priority to the holder:
//! Linux's FUTEX_LOCK_PI, in outline.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use coreshard_platform::{InheritError, ThreadId, WaitOutcome};

use super::{enter_kernel, finish_wait, preemption_point};
use crate::engine::inheritance::InheritingLock;
use crate::engine::state::SimState;
use crate::engine::thread::{ThreadState, Wait};
use crate::engine::turn::{expect_sim, in_turn, with};
use crate::memory::Access;
use crate::site::Site;
use crate::space::in_host;

/// Somebody waits for the lock, so its holder may not free it by itself.
const WAITERS: u32 = 1 << 31;
const HOLDER: u32 = (1 << 30) - 1;

impl SimState {
    fn own_priority(&self, thread: usize) -> u8 {
        let lent = self.inheritance.own.get(&thread);
        lent.copied().unwrap_or(self.threads[thread].fifo_priority)
    }

    /// Gives a thread the highest of its own priority and those of the threads that wait for it, and
    /// so on along what it waits for itself.
    fn settle_priority(&mut self, mut thread: usize) {
        // A chain is at most as long as there are threads; a circle is one that deadlocks.
        for _ in 0..self.threads.len() {
            let own = self.own_priority(thread);
            let held = self.inheritance.locks.values().filter(|lock| lock.holder == thread);
            let lent = held.flat_map(|lock| &lock.waiters);
            let lent = lent.map(|waiter| self.threads[*waiter].fifo_priority).max().unwrap_or(0);
            if lent > own {
                self.inheritance.own.insert(thread, own);
            } else {
                self.inheritance.own.remove(&thread);
            }
            self.set_priority(thread, own.max(lent), self.now);
            let waits = self.inheritance.locks.values().find(|lock| lock.waiters.contains(&thread));
            match waits {
                Some(lock) => thread = lock.holder,
                None => return,
            }
        }
    }
}

/// Gives a thread another SCHED_FIFO priority, or 0 for none. False where there is no such thread.
pub(crate) fn set_priority(thread: ThreadId, priority: u8) -> bool {
    let sim = expect_sim("a priority is set");
    preemption_point(sim);
    enter_kernel(sim, |costs| costs.syscall);
    in_turn(sim);
    with(sim, |sim| {
        in_host(|| {
            let Some(number) = (thread.0 as usize).checked_sub(1) else { return false };
            if sim.threads.get(number).is_none_or(|thread| thread.state == ThreadState::Over) {
                return false;
            }
            if let Some(own) = sim.inheritance.own.get_mut(&number) {
                *own = priority;
            } else {
                sim.set_priority(number, priority, sim.now);
            }
            sim.settle_priority(number);
            true
        })
    })
}

/// The running thread's own SCHED_FIFO priority; 0 for none.
pub(crate) fn priority() -> u8 {
    let sim = expect_sim("a priority is asked for");
    enter_kernel(sim, |costs| costs.syscall);
    with(sim, |sim| sim.own_priority(sim.thread))
}

/// Takes a lock for the running thread, lending its priority to the holder while it waits.
pub(crate) fn lock_inheriting(
    word: &AtomicU32,
    timeout: Option<Duration>,
    site: Site,
) -> Result<(), InheritError> {
    let sim = expect_sim("a lock is taken");
    super::might_sleep(sim, "takes a lock that lends priority", site);
    enter_kernel(sim, |costs| costs.syscall + costs.futex);
    let address = (&raw const *word).addr();
    super::access(address, size_of::<u32>(), Access::ReadModifyWrite, site);
    // Nothing runs between here and the wait: as the kernel's lock has it.
    let waits = with(sim, |sim| {
        in_host(|| {
            let me = sim.thread;
            let seen = word.load(Relaxed);
            if seen & HOLDER == 0 {
                word.store(me as u32 + 1, Relaxed);
                return Ok(false);
            }
            let holder = (seen & HOLDER) as usize - 1;
            if holder == me {
                return Err(InheritError::WouldDeadlock);
            }
            word.store(seen | WAITERS, Relaxed);
            let place = sim.place(address);
            let locks = &mut sim.inheritance.locks;
            let lock = locks.entry(place).or_insert(InheritingLock { holder, waiters: Vec::new() });
            lock.holder = holder;
            lock.waiters.push(me);
            sim.settle_priority(holder);
            sim.begin_wait(Wait::Futex { place, address, expected: seen | WAITERS }, timeout);
            Ok(true)
        })
    })?;
    if !waits || finish_wait(sim) == WaitOutcome::Returned {
        return Ok(());
    }
    with(sim, |sim| {
        in_host(|| {
            let (me, place) = (sim.thread, sim.place(address));
            let Some(lock) = sim.inheritance.locks.get_mut(&place) else { return };
            lock.waiters.retain(|waiter| *waiter != me);
            let (holder, is_last) = (lock.holder, lock.waiters.is_empty());
            if is_last {
                sim.inheritance.locks.remove(&place);
                word.store(word.load(Relaxed) & !WAITERS, Relaxed);
            }
            sim.settle_priority(holder);
        });
    });
    Err(InheritError::TimedOut)
}

/// Hands a lock of the running thread to the waiter of the highest priority, and gives back what
/// was lent for it.
pub(crate) fn unlock_inheriting(word: &AtomicU32, site: Site) {
    let sim = expect_sim("a lock is freed");
    enter_kernel(sim, |costs| costs.syscall + costs.futex);
    let address = (&raw const *word).addr();
    super::access(address, size_of::<u32>(), Access::ReadModifyWrite, site);
    with(sim, |sim| {
        in_host(|| {
            let (me, place) = (sim.thread, sim.place(address));
            let next = sim.inheritance.locks.get(&place).and_then(|lock| {
                // One whose time has run out is on its way, and takes itself off.
                let asleep = lock.waiters.iter().filter(|waiter| {
                    matches!(sim.threads[**waiter].state, ThreadState::Waiting { .. })
                });
                asleep.rev().max_by_key(|waiter| sim.threads[**waiter].fifo_priority).copied()
            });
            let Some(next) = next else {
                word.store(0, Relaxed);
                // Those whose time has run out find the lock free, or another's.
                sim.inheritance.locks.remove(&place);
                sim.settle_priority(me);
                return;
            };
            let locks = &mut sim.inheritance.locks;
            if let Some(lock) = locks.get_mut(&place) {
                lock.waiters.retain(|waiter| *waiter != next);
                lock.holder = next;
                let others = !lock.waiters.is_empty();
                word.store((next as u32 + 1) | if others { WAITERS } else { 0 }, Relaxed);
                if !others {
                    locks.remove(&place);
                }
            }
            sim.settle_priority(me);
            sim.settle_priority(next);
            sim.now = sim.make_runnable(next, sim.now);
        });
    });
}
