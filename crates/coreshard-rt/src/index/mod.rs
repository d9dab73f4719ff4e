//! The priority index: the level of each CPU, and the search for the CPU with the lowest level.
//!
//! `README.md` explains the protocol of each variant: the order of the writes, the accesses that they pair with, and
//! why no available CPU is missed.

mod cpu_mask;
mod cpu_order;
mod levels;
#[cfg(all(test, loom))]
mod loom_tests;
mod occupied;
mod per_llc;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use coreshard_platform::ByteAtomics;
use coreshard_topology::{CpuId, CpuSet, Topology, input::quoted};

use crate::error::RtError;
use crate::level::Level;
pub use cpu_mask::{CpuMask, MAX_INDEX_CPUS};
use cpu_order::CpuOrder;
use levels::{LevelMask, Levels, Packed, PaddedLevels, Split};
use occupied::Occupied;
use per_llc::PerLlc;

/// The layout of a priority index. The oldest variant comes first.
///
/// | variant | layout | own bytes on 480 CPUs | lines written by `set` | lines read by `find` |
/// |---|---|---|---|---|
/// | packed | count and mask pointer of a level side by side, four levels a line | 1,664 + masks | 4: 2 counts, 2 masks | 3 for each level it visits, including the line of count and pointer |
/// | padded | a level's count and mask pointer on separate lines | 12,928 + masks | 4 | 4 |
/// | split | all counts, then all masks, no pointers | 13,376 | 4 | 3 |
/// | per-llc | a byte for each CPU, grouped by cache, and a summary for each cache | 768 | 1 (and the summary's, if a cache's lowest level falls) | 1 for each 64 allowed CPUs, after a summary |
///
/// The three variants with masks also read, and rarely write, the line of occupied levels. The masks take two
/// lines for each level, whatever the number of CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rung {
    /// As in the Linux kernel until 2025.
    Packed,
    /// As in the Linux kernel, changed for machines with hundreds of CPUs.
    Padded,
    /// Counts and masks apart.
    Split,
    /// A byte for each CPU, written without a locked instruction.
    #[default]
    PerLlc,
}

impl Rung {
    /// All variants, the oldest first.
    pub const ALL: [Self; 4] = [Self::Packed, Self::Padded, Self::Split, Self::PerLlc];
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Packed => "packed",
            Self::Padded => "padded",
            Self::Split => "split",
            Self::PerLlc => "per-llc",
        })
    }
}

impl FromStr for Rung {
    type Err = RtError;

    fn from_str(text: &str) -> Result<Self, RtError> {
        Self::ALL.into_iter().find(|variant| variant.to_string() == text).ok_or_else(|| {
            RtError::new(format!(
                "invalid variant of the priority index {}: expected packed, padded, split or per-llc",
                quoted(text)
            ))
        })
    }
}

/// The levels at which a set of CPUs runs.
///
/// Every CPU has one [`LevelWriter`], and only its owner sets the CPU's level. Any thread may search for the
/// CPU at the lowest level. A search takes no lock, and its cost is independent of the number of levels.
/// After the kernel's `cpupri` (kernel/sched/cpupri.c).
///
/// ```
/// use coreshard_platform::Host;
/// use coreshard_rt::{Level, Priority, PriorityIndex, Rung};
/// use coreshard_topology::Topology;
///
/// let machine = Topology::from_synthetic("pack:1 l3:2 core:2 pu:1")?;
/// let (index, mut writers) = PriorityIndex::<Host>::new(Rung::PerLlc, &machine, machine.online())?;
/// for (writer, priority) in writers.iter_mut().zip([80, 20, 50, 20]) {
///     writer.set(Priority::new(priority)?.into());
/// }
/// let mask = index.mask(&"0,2-3".parse()?)?;
/// let near = coreshard_topology::CpuId(0);
/// let (cpu, level) = index.find(Priority::new(60)?.into(), &mask, near).expect("two are lower");
/// assert_eq!((cpu.0, level.get()), (3, 20));
/// assert_eq!(index.find(Priority::new(20)?.into(), &mask, near), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PriorityIndex<P: ByteAtomics> {
    variant: Rung,
    order: CpuOrder,
    layout: AnyLayout<P>,
}

