//! The machine below the operating system: virtual time, CPUs, caches and memory. It knows threads only by
//! the number of the running one, which it records.
//!
//! On machines whose file models contended lines, a thread that finds a line taken is suspended, and its CPU
//! waits, as for a lock that is handed over. When the line is free, the memory's arbiter chooses the next
//! CPU. That CPU continues when it has the line, and only then is the value read or written. So the accesses to a line
//! happen in the order of its owners. If a fault delays a CPU, others may have had the line meanwhile; its access is
//! still atomic.

mod agenda;
mod noise;
mod spinning;
mod store_buffers;

use std::collections::HashMap;

use agenda::Agenda;
pub(crate) use agenda::Event;
use noise::Noise;
pub(crate) use spinning::SleptOver;
use spinning::Spinning;
pub(crate) use store_buffers::BufferedStore;
use store_buffers::StoreBuffers;

use super::faults::Faults;
use super::settings::Settings;
use crate::machine::{Costs, Machine, Ps};
use crate::memory::{Access, LineSource, Memory, Outcome, Place};
use crate::random::mix;
use crate::report::{Recorded, Recorder, Site};
use crate::space::in_host;

/// The number of consecutive loads after which a thread counts as spinning, if threads are switched only at
/// waits.
pub(crate) const LOOKS: u32 = 2_000;
/// The number of accesses of any kind after which it also does: it may be retrying something.
const MOST_ACCESSES_IN_TURN: u32 = 500_000;

/// The accesses of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trace {
    pub(crate) hash: u64,
    pub(crate) accesses: u64,
    pub(crate) misses: u64,
    /// Accesses that CPUs have slept through.
    pub(crate) slept_over: u64,
}

impl Trace {
    /// Returns the number of accesses that were simulated one by one.
    #[inline]
    pub(crate) const fn simulated(&self) -> u64 {
        self.accesses - self.slept_over
    }

    #[inline]
    fn note_access(&mut self, cpu: usize, what: u64, time: Ps) {
        self.accesses += 1;
        self.hash = (self.hash.rotate_left(5) ^ what ^ time.rotate_left(32))
            .wrapping_mul(0x517C_C1B7_2722_0A95)
            .wrapping_add(cpu as u64);
    }

    pub(crate) fn note_turn(&mut self, thread: usize, time: Ps) {
        self.hash = self.hash.rotate_left(7) ^ time ^ (thread as u64) << 48;
    }
}

pub(crate) struct Hardware {
    /// The time of the running CPU.
    pub(crate) now: Ps,
    /// The running CPU.
    pub(crate) cpu: usize,
    /// The running thread.
    pub(crate) thread: usize,
    pub(crate) agenda: Agenda,
    pub(crate) costs: Costs,
    pub(crate) noise: Noise,
    pub(crate) memory: Memory,
    pub(crate) recorder: Option<Box<Recorder>>,
    pub(crate) trace: Trace,
    /// By CPU: since when it has waited for a contended line.
    awaits_since: Vec<Ps>,
    pub(crate) spinning: Spinning,
    stores: StoreBuffers,
    /// Whether the last access was a store that failed.
    pub(crate) store_failed: bool,
    /// If memory is uniform: the words that threads wait for, by address, in the order of first use.
    words: Option<HashMap<usize, u64>>,
    /// If memory is uniform: consecutive loads, with nothing else done.
    looks: u32,
    /// If memory is uniform: accesses since the running thread was switched in.
    accesses_in_turn: u32,
}

impl Hardware {
    pub(crate) fn new(machine: &Machine, arena_start: usize, settings: &Settings) -> Self {
        let seed = settings.seed;
        let cpus = machine.topology().cpus().len();
        let mut costs = settings.profile.apply(machine.costs());
        if settings.by_hand {
            costs = Costs { slice: costs.slice, ..Costs::default() };
        }
        let mut memory = Memory::new(machine, arena_start, seed);
        if settings.faults != Faults::NONE {
            // A search explores orders of accesses, and draws them itself.
            memory.serve_in_order();
        }
        let records = settings.record_lines || settings.record_timeline;
        let recorder =
            || Box::new(Recorder::new(settings.record_lines, settings.record_timeline, cpus));
        Self {
            now: 0,
            cpu: 0,
            thread: 0,
            agenda: Agenda::new(cpus, seed, settings.at_waits),
            costs,
            noise: Noise::new(machine.costs().variation, seed),
            memory,
            recorder: records.then(recorder),
            trace: Trace { hash: mix(seed), accesses: 0, misses: 0, slept_over: 0 },
            awaits_since: vec![0; cpus],
            spinning: Spinning::new(cpus),
            stores: StoreBuffers::new(cpus),
            store_failed: false,
            words: settings.uniform_memory.then(HashMap::new),
            looks: 0,
            accesses_in_turn: 0,
        }
    }

