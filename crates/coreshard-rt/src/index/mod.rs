//! The priority index: which level each CPU runs at, and the CPU that runs the least important work.
//!
//! `README.md` tells the protocol of each variant: what is written in which order, which order of whose
//! it pairs with, and why a CPU that is there is never missed.

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

/// How a priority index is laid out: the oldest variant first.
///
/// | variant | layout | own bytes on 480 CPUs | lines written by `set` | lines read by `find` |
/// |---|---|---|---|---|
/// | packed | count and mask pointer of a level side by side, four levels a line | 1,664 + masks | 4: 2 counts, 2 masks | 3 for each level it looks at, that with the count and pointer among them |
/// | padded | a level's count and mask pointer on lines of their own | 12,928 + masks | 4 | 4 |
/// | split | all counts, then all masks, no pointers | 13,376 | 4 | 3 |
/// | per-llc | a byte for each CPU, grouped by cache, and a summary for each cache | 768 | 1 (and the summary's, if a cache's lowest level falls) | 1 for each 64 allowed CPUs, after a summary |
///
/// The three with masks also read, and seldom write, the line of occupied levels. The masks take two
/// lines for each level whatever the number of CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rung {
    /// As the Linux kernel had it.
    Packed,
    /// As the Linux kernel has it for machines with hundreds of CPUs.
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
                "{} is no variant of the priority index; there are packed, padded, split and per-llc",
                quoted(text)
            ))
        })
    }
}

/// Which level each of some CPUs runs at.
///
/// Every CPU has one [`LevelWriter`], whose owner alone sets its level. Anybody may ask for
/// the CPU that runs at the lowest level: that takes no lock, and is independent of the number of
/// levels. After the kernel's `cpupri` (kernel/sched/cpupri.c).
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

/// Writes the level of one CPU. There is one for each CPU, so a CPU's level has a single writer; dropped, it
/// takes its CPU out of the index.
#[derive(Debug)]
pub struct LevelWriter<P: ByteAtomics> {
    index: Arc<PriorityIndex<P>>,
    position: usize,
    group: usize,
    level: Option<Level>,
}

impl<P: ByteAtomics> PriorityIndex<P> {
    /// An index over `cpus`, and the level writer of each, in the order of the set. All are idle.
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

    /// Its layout.
    pub const fn rung(&self) -> Rung {
        self.variant
    }

    /// Its CPUs.
    pub fn cpus(&self) -> &CpuSet {
        self.order.set()
    }

    /// The bytes it takes, without what says where each CPU stands, which is never written.
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

    /// A set of CPUs in the form that a search takes.
    ///
    /// # Errors
    /// If a CPU is not of this index, or there is none.
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

    /// Says what is wrong with a mask that this index may not have made. (One of another index of as
    /// many CPUs cannot be told from one of its own.)
    pub(crate) fn check(&self, mask: &CpuMask) -> Result<(), RtError> {
        if mask.is_empty() {
            return Err(RtError::no_cpu());
        }
        if !mask.is_within(self.order.len()) {
            return Err(RtError::new(format!(
                "the CPU mask is of another index, and has CPUs that this one has not; allowed are \
                 masks that the executor's own index makes, of CPUs {}",
                self.cpus()
            )));
        }
        Ok(())
    }

    /// Whether a CPU is among those of a mask.
    #[inline]
    pub fn is_allowed(&self, mask: &CpuMask, cpu: CpuId) -> bool {
        self.order.position_of(cpu).is_some_and(|position| mask.has(position))
    }

    /// The CPUs of a mask of this index.
    pub fn cpus_of(&self, mask: &CpuMask) -> CpuSet {
        mask.iter().filter_map(|position| self.order.cpus().get(position).copied()).collect()
    }

    /// The CPU of `allowed` that runs at the lowest level below `below`, and that level. Among
    /// several it is `near` itself, or one of its cache, if they are among them.
    ///
    /// A CPU that was at such a level before the call, and is at most raised to another one meanwhile,
    /// is never missed. One that comes down meanwhile may be: the levels it passes have been looked
    /// at. (The variant per-llc misses it only if it was not below `below` before.)
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

    /// All CPUs of `allowed` that run at the lowest level below `below`, and that level; as
    /// [`find`](Self::find).
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
    /// The CPU.
    pub fn cpu(&self) -> CpuId {
        self.index.order.cpus()[self.position]
    }

    /// Returns whether the CPU is among those of a mask.
    pub(crate) fn is_in(&self, mask: &CpuMask) -> bool {
        mask.has(self.position)
    }

    /// The level that was said last; `None` if the CPU is out of the index.
    pub const fn level(&self) -> Option<Level> {
        self.level
    }

    /// Says that the CPU runs at `level` from now on.
    ///
    /// After a *lower* level than before, what the caller does next is ordered after it: whoever
    /// publishes something, and then searches with a fence in between, finds this CPU, or what was
    /// published is seen here.
    #[inline]
    pub fn set(&mut self, level: Level) {
        if self.level != Some(level) {
            self.index.set(self.group, self.position, self.level, Some(level));
            self.level = Some(level);
        }
    }

    /// Takes the CPU out of the index, as one that goes offline, until the next
    /// [`set`](Self::set).
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
