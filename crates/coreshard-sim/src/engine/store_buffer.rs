//! Stores that a CPU holds back, as x86's memory order allows: the CPU itself sees them at once, everybody
//! else sees them later, in their order, and at the latest when the CPU does a locked instruction, makes a
//! system call, or takes another thread.
//!
//! On such a machine, and on any other, a thread that clears a flag and then looks for what the flag
//! announces may look too early. Programs that rely on it hang once in a billion times; here the dice
//! decide which stores are held back, and for how long.
//!
//! Not held back are stores to the storing thread's own stack, which would come to lie in what the stack
//! is used for next, and stores of pointers. Whatever else this thread does with the memory of a word (to
//! free it, or to move what has moved before) needs the allocator first, and the allocator lets all go.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

use super::calls::{in_turn, with};
use super::core::{Core, Site, current};
use super::faults::Dice;
use crate::machine::Ps;
use crate::memory::{Access, Place};
use crate::space::{STACK_BYTES, in_host};

/// A store that has not come to memory yet.
struct HeldStore {
    word: *const (),
    bytes: usize,
    value: u64,
    place: Place,
    /// When it comes to memory at the latest.
    due: Ps,
    site: Site,
}

impl HeldStore {
    fn write(&self) {
        // SAFETY: the word was borrowed as an atomic of this size when it was stored to; it is neither
        // freed nor moved before its thread has let all its stores go, as this file's head says.
        unsafe {
            match self.bytes {
                1 => (*self.word.cast::<AtomicU8>()).store(self.value as u8, Relaxed),
                4 => (*self.word.cast::<AtomicU32>()).store(self.value as u32, Relaxed),
                _ => (*self.word.cast::<AtomicU64>()).store(self.value, Relaxed),
            }
        }
    }
}

/// The store buffers of all CPUs.
pub(super) struct StoreBuffers {
    /// By CPU, the oldest store first.
    held: Vec<VecDeque<HeldStore>>,
    in_all: usize,
    /// When the first of all is due; later than ever where there is none.
    first_due: Ps,
}

impl StoreBuffers {
    pub(super) fn new(cpus: usize) -> Self {
        Self { held: (0..cpus).map(|_| VecDeque::new()).collect(), in_all: 0, first_due: Ps::MAX }
    }

    fn pop(&mut self, cpu: usize) -> Option<HeldStore> {
        let store = self.held[cpu].pop_front()?;
        self.in_all -= 1;
        // Within a CPU the first is the first to be due.
        let firsts = self.held.iter().filter_map(|held| held.front());
        self.first_due = firsts.map(|first| first.due).min().unwrap_or(Ps::MAX);
        Some(store)
    }

    fn push(&mut self, cpu: usize, mut store: HeldStore) {
        let held = &mut self.held[cpu];
        store.due = held.back().map_or(store.due, |last| last.due.max(store.due));
        self.first_due = self.first_due.min(store.due);
        held.push_back(store);
        self.in_all += 1;
    }

    /// What the CPU has stored to `word`, and others do not see yet.
    fn latest(&self, cpu: usize, word: *const ()) -> Option<u64> {
        self.held[cpu].iter().rev().find(|store| store.word == word).map(|store| store.value)
    }
}

impl Core {
    /// Brings the oldest held store of a CPU to memory.
    fn bring_one(&mut self, cpu: usize) {
        let Some(store) = self.store_buffers.pop(cpu) else { return };
        store.write();
        let outcome = self.access_for(cpu, store.place, Access::Store, self.now);
        if let Some(recorder) = &mut self.recorder {
            recorder.record(store.place, Access::Store, &outcome, 0, store.site);
        }
    }

    /// All stores that a CPU holds back come to memory.
    #[inline]
    pub(super) fn let_stores_go(&mut self, cpu: usize) {
        if self.store_buffers.in_all > 0 {
            in_host(|| {
                while !self.store_buffers.held[cpu].is_empty() {
                    self.bring_one(cpu);
                }
            });
        }
    }

    /// The stores that are due by now come to memory.
    #[inline]
    pub(super) fn bring_due_stores(&mut self) {
        while self.now >= self.store_buffers.first_due {
            in_host(|| {
                let first =
                    |held: &VecDeque<HeldStore>| held.front().map_or(Ps::MAX, |first| first.due);
                let cpus = self.store_buffers.held.iter().enumerate();
                let (cpu, _) = cpus.min_by_key(|(_, held)| first(held)).expect("one is due");
                self.bring_one(cpu);
            });
        }
    }

    /// After a look: where stores are still held back, what the CPU does next may be late. For it is the
    /// look before the store that breaks programs, if somebody else comes in between.
    #[inline]
    pub(super) fn linger(&mut self) {
        if self.store_buffers.in_all > 0 && !self.store_buffers.held[self.cpu].is_empty() {
            self.now += self.dice.as_mut().and_then(Dice::lingers).unwrap_or(0);
        }
    }

    fn holds_store(&mut self, order: Ordering) -> Option<Ps> {
        if order == Ordering::SeqCst {
            return None;
        }
        let held_for = self.dice.as_mut().and_then(Dice::holds_store);
        // One that comes after a held one waits for it.
        let waits = !self.store_buffers.held[self.cpu].is_empty();
        held_for.map(|time| self.now + time).or(waits.then_some(self.now))
    }
}

/// True if the store is held back: then it comes to memory by itself. Otherwise all that were held back
/// before are in memory now.
#[inline]
pub(crate) fn hold_store(
    word: *const (),
    bytes: usize,
    value: u64,
    order: Ordering,
    site: Site,
) -> bool {
    let Some(core) = current() else { return false };
    if !with(core, |core| core.dice.as_ref().is_some_and(Dice::may_hold_stores)) {
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
        core.bring_due_stores();
        let due = if on_own_stack { None } else { core.holds_store(order) };
        let Some(due) = due else {
            let cpu = core.cpu;
            core.let_stores_go(cpu);
            return false;
        };
        let place = core.place(word.addr());
        let store = HeldStore { word, bytes, value, place, due, site };
        in_host(|| core.store_buffers.push(core.cpu, store));
        core.now += core.costs.l1_hit;
        true
    })
}

/// What this CPU has stored to a word, where others do not see it yet.
#[inline]
pub(crate) fn held_value(word: *const ()) -> Option<u64> {
    let core = current()?;
    with(core, |core| match core.store_buffers.in_all {
        0 => None,
        _ => core.store_buffers.latest(core.cpu, word),
    })
}

/// The running CPU's stores come to memory, where code of the program runs.
#[inline]
pub(crate) fn let_own_stores_go() {
    if let Some(core) = current() {
        with(core, |core| core.let_stores_go(core.cpu));
    }
}