    /// Begins an event of a CPU. Returns the checks that it has slept through, if any; the outer `None` means
    /// that the event is stale.
    pub(crate) fn begin_step(&mut self, cpu: usize, time: Ps) -> Option<Option<SleptOver>> {
        if !self.agenda.take_step(cpu, time) {
            return None;
        }
        self.cpu = cpu;
        self.now = time;
        self.spinning.stop(cpu, &mut self.memory);
        let slept = self.spinning.take_slept_over(cpu, time);
        let accesses = slept.map_or(0, |slept| slept.accesses);
        self.trace.accesses += accesses;
        self.trace.slept_over += accesses;
        Some(slept)
    }

    /// Begins a thread's turn on the running CPU.
    pub(crate) fn begin_turn(&mut self, thread: usize, limit: Ps) {
        self.thread = thread;
        self.accesses_in_turn = 0;
        self.spinning.begin_turn(self.cpu);
        self.agenda.begin_turn(limit);
        self.trace.note_turn(thread, self.now);
    }

    pub(crate) fn end_turn(&mut self) {
        self.spinning.end_turn(self.cpu);
        self.agenda.set_clock(self.cpu, self.now);
    }

    /// Advances the running thread by `time`.
    #[inline]
    pub(crate) fn run_for(&mut self, time: Ps) {
        self.now += time;
        self.interrupt(time);
    }

    /// Interrupts the running CPU if that happened while the thread ran for `time`.
    #[inline]
    fn interrupt(&mut self, time: Ps) {
        self.now += self.noise.interruptions(time);
    }

    #[inline]
    pub(crate) fn place(&mut self, address: usize) -> Place {
        match &mut self.words {
            None => self.memory.place(address),
            // Words are identified by the order of their first use.
            Some(words) => {
                let next = words.len() as u64;
                Place::outside(in_host(|| *words.entry(address).or_insert(next)))
            }
        }
    }

    pub(crate) const fn has_uniform_memory(&self) -> bool {
        self.words.is_some()
    }

    /// If memory is uniform: accesses it from the running CPU. Returns the number of its thread's accesses in
    /// this turn.
    pub(crate) fn touch_anywhere(&mut self, access: Access) -> u32 {
        self.now += self.costs.compute
            + match access {
                Access::Load | Access::Store => self.costs.l1_hit,
                _ => self.costs.atomic,
            };
        self.looks = if access == Access::Load { self.looks + 1 } else { 0 };
        self.accesses_in_turn += 1;
        self.trace.note_access(self.cpu, access.near() as u64, self.now);
        self.accesses_in_turn
    }

    /// Returns true if the running thread keeps reading memory, and should yield.
    pub(crate) fn spins_by_looking(&mut self) -> bool {
        let spins = self.agenda.is_at_waits()
            && (self.looks > LOOKS || self.accesses_in_turn > MOST_ACCESSES_IN_TURN);
        if spins {
            self.looks = 0;
            self.accesses_in_turn = 0;
        }
        spins
    }

    /// Returns true if the running thread's CPU must wait for the line.
    #[inline]
    pub(crate) fn awaits_line(&mut self, address: usize, access: Access) -> bool {
        self.memory.arbitrates() && self.awaits_contended_line(address, access)
    }

    fn awaits_contended_line(&mut self, address: usize, access: Access) -> bool {
        if self.has_uniform_memory() || self.agenda.is_at_waits() {
            return false;
        }
        // The stored value depends on a load that has not arrived.
        if access == Access::Store && self.spinning.comes_at() > self.now {
            return false;
        }
        let place = self.memory.place(address);
        let waits = in_host(|| self.memory.wait_for_line(self.cpu, place, access, self.now));
        let Some(first) = waits else { return false };
        self.await_prefetch();
        if let Some((free, slot)) = first {
            self.await_free_line(free, slot);
        }
        self.awaits_since[self.cpu] = self.now;
        self.agenda.begin_line_wait();
        true
    }

    /// Hands out a line that CPUs wait for. Returns the CPU that gets it, and the result of its access.
    pub(crate) fn hand_out_line(&mut self, slot: usize, time: Ps) -> Option<(usize, Outcome)> {
        let line = self.memory.contended_line(slot);
        let (served, free) = self.memory.hand_out(slot, time);
        match free {
            Some(free) => self.agenda.end_with(free, Event::Line(slot)),
            None => self.agenda.end(),
        }
        let (cpu, access, outcome) = served?;
        self.agenda.end_line_wait();
        let line = line.expect("a CPU that waits does so for a line");
        self.note_access(cpu, line, access, time, &outcome);
        self.agenda.step_at(cpu, outcome.end);
        Some((cpu, outcome))
    }

