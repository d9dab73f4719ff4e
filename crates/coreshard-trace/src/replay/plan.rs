//! A pass over the whole recording before its replay. It finds shared lines, allocations, modules and wakes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::conflicts::Lives;
use super::moved::Moves;
use super::owners::{Owner, Owners};
use super::pace::Work;
use super::pages::{Lately, PageMap, Pages};
use super::pieces::{Piece, PieceNumber, Timeline};
use super::reuse::reused;
use crate::recording::{Access, AccessKind, Event, Recording, RecordingError, event_words};

/// Allocations that are tracked.
const MOST_ALLOCATIONS: usize = 8 << 20;
/// Wakes that are tracked.
const MOST_WAKES: usize = 16 << 20;
/// Shared lines of all allocations in total.
const MOST_PLACES: usize = 64 << 20;
/// The size of the largest lock in the C library, pthread_rwlock_t.
const LOCK_BYTES: u64 = 56;
/// Allocations on one line at one time. A damaged recording may have any number.
const MOST_BESIDE: usize = 16;
/// Stacks: usually one for each thread.
const MOST_STACKS: usize = 1 << 20;
/// Executables and libraries.
const MOST_MODULES: usize = 4_096;
/// Longest path that is examined.
const MOST_PATH_BYTES: usize = 4_096;

/// An allocation of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub(crate) piece: Piece,
    pub(crate) bytes: u64,
    pub(crate) element_bytes: u64,
    /// The index of its call stack.
    pub(crate) calls: u32,
}

/// The properties that similar allocations share: the call stack, the size, and the size of an element.
pub(crate) type AllocationKind = (u32, u64, u64);

impl Allocation {
    /// Returns the size of one element, or of the whole allocation if the element's size is unknown.
    pub(crate) const fn wanted_bytes(&self) -> u64 {
        if self.element_bytes > 1 { self.element_bytes } else { self.bytes }
    }

    pub(crate) const fn kind(&self) -> AllocationKind {
        (self.calls, self.bytes, self.element_bytes)
    }
}

/// The names of objects that the recorder named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label {
    /// The kernel's cache that they are from, or another place.
    pub(crate) origin: String,
    /// Their type; empty if unknown.
    pub(crate) of: String,
}

/// An executable or a library in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) base: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) path: String,
}

impl Module {
    pub(crate) fn is_c_library(&self) -> bool {
        is_c_library(&self.path)
    }
}

/// Whether a file is the C library or the dynamic linker.
pub(super) fn is_c_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ["libc.so", "libc-", "libpthread", "ld-"].iter().any(|its| name.starts_with(its))
}

/// The result of the pass.
pub(crate) struct Plan {
    pub(super) pages: Pages,
    pub(crate) modules: Vec<Module>,
    /// The names that a kernel's recording carries, as an ELF file.
    pub(crate) names: Option<Arc<[u8]>>,
    pub(crate) allocations: Vec<Allocation>,
    /// The allocations on each shared line.
    pub(crate) on_line: PageMap<Vec<PieceNumber>>,
    /// Memory that several threads had one after another.
    pub(super) reuse: Arc<Timeline>,
    /// Memory that belonged to several objects one after another.
    pub(super) owners: Arc<Owners>,
    pub(crate) line_bytes: u64,
    pub(crate) calls: Vec<Vec<u64>>,
    /// By the number of such calls: the names of objects that the recorder named, in place of calls.
    pub(crate) labels: HashMap<u32, Label>,
    /// Stacks, each for the lifetime of its thread. It starts at the first ticket if the thread's start was not
    /// recorded.
    pub(crate) stacks: Vec<Piece>,
    /// Addresses of the 8-byte words of locks.
    pub(crate) locks: HashSet<u64>,
    /// Sorted tickets of each object's wakes.
    wakes: HashMap<u64, Vec<u64>>,
    /// Threads whose creation was recorded.
    pub(super) created: HashSet<u64>,
    /// By thread: when it was created and joined.
    pub(super) lives: Lives,
    pub(crate) accesses: u64,
    /// The work of each thread, if the recording has its time without a recorder.
    pub(super) works: Vec<(u32, Work)>,
    pub(crate) notes: Vec<String>,
    /// The shift of all data relative to the recording.
    pub(crate) shift: u64,
}

