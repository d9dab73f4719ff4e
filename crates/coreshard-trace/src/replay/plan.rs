//! What must be known of a whole recording before it is replayed: which lines are shared, what memory was taken and given
//! back, which code was loaded, and who waited for whom.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::moved::Moves;
use super::owners::{Owner, Owners};
use super::pages::{Lately, PageMap, Pages};
use super::pieces::{Piece, Timeline};
use super::reuse::reused;
use crate::recording::{AccessKind, Event, Recording, RecordingError, event_words};

/// Pieces of memory that are kept track of.
const MOST_ALLOCATIONS: usize = 8 << 20;
/// Wakes that are kept track of.
const MOST_WAKES: usize = 16 << 20;
/// Shared lines of all allocations together.
const MOST_PLACES: usize = 64 << 20;
/// Of a lock of the C library; a pthread_rwlock_t has 56.
const LOCK_BYTES: u64 = 56;
/// Allocations that lie on one line at a time: a damaged recording may have any number.
const MOST_BESIDE: usize = 16;
/// Stacks: one for each thread, or few.
const MOST_STACKS: usize = 1 << 20;
/// Files of code.
const MOST_MODULES: usize = 4_096;
/// Of a path that is looked into.
const MOST_PATH_BYTES: usize = 4_096;

/// A piece of memory that the program took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) element_bytes: u64,
    pub(crate) taken: u64,
    pub(crate) given_back: u64,
    pub(crate) thread: u32,
    /// Its place among the call stacks.
    pub(crate) calls: u32,
}

/// What pieces of memory have in common that are alike: the calls with which they were taken, and their length.
pub(crate) type AllocationKind = (u32, u64, u64);

impl Allocation {
    pub(crate) const fn kind(&self) -> AllocationKind {
        (self.calls, self.bytes, self.element_bytes)
    }

    /// The first byte after it.
    pub(crate) const fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }

    fn piece(&self) -> Piece {
        Piece {
            start: self.address,
            end: self.end(),
            taken: self.taken,
            given_back: self.given_back,
            thread: self.thread,
        }
    }
}

/// A thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) thread: u32,
    /// When its thread began and ended.
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

impl Stack {
    fn piece(&self) -> Piece {
        let Self { start, end, thread, began, ended } = *self;
        Piece { start, end, taken: began, given_back: ended, thread }
    }
}

/// A file of code, where it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) base: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) path: String,
}

/// What was found out.
pub(crate) struct Plan {
    pub(super) pages: Pages,
    pub(crate) modules: Vec<Module>,
    pub(crate) allocations: Vec<Allocation>,
    /// By line: allocations that lie on it. Of shared lines alone.
    pub(crate) on_line: PageMap<Vec<u32>>,
    /// Memory that several threads had one after the other.
    pub(super) reuse: Arc<Timeline>,
    /// Memory that was several things one after the other.
    pub(super) owners: Arc<Owners>,
    pub(crate) line_bytes: u64,
    pub(crate) calls: Vec<Vec<u64>>,
    pub(crate) stacks: Vec<Stack>,
    /// Words of 8 bytes that locks lie in, by address.
    pub(crate) locks: HashSet<u64>,
    /// By object: tickets of its wakes, in order.
    pub(super) wakes: HashMap<u64, Vec<u64>>,
    /// Threads whose creation was seen.
    pub(super) created: HashSet<u64>,
    pub(crate) accesses: u64,
    pub(crate) notes: Vec<String>,
    /// How much further all data lies than it was recorded.
    pub(crate) shift: u64,
}

struct Building {
    plan: Plan,
    call_numbers: HashMap<Vec<u64>, u32>,
    wakes: usize,
    /// By thread: when it began and ended.
    lives: HashMap<u32, (u64, u64)>,
}

