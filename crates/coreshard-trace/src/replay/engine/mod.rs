//! The replay: each recorded thread runs on a CPU of the machine, in virtual time.
//!
//! CPUs are in a queue, ordered by time. The first CPU runs its thread until its next operation that is visible to
//! others would be later than another CPU's time. Such operations are accesses of shared lines and events between
//! threads. All of them therefore happen in the order of time, while private operations cost no turn in the queue.
//!
//! Locks are taken in the order of the replay, not in the order of the recording. A kernel's locks are spun for: they are
//! handed over without a wake-up, and its task switches cost what its own code does. Waits, joins and starts follow the
//! recording: a waiting thread continues after the wake, exit or creation that ended its wait there. These orders can
//! contradict each other only in damaged recordings and in recordings of windows. In that case, the oldest wait ends
//! and is counted.

mod ahead;
mod locks;
mod outcome;
mod shared_lines;
mod spin;
mod thread;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use coreshard_sim::{CacheAccess, CacheOutcome, Caches, LineSource, Machine, Placement, StepCosts};

use self::ahead::Stall;
pub(crate) use self::locks::LockWaits;
use self::locks::Locks;
pub use self::outcome::ThreadView;
pub(crate) use self::outcome::{Outcome, ns};
use self::shared_lines::SharedLines;
use self::spin::Spin;
use self::thread::{Attempt, Cpu, On, Pending, State, Thread};
use super::accessor::Accessor;
use super::lines::Noted;
use super::moved::Moves;
use super::owners::{NOBODY, Owners, Tenancy};
use super::pace::{self, Pace};
use super::pages::LineKind;
use super::pieces::Timeline;
use super::plan::Plan;
use super::reuse::Slots;
use super::stores::Store;
use crate::recording::{Access, AccessKind, Event, KERNEL_ENGINE, Recording, RecordingError};

pub(crate) struct Replay<'r> {
    plan: &'r mut Plan,
    moves: Option<&'r Moves>,
    caches: Caches,
    costs: StepCosts,
    line_bytes: u64,
    /// Whether it is a recording of a kernel, whose CPUs spin.
    is_kernel: bool,
    threads: Vec<Thread<'r>>,
    places: HashMap<u32, usize>,
    cpus: Vec<Cpu>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    locks: Locks,
    /// Wakes that were replayed.
    woken: HashSet<u64>,
    /// For each wake, the threads that wait for it.
    waiting: HashMap<u64, Vec<usize>>,
    exited: HashSet<u64>,
    lines: SharedLines,
    reuse: Arc<Timeline>,
    slots: Slots,
    owners: Arc<Owners>,
    tenancy: Tenancy,
    edges_broken: u64,
    /// The start of each window.
    windows: HashMap<u64, u64>,
    pub(crate) early: EarlyUnlocks,
}

/// Locks that a thread releases when it reaches some code.
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlyUnlocks {
    /// The addresses of the 8-byte words of the locks.
    pub(crate) locks: HashSet<u64>,
    pub(crate) code: Vec<Range<u64>>,
}

impl EarlyUnlocks {
    /// Returns the lock that a thread with these locks releases when it is at an instruction.
    #[inline]
    fn lock_at(&self, instruction: u64, locks: &[u64]) -> Option<u64> {
        if !self.code.iter().any(|code| code.contains(&instruction.wrapping_sub(1))) {
            return None;
        }
        locks.iter().copied().find(|lock| self.locks.contains(&(lock / 8 * 8)))
    }
}

