//! The priority index: which level each CPU runs at, and the CPU that runs the least important work.
//!
//! `README.md` tells the protocol of each rung: what is written in which order, which order of whose
//! it pairs with, and why a CPU that is there is never missed.

mod layout;
mod levels;
#[cfg(all(test, loom))]
mod loom_tests;
mod occupied;
mod per_llc;
mod places;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use coreshard_platform::ByteAtomics;
use coreshard_topology::{CpuId, CpuSet, Topology};

use crate::error::RtError;
use crate::level::Level;
use layout::{Packed, PaddedLevels, Split};
use levels::{Levels, Mask};
use occupied::Occupied;
use per_llc::PerLlc;
use places::Places;
pub use places::{CpuChoice, MAX_INDEX_CPUS};

/// How a priority index is laid out: the ladder *priority index*, the oldest first.
///
/// | rung | layout | own bytes on 480 CPUs | lines written by `set` | lines read by `find` |
/// |---|---|---|---|---|
/// | packed | count and mask pointer of a level side by side, four levels a line | 1,664 + masks | 4: 2 counts, 2 masks | 3 for each level it looks at, that with the count and pointer among them |
/// | padded | a level's count and mask pointer on lines of their own | 12,928 + masks | 4 | 4 |
/// | split | all counts, then all masks, no pointers | 13,376 | 4 | 3 |
/// | per-llc | a byte for each CPU, grouped by cache, and a summary for each cache | 768 | 1 (and the summary's, where a cache's lowest level falls) | 1 for each 64 allowed CPUs, after a summary |
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
    /// All rungs, the oldest first.
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
        Self::ALL
            .into_iter()
            .find(|rung| rung.to_string() == text)
            .ok_or_else(|| RtError::rung(text))
    }
}

/// Which level each of some CPUs runs at.
///
/// Every CPU has one [`Seat`], whose holder alone says at which level it runs. Anybody may ask for
/// the CPU that runs at the lowest level: that takes no lock, and is independent of the number of
/// levels. After the kernel's `cpupri` (kernel/sched/cpupri.c).
///
/// ```
/// use coreshard_platform::Host;
/// use coreshard_rt::{Level, Priority, PriorityIndex, Rung};
/// use coreshard_topology::Topology;
///
/// let machine = Topology::from_synthetic("pack:1 l3:2 core:2 pu:1")?;
/// let (index, mut seats) = PriorityIndex::<Host>::new(Rung::PerLlc, &machine, machine.online())?;
/// for (seat, priority) in seats.iter_mut().zip([80, 20, 50, 20]) {
///     seat.set(Priority::new(priority)?.into());
/// }
/// let choice = index.choice(&"0,2-3".parse()?)?;
/// let near = coreshard_topology::CpuId(0);
/// let (cpu, level) = index.find(Priority::new(60)?.into(), &choice, near).expect("two are lower");
/// assert_eq!((cpu.0, level.get()), (3, 20));
/// assert_eq!(index.find(Priority::new(20)?.into(), &choice, near), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PriorityIndex<P: ByteAtomics> {
    rung: Rung,
    places: Places,
    ladder: Ladder<P>,
}

#[derive(Debug)]
enum Ladder<P: ByteAtomics> {
    Packed(Levels<P, Packed<P>>),
    Padded(Levels<P, PaddedLevels<P>>),
    Split(Levels<P, Split<P>>),
    PerLlc(PerLlc<P>),
}

/// The right to say at which level one CPU runs. There is one for each CPU, so no two threads ever
/// write one CPU's level at once; dropped, it takes its CPU out of the index.
#[derive(Debug)]
pub struct Seat<P: ByteAtomics> {
    index: Arc<PriorityIndex<P>>,
    place: usize,
    group: usize,
    level: Option<Level>,
}

impl<P: ByteAtomics> PriorityIndex<P> {
    /// An index over `cpus`, and the seat of each, in the order of the set. All are without work.
    ///
    /// # Errors
    /// Where there is no CPU, more than [`MAX_INDEX_CPUS`], or one that is not online.
    pub fn new(
        rung: Rung,
        topology: &Topology,
        cpus: &CpuSet,
    ) -> Result<(Arc<Self>, Vec<Seat<P>>), RtError> {
        let places = Places::new(topology, cpus)?;
        let number = places.len();
        let ladder = match rung {
            Rung::Packed => Ladder::Packed(Levels::new(Packed::new(), number)),
            Rung::Padded => Ladder::Padded(Levels::new(PaddedLevels::new(), number)),
            Rung::Split => Ladder::Split(Levels::new(Split::new(), number)),
            Rung::PerLlc => Ladder::PerLlc(PerLlc::new(&places)),
        };
        let index = Arc::new(Self { rung, places, ladder });
        let seats = cpus.iter().filter_map(|cpu| {
            let place = index.places.place_of(cpu)?;
            let group = index.places.group_of(place);
            let mut seat = Seat { index: Arc::clone(&index), place, group, level: None };
            seat.set(Level::IDLE);
            Some(seat)
        });
        let seats = seats.collect();
        Ok((index, seats))
    }

    /// Its layout.
    pub const fn rung(&self) -> Rung {
        self.rung
    }

