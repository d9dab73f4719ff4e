//! The machine below the operating system: virtual time, CPUs, caches and memory. It knows no thread but the number of the
//! running one, which it records.
//!
//! On machines whose file says how contended lines change hands, a thread that finds a line taken is suspended, and its CPU
//! waits, as for a lock that is handed over. When the line is free, the memory's arbiter says whose it is next; that CPU goes
//! on when it has the line, and only then is its value read or written: so what happens to a line happens in the order in which
//! it changes hands. If a CPU goes on late, since a fault held it back, others may have had the line meanwhile: its access is
//! no less atomic for that.

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

/// Loads in a row after which a thread is taken for one that spins, if threads are switched at waits alone.
pub(crate) const LOOKS: u32 = 2_000;
/// Accesses of any kind after which it also is: it may try something again and again.
const MOST_ACCESSES_IN_TURN: u32 = 500_000;

/// The accesses of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trace {
    pub(crate) hash: u64,
    pub(crate) accesses: u64,
    pub(crate) misses: u64,
}

impl Trace {
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
    /// The time of the CPU that runs.
    pub(crate) now: Ps,
    /// The CPU that runs.
    pub(crate) cpu: usize,
    /// The thread that runs.
    pub(crate) thread: usize,
    pub(crate) agenda: Agenda,
    pub(crate) costs: Costs,
    pub(crate) noise: Noise,
    pub(crate) memory: Memory,
    pub(crate) recorder: Option<Box<Recorder>>,
    pub(crate) trace: Trace,
    /// By CPU: since when it waits for a contended line.
    awaits_since: Vec<Ps>,
    pub(crate) spinning: Spinning,
    stores: StoreBuffers,
    /// The last access was a store that failed.
    pub(crate) store_failed: bool,
    /// If memory is uniform: the words that are waited for, by address, in the order of first use.
    words: Option<HashMap<usize, u64>>,
    /// If memory is uniform: loads in a row, with nothing else done.
    looks: u32,
    /// If memory is uniform: accesses since the running thread came on.
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
            // A search looks for orders of accesses, and draws them itself.
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
            trace: Trace { hash: mix(seed), accesses: 0, misses: 0 },
            awaits_since: vec![0; cpus],
            spinning: Spinning::new(cpus),
            stores: StoreBuffers::new(cpus),
            store_failed: false,
            words: settings.uniform_memory.then(HashMap::new),
            looks: 0,
            accesses_in_turn: 0,
        }
    }

    /// Begins an event of a CPU: the looks that it has slept over, if it has. `None` if the event is stale.
    pub(crate) fn begin_step(&mut self, cpu: usize, time: Ps) -> Option<Option<SleptOver>> {
        if !self.agenda.take_step(cpu, time) {
            return None;
        }
        self.cpu = cpu;
        self.now = time;
        self.spinning.stop(cpu, &mut self.memory);
        let slept = self.spinning.take_slept_over(cpu, time);
        self.trace.accesses += slept.map_or(0, |slept| slept.accesses);
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

    /// The running thread runs for `time`.
    #[inline]
    pub(crate) fn run_for(&mut self, time: Ps) {
        self.now += time;
        self.interrupt(time);
    }

    /// The running thread has run for `time`, and its CPU was interrupted meanwhile.
    #[inline]
    fn interrupt(&mut self, time: Ps) {
        self.now += self.noise.interruptions(time);
    }

    #[inline]
    pub(crate) fn place(&mut self, address: usize) -> Place {
        match &mut self.words {
            None => self.memory.place(address),
            // Words are told apart, and named, by the order of their first use.
            Some(words) => {
                let next = words.len() as u64;
                Place::outside(in_host(|| *words.entry(address).or_insert(next)))
            }
        }
    }

    pub(crate) const fn has_uniform_memory(&self) -> bool {
        self.words.is_some()
    }

    /// If memory is uniform: the running CPU accesses some of it. Returns how many accesses its thread has made in this turn.
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

    /// True if the running thread looks at memory again and again, and so is to let others go first.
    pub(crate) fn spins_by_looking(&mut self) -> bool {
        let spins = self.agenda.is_at_waits()
            && (self.looks > LOOKS || self.accesses_in_turn > MOST_ACCESSES_IN_TURN);
        if spins {
            self.looks = 0;
            self.accesses_in_turn = 0;
        }
        spins
    }

    /// True if the running thread's CPU must wait for the line.
    #[inline]
    pub(crate) fn awaits_line(&mut self, address: usize, access: Access) -> bool {
        self.memory.arbitrates() && self.awaits_contended_line(address, access)
    }

    fn awaits_contended_line(&mut self, address: usize, access: Access) -> bool {
        if self.has_uniform_memory() || self.agenda.is_at_waits() {
            return false;
        }
        // What is stored is made of what is on its way.
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

    /// A line for which CPUs wait is free. Returns the CPU that gets it, and what its access did.
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

    /// A prefetcher may wait for a line.
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

    /// The running CPU accesses `bytes` bytes from `address` on, at its turn; `granted` says what the access to the first
    /// line did, if the CPU has waited for that. Several lines are fetched at once, and the last to come is waited for.
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
        // The CPU goes on until it needs what it loaded; a thread that looks again at the same word does.
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
        // The loads that were begun ahead of time were wrong.
        if granted.is_some() && access == Access::Load && spins {
            self.now += self.memory.spin_exit();
        }
        self.interrupt(self.now - since);
    }

    /// The running CPU accesses a line. It is the later of several accesses that it makes at once if `since` is before its
    /// time. Returns when the CPU goes on.
    #[inline]
    fn touch(&mut self, place: Place, access: Access, since: Ps, site: Site) -> Ps {
        let outcome = self.access_for(self.cpu, place, access, since);
        self.note_touch(place, access, &outcome, since, site);
        outcome.end
    }

    /// An access of the running CPU was done.
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

    /// A CPU accesses memory.
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

    /// A line was taken at `since` to be written, and will be there for all to see at `done`.
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

    /// The running thread needs what it loaded last.
    #[inline]
    pub(crate) fn wait_for_loaded(&mut self) {
        self.now = self.now.max(self.spinning.comes_at());
        self.spinning.set_comes_at(0);
    }

    /// The same, unless it is about to store to that word: what is stored is made of what was loaded, and waits for it in
    /// the store buffer.
    #[inline]
    pub(crate) fn wait_for_loaded_unless(&mut self, address: usize, access: Access) {
        if self.spinning.comes_at() > self.now {
            let place = self.place(address);
            if access != Access::Store || !self.spinning.looked_at(place) {
                self.wait_for_loaded();
            }
        }
    }

    /// The running thread spins for a turn.
    pub(crate) fn spin(&mut self) {
        self.wait_for_loaded();
        self.run_for(self.costs.spin_hint);
    }

    /// After a turn of spinning: if the CPU is to sleep on the line, until when at the latest.
    pub(crate) fn sleep_over_spins(&mut self) -> Option<Ps> {
        let (line, turns) = self.spinning.spin_turn(self.cpu, &mut self.memory)?;
        self.spinning.sleep_on(self.cpu, line, &mut self.memory);
        Some(self.now + self.costs.spin_hint * turns)
    }

    /// Begins a turn of looks. Returns the time.
    pub(crate) fn begin_looks(&mut self) -> Ps {
        self.spinning.begin_looks(self.cpu);
        self.now
    }

    /// After a turn that began at `since`, in vain: until when the CPU may sleep, if `left` turns like this one are to follow.
    pub(crate) fn sleep_over_looks(&mut self, since: Ps, left: u32) -> Option<Ps> {
        let lines = self.spinning.looks(self.cpu);
        let looks = lines.len() as u64 * (self.costs.l1_hit + self.costs.compute);
        let turn = self.costs.spin_hint + looks;
        // It did nothing else, and neither lost its CPU nor the lines.
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

    /// Writes the stores that are due by now to memory.
    #[inline]
    pub(crate) fn commit_due_stores(&mut self) {
        while let Some(cpu) = self.stores.due(self.now) {
            in_host(|| self.commit_oldest_store(cpu));
        }
    }

    /// True if the running CPU has stores that others do not see yet.
    #[inline]
    pub(crate) fn has_buffered_stores(&self) -> bool {
        self.stores.has_stores_of(self.cpu)
    }

    pub(crate) fn buffer_store(&mut self, store: BufferedStore) {
        in_host(|| self.stores.append(self.cpu, store));
        self.now += self.costs.l1_hit;
    }

    /// What the running CPU has stored to a word and others do not see yet.
    #[inline]
    pub(crate) fn forwarded_value(&self, word: *const ()) -> Option<u64> {
        self.stores.latest(self.cpu, word)
    }
}