impl Plan {
    /// Reads a whole recording once, with addresses changed by `moves`.
    pub(crate) fn of(
        recording: &Recording,
        line_bytes: usize,
        moves: Option<&Moves>,
    ) -> Result<Self, RecordingError> {
        let plan = Self {
            pages: Pages::new(line_bytes),
            modules: Vec::new(),
            names: recording.names()?.map(Arc::from),
            allocations: Vec::new(),
            on_line: PageMap::default(),
            reuse: Arc::default(),
            owners: Arc::default(),
            line_bytes: line_bytes as u64,
            calls: Vec::new(),
            labels: HashMap::new(),
            stacks: Vec::new(),
            locks: HashSet::new(),
            wakes: HashMap::new(),
            created: HashSet::new(),
            lives: Lives::new(),
            accesses: 0,
            works: Vec::new(),
            notes: Vec::new(),
            shift: moves.map_or(0, Moves::shift),
        };
        let mut building = Building {
            plan,
            call_numbers: HashMap::new(),
            label_numbers: HashMap::new(),
            wakes: 0,
            lives: HashMap::new(),
            frees: Vec::new(),
        };
        let is_timed = !recording.threads_ns().is_empty();
        for (thread, mut events) in recording.events() {
            let (mut lately, mut ticket, mut work) = (Lately::default(), 0, Work::default());
            loop {
                let moves_at = moves.map(|moves| (moves, ticket));
                while let Some(access) = events.read_access() {
                    if is_timed {
                        work.note_access(&access);
                    }
                    building.note_access(thread, &access, &mut lately, moves_at);
                }
                let Some(event) = events.read()? else { break };
                ticket = event.ticket().unwrap_or(ticket);
                work.note(&event, line_bytes as u64);
                building.note(thread, event, &mut lately, moves.map(|moves| (moves, ticket)));
            }
            if is_timed {
                building.plan.works.push((thread, work));
            }
        }
        Ok(building.finish())
    }

    /// Returns the last wake of an object before `ticket`, if it was after `since`.
    pub(super) fn wake_between(&self, object: u64, since: u64, ticket: u64) -> Option<u64> {
        let wakes = self.wakes.get(&object)?;
        let before = wakes.partition_point(|wake| *wake < ticket);
        wakes[..before].last().copied().filter(|wake| *wake > since)
    }

    /// Returns the stack with an owner's number.
    pub(crate) fn stack_of(&self, owner: Owner) -> Option<&Piece> {
        self.stacks.get((owner as usize).checked_sub(self.allocations.len())?)
    }

    /// Returns the stack at an address at the time of a ticket, or else the last one before.
    pub(crate) fn stack_at(&self, address: u64, ticket: u64) -> Option<&Piece> {
        let here = self.stacks.iter().filter(|its| its.holds(address));
        here.max_by_key(|its| (its.lives(ticket), its.taken <= ticket, its.taken))
    }

    /// Whether the instruction belongs to the C library.
    pub(crate) fn is_c_library(&self, instruction: u64) -> bool {
        let after = self.modules.partition_point(|module| module.start < instruction);
        let module = after.checked_sub(1).map(|at| &self.modules[at]);
        module.is_some_and(|module| instruction <= module.end && module.is_c_library())
    }

    /// Whether the program contained the recorder of the engine tsan.
    pub(crate) fn has_recorder(&self) -> bool {
        self.modules.iter().any(|module| module.path.ends_with("/libcoreshard_tsan.so"))
    }

    /// Whether the address is in a lock. Only the beginning of a lock is recorded, so the maximum size is assumed.
    pub(crate) fn is_in_lock(&self, address: u64) -> bool {
        let word = address / 8 * 8;
        (0..LOCK_BYTES / 8).any(|before| self.locks.contains(&word.wrapping_sub(8 * before)))
    }

