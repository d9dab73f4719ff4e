//! A set of CPUs, as a sparse bitmap.

mod text;

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

pub use text::ParseCpuSetError;

use crate::CpuId;

/// The highest CPU number that text may name: 65,535.
///
/// Linux supports at most 8,192 CPUs. Eight times that leaves room for simulated machines, while a mistake such as
/// `0-4294967295` is rejected instead of filling memory.
pub const MAX_CPU: CpuId = CpuId(65_535);

const BITS: u32 = u64::BITS;

/// A set of CPUs.
///
/// Formatted and parsed as the kernel's list format: `"0-3,8,10-11"`.
///
/// ```
/// use coreshard_topology::{CpuId, CpuSet};
///
/// let set: CpuSet = "0-3,8,10-11".parse()?;
/// assert_eq!(set.len(), 7);
/// assert!(set.contains(CpuId(8)));
/// assert_eq!((&set - &"1-8".parse()?).to_string(), "0,10-11");
/// # Ok::<(), coreshard_topology::ParseCpuSetError>(())
/// ```
///
/// Takes 16 bytes per group of 64 adjacent numbers with a member. Thousands of small sets over thousands of CPUs, such
/// as the pods of the scope `smt`, are therefore small.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// Ascending by place. No word is empty, so that equal sets have equal words and the derived traits are correct.
    words: Vec<Word>,
}

/// The members of a group of 64 adjacent numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word {
    /// The lowest number divided by 64.
    place: u32,
    bits: u64,
}

impl CpuSet {
    /// Creates an empty set without allocating.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Adds a CPU. Returns true if it was not a member. Fastest in ascending order.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        let (place, bit) = position(cpu);
        self.insert_word(Word { place, bits: bit }) & bit == 0
    }

    /// Adds the CPUs of a non-empty word. Returns the previous members among its numbers.
    fn insert_word(&mut self, word: Word) -> u64 {
        match self.find(word.place) {
            Ok(at) => {
                let before = self.words[at].bits;
                self.words[at].bits |= word.bits;
                before
            }
            Err(at) => {
                self.words.insert(at, word);
                0
            }
        }
    }

    /// Removes a CPU. Returns true if it was a member.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let (place, bit) = position(cpu);
        let Ok(at) = self.find(place) else { return false };
        let was_there = self.words[at].bits & bit != 0;
        self.words[at].bits &= !bit;
        if self.words[at].bits == 0 {
            self.words.remove(at);
        }
        was_there
    }

    /// Returns true if the CPU is a member.
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (place, bit) = position(cpu);
        self.find(place).is_ok_and(|at| self.words[at].bits & bit != 0)
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.bits.count_ones() as usize).sum()
    }

    /// Returns true if the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the lowest member.
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// Returns the highest member.
    pub fn last(&self) -> Option<CpuId> {
        let word = self.words.last()?;
        Some(CpuId(word.place * BITS + (BITS - 1 - word.bits.leading_zeros())))
    }

    /// Returns the members, ascending.
    pub fn iter(&self) -> Iter<'_> {
        Iter { rest: self.words.iter(), place: 0, bits: 0 }
    }

    /// Returns true if every member is also a member of `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.iter().all(|word| word.bits & !other.bits_at(word.place) == 0)
    }

    /// Returns true if no member is in `other`.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().all(|word| word.bits & other.bits_at(word.place) == 0)
    }

    /// Returns the CPUs in both sets; also `&a & &b`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.map(|word| word.bits & other.bits_at(word.place))
    }

    /// Returns the CPUs of this set that are not in the other; also `&a - &b`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.map(|word| word.bits & !other.bits_at(word.place))
    }

    /// Returns the CPUs in either set; also `&a | &b`.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut words = Vec::with_capacity(self.words.len() + other.words.len());
        let mut theirs = other.words.iter().copied().peekable();
        for word in &self.words {
            while let Some(before) = theirs.next_if(|their| their.place < word.place) {
                words.push(before);
            }
            let same = theirs.next_if(|their| their.place == word.place);
            let bits = word.bits | same.map_or(0, |same| same.bits);
            words.push(Word { bits, ..*word });
        }
        words.extend(theirs);
        Self { words }
    }

    /// Returns the index of a word, or the index at which to insert it.
    fn find(&self, place: u32) -> Result<usize, usize> {
        match self.words.last() {
            // CPUs are mostly added in ascending order.
            Some(last) if last.place < place => Err(self.words.len()),
            Some(last) if last.place == place => Ok(self.words.len() - 1),
            _ => self.words.binary_search_by_key(&place, |word| word.place),
        }
    }

    fn bits_at(&self, place: u32) -> u64 {
        self.find(place).map_or(0, |at| self.words[at].bits)
    }

    fn map(&self, bits: impl Fn(&Word) -> u64) -> Self {
        let words = self.words.iter().map(|word| Word { bits: bits(word), ..*word });
        Self { words: words.filter(|word| word.bits != 0).collect() }
    }

    /// Returns the number of words.
    #[cfg(test)]
    pub(crate) const fn words(&self) -> usize {
        self.words.len()
    }
}

const fn position(cpu: CpuId) -> (u32, u64) {
    (cpu.0 / BITS, 1 << (cpu.0 % BITS))
}

/// The members of a [`CpuSet`], ascending.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    rest: std::slice::Iter<'a, Word>,
    /// The current word, and its remaining members.
    place: u32,
    bits: u64,
}

impl Iterator for Iter<'_> {
    type Item = CpuId;

    fn next(&mut self) -> Option<CpuId> {
        if self.bits == 0 {
            let word = self.rest.next()?;
            (self.place, self.bits) = (word.place, word.bits);
        }
        let bit = self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(CpuId(self.place * BITS + bit))
    }
}

impl<'a> IntoIterator for &'a CpuSet {
    type Item = CpuId;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl BitAnd for &CpuSet {
    type Output = CpuSet;

    fn bitand(self, other: &CpuSet) -> CpuSet {
        self.intersection(other)
    }
}

impl BitOr for &CpuSet {
    type Output = CpuSet;

    fn bitor(self, other: &CpuSet) -> CpuSet {
        self.union(other)
    }
}

impl Sub for &CpuSet {
    type Output = CpuSet;

    fn sub(self, other: &CpuSet) -> CpuSet {
        self.difference(other)
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

#[cfg(test)]
mod tests;
