//! The types and attributes of levels.

use std::fmt;

/// The contents of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheHolds {
    Unified,
    Data,
    Instructions,
}

/// The type of a level's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Machine,
    Package,
    Die,
    Group,
    Numa,
    Cache { level: u32, holds: CacheHolds },
    Core,
    Pu,
}

impl Type {
    /// Parses a name as hwloc does: in any case, and shortened as long as it is unambiguous.
    pub(super) fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let short_for =
            |full: &str, least: usize| name.len() >= least && full.starts_with(name.as_str());
        let words: [(&str, usize, Self); 10] = [
            ("machine", 2, Self::Machine),
            ("package", 2, Self::Package),
            ("socket", 2, Self::Package),
            ("die", 2, Self::Die),
            ("tile", 4, Self::Group),
            ("module", 6, Self::Group),
            ("numanode", 2, Self::Numa),
            ("node", 1, Self::Numa),
            ("core", 2, Self::Core),
            ("pu", 2, Self::Pu),
        ];
        if let Some((_, _, found)) = words.iter().find(|(full, least, _)| short_for(full, *least)) {
            return Some(*found);
        }
        let group = name.trim_end_matches(|c: char| c.is_ascii_digit());
        if group.len() >= 2 && "group".starts_with(group) {
            return Some(Self::Group);
        }
        Self::cache(&name)
    }

    /// Parses `l` LEVEL [`u`|`d`|`i`] [`cache`, shortened].
    fn cache(name: &str) -> Option<Self> {
        let rest = name.strip_prefix('l')?;
        let level = rest.chars().next()?.to_digit(10)?;
        let rest = &rest[1..];
        let (holds, rest) = match rest.chars().next() {
            Some('u') => (CacheHolds::Unified, &rest[1..]),
            Some('d') => (CacheHolds::Data, &rest[1..]),
            Some('i') => (CacheHolds::Instructions, &rest[1..]),
            _ => (CacheHolds::Unified, rest),
        };
        let highest = if holds == CacheHolds::Instructions { 3 } else { 5 };
        let known = (1..=highest).contains(&level) && "cache".starts_with(rest);
        known.then_some(Self::Cache { level, holds })
    }

    pub(super) const fn is_cache(self) -> bool {
        matches!(self, Self::Cache { .. })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Machine => "machine",
            Self::Package => "package",
            Self::Die => "die",
            Self::Group => "group",
            Self::Numa => "numa",
            Self::Core => "core",
            Self::Pu => "pu",
            Self::Cache { level, holds } => {
                let suffix = if *holds == CacheHolds::Instructions { "i" } else { "" };
                return write!(f, "l{level}{suffix}");
            }
        };
        f.write_str(word)
    }
}

/// The attributes in parentheses after a level.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    pub(super) size_bytes: Option<u64>,
    /// The text of `indexes=` and its position.
    pub(super) indexes: Option<(String, usize)>,
}

/// One level of a description.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) kind: Type,
    /// The number of objects in the whole machine.
    pub(super) width: usize,
    /// Whether the type is omitted.
    pub(super) is_bare: bool,
    pub(super) attributes: Attributes,
    /// The number of NUMA nodes attached to each object.
    pub(super) attached: usize,
    /// Its byte offset in the text.
    pub(super) at: usize,
}

/// A description with all types known. The first level is the machine, the last `pu`.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) text: String,
    pub(super) levels: Vec<Level>,
    /// `indexes=` of the attached NUMA nodes. The last one applies to all.
    pub(super) attached_indexes: Option<(String, usize)>,
}

impl Machine {
    pub(super) fn level(&self, kind: Type) -> Option<&Level> {
        self.levels.iter().find(|level| level.kind == kind)
    }

    /// Returns the level of the last-level cache: the highest that holds data, unified ones first.
    pub(super) fn last_cache(&self) -> Option<&Level> {
        let rank = |level: &Level| match level.kind {
            Type::Cache { level, holds: CacheHolds::Unified } => Some((1, level)),
            Type::Cache { level, holds: CacheHolds::Data } => Some((0, level)),
            _ => None,
        };
        self.levels.iter().filter(|level| rank(level).is_some()).max_by_key(|level| rank(level))
    }

    /// Returns the level of caches that hold data.
    pub(super) fn data_cache(&self, wanted: u32) -> Option<&Level> {
        self.levels.iter().find(|level| match level.kind {
            Type::Cache { level, holds } => level == wanted && holds != CacheHolds::Instructions,
            _ => false,
        })
    }

    /// Returns the number of CPUs.
    pub(super) fn cpus(&self) -> usize {
        self.levels.last().map_or(0, |pu| pu.width)
    }
}
