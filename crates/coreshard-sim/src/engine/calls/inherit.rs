//! Fixed priorities of running threads, and locks that lend their waiters' priority to the holder:
//! Linux's FUTEX_LOCK_PI, in outline.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use coreshard_platform::{InheritError, ThreadId, WaitOutcome};

use super::{enter_kernel, finish_wait, preemption_point};
use crate::engine::core::Core;
use crate::engine::inheritance::InheritingLock;
use crate::engine::thread::{ThreadState, Wait};
use crate::engine::turn::{expect_core, in_turn, with};
use crate::memory::Access;
use crate::site::Site;
use crate::space::in_host;

/// Somebody waits for the lock, so its holder may not free it by itself.
const WAITERS: u32 = 1 << 31;
const HOLDER: u32 = (1 << 30) - 1;

impl Core {
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
    let core = expect_core("a priority is set");
    preemption_point(core);
    enter_kernel(core, |costs| costs.syscall);
    in_turn(core);
    with(core, |core| {
        in_host(|| {
            let Some(number) = (thread.0 as usize).checked_sub(1) else { return false };
            if core.threads.get(number).is_none_or(|thread| thread.state == ThreadState::Over) {
                return false;
            }
            if let Some(own) = core.inheritance.own.get_mut(&number) {
                *own = priority;
            } else {
                core.set_priority(number, priority, core.now);
            }
            core.settle_priority(number);
            true
        })
    })
}

/// The running thread's own SCHED_FIFO priority; 0 for none.
pub(crate) fn priority() -> u8 {
    let core = expect_core("a priority is asked for");
    enter_kernel(core, |costs| costs.syscall);
    with(core, |core| core.own_priority(core.thread))
}

/// Takes a lock for the running thread, lending its priority to the holder while it waits.
pub(crate) fn lock_inheriting(
    word: &AtomicU32,
    timeout: Option<Duration>,
    site: Site,
) -> Result<(), InheritError> {
    let core = expect_core("a lock is taken");
    super::might_sleep(core, "takes a lock that lends priority", site);
    enter_kernel(core, |costs| costs.syscall + costs.futex);
    let address = (&raw const *word).addr();
    super::access(address, size_of::<u32>(), Access::ReadModifyWrite, site);
    // Nothing runs between here and the wait: as the kernel's lock has it.
    let waits = with(core, |core| {
        in_host(|| {
            let me = core.thread;
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
            let place = core.place(address);
            let locks = &mut core.inheritance.locks;
            let lock = locks.entry(place).or_insert(InheritingLock { holder, waiters: Vec::new() });
            lock.holder = holder;
            lock.waiters.push(me);
            core.settle_priority(holder);
            core.begin_wait(Wait::Futex { place, address, expected: seen | WAITERS }, timeout);
            Ok(true)
        })
    })?;
    if !waits || finish_wait(core) == WaitOutcome::Returned {
        return Ok(());
    }
    with(core, |core| {
        in_host(|| {
            let (me, place) = (core.thread, core.place(address));
            let Some(lock) = core.inheritance.locks.get_mut(&place) else { return };
            lock.waiters.retain(|waiter| *waiter != me);
            let (holder, is_last) = (lock.holder, lock.waiters.is_empty());
            if is_last {
                core.inheritance.locks.remove(&place);
                word.store(word.load(Relaxed) & !WAITERS, Relaxed);
            }
            core.settle_priority(holder);
        });
    });
    Err(InheritError::TimedOut)
}

/// Hands a lock of the running thread to the waiter of the highest priority, and gives back what
/// was lent for it.
pub(crate) fn unlock_inheriting(word: &AtomicU32, site: Site) {
    let core = expect_core("a lock is freed");
    enter_kernel(core, |costs| costs.syscall + costs.futex);
    let address = (&raw const *word).addr();
    super::access(address, size_of::<u32>(), Access::ReadModifyWrite, site);
    with(core, |core| {
        in_host(|| {
            let (me, place) = (core.thread, core.place(address));
            let next = core.inheritance.locks.get(&place).and_then(|lock| {
                // One whose time has run out is on its way, and takes itself off.
                let asleep = lock.waiters.iter().filter(|waiter| {
                    matches!(core.threads[**waiter].state, ThreadState::Waiting { .. })
                });
                asleep.rev().max_by_key(|waiter| core.threads[**waiter].fifo_priority).copied()
            });
            let Some(next) = next else {
                word.store(0, Relaxed);
                // Those whose time has run out find the lock free, or another's.
                core.inheritance.locks.remove(&place);
                core.settle_priority(me);
                return;
            };
            let locks = &mut core.inheritance.locks;
            if let Some(lock) = locks.get_mut(&place) {
                lock.waiters.retain(|waiter| *waiter != next);
                lock.holder = next;
                let others = !lock.waiters.is_empty();
                word.store((next as u32 + 1) | if others { WAITERS } else { 0 }, Relaxed);
                if !others {
                    locks.remove(&place);
                }
            }
            core.settle_priority(me);
            core.settle_priority(next);
            core.now = core.make_runnable(next, core.now);
        });
    });
}