impl Plan {
    /// Shared lines on which allocations lay beside one another at a time.
    fn divided(&self) -> HashSet<u64> {
        let is_divided = |numbers: &[u32]| {
            let mut pieces: Vec<_> =
                numbers.iter().map(|number| self.allocations[*number as usize].piece()).collect();
            pieces.sort_by_key(|its| its.taken);
            let mut there: Vec<Piece> = Vec::new();
            pieces.into_iter().any(|piece| {
                there.retain(|its| its.given_back >= piece.taken);
                there.truncate(MOST_BESIDE);
                there.push(piece);
                there.iter().any(|its| !its.overlaps(&piece))
            })
        };
        let lines = self.on_line.iter().filter(|(_, numbers)| is_divided(numbers));
        lines.map(|(line, _)| *line).collect()
    }

    /// The last wake of an object before a ticket, if it was after another one.
    pub(super) fn wake_between(&self, object: u64, since: u64, ticket: u64) -> Option<u64> {
        let wakes = self.wakes.get(&object)?;
        let before = wakes.partition_point(|wake| *wake < ticket);
        wakes[..before].last().copied().filter(|wake| *wake > since)
    }

    /// The stack that an owner is.
    pub(crate) fn stack_of(&self, owner: Owner) -> Option<&Stack> {
        self.stacks.get((owner as usize).checked_sub(self.allocations.len())?)
    }

    /// The stack that was at an address at the time of a ticket, or else the last one before.
    pub(crate) fn stack_at(&self, address: u64, ticket: u64) -> Option<&Stack> {
        let here = self.stacks.iter().filter(|its| (its.start..its.end).contains(&address));
        here.max_by_key(|its| {
            (its.began <= ticket && ticket <= its.ended, its.began <= ticket, its.began)
        })
    }

    /// Which lines had things of several kinds one after the other: allocations are of one kind that were taken with the same
    /// calls and have the same length, and each stack is one of its own.
    fn owners_of(&self, shared: &[u64], line_bytes: u64) -> Owners {
        let mut numbers: HashMap<AllocationKind, u32> = HashMap::new();
        let mut kinds: Vec<u32> = Vec::with_capacity(self.allocations.len() + self.stacks.len());
        for its in &self.allocations {
            let next = numbers.len() as u32;
            kinds.push(*numbers.entry(its.kind()).or_insert(next));
        }
        let first = self.allocations.len() as Owner;
        kinds.extend((0..self.stacks.len() as u32).map(|stack| numbers.len() as u32 + stack));
        let mut on_line: PageMap<Vec<Owner>> = PageMap::default();
        for (line, numbers) in self.on_line.iter().filter(|(_, numbers)| numbers.len() > 1) {
            on_line.insert(*line, numbers.clone());
        }
        let mut left = MOST_PLACES;
        for (number, its) in (first..).zip(&self.stacks) {
            let from = shared.partition_point(|line| *line + line_bytes <= its.start);
            let to = shared.partition_point(|line| *line < its.end).max(from);
            left = left.saturating_sub(to - from);
            if left == 0 {
                break;
            }
            for line in &shared[from..to] {
                on_line.entry(*line).or_default().push(number);
            }
        }
        let stacks = self.stacks.iter().map(Stack::piece);
        let pieces = self.allocations.iter().map(Allocation::piece).chain(stacks).collect();
        Owners::of(pieces, kinds, on_line, line_bytes)
    }

    /// Whether the instruction is the C library's own.
    pub(crate) fn is_c_library(&self, instruction: u64) -> bool {
        let after = self.modules.partition_point(|module| module.start < instruction);
        let module = after.checked_sub(1).map(|at| &self.modules[at]);
        module.is_some_and(|module| {
            let name = module.path.rsplit('/').next().unwrap_or_default();
            instruction <= module.end
                && ["libc.so", "libc-", "libpthread", "ld-"].iter().any(|its| name.starts_with(its))
        })
    }

    /// Whether the recorder of the engine tsan was in the program.
    pub(crate) fn has_recorder(&self) -> bool {
        self.modules.iter().any(|module| module.path.ends_with("/libcoreshard_tsan.so"))
    }

