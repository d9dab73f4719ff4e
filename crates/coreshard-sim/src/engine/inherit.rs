//! Fixed priorities of running threads, and locks that lend their waiters' priority to the holder: an outline of
//! FUTEX_LOCK_PI in Linux.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use coreshard_platform::{InheritError, ThreadId, WaitOutcome};

use super::calls::{access, enter_kernel, finish_wait, might_sleep, preemption_point};
use super::state::{SimState, expect_sim, in_kernel, in_turn, with};
use super::threads::{ThreadState, Wait};
use crate::memory::Access;
use crate::report::Site;

/// Threads wait for the lock, so its holder must release it through the kernel.
const WAITERS: u32 = 1 << 31;
const HOLDER: u32 = (1 << 30) - 1;

fn change_priority(sim: &mut SimState, thread: usize, priority: u8) {
    let is_runnable = sim.threads[thread].state() == ThreadState::Runnable;
    sim.sched.set_priority(&mut sim.hw, thread, priority, is_runnable);
}

/// Gives a thread the highest of its own priority and the priorities of its waiters, and propagates it along the locks
/// that it waits for itself.
fn settle(sim: &mut SimState, mut thread: usize) {
    // A chain is at most as long as there are threads; a cycle is a deadlock.
    for _ in 0..sim.threads.len() {
        let priority_of = |thread| sim.sched.priority_of(thread);
        let (priority, holder) = sim.inheritance.settle(thread, priority_of);
        change_priority(sim, thread, priority);
        let Some(holder) = holder else { return };
        thread = holder;
    }
}

/// Sets a thread's SCHED_FIFO priority; 0 for none. Returns false if there is no such thread.
pub(crate) fn set_priority(thread: ThreadId, priority: u8) -> bool {
    let sim = expect_sim("a priority is set");
    preemption_point(sim);
    enter_kernel(sim, |costs| costs.syscall);
    in_turn(sim);
    in_kernel(sim, |sim| {
        let Some(number) = sim.threads.number_of(thread) else { return false };
        match sim.inheritance.own_of_lent(number) {
            Some(own) => *own = priority,
            None => change_priority(sim, number, priority),
        }
        settle(sim, number);
        true
    })
}

/// Returns the running thread's own SCHED_FIFO priority; 0 for none.
pub(crate) fn priority() -> u8 {
    let sim = expect_sim("a priority is read");
    enter_kernel(sim, |costs| costs.syscall);
    with(sim, |sim| match sim.inheritance.own_of_lent(sim.hw.thread) {
        Some(own) => *own,
        None => sim.sched.priority_of(sim.hw.thread),
    })
}

/// Takes a lock for the running thread, lending its priority to the holder while it waits.
pub(crate) fn lock_inheriting(
    word: &AtomicU32,
    timeout: Option<Duration>,
    site: Site,
) -> Result<(), InheritError> {
    let sim = expect_sim("a lock is taken");
    might_sleep(sim, "takes a lock that lends priority", site);
    enter_kernel(sim, |costs| costs.syscall + costs.futex);
    let address = (&raw const *word).addr();
    access(address, size_of::<u32>(), Access::ReadModifyWrite, site);
    // No other thread runs between here and the wait, as under the kernel's lock.
    let waits = in_kernel(sim, |sim| {
        let me = sim.hw.thread;
        let seen = word.load(Relaxed);
        if seen & HOLDER == 0 {
            word.store(me as u32 + 1, Relaxed);
            return Ok(false);
        }
        let holder = (seen & HOLDER) as usize - 1;
        if holder == me {
            return Err(InheritError::WouldDeadlock);
        }
        let expected = seen | WAITERS;
        word.store(expected, Relaxed);
        let place = sim.hw.place(address);
        sim.inheritance.wait(place, holder, me);
        settle(sim, holder);
        sim.begin_wait(Wait::Futex { place, address, expected }, timeout);
        Ok(true)
    })?;
    if !waits || finish_wait(sim) == WaitOutcome::Returned {
        return Ok(());
    }
    in_kernel(sim, |sim| {
        let place = sim.hw.place(address);
        if let Some((holder, has_others)) = sim.inheritance.give_up(place, sim.hw.thread) {
            if !has_others {
                word.store(word.load(Relaxed) & !WAITERS, Relaxed);
            }
            settle(sim, holder);
        }
    });
    Err(InheritError::TimedOut)
}

/// Hands a lock of the running thread to the waiter with the highest priority, and drops the lent priority.
pub(crate) fn unlock_inheriting(word: &AtomicU32, site: Site) {
    let sim = expect_sim("a lock is freed");
    enter_kernel(sim, |costs| costs.syscall + costs.futex);
    let address = (&raw const *word).addr();
    access(address, size_of::<u32>(), Access::ReadModifyWrite, site);
    in_kernel(sim, |sim| {
        let (me, place) = (sim.hw.thread, sim.hw.place(address));
        let next = sim.inheritance.hand_over(place, |waiter| {
            sim.threads[waiter].waits_for().map(|_| sim.sched.priority_of(waiter))
        });
        let held = |(next, has_others)| (next as u32 + 1) | if has_others { WAITERS } else { 0 };
        word.store(next.map_or(0, held), Relaxed);
        settle(sim, me);
        if let Some((next, _)) = next {
            settle(sim, next);
            sim.hw.now = sim.wake(next, sim.hw.now);
        }
    });
}
