//! What must be known of a whole recording before it is replayed: which lines are shared, what memory was taken and given
//! back, which code was loaded, and who waited for whom.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::moved::Moves;
use super::pages::{Lately, PageMap, Pages};
use super::reuse::{Piece, Reuse};
use crate::recording::{AccessKind, Event, Events, Recording, RecordingError, event_words};

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

impl Allocation {
    fn piece(&self) -> Piece {
        Piece {
            start: self.address,
            end: self.address.saturating_add(self.bytes),
            taken: self.taken,
            given_back: self.given_back,
            thread: self.thread,
        }
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
    pub(super) reuse: Arc<Reuse>,
    pub(crate) line_bytes: u64,
    pub(crate) calls: Vec<Vec<u64>>,
    pub(crate) stacks: Vec<(u64, u64, u32)>,
    /// Words of 8 bytes that locks lie in, by address.
    pub(crate) locks: HashSet<u64>,
    /// By object: tickets of its wakes, in order.
    pub(super) wakes: HashMap<u64, Vec<u64>>,
    /// Threads whose creation was seen.
    pub(super) created: HashSet<u64>,
    pub(crate) accesses: u64,
    pub(crate) notes: Vec<String>,
    pub(crate) windows: bool,
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
                there.iter().any(|its| its.end <= piece.start || piece.end <= its.start)
            })
        };
        let lines = self.on_line.iter().filter(|(_, numbers)| is_divided(numbers));
        lines.map(|(line, _)| *line).collect()
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
            line_bytes: line_bytes as u64,
            calls: Vec::new(),
            stacks: Vec::new(),
            locks: HashSet::new(),
            wakes: HashMap::new(),
            created: HashSet::new(),
            accesses: 0,
            notes: Vec::new(),
            windows: false,
            shift: moves.map_or(0, Moves::shift),
        };
        let mut building =
            Building { plan, call_numbers: HashMap::new(), wakes: 0, lives: HashMap::new() };
        let (mut events, mut bytes) = (Events::default(), Vec::new());
        let mut frees: Vec<(u64, u64)> = Vec::new();
        for (thread, chunks) in recording.threads() {
            let mut lately = Lately::default();
            for chunk in chunks {
                recording.chunk(chunk, &mut bytes)?;
                events.begin();
                let mut at = 0;
                loop {
                    let event =
                        events.next(&bytes, &mut at).map_err(|error| error.in_chunk(chunk))?;
                    let Some(event) = event else { break };
                    building.note(*thread, event, &mut lately, line_bytes, moves, &mut frees);
                }
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
        moves: Option<&Moves>,
        frees: &mut Vec<(u64, u64)>,
    ) {
        let plan = &mut self.plan;
        match event {
            Event::Access(access) => {
                plan.accesses += 1;
                let address = moves.map_or(access.address, |moves| moves.of(access.address));
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
                    let address = moves.map_or(address, |moves| moves.of(address));
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
                plan.stacks.push((shift(start), shift(end), thread));
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
            Event::Gap { window } => plan.windows |= window > 1,
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
        let stacks = plan.stacks.iter().filter_map(|(start, end, thread)| {
            let (taken, given_back) =
                *self.lives.get(thread).filter(|its| its.0 > 0 && end > start)?;
            Some(Piece { start: *start, end: *end, taken, given_back, thread: *thread })
        });
        let pieces = plan.allocations.iter().map(Allocation::piece).chain(stacks);
        let divided = plan.divided();
        plan.reuse = Arc::new(Reuse::of(pieces, &shared, &divided, line_bytes, MOST_PLACES));
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