    /// Whether a lock begins a little before the address: all of a lock is no longer than this.
    pub(crate) fn is_in_lock(&self, address: u64) -> bool {
        let word = address / 8 * 8;
        (0..LOCK_BYTES / 8).any(|before| self.locks.contains(&word.wrapping_sub(8 * before)))
    }

    /// Reads all of a recording once. With `moves`, addresses are where these put them.
    pub(crate) fn of(
        recording: &Recording,
        line_bytes: usize,
        moves: Option<&Moves>,
    ) -> Result<Self, RecordingError> {
        let plan = Self {
            pages: Pages::new(line_bytes),
            modules: Vec::new(),
            allocations: Vec::new(),
            on_line: PageMap::default(),
            reuse: Arc::default(),
            owners: Arc::default(),
            line_bytes: line_bytes as u64,
            calls: Vec::new(),
            stacks: Vec::new(),
            locks: HashSet::new(),
            wakes: HashMap::new(),
            created: HashSet::new(),
            accesses: 0,
            notes: Vec::new(),
            shift: moves.map_or(0, Moves::shift),
        };
        let mut building =
            Building { plan, call_numbers: HashMap::new(), wakes: 0, lives: HashMap::new() };
        let mut frees: Vec<(u64, u64)> = Vec::new();
        for (thread, mut events) in recording.events() {
            let (mut lately, mut ticket) = (Lately::default(), 0);
            while let Some(event) = events.read()? {
                ticket = event.ticket().unwrap_or(ticket);
                let moves = moves.map(|moves| (moves, ticket));
                building.note(thread, event, &mut lately, line_bytes, moves, &mut frees);
            }
        }
        Ok(building.finish(&frees, line_bytes as u64))
    }
}

impl Building {
    #[inline]
    fn note(
        &mut self,
        thread: u32,
        event: Event<'_>,
        lately: &mut Lately,
        line_bytes: usize,
        moves: Option<(&Moves, u64)>,
        frees: &mut Vec<(u64, u64)>,
    ) {
        let plan = &mut self.plan;
        match event {
            Event::Access(access) => {
                plan.accesses += 1;
                let to =
                    |address| moves.map_or(address, |(moves, ticket)| moves.of(address, ticket));
                let address = to(access.address);
                let writes = access.kind != AccessKind::Load;
                plan.pages.touch(address, thread + 1, writes, lately);
                let last = address.wrapping_add(u64::from(access.size_bytes) - 1);
                if last / line_bytes as u64 != address / line_bytes as u64 {
                    plan.pages.touch(last, thread + 1, writes, lately);
                }
            }
            Event::Range { access, bytes } => {
                plan.accesses += 1;
                let writes = access.kind != AccessKind::Load;
                super::each_line(access.address, bytes, line_bytes as u64, |address, _| {
                    let address =
                        moves.map_or(address, |(moves, ticket)| moves.of(address, ticket));
                    plan.pages.touch(address, thread + 1, writes, lately);
                });
            }
            event => self.note_other(thread, event, frees),
        }
    }

