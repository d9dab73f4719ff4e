//! The operations of a contention, as programs commonly implement them.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Platform};

use super::description::{Operation, Retry};
use super::shared::{SharedMemory, Slot};

/// A waiting thread's own state.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Its queue node, from 1 on. A combining lock exchanges it for another one.
    pub(super) node: u32,
    random: u64,
}

impl Waiter {
    pub(super) const fn new(thread: usize) -> Self {
        Self { node: thread as u32 + 1, random: thread as u64 + 1 }
    }

    /// Returns a random number below `below`.
    pub(super) const fn random(&mut self, below: u32) -> u32 {
        self.random = self.random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        ((self.random >> 33) % below as u64) as u32
    }
}

/// The largest number of spin hints after a failed attempt.
const MOST_HINTS: u32 = 128;

/// The repetition of an attempt.
struct Attempts {
    retry: Retry,
    range: u32,
}

impl Attempts {
    const fn new(retry: Retry) -> Self {
        Self { retry, range: 2 }
    }

    /// Called after a failed attempt.
    fn pause<P: Platform>(&mut self, waiter: &mut Waiter) {
        match self.retry {
            Retry::AtOnce => {}
            Retry::Pause => P::spin_hint(),
            Retry::BackOff => {
                (0..=waiter.random(self.range)).for_each(|_| P::spin_hint());
                self.range = (2 * self.range).min(MOST_HINTS);
            }
        }
    }
}

/// Spins until `done` returns true. `done` must depend only on words that it loads.
fn spin_until<P: Platform>(mut done: impl FnMut() -> bool) {
    if !done() {
        while !P::watch(u32::MAX, &mut done) {}
    }
}

/// Increments a word with a load and a compare-exchange.
pub(super) fn cas<P: Platform>(slot: &Slot<P>, retry: Retry, waiter: &mut Waiter) {
    let mut attempts = Attempts::new(retry);
    let mut seen = slot.word.load(Relaxed);
    while slot.word.compare_exchange(seen, seen.wrapping_add(1), AcqRel, Relaxed).is_err() {
        attempts.pause::<P>(waiter);
        seen = slot.word.load(Relaxed);
    }
}

/// Holds a lock while `inside` runs; a combining lock may run it for other threads.
pub(super) fn with_lock<P: Platform>(
    (operation, retry): (Operation, Retry),
    shared: &SharedMemory<P>,
    slot: &Slot<P>,
    waiter: &mut Waiter,
    mut inside: impl FnMut(),
) {
    match operation {
        Operation::SpinLock => {
            take_spin_lock(slot, retry, waiter);
            inside();
            slot.word.store(0, Release);
        }
        Operation::TicketLock => {
            let ticket = slot.word.fetch_add(1, AcqRel);
            spin_until::<P>(|| slot.other.load(Acquire) == ticket);
            inside();
            slot.other.store(ticket.wrapping_add(1), Release);
        }
        Operation::QueueLock => with_queue_lock(shared, slot, waiter, inside),
        Operation::Mutex => {
            take_mutex::<P>(slot);
            inside();
            if slot.word.swap(0, Release) == CONTENDED {
                P::wake_one(&raw const slot.word);
            }
        }
        Operation::ReadLock => {
            enter_shared(slot);
            inside();
            slot.word.fetch_sub(READER, Release);
        }
        Operation::WriteLock => {
            enter_exclusive(slot);
            inside();
            slot.word.fetch_and(!WRITES, Release);
        }
        Operation::Combine => combine(shared, slot, waiter, inside),
        Operation::Load | Operation::Store | Operation::Add | Operation::Cas => {
            unreachable!("it has no holder")
        }
    }
}

fn take_spin_lock<P: Platform>(slot: &Slot<P>, retry: Retry, waiter: &mut Waiter) {
    let mut attempts = Attempts::new(retry);
    while slot.word.swap(1, Acquire) != 0 {
        attempts.pause::<P>(waiter);
        let is_free = || slot.word.load(Relaxed) == 0;
        match retry {
            Retry::AtOnce => while !is_free() {},
            Retry::Pause => spin_until::<P>(is_free),
            Retry::BackOff => {
                while !is_free() {
                    attempts.pause::<P>(waiter);
                }
            }
        }
    }
}

/// A mutex of three states: free, held, held with sleepers (U. Drepper, "Futexes Are Tricky").
const CONTENDED: u32 = 2;

fn take_mutex<P: Platform>(slot: &Slot<P>) {
    if slot.word.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        while slot.word.swap(CONTENDED, Acquire) != 0 {
            P::wait(&slot.word, CONTENDED, None);
        }
    }
}

/// A writer holds the lock.
const WRITES: u32 = 1;
/// A writer waits, so that no further reader enters.
const WAITS: u32 = 2;
const READER: u32 = 4;

