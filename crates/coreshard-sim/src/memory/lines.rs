//! The state of every line, in a table beside the simulated memory.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::cpu_mask;
use crate::random::mix;
use crate::space::{ARENA_BYTES, PAGE_BYTES, in_host, without_colour};

/// An address in the simulation's own terms: its distance from the arena's start, or, beyond the arena's end,
/// a line outside of it, numbered in the order of first access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(pub(crate) u64);

impl Place {
    /// Returns the place with this number outside the arena.
    pub(crate) const fn outside(number: u64) -> Self {
        Self(ARENA_BYTES as u64 + number)
    }

    /// Returns true if the address is in the arena.
    pub(crate) const fn in_arena(self) -> bool {
        self.0 < ARENA_BYTES as u64
    }
}

/// The number of distinguishable bytes outside the arena; the statics of programs are far smaller.
const OUTSIDE_BYTES: usize = 1 << 30;
const OUTSIDE_LATELY: usize = 64;
const CHUNK_BYTES: usize = 1 << 16;
const PAGES: usize = CHUNK_BYTES / PAGE_BYTES;
const NO_HOME: u16 = u16::MAX;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LineState {
    #[default]
    Untouched,
    Exclusive,
    Shared,
    /// Written at its home, and in no CPU's cache.
    AtHome,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// Until when earlier requests keep the line.
    pub(super) busy_until: u64,
    /// The CPU that had it exclusively last.
    pub(super) owner: u16,
    pub(super) state: LineState,
    /// Whether the owner has written it.
    pub(super) dirty: bool,
    /// Whether a read-modify-write has used it since its owner fetched it.
    pub(super) locked: bool,
    /// Whether CPUs spin on it.
    pub(super) watched: bool,
    /// How many consecutive atomics its home has executed for the owner.
    pub(super) far_in_a_row: u8,
}

/// The lines of 64 KiB.
struct Chunk {
    lines: Box<[Line]>,
    /// `words` per line; valid if the line is shared.
    sharers: Box<[u64]>,
    homes: [u16; PAGES],
}

/// A line and its state.
pub(super) struct LineEntry<'a> {
    pub(super) line: &'a mut Line,
    sharers: &'a mut [u64],
    home: &'a mut u16,
}

impl LineEntry<'_> {
    /// Returns true if the CPU has it.
    #[inline]
    pub(super) fn is_at(&self, cpu: usize) -> bool {
        match self.line.state {
            LineState::Untouched | LineState::AtHome => false,
            LineState::Exclusive => usize::from(self.line.owner) == cpu,
            LineState::Shared => cpu_mask::has(self.sharers, cpu),
        }
    }

    /// Returns true if another CPU of its core has it. `siblings` lists the siblings of each CPU, or is empty.
    #[inline]
    pub(super) fn is_at_sibling(&self, siblings: &[Box<[usize]>], cpu: usize) -> bool {
        siblings.get(cpu).is_some_and(|others| others.iter().any(|other| self.is_at(*other)))
    }

    /// Returns the CPUs that share it.
    pub(super) fn sharers(&self) -> &[u64] {
        self.sharers
    }

    /// Makes the CPU share it with the CPUs that had it.
    pub(super) fn share_with(&mut self, cpu: usize) {
        if self.line.state == LineState::Exclusive {
            let owner = usize::from(self.line.owner);
            self.sharers.fill(0);
            cpu_mask::insert(self.sharers, owner);
            self.line.state = LineState::Shared;
        }
        cpu_mask::insert(self.sharers, cpu);
    }

    /// Returns the line's home node, if it has one.
    pub(super) fn home(&self) -> Option<u16> {
        (*self.home != NO_HOME).then_some(*self.home)
    }

    /// Returns the line's home node. If it has none yet, it becomes the `toucher`'s node (first touch, by
    /// page).
    pub(super) fn home_or(&mut self, toucher: u16) -> u16 {
        if *self.home == NO_HOME {
            *self.home = toucher;
        }
        *self.home
    }
}

pub(super) struct Lines {
    arena_start: usize,
    line_shift: u32,
    words: usize,
    /// By 64 KiB: one more than the index in `chunks`, 0 if nothing was accessed.
    index: Vec<u32>,
    chunks: Vec<Chunk>,
    /// The number among the outside lines, by the line's global number.
    outside: HashMap<usize, u64, BuildHasherDefault<LineHasher>>,
    /// Some of those, by the number's last bits.
    outside_lately: [(usize, u64); OUTSIDE_LATELY],
}