impl<'r> Replay<'r> {
    pub(crate) fn new(
        recording: &'r Recording,
        plan: &'r mut Plan,
        moves: Option<&'r Moves>,
        machine: &Machine,
        placement: &Placement,
        threads_per_cpu: usize,
    ) -> Self {
        let counts_instructions = recording.about().counts_instructions;
        let is_timed = !recording.threads_ns().is_empty();
        let mut caches = Caches::new(machine);
        // Otherwise an access stands for the instructions around it.
        if counts_instructions || is_timed {
            caches.hide_hits();
        }
        let mut costs = caches.costs();
        // The measured time contains the first fetches of lines.
        if is_timed {
            costs.memory_ps = costs.hit_ps;
        }
        let assumed = Pace::assumed(&costs, counts_instructions);
        let paces = pace::paces(recording, &plan.works, &costs);
        let mut order = placement.order(machine);
        if order.is_empty() {
            order.push(0);
        }
        let cpus = machine.topology().cpus().iter();
        let mut cpus: Vec<_> = cpus.map(|cpu| Cpu { id: cpu.id.0, ..Cpu::default() }).collect();
        let (mut threads, mut places) = (Vec::new(), HashMap::new());
        for (place, (number, events)) in recording.events().enumerate() {
            let cpu = order[place / threads_per_cpu.max(1) % order.len()];
            let waits = plan.created.contains(&u64::from(number));
            let state = if waits { State::Blocked(On::Create) } else { State::Ready };
            if !waits {
                cpus[cpu].ready.push_back(place);
            }
            let pace = paces.get(&number).copied().unwrap_or(assumed);
            threads.push(Thread::new(number, events, cpu, pace, state));
            places.insert(number, place);
        }
        let line_bytes = machine.line_bytes() as u64;
        let (reuse, owners) = (Arc::clone(&plan.reuse), Arc::clone(&plan.owners));
        Self {
            plan,
            moves,
            caches,
            costs,
            line_bytes,
            is_kernel: recording.about().engine == KERNEL_ENGINE,
            threads,
            places,
            cpus,
            queue: BinaryHeap::new(),
            locks: Locks::default(),
            woken: HashSet::new(),
            waiting: HashMap::new(),
            exited: HashSet::new(),
            lines: SharedLines::new(line_bytes),
            slots: Slots::of(&reuse),
            reuse,
            tenancy: Tenancy::of(&owners),
            owners,
            edges_broken: 0,
            windows: HashMap::new(),
            early: EarlyUnlocks::default(),
        }
    }

    pub(crate) fn run(mut self) -> Result<Outcome, RecordingError> {
        (0..self.cpus.len()).for_each(|cpu| self.enqueue(cpu));
        loop {
            while let Some(Reverse((_, cpu))) = self.queue.pop() {
                self.cpus[cpu].is_queued = false;
                self.turn(cpu)?;
            }
            if !self.let_go() {
                break;
            }
        }
        let (lines, lines_left_out) = self.lines.finish();
        Ok(Outcome {
            virtual_ps: self.threads.iter().map(|thread| thread.ended_ps).max().unwrap_or(0),
            running_ps: self.threads.iter().map(Thread::running_ps).sum(),
            lost_ps: self.threads.iter().map(|thread| thread.lost_ps).sum(),
            threads: self.threads.iter().map(|thread| thread.view(&self.cpus)).collect(),
            lines,
            locks: self.locks.into_waits(),
            edges_broken: self.edges_broken,
            lines_left_out,
            pieces_reused: self.reuse.count(),
            pieces_moved: self.slots.moved,
        })
    }

    fn enqueue(&mut self, cpu: usize) {
        let its = &mut self.cpus[cpu];
        if !its.is_queued && !its.ready.is_empty() {
            its.is_queued = true;
            self.queue.push(Reverse((its.next_ps(), cpu)));
        }
    }

    /// Ends the oldest wait because no thread can continue. Returns false if no thread is waiting either.
    fn let_go(&mut self) -> bool {
        let waiting = (0..self.threads.len())
            .filter(|place| matches!(self.threads[*place].state, State::Blocked(_)))
            .min_by_key(|place| (self.threads[*place].ticket, *place));
        let Some(place) = waiting else { return false };
        self.edges_broken += 1;
        if let State::Blocked(On::Lock(lock)) = self.threads[place].state {
            self.locks.take_over(lock, place);
            self.threads[place].note_lock(lock);
        }
        // Not earlier: it would find lines that were taken in its future, and wait for them. The wait itself says nothing.
        let now = self.cpus.iter().map(|cpu| cpu.now).max().unwrap_or(0);
        self.threads[place].blocked_since = now;
        self.ready(place, now);
        true
    }