    /// Lets a prefetcher wait for a line, if it must.
    #[inline]
    fn await_prefetch(&mut self) {
        if let Some((free, slot)) = self.memory.take_prefetch() {
            self.await_free_line(free, slot);
        }
    }

    fn await_free_line(&mut self, free: Ps, slot: usize) {
        in_host(|| self.agenda.push(free, Event::Line(slot)));
        self.agenda.lower_horizon(free);
    }

    /// Accesses `bytes` bytes from `address` on, by the running CPU at its turn. `granted` is the result of
    /// the access to the first line, if the CPU has waited for that. Several lines are fetched at once, and
    /// the CPU waits for the last one.
    #[inline]
    pub(crate) fn access(
        &mut self,
        address: usize,
        bytes: usize,
        access: Access,
        granted: Option<Outcome>,
        site: Site,
    ) {
        self.commit_due_stores();
        if !matches!(access, Access::Load | Access::Store) {
            self.drain_stores(self.cpu);
        }
        let place = self.memory.place(address);
        let spins = self.spinning.looked_at(place);
        let since = self.now;
        let mut end = match &granted {
            Some(outcome) => {
                self.note_touch(place, access, outcome, self.awaits_since[self.cpu], site);
                self.now.max(outcome.end)
            }
            None => self.touch(place, access, since, site),
        };
        let line_bytes = self.memory.line_bytes();
        let is_in_one_line = address % line_bytes + bytes <= line_bytes;
        if !is_in_one_line {
            let mut next = (address | (line_bytes - 1)) + 1;
            while next < address + bytes {
                let place = self.memory.place(next);
                end = end.max(self.touch(place, access, since, site));
                next += line_bytes;
            }
        }
        // The CPU continues until it needs the loaded value, as a thread does that checks the same word
        // again.
        let goes_on = access == Access::Load
            && self.memory.has_several_misses()
            && granted.is_none()
            && !spins
            && is_in_one_line
            && end > since + self.costs.l1_hit;
        if goes_on {
            self.spinning.set_comes_at(end);
            end = since + self.costs.l1_hit;
        }
        self.now = end + self.costs.compute;
        self.interrupt(self.now - since);
    }

    /// Accesses a line by the running CPU. If `since` is before its time, this is the later of several
    /// simultaneous accesses. Returns when the CPU continues.
    #[inline]
    fn touch(&mut self, place: Place, access: Access, since: Ps, site: Site) -> Ps {
        let outcome = self.access_for(self.cpu, place, access, since);
        self.note_touch(place, access, &outcome, since, site);
        outcome.end
    }

    /// Records an access of the running CPU.
    #[inline]
    fn note_touch(
        &mut self,
        place: Place,
        access: Access,
        outcome: &Outcome,
        since: Ps,
        site: Site,
    ) {
        self.store_failed = outcome.fails;
        self.spinning.note_access(place, access);
        if self.spinning.notes_looks() {
            let hits = access == Access::Load && outcome.source == LineSource::Hit;
            let line = self.memory.line_of(place);
            let is_pure = hits && self.memory.has(self.cpu, line);
            self.spinning.note_look(self.cpu, line, is_pure);
        }
        if let Some(recorder) = &mut self.recorder {
            let latency = outcome.done.saturating_sub(since);
            let (cpu, thread, access) = (self.cpu, self.thread, access.near());
            let recorded = Recorded { cpu, thread, place, access, outcome, latency, site };
            in_host(|| recorder.record(&recorded));
        }
    }

    /// Accesses memory for a CPU.
    #[inline]
    fn access_for(&mut self, cpu: usize, place: Place, access: Access, since: Ps) -> Outcome {
        let outcome = self.memory.access(cpu, place, access, since);
        self.note_access(cpu, place, access, since, &outcome);
        outcome
    }

    /// Counts an access of a CPU, and wakes the CPUs that spin on its line.
    #[inline]
    fn note_access(
        &mut self,
        cpu: usize,
        place: Place,
        access: Access,
        since: Ps,
        outcome: &Outcome,
    ) {
        self.trace.note_access(cpu, place.0 << 2 | access.near() as u64, since);
        if outcome.source != LineSource::Hit {
            self.trace.misses += 1;
            if outcome.wakes {
                self.wake_spinners(place, since, outcome.done);
            }
            self.await_prefetch();
        }
    }

