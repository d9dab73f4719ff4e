//! Stores that a CPU holds back, as x86's memory order allows: the CPU itself sees them at once, everybody
//! else sees them later, in their order, and at the latest when the CPU does a locked instruction, makes a
//! system call, or takes another thread.
//!
//! On such a machine, and on any other, a thread that clears a flag and then looks for what the flag
//! announces may look too early. Programs that rely on it hang once in a billion times; here the injector
//! decide which stores are held back, and for how long.
//!
//! Not held back are stores to the storing thread's own stack, which would come to lie in what the stack
//! is used for next, and stores of pointers. Whatever else this thread does with the memory of a word (to
//! free it, or to move what has moved before) needs the allocator first, and the allocator lets all go.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::core::{Core, current};
use super::fault_injector::FaultInjector;
use super::store_buffers::BufferedStore;
use super::turn::{in_turn, with};
use crate::machine::Ps;
use crate::memory::Access;
use crate::site::Site;
use crate::space::{STACK_BYTES, in_host};

impl Core {
    /// Brings the oldest held store of a CPU to memory.
    fn commit_oldest_store(&mut self, cpu: usize) {
        let Some(store) = self.store_buffers.pop(cpu) else { return };
        store.write();
        let outcome = self.access_for(cpu, store.place, Access::Store, self.now);
        if let Some(recorder) = &mut self.recorder {
            recorder.record(store.place, Access::Store, &outcome, 0, store.site);
        }
    }

    /// All stores that a CPU holds back come to memory.
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

    /// The stores that are due by now come to memory.
    #[inline]
    pub(super) fn commit_due_stores(&mut self) {
        while self.now >= self.store_buffers.first_due {
            in_host(|| {
                let first = |held: &VecDeque<BufferedStore>| {
                    held.front().map_or(Ps::MAX, |first| first.due)
                };
                let cpus = self.store_buffers.buffers.iter().enumerate();
                let (cpu, _) = cpus.min_by_key(|(_, held)| first(held)).expect("one is due");
                self.commit_oldest_store(cpu);
            });
        }
    }

    /// After a look: where stores are still held back, what the CPU does next may be late. For it is the
    /// look before the store that breaks programs, if somebody else comes in between.
    #[inline]
    pub(super) fn stall_after_load(&mut self) {
        if self.store_buffers.len > 0 && !self.store_buffers.buffers[self.cpu].is_empty() {
            self.now +=
                self.injector.as_mut().and_then(FaultInjector::stall_after_load).unwrap_or(0);
        }
    }

    fn store_due(&mut self, order: Ordering) -> Option<Ps> {
        if order == Ordering::SeqCst {
            return None;
        }
        let held_for = self.injector.as_mut().and_then(FaultInjector::store_delay);
        // One that comes after a held one waits for it.
        let waits = !self.store_buffers.buffers[self.cpu].is_empty();
        held_for.map(|time| self.now + time).or(waits.then_some(self.now))
    }
}

/// True if the store is held back: then it comes to memory by itself. Otherwise all that were held back
/// before are in memory now.
#[inline]
pub(crate) fn buffer_store(
    word: *const (),
    bytes: usize,
    value: u64,
    order: Ordering,
    site: Site,
) -> bool {
    let Some(core) = current() else { return false };
    if !with(core, |core| core.injector.as_ref().is_some_and(FaultInjector::may_buffer_stores)) {
        return false;
    }
    hold(core, word, bytes, value, order, site)
}

#[cold]
fn hold(
    core: NonNull<Core>,
    word: *const (),
    bytes: usize,
    value: u64,
    order: Ordering,
    site: Site,
) -> bool {
    in_turn(core);
    let here = 0_u8;
    // Stacks lie at multiples of their size.
    let on_own_stack = word.addr() / STACK_BYTES == (&raw const here).addr() / STACK_BYTES;
    with(core, |core| {
        core.commit_due_stores();
        let due = if on_own_stack { None } else { core.store_due(order) };
        let Some(due) = due else {
            let cpu = core.cpu;
            core.drain_stores(cpu);
            return false;
        };
        let place = core.place(word.addr());
        let store = BufferedStore { word, bytes, value, place, due, site };
        in_host(|| core.store_buffers.push(core.cpu, store));
        core.now += core.costs.l1_hit;
        true
    })
}

/// What this CPU has stored to a word, where others do not see it yet.
#[inline]
pub(crate) fn forwarded_value(word: *const ()) -> Option<u64> {
    let core = current()?;
    with(core, |core| match core.store_buffers.len {
        0 => None,
        _ => core.store_buffers.latest(core.cpu, word),
    })
}

/// The running CPU's stores come to memory, where code of the program runs.
#[inline]
pub(crate) fn drain_own_stores() {
    if let Some(core) = current() {
        with(core, |core| core.drain_stores(core.cpu));
    }
}