    /// Returns the shared lines on which two different allocations existed at the same time.
    fn divided(&self) -> HashSet<u64> {
        let is_divided = |numbers: &[PieceNumber]| {
            let pieces = numbers.iter().map(|number| self.allocations[*number as usize].piece);
            let mut pieces: Vec<_> = pieces.collect();
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

    /// Returns the lines on which objects of several kinds existed one after another. Allocations with the same call
    /// stack and size have the same kind. Each stack has a different kind.
    fn owners_of(&self, shared: &[u64]) -> Owners {
        let mut numbers: HashMap<AllocationKind, u32> = HashMap::new();
        let mut kinds: Vec<u32> = Vec::with_capacity(self.allocations.len() + self.stacks.len());
        for its in &self.allocations {
            let next = numbers.len() as u32;
            kinds.push(*numbers.entry(its.kind()).or_insert(next));
        }
        kinds.extend((0..self.stacks.len() as u32).map(|stack| numbers.len() as u32 + stack));
        let several = self.on_line.iter().filter(|(_, numbers)| numbers.len() > 1);
        let mut on_line: PageMap<Vec<Owner>> =
            several.map(|(line, numbers)| (*line, numbers.clone())).collect();
        let mut left = MOST_PLACES;
        for (number, its) in (self.allocations.len() as Owner..).zip(&self.stacks) {
            let lines = its.lines(shared, self.line_bytes);
            left = left.saturating_sub(lines.len());
            if left == 0 {
                break;
            }
            for line in lines {
                on_line.entry(*line).or_default().push(number);
            }
        }
        let pieces = self.allocations.iter().map(|its| its.piece).chain(self.stacks.clone());
        Owners::of(pieces.collect(), kinds, on_line, self.line_bytes)
    }
}

struct Building {
    plan: Plan,
    call_numbers: HashMap<Vec<u64>, u32>,
    label_numbers: HashMap<Label, u32>,
    wakes: usize,
    /// The tickets of each thread's start and end.
    lives: HashMap<u32, (u64, u64)>,
    /// Freed addresses with their tickets.
    frees: Vec<(u64, u64)>,
}

impl Building {
    #[inline]
    fn note_access(
        &mut self,
        thread: u32,
        access: &Access,
        lately: &mut Lately,
        moves: Option<(&Moves, u64)>,
    ) {
        let plan = &mut self.plan;
        plan.accesses += 1;
        let address =
            moves.map_or(access.address, |(moves, ticket)| moves.of(access.address, ticket));
        let writes = access.kind != AccessKind::Load;
        plan.pages.touch(address, thread + 1, writes, lately);
        let last = address.wrapping_add(u64::from(access.size_bytes) - 1);
        if (last ^ address) & !(plan.line_bytes - 1) != 0 {
            plan.pages.touch(last, thread + 1, writes, lately);
        }
    }

    fn note(
        &mut self,
        thread: u32,
        event: Event<'_>,
        lately: &mut Lately,
        moves: Option<(&Moves, u64)>,
    ) {
        match event {
            Event::Access(access) => self.note_access(thread, &access, lately, moves),
            Event::Range { access, bytes } => {
                let plan = &mut self.plan;
                let line_bytes = plan.line_bytes;
                plan.accesses += 1;
                let writes = access.kind != AccessKind::Load;
                let to = |address| moves.map_or(address, |(moves, at)| moves.of(address, at));
                super::each_line(access.address, bytes, line_bytes, |address, _| {
                    plan.pages.touch(to(address), thread + 1, writes, lately);
                });
            }
            event => self.note_other(thread, event),
        }
    }

    #[cold]
    fn note_other(&mut self, thread: u32, event: Event<'_>) {
        let plan = &mut self.plan;
        let shift = plan.shift;
        match event {
            Event::Alloc { address, bytes, element_bytes, ticket, calls }
                if plan.allocations.len() < MOST_ALLOCATIONS =>
            {
                let calls: Vec<u64> = event_words(calls).collect();
                let next = plan.calls.len() as u32;
                let calls = *self.call_numbers.entry(calls).or_insert_with_key(|calls| {
                    plan.calls.push(calls.clone());
                    next
                });
                let start = address.wrapping_add(shift);
                let end = start.saturating_add(bytes);
                let piece = Piece { start, end, taken: ticket, given_back: u64::MAX, thread };
                plan.allocations.push(Allocation { piece, bytes, element_bytes, calls });
            }
            Event::Object { address, bytes, ticket, origin, of }
                if plan.allocations.len() < MOST_ALLOCATIONS =>
            {
                let text = |bytes: &[u8]| {
                    coreshard_topology::input::plain(&String::from_utf8_lossy(bytes))
                };
                let label = Label { origin: text(origin), of: text(of) };
                let calls = *self.label_numbers.entry(label).or_insert_with_key(|label| {
                    let next = plan.calls.len() as u32;
                    plan.calls.push(Vec::new());
                    plan.labels.insert(next, label.clone());
                    next
                });
                let start = address.wrapping_add(shift);
                let end = start.saturating_add(bytes);
                let piece = Piece { start, end, taken: ticket, given_back: u64::MAX, thread };
                plan.allocations.push(Allocation { piece, bytes, element_bytes: 0, calls });
            }
            Event::Free { address, ticket } if self.frees.len() < 2 * MOST_ALLOCATIONS => {
                self.frees.push((address.wrapping_add(shift), ticket));
            }
            Event::Module { base, start, end, path } => {
                let path = String::from_utf8_lossy(&path[..path.len().min(MOST_PATH_BYTES)]);
                let module = Module { base, start, end, path: path.into_owned() };
                if plan.modules.len() < MOST_MODULES && !plan.modules.contains(&module) {
                    plan.modules.push(module);
                }
            }
            Event::Stack { start, end } => {
                let (start, end) = (start.wrapping_add(shift), end.wrapping_add(shift));
                if end > start && plan.stacks.len() < MOST_STACKS {
                    let (taken, given_back) = (0, u64::MAX);
                    plan.stacks.push(Piece { start, end, taken, given_back, thread });
                }
            }
            Event::Lock { lock, .. } => drop(plan.locks.insert(lock / 8 * 8)),
            Event::Wake { object, ticket } if self.wakes < MOST_WAKES => {
                self.wakes += 1;
                plan.wakes.entry(object).or_default().push(ticket);
            }
            Event::Start { ticket, .. } => {
                self.lives.entry(thread).or_insert((0, u64::MAX)).0 = ticket;
            }
            Event::Exit { ticket } => self.lives.entry(thread).or_insert((0, u64::MAX)).1 = ticket,
            Event::Create { thread, ticket } => {
                plan.created.insert(thread);
                plan.lives.entry(thread as u32).or_insert((0, u64::MAX)).0 = ticket;
            }
            Event::Join { thread, ticket } => {
                plan.lives.entry(thread as u32).or_insert((0, u64::MAX)).1 = ticket;
            }
            _ => {}
        }
    }

    fn finish(self) -> Plan {
        let mut plan = self.plan;
        if plan.allocations.len() >= MOST_ALLOCATIONS {
            plan.notes
                .push(format!("allocations beyond the first {MOST_ALLOCATIONS} have no name"));
        }
        if plan.pages.is_full() {
            plan.notes.push("lines beyond 16 GiB of memory are treated as private".to_owned());
        }
        plan.wakes.values_mut().for_each(|wakes| wakes.sort_unstable());
        plan.modules.sort_by_key(|module| module.start);
        give_back(&mut plan.allocations, &self.frees);
        // Other allocations are never looked up.
        let shared = plan.pages.shared();
        let line_bytes = plan.line_bytes;
        plan.allocations.retain(|its| !its.piece.lines(&shared, line_bytes).is_empty());
        let mut left = MOST_PLACES;
        for (number, its) in plan.allocations.iter().enumerate() {
            for line in its.piece.lines(&shared, line_bytes) {
                left = left.saturating_sub(1);
                if left > 0 {
                    plan.on_line.entry(*line).or_default().push(number as PieceNumber);
                }
            }
        }
        // A thread's stack may pass to another thread after its end.
        for stack in &mut plan.stacks {
            if let Some((began, ended)) = self.lives.get(&stack.thread) {
                (stack.taken, stack.given_back) = (*began, *ended);
            }
        }
        let stacks = plan.stacks.iter().filter(|its| its.taken > 0).copied();
        let pieces: Vec<_> = plan.allocations.iter().map(|its| its.piece).chain(stacks).collect();
        let divided = plan.divided();
        plan.reuse = Arc::new(reused(&pieces, &shared, &divided, line_bytes, MOST_PLACES));
        plan.owners = Arc::new(plan.owners_of(&shared));
        if left == 0 {
            plan.notes.push(format!(
                "shared lines of allocations beyond the first {MOST_PLACES} have no name"
            ));
        }
        plan
    }
}

/// Sets the ticket at which each piece was freed: the first free of its address after its allocation.
fn give_back(allocations: &mut [Allocation], frees: &[(u64, u64)]) {
    let mut by_address: HashMap<u64, Vec<u64>> = HashMap::new();
    for (address, ticket) in frees {
        by_address.entry(*address).or_default().push(*ticket);
    }
    by_address.values_mut().for_each(|tickets| tickets.sort_unstable());
    for piece in allocations.iter_mut().map(|its| &mut its.piece) {
        let Some(tickets) = by_address.get(&piece.start) else { continue };
        let after = tickets.partition_point(|ticket| *ticket < piece.taken);
        piece.given_back = tickets.get(after).copied().unwrap_or(u64::MAX);
    }
}
