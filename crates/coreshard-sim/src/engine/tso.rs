//! Total store order (TSO), x86's memory order: a CPU's stores wait in its store buffer. The CPU itself
//! sees them at once, all others later, in their order. The buffer is drained at the latest when the CPU
//! does a locked instruction, makes a system call, or switches to another thread.
//!
//! So a thread that stores to one word and then loads another may load before its store is seen. A program
//! that does not allow for that hangs once in a billion times; here the fault injector decides which stores
//! are delayed, and for how long.
//!
//! Not buffered are stores of pointers, and stores to the thread's own stack: the stack may have another use
//! by the time they are seen. To free or move any other word the thread calls the allocator, which drains
//! the buffer first.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use coreshard_platform::stack_pointer;

use super::fault_injector::FaultInjector;
use super::state::{SimState, current};
use super::store_buffers::BufferedStore;
use super::turn::{in_turn, with};
use crate::machine::Ps;
use crate::memory::Access;
use crate::report::Recorded;
use crate::site::Site;
use crate::space::{STACK_BYTES, in_host};

impl SimState {
    /// Writes the oldest store of a CPU's store buffer to memory.
    fn commit_oldest_store(&mut self, cpu: usize) {
        let Some(store) = self.store_buffers.pop(cpu) else { return };
        store.write();
        let outcome = self.access_for(cpu, store.place, Access::Store, self.now);
        if let Some(recorder) = &mut self.recorder {
            recorder.record(&Recorded {
                cpu,
                thread: self.thread,
                place: store.place,
                access: Access::Store,
                outcome: &outcome,
                latency: 0,
                site: store.site,
            });
        }
    }

    /// Writes all stores of a CPU's store buffer to memory.
    #[inline]
    pub(super) fn drain_stores(&mut self, cpu: usize) {
        if self.store_buffers.len > 0 {
            in_host(|| {
                while !self.store_buffers.buffers[cpu].is_empty() {
                    self.commit_oldest_store(cpu);
                }
            });
        }
    }

    /// Writes the stores that are due by now to memory.
    #[inline]
    pub(super) fn commit_due_stores(&mut self) {
        while self.now >= self.store_buffers.first_due {
            in_host(|| {
                let first = |buffer: &VecDeque<BufferedStore>| {
                    buffer.front().map_or(Ps::MAX, |first| first.due)
                };
                let cpus = self.store_buffers.buffers.iter().enumerate();
                let (cpu, _) = cpus.min_by_key(|(_, buffer)| first(buffer)).expect("one is due");
                self.commit_oldest_store(cpu);
            });
        }
    }

    /// After a load: a CPU with buffered stores may stall, so that others come between this load and the
    /// stores before it. That order is what breaks programs.
    #[inline]
    pub(super) fn stall_after_load(&mut self) {
        if self.store_buffers.len > 0 && !self.store_buffers.buffers[self.cpu].is_empty() {
            self.now +=
                self.injector.as_mut().and_then(FaultInjector::stall_after_load).unwrap_or(0);
        }
    }

    /// When a store is to be written to memory, if it is buffered.
    fn store_due(&mut self, order: Ordering) -> Option<Ps> {
        if order == Ordering::SeqCst {
            return None;
        }
        let delay = self.injector.as_mut().and_then(FaultInjector::store_delay);
        // Stores keep their order: one behind a buffered store is buffered, too.
        let waits = !self.store_buffers.buffers[self.cpu].is_empty();
        delay.map(|time| self.now + time).or(waits.then_some(self.now))
    }
}

/// True if the store is buffered: then it is written to memory later. Else the buffer was drained, and the
/// caller does the store.
#[inline]
pub(crate) fn buffer_store(
    word: *const (),
    bytes: usize,
    value: u64,
    order: Ordering,
    site: Site,
) -> bool {
    let Some(sim) = current() else { return false };
    if !with(sim, |sim| sim.injector.as_ref().is_some_and(FaultInjector::may_buffer_stores)) {
        return false;
    }
    buffer_by_chance(sim, word, bytes, value, order, site)
}

#[cold]
fn buffer_by_chance(
    sim: NonNull<SimState>,
    word: *const (),
    bytes: usize,
    value: u64,
    order: Ordering,
    site: Site,
) -> bool {
    in_turn(sim);
    // Stacks lie at multiples of their size.
    let on_own_stack = word.addr() / STACK_BYTES == stack_pointer() / STACK_BYTES;
    with(sim, |sim| {
        sim.commit_due_stores();
        let due = if on_own_stack { None } else { sim.store_due(order) };
        let Some(due) = due else {
            let cpu = sim.cpu;
            sim.drain_stores(cpu);
            return false;
        };
        let place = sim.place(word.addr());
        let store = BufferedStore { word, bytes, value, place, due, site };
        in_host(|| sim.store_buffers.push(sim.cpu, store));
        sim.now += sim.costs.l1_hit;
        true
    })
}

/// What this CPU has stored to a word and others do not see yet.
#[inline]
pub(crate) fn forwarded_value(word: *const ()) -> Option<u64> {
    let sim = current()?;
    with(sim, |sim| match sim.store_buffers.len {
        0 => None,
        _ => sim.store_buffers.latest(sim.cpu, word),
    })
}

/// Drains the running CPU's store buffer, if simulated code runs here.
#[inline]
pub(crate) fn drain_own_stores() {
    if let Some(sim) = current() {
        with(sim, |sim| sim.drain_stores(sim.cpu));
    }
}
