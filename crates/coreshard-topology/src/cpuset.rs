//! A set of CPUs, as a bitmap that grows with its highest member.

mod text;

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

pub use text::ParseCpuSetError;

use crate::CpuId;

/// The highest CPU number that text may name: 65,535.
///
/// Linux itself stops at 8,192 CPUs on the largest configurations; eight times that leaves room for
/// simulated machines, while a slip such as `0-4294967295` is refused instead of filling memory.
pub const MAX_CPU: CpuId = CpuId(65_535);

const BITS: usize = u64::BITS as usize;

/// A set of CPUs.
///
/// Written and read as the kernel's list format: `"0-3,8,10-11"`.
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
/// Memory is one bit for every CPU up to the highest member.
// The last word is never 0, so that equal sets have equal words and the derives below are right.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// The empty set. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Adds a CPU; true if it was not there before.
    ///
    /// The set grows to hold the number given: [`MAX_CPU`] bounds what is read from text, not this.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = position(cpu);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let was_absent = self.words[word] & bit == 0;
        self.words[word] |= bit;
        was_absent
    }

    /// Takes a CPU out; true if it was there.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        if !self.contains(cpu) {
            return false;
        }
        let (word, bit) = position(cpu);
        self.words[word] &= !bit;
        self.trim();
        true
    }

    /// True if the CPU is a member.
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (word, bit) = position(cpu);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// The number of members. O(highest member / 64).
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// True if there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest member.
    #[must_use]
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The highest member.
    #[must_use]
    pub fn last(&self) -> Option<CpuId> {
        let top = self.words.last()?;
        let bit = BITS - 1 - top.leading_zeros() as usize;
        Some(cpu_at((self.words.len() - 1) * BITS + bit))
    }

    /// The members, ascending.
    pub fn iter(&self) -> Iter<'_> {
        Iter { words: &self.words, at: 0, left: self.words.first().copied().unwrap_or(0) }
    }

    /// True if every member is also a member of `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        let theirs = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(theirs).all(|(ours, theirs)| ours & !theirs == 0)
    }

    /// True if no member is shared with `other`.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(ours, theirs)| ours & theirs == 0)
    }

    /// The CPUs that are in both sets; also written `&a & &b`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        Self::from_words(words)
    }

    /// The CPUs that are in either set; also written `&a | &b`.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) = if self.words.len() >= other.words.len() {
            (&self.words, &other.words)
        } else {
            (&other.words, &self.words)
        };
        let mut words = long.clone();
        for (word, more) in words.iter_mut().zip(short) {
            *word |= more;
        }
        Self::from_words(words)
    }

    /// The CPUs of this set that are not in the other; also written `&a - &b`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut words = self.words.clone();
        for (word, less) in words.iter_mut().zip(&other.words) {
            *word &= !less;
        }
        Self::from_words(words)
    }

    fn from_words(words: Vec<u64>) -> Self {
        let mut set = Self { words };
        set.trim();
        set
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn position(cpu: CpuId) -> (usize, u64) {
    (cpu.index() / BITS, 1 << (cpu.index() % BITS))
}

// Members went in as u32, so the cast loses nothing.
fn cpu_at(index: usize) -> CpuId {
    CpuId(index as u32)
}

/// The members of a [`CpuSet`], ascending.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    words: &'a [u64],
    at: usize,
    left: u64,
}

impl Iterator for Iter<'_> {
    type Item = CpuId;

    fn next(&mut self) -> Option<CpuId> {
        while self.left == 0 {
            self.at += 1;
            self.left = *self.words.get(self.at)?;
        }
        let bit = self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        Some(cpu_at(self.at * BITS + bit))
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