    /// Its CPUs.
    pub fn cpus(&self) -> &CpuSet {
        self.places.set()
    }

    /// The bytes it takes, without what says where each CPU stands, which is never written.
    pub fn bytes(&self) -> usize {
        let masks = Level::COUNT * size_of::<Mask<P>>();
        let occupied = size_of::<Occupied<P>>();
        match &self.ladder {
            Ladder::Packed(_) => size_of::<Packed<P>>() + masks + occupied,
            Ladder::Padded(_) => size_of::<PaddedLevels<P>>() + masks + occupied,
            Ladder::Split(_) => size_of::<Split<P>>() + occupied,
            Ladder::PerLlc(groups) => groups.bytes(),
        }
    }

    /// A set of CPUs in the form that a search takes.
    ///
    /// # Errors
    /// Where a CPU is not of this index, or there is none.
    pub fn choice(&self, cpus: &CpuSet) -> Result<CpuChoice, RtError> {
        if cpus.is_empty() {
            return Err(RtError::no_cpu());
        }
        let mut choice = CpuChoice::EMPTY;
        for cpu in cpus.iter() {
            match self.places.place_of(cpu) {
                Some(place) => choice.add(place),
                None => return Err(RtError::outside_cpus(&(cpus - self.cpus()), self.cpus())),
            }
        }
        Ok(choice)
    }

    /// Says what is wrong with a choice that this index may not have made. (One of another index of as
    /// many CPUs cannot be told from one of its own.)
    pub(crate) fn check(&self, choice: &CpuChoice) -> Result<(), RtError> {
        if choice.is_empty() {
            return Err(RtError::no_cpu());
        }
        if !choice.is_within(self.places.len()) {
            return Err(RtError::foreign_choice(self.cpus()));
        }
        Ok(())
    }

    /// Whether a CPU is among those of a choice.
    #[inline]
    pub fn is_allowed(&self, choice: &CpuChoice, cpu: CpuId) -> bool {
        self.places.place_of(cpu).is_some_and(|place| choice.has(place))
    }

    /// The CPUs of a choice of this index.
    pub fn cpus_of(&self, choice: &CpuChoice) -> CpuSet {
        choice.iter().filter_map(|place| self.places.cpus().get(place).copied()).collect()
    }

    /// The CPU of `allowed` that runs at the lowest level below `below`, and that level. Among
    /// several it is `near` itself, or one of its cache, where they are among them.
    ///
    /// A CPU that was at such a level before the call, and is at most raised to another one meanwhile,
    /// is never missed. One that comes down meanwhile may be: the levels it passes have been looked
    /// at. (The rung per-llc misses it only if it was not below `below` before.)
    #[inline]
    pub fn find(&self, below: Level, allowed: &CpuChoice, near: CpuId) -> Option<(CpuId, Level)> {
        let near = self.places.place_of(near).unwrap_or(0);
        if let Ladder::PerLlc(groups) = &self.ladder {
            let (level, place) = groups.find_one(below, allowed, near, &self.places)?;
            return Some((self.places.cpus()[place], level));
        }
        let (level, found) = self.search(below, allowed, near)?;
        let place = self.places.nearest(&found, near)?;
        Some((self.places.cpus()[place], level))
    }

    /// All CPUs of `allowed` that run at the lowest level below `below`, and that level; as
    /// [`find`](Self::find).
    #[inline]
    pub fn find_all(&self, below: Level, allowed: &CpuChoice) -> Option<(CpuChoice, Level)> {
        self.search(below, allowed, 0).map(|(level, found)| (found, level))
    }

    #[inline]
    fn search(&self, below: Level, allowed: &CpuChoice, near: usize) -> Option<(Level, CpuChoice)> {
        match &self.ladder {
            Ladder::Packed(levels) => levels.find(below, allowed),
            Ladder::Padded(levels) => levels.find(below, allowed),
            Ladder::Split(levels) => levels.find(below, allowed),
            Ladder::PerLlc(groups) => groups.find(below, allowed, self.places.group_of(near)),
        }
    }

    #[inline]
    fn set(&self, group: usize, place: usize, old: Option<Level>, new: Option<Level>) {
        match &self.ladder {
            Ladder::Packed(levels) => levels.set(place, old, new),
            Ladder::Padded(levels) => levels.set(place, old, new),
            Ladder::Split(levels) => levels.set(place, old, new),
            Ladder::PerLlc(groups) => groups.set(group, place, old, new),
        }
    }
}

impl<P: ByteAtomics> Seat<P> {
    /// The CPU.
    pub fn cpu(&self) -> CpuId {
        self.index.places.cpus()[self.place]
    }

    /// The level that was said last; `None` where the CPU is out of the index.
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
            self.index.set(self.group, self.place, self.level, Some(level));
            self.level = Some(level);
        }
    }

    /// Takes the CPU out of the index, as one that goes offline, until the next
    /// [`set`](Self::set).
    pub fn withdraw(&mut self) {
        if self.level.is_some() {
            self.index.set(self.group, self.place, self.level, None);
            self.level = None;
        }
    }
}

impl<P: ByteAtomics> Drop for Seat<P> {
    fn drop(&mut self) {
        self.withdraw();
    }
}