    /// Makes a thread ready from `now` on.
    fn ready(&mut self, place: usize, now: u64) {
        let thread = &mut self.threads[place];
        let waited_ps = now.saturating_sub(thread.blocked_since);
        if let State::Blocked(On::Lock(lock)) = thread.state {
            self.locks.note_wait(lock, waited_ps);
        }
        thread.state = State::Ready;
        thread.waited_ps += waited_ps;
        let cpu = thread.cpu;
        let its = &mut self.cpus[cpu];
        if its.ready.is_empty() {
            its.now = its.now.max(now);
            its.since = its.now;
        }
        its.ready.push_back(place);
        self.enqueue(cpu);
    }

    /// A thread on this CPU wakes another one.
    fn wake(&mut self, cpu: usize, place: usize) {
        let costs = (self.costs.wake_ps, self.costs.switch_ps);
        let (wake_ps, switch_ps) = if self.is_kernel { (0, 0) } else { costs };
        self.cpus[cpu].now += wake_ps;
        let now = self.cpus[cpu].now + switch_ps;
        self.ready(place, now);
    }

    /// Blocks the CPU's thread on `on`.
    fn block(&mut self, cpu: usize, place: usize, on: On) {
        let now = self.cpus[cpu].now;
        let thread = &mut self.threads[place];
        thread.state = State::Blocked(on);
        thread.blocked_since = now;
        self.cpus[cpu].switch(false, self.costs.switch_ps);
    }

    /// Returns the time up to which no other CPU has to run.
    fn limit(&self) -> u64 {
        self.queue.peek().map_or(u64::MAX, |Reverse((now, _))| *now)
    }

    /// Runs a CPU until it is no longer the first in the queue.
    fn turn(&mut self, cpu: usize) -> Result<(), RecordingError> {
        let mut limit = self.limit();
        while let Some(place) = self.cpus[cpu].ready.front().copied() {
            let its = &mut self.cpus[cpu];
            if its.ready.len() > 1 && its.now - its.since > self.costs.slice_ps {
                its.switch(true, self.costs.switch_ps);
                continue;
            }
            let pending = match self.threads[place].pending.take() {
                Some(pending) => Some(pending),
                None => self.advance(cpu, place)?,
            };
            // At the end of its events, the thread exits.
            let pending = pending.unwrap_or(Pending::Exit);
            if self.waits_for_loads(cpu, place, &pending) {
                self.threads[place].pending = Some(pending);
                continue;
            }
            let its = &mut self.cpus[cpu];
            if let Some(due) = its.stores.due() {
                if due <= its.now.min(limit) {
                    self.threads[place].pending = Some(pending);
                    self.stores_leave(cpu, due);
                    continue;
                }
                if due <= its.now || its.now > limit {
                    self.threads[place].pending = Some(pending);
                    break;
                }
                if self.waits_for_stores(cpu, place, &pending) {
                    self.threads[place].pending = Some(pending);
                    continue;
                }
            } else if its.now > limit {
                self.threads[place].pending = Some(pending);
                break;
            }
            self.perform(cpu, place, pending);
            if !matches!(pending, Pending::Access { .. }) {
                limit = self.limit();
            }
        }
        self.enqueue(cpu);
        Ok(())
    }

    /// The line that a CPU's stores waited for has arrived: they leave, and so do stores to lines
    /// that the CPU has. The next store requests its line.
    #[cold]
    fn stores_leave(&mut self, cpu: usize, now: u64) {
        let Some(first) = self.cpus[cpu].stores.leave() else { return };
        let here = CacheOutcome { end_ps: now, done_ps: now, source: LineSource::Hit };
        while let Some(next) = self.cpus[cpu].stores.oldest() {
            if next.line == first.line {
                self.note(&next, &here, now);
            } else {
                let dense = self.lines.meet(next.line, next.address);
                let outcome = self.caches.access(cpu, dense, CacheAccess::Store, now);
                let is_taken_back = self.note(&next, &outcome, now).is_taken_back;
                if outcome.source != LineSource::Hit {
                    self.cpus[cpu].stores.await_line(outcome.done_ps, is_taken_back);
                    break;
                }
            }
            self.cpus[cpu].stores.leave();
        }
    }

