//! Where each CPU stands in an index: neighbours in the machine are neighbours in it.

use std::ops::Range;

use coreshard_topology::{CpuId, CpuSet, Topology};

use crate::error::RtError;

/// The most CPUs of an index. Sets of places have a fixed size, so that looking for a CPU allocates
/// nothing; the largest machines sold have half as many.
pub const MAX_INDEX_CPUS: usize = if cfg!(loom) { 64 } else { 1024 };

pub(super) const WORDS: usize = MAX_INDEX_CPUS / 64;

/// The CPUs of an index in the order of the machine's parts: package, node, last-level cache, core,
/// number. So the CPUs of a cache, and of a core, are neighbours, however the system numbers them.
#[derive(Debug)]
pub(super) struct Places {
    cpus: Box<[CpuId]>,
    set: CpuSet,
    /// By CPU number.
    place_of: Box<[Option<u16>]>,
    /// The places of each last-level cache.
    groups: Box<[Range<usize>]>,
    /// By place: its group.
    group_of: Box<[u16]>,
}

impl Places {
    pub(super) fn new(topology: &Topology, cpus: &CpuSet) -> Result<Self, RtError> {
        if cpus.is_empty() {
            return Err(RtError::no_cpu());
        }
        if cpus.len() > MAX_INDEX_CPUS {
            return Err(RtError::too_many_cpus(cpus.len(), MAX_INDEX_CPUS));
        }
        if !cpus.is_subset(topology.online()) {
            return Err(RtError::outside_cpus(&(cpus - topology.online()), topology.online()));
        }
        let mut ordered: Vec<_> =
            topology.cpus().iter().filter(|cpu| cpus.contains(cpu.id)).collect();
        ordered.sort_by_key(|cpu| (cpu.package, cpu.node, cpu.llc, cpu.core, cpu.id));
        let highest = cpus.last().map_or(0, CpuId::index);
        let mut place_of = vec![None; highest + 1];
        let mut groups: Vec<Range<usize>> = Vec::new();
        let mut group_of = Vec::with_capacity(ordered.len());
        for (place, cpu) in ordered.iter().enumerate() {
            place_of[cpu.id.index()] = Some(place as u16);
            match groups.last_mut() {
                Some(group) if ordered[group.start].llc == cpu.llc => group.end = place + 1,
                _ => groups.push(place..place + 1),
            }
            group_of.push((groups.len() - 1) as u16);
        }
        Ok(Self {
            cpus: ordered.iter().map(|cpu| cpu.id).collect(),
            set: cpus.clone(),
            place_of: place_of.into(),
            groups: groups.into(),
            group_of: group_of.into(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.cpus.len()
    }

    pub(super) fn set(&self) -> &CpuSet {
        &self.set
    }

    pub(super) fn cpus(&self) -> &[CpuId] {
        &self.cpus
    }

    pub(super) fn groups(&self) -> &[Range<usize>] {
        &self.groups
    }

    pub(super) fn group_of(&self, place: usize) -> usize {
        usize::from(self.group_of[place])
    }

    #[inline]
    pub(super) fn place_of(&self, cpu: CpuId) -> Option<usize> {
        self.place_of.get(cpu.index()).copied().flatten().map(usize::from)
    }

    /// The member of `candidates` that is nearest to `near`: itself, the next one of its cache, or
    /// the next one of all, counted around.
    #[inline]
    pub(super) fn nearest(&self, candidates: &CpuChoice, near: usize) -> Option<usize> {
        if candidates.has(near) {
            return Some(near);
        }
        let group = self.groups[self.group_of(near)].clone();
        candidates
            .first_in(near..group.end)
            .or_else(|| candidates.first_in(group.start..near))
            .or_else(|| candidates.first_in(group.end..self.len()))
            .or_else(|| candidates.first_in(0..group.start))
    }
}

/// A set of CPUs of one index, as [`PriorityIndex::choice`](super::PriorityIndex::choice) makes it
/// and a search fills it. Made once for a task, not for each search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuChoice {
    pub(super) words: [u64; WORDS],
}

impl CpuChoice {
    /// The empty set.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    /// The number of CPUs.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if there is no CPU.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(crate) fn add(&mut self, place: usize) {
        self.words[place / 64] |= 1 << (place % 64);
    }

    /// Whether all of its places are among the first `places`.
    pub(crate) fn is_within(&self, places: usize) -> bool {
        self.words_in(places.min(MAX_INDEX_CPUS)..MAX_INDEX_CPUS).all(|(_, bits)| bits == 0)
    }

    /// Whether all of `other` are among its CPUs.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(these, those)| those & !these == 0)
    }

    /// Adds all of `other`.
    pub(crate) fn join(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(these, those)| *these |= those);
    }

    #[inline]
    pub(crate) fn has(&self, place: usize) -> bool {
        self.words[place / 64] & (1 << (place % 64)) != 0
    }

    /// Its members among the places of `range`, a word at a time: the number of the word, and its
    /// bits.
    #[inline]
    pub(super) fn words_in(&self, range: Range<usize>) -> impl Iterator<Item = (usize, u64)> + '_ {
        let words = if range.is_empty() { 0..0 } else { range.start / 64..range.end.div_ceil(64) };
        words.map(move |at| {
            let mut bits = self.words[at];
            if at == range.start / 64 {
                bits &= u64::MAX << (range.start % 64);
            }
            if range.end < (at + 1) * 64 {
                bits &= (1 << (range.end % 64)) - 1;
            }
            (at, bits)
        })
    }

    #[inline]
    fn first_in(&self, range: Range<usize>) -> Option<usize> {
        self.words_in(range)
            .find(|(_, bits)| *bits != 0)
            .map(|(at, bits)| at * 64 + bits.trailing_zeros() as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        bits_of(self.words_in(0..MAX_INDEX_CPUS))
    }
}

impl Default for CpuChoice {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The places that words tell of.
#[inline]
pub(super) fn bits_of(words: impl Iterator<Item = (usize, u64)>) -> impl Iterator<Item = usize> {
    words.flat_map(|(at, mut bits)| {
        std::iter::from_fn(move || {
            (bits != 0).then(|| {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                at * 64 + bit
            })
        })
    })
}