    #[cold]
    fn note_other(&mut self, thread: u32, event: Event<'_>, frees: &mut Vec<(u64, u64)>) {
        let plan = &mut self.plan;
        match event {
            Event::Alloc { address, bytes, element_bytes, ticket, calls } => {
                if plan.allocations.len() >= MOST_ALLOCATIONS {
                    return;
                }
                let calls: Vec<u64> = event_words(calls).collect();
                let next = plan.calls.len() as u32;
                let number = *self.call_numbers.entry(calls).or_insert_with_key(|calls| {
                    plan.calls.push(calls.clone());
                    next
                });
                plan.allocations.push(Allocation {
                    address: address.wrapping_add(plan.shift),
                    bytes,
                    element_bytes,
                    taken: ticket,
                    given_back: u64::MAX,
                    thread,
                    calls: number,
                });
            }
            Event::Free { address, ticket } if frees.len() < 2 * MOST_ALLOCATIONS => {
                frees.push((address.wrapping_add(plan.shift), ticket));
            }
            Event::Module { base, start, end, path } => {
                let path = String::from_utf8_lossy(&path[..path.len().min(MOST_PATH_BYTES)]);
                let module = Module { base, start, end, path: path.into_owned() };
                if plan.modules.len() < MOST_MODULES && !plan.modules.contains(&module) {
                    plan.modules.push(module);
                }
            }
            Event::Stack { start, end } => {
                let shift = |address: u64| address.wrapping_add(plan.shift);
                let (start, end) = (shift(start), shift(end));
                if end > start && plan.stacks.len() < MOST_STACKS {
                    plan.stacks.push(Stack { start, end, thread, began: 0, ended: u64::MAX });
                }
            }
            Event::Lock { lock, .. } => drop(plan.locks.insert(lock / 8 * 8)),
            Event::Wake { object, ticket } if self.wakes < MOST_WAKES => {
                self.wakes += 1;
                plan.wakes.entry(object).or_default().push(ticket);
            }
            Event::Start { ticket, .. } => {
                self.lives.entry(thread).or_insert((0, u64::MAX)).0 = ticket
            }
            Event::Exit { ticket } => self.lives.entry(thread).or_insert((0, u64::MAX)).1 = ticket,
            Event::Create { thread, .. } => drop(plan.created.insert(thread)),
            _ => {}
        }
    }

    fn finish(self, frees: &[(u64, u64)], line_bytes: u64) -> Plan {
        let mut plan = self.plan;
        if plan.allocations.len() >= MOST_ALLOCATIONS {
            plan.notes.push(format!(
                "of more than {MOST_ALLOCATIONS} allocations the others have no name"
            ));
        }
        if plan.pages.is_full() {
            plan.notes.push("beyond 16 GiB of memory, lines are taken for private ones".to_owned());
        }
        for wakes in plan.wakes.values_mut() {
            wakes.sort_unstable();
        }
        plan.modules.sort_by_key(|module| module.start);
        give_back(&mut plan.allocations, frees);
        // Of the others nobody will ask.
        let shared = plan.pages.shared();
        let on = |its: &Allocation| {
            let from = shared.partition_point(|line| *line + line_bytes <= its.address);
            let to = shared.partition_point(|line| *line < its.address.saturating_add(its.bytes));
            from..to.max(from)
        };
        plan.allocations.retain(|its| !on(its).is_empty());
        let mut left = MOST_PLACES;
        for (number, its) in plan.allocations.iter().enumerate() {
            for line in &shared[on(its)] {
                left = left.saturating_sub(1);
                if left > 0 {
                    plan.on_line.entry(*line).or_default().push(number as u32);
                }
            }
        }
        // A thread's stack goes to another thread when it has ended.
        for stack in &mut plan.stacks {
            if let Some((began, ended)) = self.lives.get(&stack.thread) {
                (stack.began, stack.ended) = (*began, *ended);
            }
        }
        let stacks = plan.stacks.iter().filter(|its| its.began > 0).map(Stack::piece);
        let pieces = plan.allocations.iter().map(Allocation::piece).chain(stacks);
        let divided = plan.divided();
        plan.reuse = Arc::new(reused(pieces, &shared, &divided, line_bytes, MOST_PLACES));
        plan.owners = Arc::new(plan.owners_of(&shared, line_bytes));
        if left == 0 {
            plan.notes.push(format!(
                "beyond {MOST_PLACES} shared lines of allocations, they have no name"
            ));
        }
        plan
    }
}

/// Says of each piece when it was given back: by the first call after it was taken.
fn give_back(allocations: &mut [Allocation], frees: &[(u64, u64)]) {
    let mut by_address: HashMap<u64, Vec<u64>> = HashMap::new();
    for (address, ticket) in frees {
        by_address.entry(*address).or_default().push(*ticket);
    }
    by_address.values_mut().for_each(|tickets| tickets.sort_unstable());
    for its in allocations {
        let Some(tickets) = by_address.get(&its.address) else { continue };
        let after = tickets.partition_point(|ticket| *ticket < its.taken);
        its.given_back = tickets.get(after).copied().unwrap_or(u64::MAX);
    }
}