    /// Whether a thread's next operation has to wait until its CPU's stores have left. If so, the CPU's time advances
    /// to that point.
    fn waits_for_stores(&mut self, cpu: usize, place: usize, pending: &Pending) -> bool {
        if matches!(pending, Pending::Take(_) | Pending::GiveBack(_)) {
            return false;
        }
        let its = &mut self.cpus[cpu];
        let Some(due) = its.stores.due() else { return false };
        let Pending::Access { access, line } = pending else {
            its.now = its.now.max(due);
            return true;
        };
        let (now, stalls_for) = (its.now, its.stores.taken_back());
        let waits = match access.kind {
            AccessKind::Modify => true,
            AccessKind::Store => its.stores.is_full(
                self.costs.stores_ahead,
                self.costs.store_buffer,
                access.address,
                u64::from(access.size_bytes),
            ),
            AccessKind::Load => {
                self.costs.work_ahead_ps == 0
                    && its.stores.oldest().is_some_and(|first| first.line == *line)
                    && !its.stores.answers(access.address, u64::from(access.size_bytes), its.now)
            }
        };
        if waits {
            its.now = now.max(due);
            let lost = due.saturating_sub(now);
            if access.kind == AccessKind::Modify {
                its.ahead.note_wait(lost, self.costs.work_ahead_ps, stalls_for);
            } else {
                its.ahead.note_stall(lost);
            }
            self.threads[place].lost_ps += lost;
            if let Some(store) = stalls_for {
                self.lines.note_stall(&store, lost);
            }
        }
        waits
    }

    /// Whether a thread's next operation has to wait until the lines of its CPU's loads have arrived. If so, the CPU's
    /// time advances to that point.
    #[inline]
    fn waits_for_loads(&mut self, cpu: usize, place: usize, pending: &Pending) -> bool {
        if !self.cpus[cpu].ahead.has_loads() {
            return false;
        }
        match pending {
            Pending::Take(_) | Pending::GiveBack(_) | Pending::Range { .. } => return false,
            Pending::Access { access, .. } if access.kind != AccessKind::Modify => return false,
            _ => {}
        }
        let mut waits = false;
        loop {
            let its = &mut self.cpus[cpu];
            let Some(stall) = its.ahead.next_wait(its.now) else { break };
            self.stall(cpu, place, &stall);
            self.cpus[cpu].ahead.note_wait(
                stall.lost_ps,
                self.costs.work_ahead_ps,
                stall.taken_back,
            );
            waits = true;
        }
        waits
    }

    /// Lets a CPU stall for a line.
    fn stall(&mut self, cpu: usize, place: usize, stall: &Stall) {
        self.cpus[cpu].now += stall.lost_ps;
        self.threads[place].lost_ps += stall.lost_ps;
        if let Some(access) = &stall.taken_back {
            self.lines.note_stall(access, stall.lost_ps);
        }
    }

    /// Computation that was done ahead took no time, so that less was lost.
    fn note_hidden(&mut self, place: usize, hidden_ps: u64, taken_back: Option<Store>) {
        let lost_ps = &mut self.threads[place].lost_ps;
        *lost_ps = lost_ps.saturating_sub(hidden_ps);
        if let Some(access) = taken_back {
            self.lines.note_hidden(&access, hidden_ps);
        }
    }