#[derive(Debug)]
enum AnyLayout<P: ByteAtomics> {
    Packed(Levels<P, Packed<P>>),
    Padded(Levels<P, PaddedLevels<P>>),
    Split(Levels<P, Split<P>>),
    PerLlc(PerLlc<P>),
}

/// Sets the level of one CPU. Each CPU has one, so its level has a single writer.
///
/// Dropping it removes the CPU from the index.
#[derive(Debug)]
pub struct LevelWriter<P: ByteAtomics> {
    index: Arc<PriorityIndex<P>>,
    position: usize,
    group: usize,
    level: Option<Level>,
}

impl<P: ByteAtomics> PriorityIndex<P> {
    /// Creates an index over `cpus`, and the level writer of each, in the order of the set.
    ///
    /// All CPUs are idle.
    ///
    /// # Errors
    /// If there is no CPU, more than [`MAX_INDEX_CPUS`], or one that is not online.
    pub fn new(
        variant: Rung,
        topology: &Topology,
        cpus: &CpuSet,
    ) -> Result<(Arc<Self>, Vec<LevelWriter<P>>), RtError> {
        let order = CpuOrder::new(topology, cpus)?;
        let number = order.len();
        let layout = match variant {
            Rung::Packed => AnyLayout::Packed(Levels::new(Packed::new(), number)),
            Rung::Padded => AnyLayout::Padded(Levels::new(PaddedLevels::new(), number)),
            Rung::Split => AnyLayout::Split(Levels::new(Split::new(), number)),
            Rung::PerLlc => AnyLayout::PerLlc(PerLlc::new(&order)),
        };
        let index = Arc::new(Self { variant, order, layout });
        let writers = cpus.iter().filter_map(|cpu| {
            let position = index.order.position_of(cpu)?;
            let group = index.order.group_of(position);
            let mut writer =
                LevelWriter { index: Arc::clone(&index), position, group, level: None };
            writer.set(Level::IDLE);
            Some(writer)
        });
        let writers = writers.collect();
        Ok((index, writers))
    }

    /// Returns the layout.
    pub const fn rung(&self) -> Rung {
        self.variant
    }

    /// Returns the CPUs.
    pub fn cpus(&self) -> &CpuSet {
        self.order.set()
    }

    /// Returns the size in bytes, without the table of CPU positions, which is never written.
    pub fn bytes(&self) -> usize {
        let masks = Level::COUNT * size_of::<LevelMask<P>>();
        let occupied = size_of::<Occupied<P>>();
        match &self.layout {
            AnyLayout::Packed(_) => size_of::<Packed<P>>() + masks + occupied,
            AnyLayout::Padded(_) => size_of::<PaddedLevels<P>>() + masks + occupied,
            AnyLayout::Split(_) => size_of::<Split<P>>() + occupied,
            AnyLayout::PerLlc(groups) => groups.bytes(),
        }
    }

    /// Creates a set of CPUs in the form that a search takes.
    ///
    /// # Errors
    /// If a CPU is not in this index, or if the set is empty.
    pub fn mask(&self, cpus: &CpuSet) -> Result<CpuMask, RtError> {
        if cpus.is_empty() {
            return Err(RtError::no_cpu());
        }
        let mut mask = CpuMask::EMPTY;
        for cpu in cpus {
            match self.order.position_of(cpu) {
                Some(position) => mask.add(position),
                None => return Err(RtError::outside_cpus(&(cpus - self.cpus()), self.cpus())),
            }
        }
        Ok(mask)
    }

    /// Returns an error for a mask that this index cannot have created. A mask of another index with as many
    /// CPUs is not detected.
    pub(crate) fn check(&self, mask: &CpuMask) -> Result<(), RtError> {
        if mask.is_empty() {
            return Err(RtError::no_cpu());
        }
        if !mask.is_within(self.order.len()) {
            return Err(RtError::new(format!(
                "the CPU mask belongs to another index and has CPUs that this one lacks: expected \
                 a mask created by the executor's index, of CPUs {}",
                self.cpus()
            )));
        }
        Ok(())
    }

