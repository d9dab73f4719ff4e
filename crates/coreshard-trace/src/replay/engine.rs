//! The replay itself: each recorded thread on a CPU of the machine, in virtual time.
//!
//! CPUs stand in a queue by their time. The first one goes on with its thread until the thread comes to something that
//! others see, a line that is shared or an event between threads, and another CPU's time is before its own. So all that is
//! seen happens in the order of time, and what is private costs no turn of the queue.
//!
//! Locks are taken in the order of the replay, not that of the recording. Waits, joins and starts go by what was recorded:
//! who has waited goes on after the wake, exit or creation that let it go on then. Where these contradict each other, which
//! only windows and damaged recordings bring about, the oldest wait is let go, and counted.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use coreshard_sim::{CacheAccess, CacheOutcome, Caches, LineSource, Machine, Placement, StepCosts};

use super::lines::{Accessor, Line};
use super::moved::Moves;
use super::owners::{NOBODY, Owner, Owners, Tenancy};
use super::pages::{Lately, LineKind, PageMap};
use super::plan::Plan;
use super::reuse::{PieceNumber, Reuse, Slots};
use super::stores::{Store, Stores};
use crate::recording::{Access, AccessKind, Chunk, Event, Events, Recording, RecordingError};

/// Shared lines of one replay: each takes about half a kilobyte, and what its accesses do.
const MOST_LINES: usize = 2 << 20;
/// Different accesses of all lines together: each takes some 150 bytes.
const MOST_ROWS: usize = 8 << 20;
/// Of one thread at once.
const MOST_LOCKS_HELD: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Runs, or would if it had the CPU.
    Ready,
    Blocked(On),
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Lock(u64),
    Wake(u64),
    Exit(u64),
    Create,
}

struct Thread<'r> {
    number: u32,
    chunks: &'r [Chunk],
    next_chunk: usize,
    bytes: Vec<u8>,
    at: usize,
    events: Events,
    cpu: usize,
    state: State,
    lately: Lately,
    /// What was read, and waits for its turn.
    pending: Option<Pending>,
    /// Locks that it has, each as often as it has taken it.
    locks: Vec<u64>,
    /// Of the last event that had one.
    ticket: u64,
    /// The piece of memory among those that several had that it accessed last.
    piece: PieceNumber,
    /// Of what was several things, what it accessed last.
    owner: Owner,
    accesses: u64,
    lost_ps: u64,
    blocked_since: u64,
    waited_ps: u64,
    ended_ps: u64,
    window: u64,
}

#[derive(Clone, Copy, Debug)]
enum Pending {
    Access { access: Access, line: u32 },
    Range { access: Access, address: u64, left: u64 },
    Lock { lock: u64, is_shared: bool },
    Unlock(u64),
    Wake { ticket: u64 },
    Waited { wake: u64 },
    Create(u64),
    Join(u64),
    Exit,
    Gap(u64),
    Take(PieceNumber),
    GiveBack(PieceNumber),
}

#[derive(Default)]
struct Cpu {
    now: u64,
    /// The first is the one that runs.
    ready: VecDeque<usize>,
    since: u64,
    is_queued: bool,
    stores: Stores,
}

impl Cpu {
    /// When it does something that others see.
    fn next(&self) -> u64 {
        self.stores.due().map_or(self.now, |due| due.min(self.now))
    }
}

#[derive(Default)]
struct LockState {
    owner: Option<(usize, u32)>,
    readers: u32,
    waiting: VecDeque<(usize, bool)>,
}

/// What a replay found out.
pub(crate) struct Outcome {
    pub(crate) lines: Vec<Line>,
    pub(crate) virtual_ps: u64,
    pub(crate) threads: Vec<ThreadOutcome>,
    pub(crate) edges_broken: u64,
    pub(crate) lines_left_out: u64,
    /// Pieces of memory that several threads had.
    pub(crate) pieces_reused: usize,
    /// Those of them that have another place than in the recording.
    pub(crate) pieces_moved: u64,
}

/// What a thread spent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadOutcome {
    pub(crate) number: u32,
    pub(crate) accesses: u64,
    /// Waiting for lines.
    pub(crate) lost_ps: u64,
    /// Waiting for other threads.
    pub(crate) waited_ps: u64,
    pub(crate) ended_ps: u64,
    pub(crate) cpu: usize,
}