    /// Reads events up to the next one that is visible to others. Returns none at the end.
    fn advance(&mut self, cpu: usize, place: usize) -> Result<Option<Pending>, RecordingError> {
        let mut now = self.cpus[cpu].now;
        let (mut done, taken_back) = self.cpus[cpu].ahead.done();
        let thread = &mut self.threads[place];
        let pending = 'events: loop {
            let mut access = 'access: {
                if let Some(access) = thread.events.read_access() {
                    break 'access access;
                }
                let Some(event) = thread.events.read()? else { break 'events None };
                if let Some(ticket) = event.ticket() {
                    thread.ticket = ticket;
                    self.tenancy.note(&self.owners, ticket);
                    thread.spin = Spin::default();
                }
                break 'events Some(match event {
                    Event::Access(access) => break 'access access,
                    Event::Range { access, bytes } => {
                        thread.accesses += 1;
                        let left = bytes.min(super::MOST_RANGE_BYTES);
                        Pending::Range { access, address: access.address, left }
                    }
                    Event::Instructions { count } => {
                        let computes_ps = thread.pace.computes_ps(count.min(1 << 40));
                        now = now.saturating_add(done.rest_of(computes_ps));
                        continue 'events;
                    }
                    Event::Start { ticket, .. } | Event::Alloc { ticket, .. } => {
                        if self.reuse.taken_at(ticket).next().is_none() {
                            continue 'events;
                        }
                        Pending::Take(ticket)
                    }
                    Event::Free { ticket, .. } => {
                        if self.reuse.given_back_at(ticket).next().is_none() {
                            continue 'events;
                        }
                        Pending::GiveBack(ticket)
                    }
                    Event::Waited { object, since, ticket } => {
                        // Otherwise the wait timed out, or the wake was not recorded.
                        let Some(wake) = self.plan.wake_between(object, since, ticket) else {
                            continue 'events;
                        };
                        Pending::Waited(wake)
                    }
                    Event::Create { thread: created, .. } => Pending::Create(created),
                    Event::Join { thread: joined, .. } => Pending::Join(joined),
                    Event::Exit { .. } => Pending::Exit,
                    Event::Lock { lock, is_shared, .. } => {
                        Pending::Lock { lock, is_shared, attempt: Attempt::First }
                    }
                    Event::Unlock { lock, .. } => Pending::Unlock(lock),
                    Event::Wake { ticket, .. } => Pending::Wake(ticket),
                    Event::Gap { window } => Pending::Gap(window),
                    Event::Stack { .. } | Event::Module { .. } | Event::Object { .. } => {
                        continue 'events;
                    }
                });
            };
            thread.accesses += 1;
            // The access itself, to the stack, is left out.
            if !self.early.code.is_empty()
                && let Some(lock) = self.early.lock_at(access.instruction, thread.locks())
            {
                break Some(Pending::Unlock(lock));
            }
            if thread.spin.is_over(&access) {
                continue;
            }
            now = now.saturating_add(done.rest_of(thread.pace.before_ps(&access)));
            // A load after a read-modify-write waits for it.
            if access.kind == AccessKind::Load {
                done.left_ps = 0;
            }
            let recorded = access.address;
            if let Some(moves) = self.moves {
                access.address = moves.of(recorded, thread.ticket);
            }
            let pages = &mut self.plan.pages;
            let kind = self.lines.kind(pages, access.address, &mut thread.lately);
            let within = access.address & (self.line_bytes - 1);
            match kind {
                LineKind::Shared(line) => {
                    let line = self.in_slot(place, line, recorded, access.address);
                    break Some(Pending::Access { access, line });
                }
                _ if within + u64::from(access.size_bytes) > self.line_bytes => {
                    let (address, left) = (access.address, u64::from(access.size_bytes));
                    break Some(Pending::Range { access, address, left });
                }
                LineKind::Private => {
                    // It waits for the CPU's loads.
                    let ahead = &mut self.cpus[cpu].ahead;
                    if access.kind == AccessKind::Modify && ahead.has_loads() {
                        while let Some(stall) = ahead.next_wait(now) {
                            now += stall.lost_ps;
                            thread.lost_ps += stall.lost_ps;
                            if let Some(load) = &stall.taken_back {
                                self.lines.note_stall(load, stall.lost_ps);
                            }
                        }
                    }
                    now += hit_ps(&self.costs, access.kind);
                    continue;
                }
                LineKind::Fresh => {
                    now += self.costs.memory_ps;
                    continue;
                }
            }
        };
        self.cpus[cpu].now = now;
        self.cpus[cpu].ahead.set_left(&done);
        if done.hidden_ps > 0 {
            self.note_hidden(place, done.hidden_ps, taken_back);
        }
        while self.cpus[cpu].ahead.has_loads() {
            let its = &mut self.cpus[cpu];
            let Some(stall) = its.ahead.next_stall(its.now, self.costs.work_ahead_ps) else {
                break;
            };
            self.stall(cpu, place, &stall);
        }
        Ok(pending)
    }

    fn perform(&mut self, cpu: usize, place: usize, pending: Pending) {
        let now = self.cpus[cpu].now;
        match pending {
            Pending::Access { access, line } => {
                let within = access.address & (self.line_bytes - 1);
                let all = u64::from(access.size_bytes);
                let size = all.min(self.line_bytes - within);
                self.access(cpu, place, &access, access.address, size, line);
                self.goes_on(place, access, access.address.wrapping_add(size), all - size);
            }
            Pending::Range { access, address, left } => {
                let size = left.min(self.line_bytes - (address & (self.line_bytes - 1)));
                self.part_of_range(cpu, place, &access, address, size);
                self.goes_on(place, access, address.wrapping_add(size), left - size);
            }
            Pending::Lock { lock, is_shared, attempt: Attempt::Woken } => {
                self.ask_for_line_of(cpu, place, lock);
                let again = Pending::Lock { lock, is_shared, attempt: Attempt::Again };
                self.threads[place].pending = Some(again);
            }
            Pending::Lock { lock, attempt: Attempt::Given, .. } => {
                self.ask_for_line_of(cpu, place, lock);
                self.threads[place].note_lock(lock);
            }
            Pending::Lock { lock, is_shared, attempt } => {
                if self.locks.acquire(lock, place, is_shared, attempt == Attempt::Again, now) {
                    self.threads[place].note_lock(lock);
                } else {
                    self.block(cpu, place, On::Lock(lock));
                }
            }
            Pending::Unlock(lock) => {
                self.threads[place].note_unlock(lock);
                for (next, is_shared) in self.locks.release(lock, place, now) {
                    let mut attempt = Attempt::Woken;
                    if self.is_kernel {
                        self.locks.hand_over(lock, next, is_shared, now);
                        attempt = Attempt::Given;
                    }
                    self.threads[next].pending = Some(Pending::Lock { lock, is_shared, attempt });
                    self.wake(cpu, next);
                }
            }
            Pending::Wake(ticket) => {
                self.woken.insert(ticket);
                for place in self.waiting.remove(&ticket).unwrap_or_default() {
                    // The wait may have been ended early.
                    if self.threads[place].state == State::Blocked(On::Wake(ticket)) {
                        self.wake(cpu, place);
                    }
                }
            }
            Pending::Waited(wake) => {
                if !self.woken.contains(&wake) {
                    self.waiting.entry(wake).or_default().push(place);
                    self.block(cpu, place, On::Wake(wake));
                }
            }
            Pending::Create(created) => {
                self.cpus[cpu].now = now + self.costs.create_ps;
                if let Some(child) = self.place_of(created)
                    && self.threads[child].state == State::Blocked(On::Create)
                {
                    self.threads[child].blocked_since = now;
                    self.ready(child, now + self.costs.create_ps);
                }
            }
            Pending::Join(joined) => {
                if self.place_of(joined).is_some() && !self.exited.contains(&joined) {
                    self.block(cpu, place, On::Exit(joined));
                }
            }
            Pending::Exit => self.exit(cpu, place),
            Pending::Take(ticket) => {
                for piece in self.reuse.taken_at(ticket) {
                    self.slots.take(&self.reuse, piece);
                }
            }
            Pending::GiveBack(ticket) => self.give_back(ticket),
            Pending::Gap(window) => {
                // All threads of a window begin it at the same time.
                let begin = *self.windows.entry(window).or_insert(now);
                self.cpus[cpu].now = now.max(begin);
            }
        }
    }

    /// A woken thread tries to acquire the lock, and thereby takes its line from the thread that has it.
    fn ask_for_line_of(&mut self, cpu: usize, place: usize, lock: u64) {
        let thread = &mut self.threads[place];
        let address = self.moves.map_or(lock, |moves| moves.of(lock, thread.ticket));
        let kind = self.lines.kind(&mut self.plan.pages, address, &mut thread.lately);
        let LineKind::Shared(line) = kind else { return };
        let line = self.in_slot(place, line, lock, address);
        let (dense, now) = (self.lines.meet(line, address), self.cpus[cpu].now);
        let outcome = self.caches.access(cpu, dense, CacheAccess::Modify, now);
        self.cpus[cpu].now = outcome.end_ps;
        self.threads[place].waited_ps += outcome.end_ps - now;
    }

    /// Frees the memory whose lifetime ends at a ticket.
    fn give_back(&mut self, ticket: u64) {
        for piece in self.reuse.given_back_at(ticket) {
            self.slots.give_back(&self.reuse, piece);
        }
    }

    fn place_of(&self, thread: u64) -> Option<usize> {
        self.places.get(&u32::try_from(thread).ok()?).copied()
    }

    /// Continues an access to several lines with its next line.
    fn goes_on(&mut self, place: usize, access: Access, address: u64, left: u64) {
        if left > 0 {
            self.threads[place].pending = Some(Pending::Range { access, address, left });
        }
    }

    fn part_of_range(
        &mut self,
        cpu: usize,
        place: usize,
        access: &Access,
        address: u64,
        size: u64,
    ) {
        let thread = &mut self.threads[place];
        let moved = self.moves.map_or(address, |moves| moves.of(address, thread.ticket));
        match self.lines.kind(&mut self.plan.pages, moved, &mut thread.lately) {
            LineKind::Shared(line) => {
                let line = self.in_slot(place, line, address, moved);
                self.access(cpu, place, access, moved, size, line);
            }
            LineKind::Private => self.cpus[cpu].now += self.costs.hit_ps,
            LineKind::Fresh => self.cpus[cpu].now += self.costs.memory_ps,
        }
    }

    /// Returns the number of a line for a thread. It differs from the recorded number if the memory passed between
    /// threads and this piece is in another slot.
    #[inline]
    fn in_slot(&mut self, place: usize, line: u32, recorded: u64, address: u64) -> u32 {
        if self.reuse.is_empty() {
            return line;
        }
        let Thread { ticket, piece, .. } = &mut self.threads[place];
        match self.slots.slot(&self.reuse, recorded, *ticket, piece) {
            0 => line,
            slot => self.slots.line(line, slot).unwrap_or_else(|| {
                let number = self.lines.add_copy(address, slot);
                self.slots.name_line(line, slot, number);
                number
            }),
        }
    }

    #[inline]
    fn access(
        &mut self,
        cpu: usize,
        place: usize,
        access: &Access,
        address: u64,
        size: u64,
        line: u32,
    ) {
        let its = &mut self.cpus[cpu];
        let now = its.now;
        let thread = &mut self.threads[place];
        let start = address & !(self.line_bytes - 1);
        let is_locked = thread.has_lock_on(start, self.line_bytes);
        let ticket = thread.ticket;
        let owner = match self.owners.is_empty() {
            true => NOBODY,
            false => self.owners.at(address, ticket, &self.tenancy, &mut thread.owner),
        };
        let owner_kind = self.owners.kind(owner);
        let by = Accessor { thread: thread.number, is_locked, ticket, owner, owner_kind };
        let it = Store { access: *access, address, size, line, by };
        if access.kind == AccessKind::Load && its.ahead.has_loads() && its.ahead.awaits(line, now) {
            self.hit(cpu, &it, now);
            return;
        }
        if self.costs.stores_ahead > 0 {
            match access.kind {
                AccessKind::Store => {
                    its.stores.begin(address, size, now);
                    if its.stores.due().is_some() {
                        its.stores.add_waiting(it);
                        its.now += self.costs.hit_ps;
                        return;
                    }
                }
                AccessKind::Load if its.stores.answers(address, size, now) => {
                    self.hit(cpu, &it, now);
                    return;
                }
                // The line is in transit for a store.
                AccessKind::Load
                    if self.costs.work_ahead_ps > 0
                        && let Some(due) = its.stores.due()
                        && its.stores.oldest().is_some_and(|first| first.line == line) =>
                {
                    its.ahead.begin(line, now, due, its.stores.taken_back());
                    self.hit(cpu, &it, now);
                    return;
                }
                _ => {}
            }
        }
        let dense = self.lines.meet(line, address);
        let kind = match access.kind {
            AccessKind::Load => CacheAccess::Load,
            AccessKind::Store => CacheAccess::Store,
            AccessKind::Modify => CacheAccess::Modify,
        };
        let mut outcome = self.caches.access(cpu, dense, kind, now);
        let due = outcome.end_ps;
        let goes_on = self.costs.work_ahead_ps > 0
            && access.kind == AccessKind::Load
            && !matches!(outcome.source, LineSource::Hit | LineSource::Memory);
        if goes_on {
            outcome.end_ps = due.min(now + self.costs.hit_ps);
        }
        self.cpus[cpu].now = outcome.end_ps;
        let mut lost = 0;
        if outcome.source != LineSource::Memory {
            let took = outcome.end_ps - now;
            lost = took.saturating_sub(hit_ps(&self.costs, access.kind));
            self.threads[place].lost_ps += lost;
            // An access that has its line waits for the CPU's last store, as a read-modify-write does.
            if outcome.source == LineSource::Hit
                && lost > 0
                && let Some(store) = self.cpus[cpu].taken_back
            {
                self.lines.note_stall(&store, lost);
            }
        }
        let Noted { is_taken_back, is_true } = self.note(&it, &outcome, now);
        let taken_back = is_taken_back.then_some(it);
        let its = &mut self.cpus[cpu];
        if access.kind == AccessKind::Load && is_true {
            self.threads[place].spin.note_change();
        }
        if goes_on {
            its.ahead.begin(line, now, due, taken_back);
        }
        if access.kind == AccessKind::Modify {
            its.ahead.note_wait(lost, self.costs.work_ahead_ps, taken_back);
        }
        if access.kind == AccessKind::Store && outcome.source != LineSource::Hit {
            its.taken_back = taken_back;
        }
        if self.costs.stores_ahead > 0
            && access.kind == AccessKind::Store
            && outcome.done_ps > outcome.end_ps
        {
            its.stores.add_waiting(it);
            its.stores.await_line(outcome.done_ps, is_taken_back);
        }
    }

    /// Records an access that does not wait for its line.
    fn hit(&mut self, cpu: usize, it: &Store, now: u64) {
        self.cpus[cpu].now += self.costs.hit_ps;
        let here = CacheOutcome { end_ps: now, done_ps: now, source: LineSource::Hit };
        self.lines.meet(it.line, it.address);
        self.note(it, &here, now);
    }

    #[inline]
    fn note(&mut self, it: &Store, outcome: &CacheOutcome, now: u64) -> Noted {
        self.lines.note(it, outcome, now, hit_ps(&self.costs, it.access.kind))
    }

    fn exit(&mut self, cpu: usize, place: usize) {
        let now = self.cpus[cpu].now;
        let thread = &mut self.threads[place];
        thread.state = State::Done;
        thread.ended_ps = now;
        let number = u64::from(thread.number);
        let ticket = thread.ticket;
        self.give_back(ticket);
        self.cpus[cpu].switch(false, self.costs.switch_ps);
        self.exited.insert(number);
        let joining: Vec<_> = (0..self.threads.len())
            .filter(|place| self.threads[*place].state == State::Blocked(On::Exit(number)))
            .collect();
        for place in joining {
            self.ready(place, now + self.costs.switch_ps);
        }
    }
}

/// Returns the cost of an access to a line that is present.
const fn hit_ps(costs: &StepCosts, kind: AccessKind) -> u64 {
    match kind {
        AccessKind::Modify => costs.atomic_ps,
        AccessKind::Load | AccessKind::Store => costs.hit_ps,
    }
}