    /// Wakes the CPUs that spin on a line. The line was taken at `since` to be written; the write is visible
    /// at `done`.
    #[cold]
    fn wake_spinners(&mut self, place: Place, since: Ps, done: Ps) {
        in_host(|| {
            for cpu in self.spinning.sleepers(self.memory.line_of(place)) {
                self.spinning.stop(cpu, &mut self.memory);
                let sees_at = self.spinning.sees_at(cpu, since, done);
                self.agenda.step_at(cpu, sees_at.max(self.agenda.clock(cpu)));
            }
        });
    }

    /// Waits for the value that the running thread loaded last.
    #[inline]
    pub(crate) fn wait_for_loaded(&mut self) {
        self.now = self.now.max(self.spinning.comes_at());
        self.spinning.set_comes_at(0);
    }

    /// The same, unless the thread is about to store to that word: the stored value depends on the loaded
    /// one, and waits for it in the store buffer.
    #[inline]
    pub(crate) fn wait_for_loaded_unless(&mut self, address: usize, access: Access) {
        if self.spinning.comes_at() > self.now {
            let place = self.place(address);
            if access != Access::Store || !self.spinning.looked_at(place) {
                self.wait_for_loaded();
            }
        }
    }

    /// Lets the running thread spin for a turn.
    pub(crate) fn spin(&mut self) {
        self.wait_for_loaded();
        self.run_for(self.costs.spin_hint);
    }

    /// Called after a turn of spinning. If the CPU should sleep on the line, returns the latest end of the
    /// sleep.
    pub(crate) fn sleep_over_spins(&mut self) -> Option<Ps> {
        let (line, turns) = self.spinning.spin_turn(self.cpu, &mut self.memory)?;
        self.spinning.sleep_on(self.cpu, line, &mut self.memory);
        Some(self.now + self.costs.spin_hint * turns)
    }

    /// Begins a turn of checks. Returns the time.
    pub(crate) fn begin_looks(&mut self) -> Ps {
        self.spinning.begin_looks(self.cpu);
        self.now
    }

    /// Called after a failed turn that began at `since`. If `left` turns like this one are to follow, returns
    /// until when the CPU may sleep.
    pub(crate) fn sleep_over_looks(&mut self, since: Ps, left: u32) -> Option<Ps> {
        let lines = self.spinning.looks(self.cpu);
        let looks = lines.len() as u64 * (self.costs.l1_hit + self.costs.compute);
        let turn = self.costs.spin_hint + looks;
        // The turn did nothing else, and lost neither its CPU nor the lines.
        let is_pure = looks > 0
            && self.now == since + turn
            && lines.iter().all(|line| self.memory.has(self.cpu, *line));
        self.spinning.end_looks();
        if !is_pure || left <= 1 {
            return None;
        }
        let (turns, is_interrupted) = self.noise.turns_before_interruption(left, turn);
        let first_at = self.now + self.costs.spin_hint;
        let until = first_at + u64::from(turns - 1) * turn;
        let interrupted_at = is_interrupted.then_some(until);
        let memory = &mut self.memory;
        self.spinning.sleep_over_looks(self.cpu, memory, first_at, turn, interrupted_at);
        Some(until)
    }

    /// Writes the oldest store of a CPU's store buffer to memory.
    fn commit_oldest_store(&mut self, cpu: usize) {
        let Some(store) = self.stores.pop_oldest(cpu) else { return };
        store.write();
        let (place, access, site) = (store.place, Access::Store, store.site);
        let outcome = &self.access_for(cpu, place, access, self.now);
        if let Some(recorder) = &mut self.recorder {
            let thread = self.thread;
            let recorded = Recorded { cpu, thread, place, access, outcome, latency: 0, site };
            recorder.record(&recorded);
        }
    }

    /// Writes all stores of a CPU's store buffer to memory.
    #[inline]
    pub(crate) fn drain_stores(&mut self, cpu: usize) {
        while self.stores.has_stores_of(cpu) {
            in_host(|| self.commit_oldest_store(cpu));
        }
    }

    /// Writes all stores that are due to memory.
    #[inline]
    pub(crate) fn commit_due_stores(&mut self) {
        while let Some(cpu) = self.stores.due(self.now) {
            in_host(|| self.commit_oldest_store(cpu));
        }
    }

    /// Returns true if the running CPU has stores that other CPUs do not see yet.
    #[inline]
    pub(crate) fn has_buffered_stores(&self) -> bool {
        self.stores.has_stores_of(self.cpu)
    }

    pub(crate) fn buffer_store(&mut self, store: BufferedStore) {
        in_host(|| self.stores.append(self.cpu, store));
        self.now += self.costs.l1_hit;
    }

    /// Returns the value that the running CPU has stored to a word and that others do not see yet.
    #[inline]
    pub(crate) fn forwarded_value(&self, word: *const ()) -> Option<u64> {
        self.stores.latest(self.cpu, word)
    }
}