pub(crate) struct Replay<'r> {
    recording: &'r Recording,
    plan: &'r mut Plan,
    moves: Option<&'r Moves>,
    caches: Caches,
    costs: StepCosts,
    line_bytes: u64,
    counts_instructions: bool,
    threads: Vec<Thread<'r>>,
    places: HashMap<u32, usize>,
    cpus: Vec<Cpu>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    locks: HashMap<u64, LockState>,
    /// Wakes that were replayed.
    woken: HashSet<u64>,
    /// By wake: who waits for it.
    waiting: HashMap<u64, Vec<usize>>,
    exited: HashSet<u64>,
    lines: Vec<Line>,
    shared: u32,
    rows_left: usize,
    dense: PageMap<u64>,
    reuse: Arc<Reuse>,
    slots: Slots,
    owners: Arc<Owners>,
    tenancy: Tenancy,
    edges_broken: u64,
    lines_left_out: u64,
    windows: HashMap<u64, u64>,
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
        let caches = Caches::new(machine);
        let costs = caches.costs();
        let mut order = placement.order(machine);
        if order.is_empty() {
            order.push(0);
        }
        let mut threads = Vec::new();
        let mut cpus: Vec<Cpu> = Vec::new();
        cpus.resize_with(machine.topology().cpus().len(), Cpu::default);
        for (place, (number, chunks)) in recording.threads().iter().enumerate() {
            let cpu = order[place / threads_per_cpu.max(1) % order.len()];
            let waits = plan.created.contains(&u64::from(*number));
            let state = if waits { State::Blocked(On::Create) } else { State::Ready };
            threads.push(Thread {
                number: *number,
                chunks,
                next_chunk: 0,
                bytes: Vec::new(),
                at: 0,
                events: Events::default(),
                cpu,
                state,
                lately: Lately::default(),
                pending: None,
                locks: Vec::new(),
                ticket: 0,
                piece: PieceNumber::MAX,
                owner: NOBODY,
                accesses: 0,
                lost_ps: 0,
                blocked_since: 0,
                waited_ps: 0,
                ended_ps: 0,
                window: 0,
            });
            if state == State::Ready {
                cpus[cpu].ready.push_back(place);
            }
        }
        let places =
            threads.iter().enumerate().map(|(place, thread)| (thread.number, place)).collect();
        let line_bytes = machine.line_bytes() as u64;
        let (reuse, owners) = (Arc::clone(&plan.reuse), Arc::clone(&plan.owners));
        Self {
            recording,
            plan,
            moves,
            caches,
            costs,
            line_bytes,
            counts_instructions: recording.about().counts_instructions,
            threads,
            places,
            cpus,
            queue: BinaryHeap::new(),
            locks: HashMap::new(),
            woken: HashSet::new(),
            waiting: HashMap::new(),
            exited: HashSet::new(),
            lines: Vec::new(),
            shared: 0,
            rows_left: MOST_ROWS,
            dense: PageMap::default(),
            slots: Slots::of(&reuse),
            reuse,
            tenancy: Tenancy::of(&owners),
            owners,
            edges_broken: 0,
            lines_left_out: 0,
            windows: HashMap::new(),
        }
    }

    pub(crate) fn run(mut self) -> Result<Outcome, RecordingError> {
        for cpu in 0..self.cpus.len() {
            self.enqueue(cpu);
        }
        loop {
            while let Some(Reverse((_, cpu))) = self.queue.pop() {
                self.cpus[cpu].is_queued = false;
                self.turn(cpu)?;
            }
            if !self.let_go() {
                break;
            }
        }
        let threads = self.threads.iter().map(|thread| ThreadOutcome {
            number: thread.number,
            accesses: thread.accesses,
            lost_ps: thread.lost_ps,
            waited_ps: thread.waited_ps,
            ended_ps: thread.ended_ps,
            cpu: thread.cpu,
        });
        let threads: Vec<_> = threads.collect();
        Ok(Outcome {
            virtual_ps: threads.iter().map(|thread| thread.ended_ps).max().unwrap_or(0),
            threads,
            lines: self.lines,
            edges_broken: self.edges_broken,
            lines_left_out: self.lines_left_out,
            pieces_reused: self.reuse.pieces(),
            pieces_moved: self.slots.moved,
        })
    }

    fn enqueue(&mut self, cpu: usize) {
        let its = &mut self.cpus[cpu];
        if !its.is_queued && !its.ready.is_empty() {
            its.is_queued = true;
            self.queue.push(Reverse((its.next(), cpu)));
        }
    }

    /// Nobody can go on: the oldest wait ends. False where nobody waits either.
    fn let_go(&mut self) -> bool {
        let waiting = (0..self.threads.len())
            .filter(|place| matches!(self.threads[*place].state, State::Blocked(_)))
            .min_by_key(|place| (self.threads[*place].ticket, *place));
        let Some(place) = waiting else { return false };
        self.edges_broken += 1;
        if let State::Blocked(On::Lock(lock)) = self.threads[place].state {
            // It gets the lock, whoever has it.
            let state = self.locks.entry(lock).or_default();
            state.waiting.retain(|(its, _)| *its != place);
            state.owner = Some((place, 1));
            state.readers = 0;
        }
        let now = self.threads[place].blocked_since;
        self.ready(place, now);
        true
    }

    /// A thread can go on from `now` on.
    fn ready(&mut self, place: usize, now: u64) {
        let thread = &mut self.threads[place];
        thread.state = State::Ready;
        thread.waited_ps += now.saturating_sub(thread.blocked_since);
        let cpu = thread.cpu;
        let its = &mut self.cpus[cpu];
        if its.ready.is_empty() {
            its.now = its.now.max(now);
            its.since = its.now;
        }
        its.ready.push_back(place);
        self.enqueue(cpu);
    }

    /// The CPU's thread stops, for `on`.
    fn block(&mut self, cpu: usize, place: usize, on: On) {
        let now = self.cpus[cpu].now;
        let thread = &mut self.threads[place];
        thread.state = State::Blocked(on);
        thread.blocked_since = now;
        self.leave(cpu);
    }

    fn leave(&mut self, cpu: usize) {
        let its = &mut self.cpus[cpu];
        its.ready.pop_front();
        if !its.ready.is_empty() {
            its.now += self.costs.switch_ps;
            its.since = its.now;
        }
    }

    /// Goes on with a CPU until it is not first any more.
    fn turn(&mut self, cpu: usize) -> Result<(), RecordingError> {
        // Until when nobody else has to be asked.
        let mut limit = self.queue.peek().map_or(u64::MAX, |Reverse((now, _))| *now);
        while let Some(place) = self.cpus[cpu].ready.front().copied() {
            if self.cpus[cpu].ready.len() > 1
                && self.cpus[cpu].now - self.cpus[cpu].since > self.costs.slice_ps
            {
                let its = &mut self.cpus[cpu];
                its.ready.rotate_left(1);
                its.now += self.costs.switch_ps;
                its.since = its.now;
                continue;
            }
            let pending = match self.threads[place].pending.take() {
                Some(pending) => Some(pending),
                None => self.advance(cpu, place)?,
            };
            // Else what is recorded of it is over.
            let pending = pending.unwrap_or(Pending::Exit);
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
                limit = self.queue.peek().map_or(u64::MAX, |Reverse((now, _))| *now);
            }
        }
        self.enqueue(cpu);
        Ok(())
    }

    /// The line that a CPU's stores waited for is there: they leave, and the next asks for its own.
    #[cold]
    fn stores_leave(&mut self, cpu: usize, now: u64) {
        let Some(first) = self.cpus[cpu].stores.leave() else { return };
        let here = CacheOutcome { end_ps: now, done_ps: now, source: LineSource::Hit };
        while let Some(next) = self.cpus[cpu].stores.next_to(first.line) {
            self.note(&next, &here, now);
        }
        if let Some(next) = self.cpus[cpu].stores.first() {
            let dense = self.meet(next.line as usize, next.address);
            let outcome = self.caches.access(cpu, dense, CacheAccess::Store, now);
            self.note(&next, &outcome, now);
            self.cpus[cpu].stores.expect(outcome.done_ps);
        }
    }

    /// Whether what a thread does next has to wait until its CPU's stores have left; if so, its time is then.
    fn waits_for_stores(&mut self, cpu: usize, place: usize, pending: &Pending) -> bool {
        if matches!(pending, Pending::Take(_) | Pending::GiveBack(_)) {
            return false;
        }
        let its = &mut self.cpus[cpu];
        let (Some(due), Pending::Access { access, line }) = (its.stores.due(), pending) else {
            its.now = its.stores.due().map_or(its.now, |due| due.max(its.now));
            return its.stores.due().is_some();
        };
        let waits = match access.kind {
            AccessKind::Modify => true,
            AccessKind::Store => its.stores.len() as u64 >= self.costs.stores_ahead,
            AccessKind::Load => {
                its.stores.first().is_some_and(|first| first.line == *line)
                    && !its.stores.answers(access.address, u64::from(access.size_bytes), its.now)
            }
        };
        if waits {
            self.threads[place].lost_ps += due.saturating_sub(its.now);
            its.now = its.now.max(due);
        }
        waits
    }

    /// Reads events up to the next that others see; none at the end.
    fn advance(&mut self, cpu: usize, place: usize) -> Result<Option<Pending>, RecordingError> {
        let thread = &mut self.threads[place];
        let mut now = self.cpus[cpu].now;
        let line_mask = self.line_bytes - 1;
        let pending = loop {
            let event = if thread.at < thread.bytes.len() {
                thread.events.next(&thread.bytes, &mut thread.at)
            } else {
                Ok(None)
            };
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    return Err(error.in_chunk(&thread.chunks[thread.next_chunk.saturating_sub(1)]));
                }
            };
            let Some(event) = event else {
                let Some(chunk) = thread.chunks.get(thread.next_chunk) else {
                    self.cpus[cpu].now = now;
                    return Ok(None);
                };
                self.recording.chunk(chunk, &mut thread.bytes)?;
                thread.next_chunk += 1;
                thread.at = 0;
                thread.events.begin();
                continue;
            };
            if let Some(ticket) = event.ticket() {
                self.tenancy.note(&self.owners, ticket);
            }
            match event {
                Event::Access(mut access) => {
                    thread.accesses += 1;
                    now += match self.counts_instructions {
                        true => u64::from(access.before) * self.costs.cycle_ps / 4,
                        false => self.costs.compute_ps,
                    };
                    let recorded = access.address;
                    if let Some(moves) = self.moves {
                        access.address = moves.of(recorded, thread.ticket);
                    }
                    let kind =
                        self.plan.pages.kind(access.address, &mut self.shared, &mut thread.lately);
                    let crosses = (access.address & line_mask) + u64::from(access.size_bytes)
                        > self.line_bytes;
                    match kind {
                        LineKind::Shared(line) => {
                            let line = self.in_slot(place, line, recorded, access.address);
                            break Pending::Access { access, line };
                        }
                        _ if crosses => {
                            let left = u64::from(access.size_bytes);
                            break Pending::Range { access, address: access.address, left };
                        }
                        LineKind::Private if access.kind == AccessKind::Modify => {
                            now += self.costs.atomic_ps
                        }
                        LineKind::Private => now += self.costs.hit_ps,
                        LineKind::Fresh => now += self.costs.memory_ps,
                    }
                }
                Event::Range { access, bytes } => {
                    thread.accesses += 1;
                    break Pending::Range {
                        access,
                        address: access.address,
                        left: bytes.min(super::MOST_RANGE_BYTES),
                    };
                }
                Event::Instructions { count } => {
                    now = now.saturating_add(count.min(1 << 40) * self.costs.cycle_ps / 4)
                }
                Event::Start { ticket, .. } | Event::Alloc { ticket, .. } => {
                    thread.ticket = ticket;
                    match self.reuse.taken_at(ticket) {
                        Some(piece) => break Pending::Take(piece),
                        None => continue,
                    }
                }
                Event::Free { ticket, .. } => {
                    thread.ticket = ticket;
                    match self.reuse.given_back_at(ticket) {
                        Some(piece) => break Pending::GiveBack(piece),
                        None => continue,
                    }
                }
                Event::Create { thread: created, ticket } => {
                    thread.ticket = ticket;
                    break Pending::Create(created);
                }
                Event::Join { thread: joined, ticket } => {
                    thread.ticket = ticket;
                    break Pending::Join(joined);
                }
                Event::Exit { ticket } => {
                    thread.ticket = ticket;
                    break Pending::Exit;
                }
                Event::Lock { lock, is_shared, ticket } => {
                    thread.ticket = ticket;
                    break Pending::Lock { lock, is_shared };
                }
                Event::Unlock { lock, ticket } => {
                    thread.ticket = ticket;
                    break Pending::Unlock(lock);
                }
                Event::Wake { ticket, .. } => {
                    thread.ticket = ticket;
                    break Pending::Wake { ticket };
                }
                Event::Waited { object, since, ticket } => {
                    thread.ticket = ticket;
                    let wakes = self.plan.wakes.get(&object).map_or(&[][..], Vec::as_slice);
                    let before = wakes.partition_point(|wake| *wake < ticket);
                    match before.checked_sub(1).map(|at| wakes[at]).filter(|wake| *wake > since) {
                        Some(wake) => break Pending::Waited { wake },
                        // It gave up, or somebody woke it whom nobody saw.
                        None => continue,
                    }
                }
                Event::Gap { window } => break Pending::Gap(window),
                Event::Stack { .. } | Event::Module { .. } => {}
            }
        };
        self.cpus[cpu].now = now;
        Ok(Some(pending))
    }

    fn perform(&mut self, cpu: usize, place: usize, pending: Pending) {
        let now = self.cpus[cpu].now;
        match pending {
            Pending::Access { access, line } => {
                let within = access.address & (self.line_bytes - 1);
                let size = u64::from(access.size_bytes).min(self.line_bytes - within);
                self.access(cpu, place, &access, access.address, size, line);
                let left = u64::from(access.size_bytes) - size;
                if left > 0 {
                    self.threads[place].pending = Some(Pending::Range {
                        access,
                        address: access.address.wrapping_add(size),
                        left,
                    });
                }
            }
            Pending::Range { access, address, left } => {
                let within = address & (self.line_bytes - 1);
                let size = left.min(self.line_bytes - within);
                let thread = &mut self.threads[place];
                let moved = self.moves.map_or(address, |moves| moves.of(address, thread.ticket));
                match self.plan.pages.kind(moved, &mut self.shared, &mut thread.lately) {
                    LineKind::Shared(line) => {
                        let line = self.in_slot(place, line, address, moved);
                        self.access(cpu, place, &access, moved, size, line);
                    }
                    LineKind::Private => self.cpus[cpu].now = now + self.costs.hit_ps,
                    LineKind::Fresh => self.cpus[cpu].now = now + self.costs.memory_ps,
                }
                if left > size {
                    self.threads[place].pending = Some(Pending::Range {
                        access,
                        address: address.wrapping_add(size),
                        left: left - size,
                    });
                }
            }
            Pending::Lock { lock, is_shared } => {
                let locks = &mut self.threads[place].locks;
                if locks.len() < MOST_LOCKS_HELD {
                    locks.push(lock);
                }
                self.lock(cpu, place, lock, is_shared);
            }
            Pending::Unlock(lock) => {
                let locks = &mut self.threads[place].locks;
                if let Some(at) = locks.iter().rposition(|its| *its == lock) {
                    locks.remove(at);
                }
                self.unlock(cpu, place, lock);
            }
            Pending::Wake { ticket } => self.wake(cpu, ticket),
            Pending::Waited { wake } => {
                if !self.woken.contains(&wake) {
                    self.waiting.entry(wake).or_default().push(place);
                    self.block(cpu, place, On::Wake(wake));
                }
            }
            Pending::Create(created) => {
                self.cpus[cpu].now = now + self.costs.create_ps;
                let child = u32::try_from(created)
                    .ok()
                    .and_then(|number| self.places.get(&number))
                    .copied();
                if let Some(child) =
                    child.filter(|child| self.threads[*child].state == State::Blocked(On::Create))
                {
                    self.threads[child].blocked_since = now;
                    self.ready(child, now + self.costs.create_ps);
                }
            }
            Pending::Join(joined) => {
                let is_known =
                    u32::try_from(joined).is_ok_and(|number| self.places.contains_key(&number));
                if is_known && !self.exited.contains(&joined) {
                    self.block(cpu, place, On::Exit(joined));
                }
            }
            Pending::Exit => self.exit(cpu, place),
            Pending::Take(piece) => drop(self.slots.take(&self.reuse, piece)),
            Pending::GiveBack(piece) => self.slots.give_back(&self.reuse, piece),
            Pending::Gap(window) => {
                // Threads of one window begin it at one time.
                self.threads[place].window = window;
                let begin = *self.windows.entry(window).or_insert(now);
                self.cpus[cpu].now = now.max(begin);
            }
        }
    }

    /// The number that a line has for a thread: another one where the memory had several threads, and it is not the first's.
    #[inline]
    fn in_slot(&mut self, place: usize, line: u32, recorded: u64, address: u64) -> u32 {
        if self.reuse.is_empty() {
            return line;
        }
        let Thread { ticket, piece, .. } = &mut self.threads[place];
        match self.slots.slot(&self.reuse, recorded, *ticket, piece) {
            0 => line,
            slot => self.slots.line(line, slot).unwrap_or_else(|| {
                let number = self.shared;
                self.shared += 1;
                self.slots.name_line(line, slot, number);
                self.meet_first(number as usize, address, u64::from(slot));
                number
            }),
        }
    }

    /// Where a line is for the simulated caches; at its first access it gets a record.
    #[inline]
    fn meet(&mut self, line: usize, address: u64) -> u64 {
        let within = address & 0xfff;
        match self.lines.get(line) {
            Some(its) if its.dense_page != u64::MAX => its.dense_page | within,
            _ => self.meet_first(line, address, 0) | within,
        }
    }

    #[cold]
    fn meet_first(&mut self, line: usize, address: u64, slot: u64) -> u64 {
        let next = self.dense.len() as u64;
        let page = (*self.dense.entry(address >> 12 ^ slot << 52).or_insert(next) << 12)
            % Caches::MOST_BYTES;
        // Lines get their numbers in the order in which they are met, but others may be met before they are noted.
        while self.lines.len() <= line && line < MOST_LINES {
            self.lines.push(Line::new(self.line_bytes as usize));
        }
        if let Some(its) = self.lines.get_mut(line) {
            its.dense_page = page;
            its.address = address & !(self.line_bytes - 1);
        }
        page
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
        let is_locked = thread.locks.iter().any(|lock| lock & !(self.line_bytes - 1) == start);
        let ticket = thread.ticket;
        let owner = match self.owners.is_empty() {
            true => NOBODY,
            false => self.owners.at(address, ticket, &self.tenancy, &mut thread.owner),
        };
        let owner_kind = self.owners.kind(owner);
        let by = Accessor { thread: thread.number, is_locked, ticket, owner, owner_kind };
        let it = Store { access: *access, address, size, line, by };
        if self.costs.stores_ahead > 0 {
            match access.kind {
                AccessKind::Store => {
                    its.stores.begin(address, size, now);
                    if its.stores.due().is_some() {
                        its.stores.push(it);
                        its.now += self.costs.hit_ps;
                        return;
                    }
                }
                AccessKind::Load if its.stores.answers(address, size, now) => {
                    its.now += self.costs.hit_ps;
                    let here = CacheOutcome { end_ps: now, done_ps: now, source: LineSource::Hit };
                    self.meet(line as usize, address);
                    self.note(&it, &here, now);
                    return;
                }
                _ => {}
            }
        }
        let dense = self.meet(line as usize, address);
        let kind = match access.kind {
            AccessKind::Load => CacheAccess::Load,
            AccessKind::Store => CacheAccess::Store,
            AccessKind::Modify => CacheAccess::Modify,
        };
        let outcome = self.caches.access(cpu, dense, kind, now);
        self.cpus[cpu].now = outcome.end_ps;
        if self.costs.stores_ahead > 0
            && access.kind == AccessKind::Store
            && outcome.done_ps > outcome.end_ps
        {
            self.cpus[cpu].stores.push(it);
            self.cpus[cpu].stores.expect(outcome.done_ps);
        }
        if outcome.source != LineSource::Memory {
            let lost = (outcome.end_ps - now).saturating_sub(self.hit_ps(access.kind));
            self.threads[place].lost_ps += lost;
        }
        self.note(&it, &outcome, now);
    }

    /// What an access costs whose line is here.
    const fn hit_ps(&self, kind: AccessKind) -> u64 {
        match kind {
            AccessKind::Modify => self.costs.atomic_ps,
            AccessKind::Load | AccessKind::Store => self.costs.hit_ps,
        }
    }

    #[inline]
    fn note(&mut self, it: &Store, outcome: &CacheOutcome, now: u64) {
        let hit = self.hit_ps(it.access.kind);
        let Some(its) = self.lines.get_mut(it.line as usize) else {
            self.lines_left_out += 1;
            return;
        };
        // A store is on its way while the CPU goes on; what the line took is its cost.
        let cost = (outcome.done_ps - now.min(outcome.done_ps)).saturating_sub(hit);
        let offset = (it.address & (self.line_bytes - 1)) as usize;
        let bytes = offset..offset + it.size as usize;
        its.note(it.by, bytes, &it.access, outcome, cost, &mut self.rows_left);
    }

    fn lock(&mut self, cpu: usize, place: usize, lock: u64, is_shared: bool) {
        let state = self.locks.entry(lock).or_default();
        let is_free = match (state.owner, is_shared) {
            (Some((owner, _)), _) => owner == place,
            (None, true) => state.waiting.is_empty(),
            (None, false) => state.readers == 0,
        };
        if is_free {
            match (&mut state.owner, is_shared) {
                (Some((_, depth)), _) => *depth += 1,
                (None, true) => state.readers += 1,
                (None, false) => state.owner = Some((place, 1)),
            }
            return;
        }
        state.waiting.push_back((place, is_shared));
        self.block(cpu, place, On::Lock(lock));
    }

    fn unlock(&mut self, cpu: usize, place: usize, lock: u64) {
        let state = self.locks.entry(lock).or_default();
        match &mut state.owner {
            Some((owner, depth)) if *owner == place && *depth > 1 => {
                *depth -= 1;
                return;
            }
            Some((owner, _)) if *owner == place => state.owner = None,
            // Another's: it was taken over, or its taking was not recorded.
            Some(_) => return,
            None => state.readers = state.readers.saturating_sub(1),
        }
        let mut next = Vec::new();
        while state.owner.is_none() {
            match state.waiting.front().copied() {
                Some((first, true)) => {
                    state.readers += 1;
                    next.push(first);
                }
                Some((first, false)) if state.readers == 0 => {
                    state.owner = Some((first, 1));
                    next.push(first);
                }
                _ => break,
            }
            state.waiting.pop_front();
        }
        for first in next {
            self.cpus[cpu].now += self.costs.wake_ps;
            let now = self.cpus[cpu].now + self.costs.switch_ps;
            self.ready(first, now);
        }
    }

    fn wake(&mut self, cpu: usize, ticket: u64) {
        self.woken.insert(ticket);
        for place in self.waiting.remove(&ticket).unwrap_or_default() {
            // It may have been let go.
            if self.threads[place].state == State::Blocked(On::Wake(ticket)) {
                self.cpus[cpu].now += self.costs.wake_ps;
                let now = self.cpus[cpu].now + self.costs.switch_ps;
                self.ready(place, now);
            }
        }
    }

    fn exit(&mut self, cpu: usize, place: usize) {
        let now = self.cpus[cpu].now;
        let thread = &mut self.threads[place];
        thread.state = State::Done;
        thread.ended_ps = now;
        let number = u64::from(thread.number);
        if let Some(stack) = self.reuse.given_back_at(thread.ticket) {
            self.slots.give_back(&self.reuse, stack);
        }
        self.leave(cpu);
        self.exited.insert(number);
        let joining: Vec<_> = (0..self.threads.len())
            .filter(|place| self.threads[*place].state == State::Blocked(On::Exit(number)))
            .collect();
        for place in joining {
            self.ready(place, now + self.costs.switch_ps);
        }
    }
}