    /// Returns whether a mask contains a CPU.
    #[inline]
    pub fn is_allowed(&self, mask: &CpuMask, cpu: CpuId) -> bool {
        self.order.position_of(cpu).is_some_and(|position| mask.has(position))
    }

    /// Returns the CPUs of a mask of this index.
    pub fn cpus_of(&self, mask: &CpuMask) -> CpuSet {
        mask.iter().filter_map(|position| self.order.cpus().get(position).copied()).collect()
    }

    /// Returns the CPU of `allowed` at the lowest level below `below`, and that level.
    ///
    /// Among several CPUs it is `near` itself, or one of the same cache, if possible.
    ///
    /// A CPU that was at such a level before the call, and is at most raised to another such level meanwhile,
    /// is never missed. A CPU whose level falls during the search may be missed, since the search has passed
    /// that level. (The variant per-llc misses it only if it was not below `below` before.)
    #[inline]
    pub fn find(&self, below: Level, allowed: &CpuMask, near: CpuId) -> Option<(CpuId, Level)> {
        let near = self.order.position_of(near).unwrap_or(0);
        if let AnyLayout::PerLlc(groups) = &self.layout {
            let (level, position) = groups.find_one(below, allowed, near, &self.order)?;
            return Some((self.order.cpus()[position], level));
        }
        let (level, found) = self.search(below, allowed)?;
        Some((self.order.cpus()[self.order.nearest(&found, near)?], level))
    }

    /// Returns all CPUs of `allowed` at the lowest level below `below`, and that level.
    ///
    /// The guarantees are the same as for [`find`](Self::find).
    #[inline]
    pub fn find_all(&self, below: Level, allowed: &CpuMask) -> Option<(CpuMask, Level)> {
        self.search(below, allowed).map(|(level, found)| (found, level))
    }

    #[inline]
    fn search(&self, below: Level, allowed: &CpuMask) -> Option<(Level, CpuMask)> {
        match &self.layout {
            AnyLayout::Packed(levels) => levels.find(below, allowed),
            AnyLayout::Padded(levels) => levels.find(below, allowed),
            AnyLayout::Split(levels) => levels.find(below, allowed),
            AnyLayout::PerLlc(groups) => groups.find(below, allowed),
        }
    }

    #[inline]
    fn set(&self, group: usize, position: usize, old: Option<Level>, new: Option<Level>) {
        match &self.layout {
            AnyLayout::Packed(levels) => levels.set(position, old, new),
            AnyLayout::Padded(levels) => levels.set(position, old, new),
            AnyLayout::Split(levels) => levels.set(position, old, new),
            AnyLayout::PerLlc(groups) => groups.set(group, position, old, new),
        }
    }
}

impl<P: ByteAtomics> LevelWriter<P> {
    /// Returns the CPU.
    pub fn cpu(&self) -> CpuId {
        self.index.order.cpus()[self.position]
    }

    /// Returns whether a mask contains the CPU.
    pub(crate) fn is_in(&self, mask: &CpuMask) -> bool {
        mask.has(self.position)
    }

    /// Returns the level that was set last; `None` if the CPU is not in the index.
    pub const fn level(&self) -> Option<Level> {
        self.level
    }

    /// Sets the CPU's level.
    ///
    /// After a *lower* level than before, the caller's next accesses are ordered after it. If another thread
    /// publishes something, executes a fence and searches, then either it finds this CPU, or this CPU sees
    /// the publication.
    #[inline]
    pub fn set(&mut self, level: Level) {
        if self.level != Some(level) {
            self.index.set(self.group, self.position, self.level, Some(level));
            self.level = Some(level);
        }
    }

    /// Removes the CPU from the index, for example when it goes offline, until the next [`set`](Self::set).
    pub fn withdraw(&mut self) {
        if self.level.is_some() {
            self.index.set(self.group, self.position, self.level, None);
            self.level = None;
        }
    }
}

impl<P: ByteAtomics> Drop for LevelWriter<P> {
    fn drop(&mut self) {
        self.withdraw();
    }
}