impl Lines {
    pub(super) fn new(arena_start: usize, line_bytes: usize, cpus: usize) -> Self {
        Self {
            arena_start,
            line_shift: line_bytes.trailing_zeros(),
            words: cpu_mask::words(cpus),
            index: vec![0; (ARENA_BYTES + OUTSIDE_BYTES) / CHUNK_BYTES],
            chunks: Vec::new(),
            outside: HashMap::default(),
            outside_lately: [(usize::MAX, 0); OUTSIDE_LATELY],
        }
    }

    pub(super) fn line_bytes(&self) -> usize {
        1 << self.line_shift
    }

    /// Returns the first byte of the line that contains a place.
    #[inline]
    pub(super) const fn first_of(&self, place: Place) -> Place {
        Place(place.0 >> self.line_shift << self.line_shift)
    }

    pub(super) fn touched(&self) -> u64 {
        let lines = self.chunks.iter().flat_map(|chunk| chunk.lines.iter());
        lines.filter(|line| line.state != LineState::Untouched).count() as u64
    }

    #[inline]
    pub(super) fn place(&mut self, address: usize) -> Place {
        let distance = address.wrapping_sub(self.arena_start);
        if distance < ARENA_BYTES {
            Place(without_colour(distance) as u64)
        } else {
            self.place_outside(address)
        }
    }

    #[cold]
    fn place_outside(&mut self, address: usize) -> Place {
        let next = self.outside.len() as u64;
        // Beyond the limit, lines are folded: reports are not intended for a program that accesses a gigabyte
        // outside the arena.
        let most = (OUTSIDE_BYTES >> self.line_shift) as u64;
        let line = address >> self.line_shift;
        let lately = &mut self.outside_lately[line % OUTSIDE_LATELY];
        if lately.0 != line {
            *lately = (line, in_host(|| *self.outside.entry(line).or_insert(next)));
        }
        let number = lately.1 % most;
        let within = (address & (self.line_bytes() - 1)) as u64;
        Place(ARENA_BYTES as u64 + (number << self.line_shift) + within)
    }

    #[inline]
    pub(super) fn entry(&mut self, place: Place) -> LineEntry<'_> {
        let chunk = self.index[place.0 as usize / CHUNK_BYTES];
        let chunk = if chunk == 0 { self.new_chunk(place) } else { chunk as usize - 1 };
        let chunk = &mut self.chunks[chunk];
        let within = place.0 as usize % CHUNK_BYTES;
        let line = within >> self.line_shift;
        LineEntry {
            line: &mut chunk.lines[line],
            sharers: &mut chunk.sharers[line * self.words..][..self.words],
            home: &mut chunk.homes[within / PAGE_BYTES],
        }
    }

    #[cold]
    fn new_chunk(&mut self, place: Place) -> usize {
        let lines = CHUNK_BYTES >> self.line_shift;
        in_host(|| {
            self.chunks.push(Chunk {
                lines: vec![Line::default(); lines].into(),
                sharers: vec![0; lines * self.words].into(),
                homes: [NO_HOME; PAGES],
            });
        });
        let count = self.chunks.len();
        self.index[place.0 as usize / CHUNK_BYTES] =
            u32::try_from(count).expect("an arena has fewer chunks than 2³²");
        count - 1
    }

    /// Resets pages that are in no cache, optionally placing them on a node.
    pub(super) fn renew(&mut self, start: Place, bytes: usize, node: Option<u16>) {
        for line in (0..bytes).step_by(self.line_bytes()) {
            let entry = self.entry(Place(start.0 + line as u64));
            *entry.line = Line::default();
            *entry.home = node.unwrap_or(NO_HOME);
        }
    }
}

/// A table by place.
pub(crate) type ByPlace<T> = HashMap<Place, T, BuildHasherDefault<LineHasher>>;

/// A hasher for numbers of lines, which are well spread and not chosen by an attacker.
#[derive(Default)]
pub(crate) struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }
    fn write_usize(&mut self, number: usize) {
        self.0 = mix(number as u64);
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = mix(number);
    }
}