fn enter_shared<P: Platform>(slot: &Slot<P>) {
    while slot.word.fetch_add(READER, Acquire) & (WRITES | WAITS) != 0 {
        slot.word.fetch_sub(READER, Relaxed);
        spin_until::<P>(|| slot.word.load(Relaxed) & (WRITES | WAITS) == 0);
    }
}

fn enter_exclusive<P: Platform>(slot: &Slot<P>) {
    loop {
        let seen = slot.word.load(Relaxed);
        if seen & !WAITS == 0 {
            if slot.word.compare_exchange(seen, WRITES, Acquire, Relaxed).is_ok() {
                return;
            }
        } else if seen & WAITS == 0 {
            slot.word.fetch_or(WAITS, Relaxed);
        }
        spin_until::<P>(|| {
            let seen = slot.word.load(Relaxed);
            seen & !WAITS == 0 || seen & WAITS == 0
        });
    }
}

/// The states of a queue node.
const TURN: u32 = 0;
const WAIT: u32 = 1;
const DONE: u32 = 2;

/// The lock of J. Mellor-Crummey and M. Scott, 1991: the word is the last waiter's node.
fn with_queue_lock<P: Platform>(
    shared: &SharedMemory<P>,
    slot: &Slot<P>,
    waiter: &Waiter,
    mut inside: impl FnMut(),
) {
    let node = shared.node(waiter.node);
    node.next.store(0, Relaxed);
    node.state.store(WAIT, Relaxed);
    let before = slot.word.swap(waiter.node, AcqRel);
    if before != 0 {
        shared.node(before).next.store(waiter.node, Release);
        spin_until::<P>(|| node.state.load(Acquire) == TURN);
    }
    inside();
    if node.next.load(Acquire) == 0 {
        if slot.word.compare_exchange(waiter.node, 0, Release, Relaxed).is_ok() {
            return;
        }
        spin_until::<P>(|| node.next.load(Acquire) != 0);
    }
    shared.node(node.next.load(Relaxed)).state.store(TURN, Release);
}

/// The most waiters that a holder serves.
const MOST_SERVED: u32 = 256;

/// CC-Synch (P. Fatourou and N. Kallimanis, 2012): each thread leaves its work in the last node and appends
/// another one. The holder does the work of the following nodes.
fn combine<P: Platform>(
    shared: &SharedMemory<P>,
    slot: &Slot<P>,
    waiter: &mut Waiter,
    mut inside: impl FnMut(),
) {
    let next = shared.node(waiter.node);
    next.next.store(0, Relaxed);
    next.state.store(WAIT, Relaxed);
    let mine = slot.word.swap(waiter.node, AcqRel);
    let node = shared.node(mine);
    node.next.store(waiter.node, Release);
    waiter.node = mine;
    spin_until::<P>(|| node.state.load(Acquire) != WAIT);
    if node.state.load(Relaxed) == DONE {
        return;
    }
    let mut at = node;
    for _ in 0..MOST_SERVED {
        let next = at.next.load(Acquire);
        if next == 0 {
            break;
        }
        inside();
        at.state.store(DONE, Release);
        at = shared.node(next);
    }
    at.state.store(TURN, Release);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use coreshard_platform::{Host, ThreadHandle, ThreadSpec};

    use super::super::description::Contention;
    use super::super::shared::Seat;
    use super::*;

    /// Every lock excludes: a plain sum by several threads loses no increment.
    #[test]
    fn a_lock_admits_one_holder_at_a_time() {
        const THREADS: usize = 3;
        const TIMES: u64 = 200;
        let locks = Operation::ALL.iter().filter(|it| it.is_lock() && **it != Operation::ReadLock);
        for operation in locks {
            let text = format!("outside_ns = 0\nsteps = [{{ {} = \"it\" }}]", operation.name());
            let contention = Contention::from_toml("it", &text).unwrap();
            let shared = std::sync::Arc::new(SharedMemory::<Host>::new(&contention, THREADS, 1));
            let sum = std::sync::Arc::new(AtomicU64::new(0));
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (shared, sum) = (shared.clone(), sum.clone());
                    let body = move || {
                        let mut waiter = Waiter::new(thread);
                        let slot = shared.slot((0, 0), Seat { thread, cpu: 0 });
                        for _ in 0..TIMES {
                            with_lock(
                                (*operation, Retry::Pause),
                                &shared,
                                slot,
                                &mut waiter,
                                || {
                                    sum.store(sum.load(Relaxed) + 1, Relaxed);
                                },
                            );
                            Host::yield_now();
                        }
                    };
                    Host::spawn(ThreadSpec::default(), Box::new(body)).unwrap()
                })
                .collect();
            threads.into_iter().for_each(ThreadHandle::join);
            assert_eq!(sum.load(Relaxed), THREADS as u64 * TIMES, "{operation:?}");
        }
    }
}
