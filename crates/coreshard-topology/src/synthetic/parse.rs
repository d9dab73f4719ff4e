//! Parses a description into levels.

use std::fmt::Display;

use super::level::{Attributes, CacheHolds, Level, Machine, Type};
use crate::input::{DESCRIPTION_BYTES, NODES, quoted};
use crate::{MAX_CPU, TopologyError};

/// As many levels as hwloc allows.
const MAX_LEVELS: usize = 128;

/// The types of levels, for messages.
const TYPES: &str = "package, die, group, numa, l1 to l5, l1i to l3i, core, pu";

/// Parses a description and determines the type of each level.
pub(super) fn machine(text: &str) -> Result<Machine, TopologyError> {
    Parser { text, at: 0 }.machine()
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn machine(mut self) -> Result<Machine, TopologyError> {
        if self.text.len() > DESCRIPTION_BYTES {
            return Err(self.fail_at(0, format!("expected at most {DESCRIPTION_BYTES} bytes")));
        }
        let mut root = Self::root();
        self.skip_blanks();
        if self.peek() == Some('(') {
            root.attributes = self.attributes(Type::Machine)?;
        }
        let mut levels = vec![root];
        let mut attached_indexes = None;
        let mut nodes = 0;
        loop {
            self.skip_blanks();
            match self.peek() {
                None => break,
                Some('[') => {
                    let at = self.at;
                    let indexes = self.attached()?;
                    attached_indexes = indexes.or(attached_indexes);
                    if let Some(level) = levels.last_mut() {
                        level.attached += 1;
                        nodes += level.width;
                    }
                    if nodes > NODES {
                        return Err(
                            self.fail_at(at, format!("expected at most {NODES} NUMA nodes"))
                        );
                    }
                }
                Some(_) => {
                    let above = levels.last().map_or(1, |level| level.width);
                    if levels.len() >= MAX_LEVELS {
                        return Err(
                            self.fail_at(self.at, format!("expected at most {MAX_LEVELS} levels"))
                        );
                    }
                    levels.push(self.level(above)?);
                }
            }
        }
        self.choose_types(&mut levels)?;
        let mut machine = Machine { text: self.text.to_owned(), levels, attached_indexes };
        self.check(&machine)?;
        if machine.levels.iter().all(|level| level.kind != Type::Numa && level.attached == 0) {
            let mut numa = Self::root();
            numa.kind = Type::Numa;
            machine.levels.insert(1, numa);
        }
        Ok(machine)
    }

    fn root() -> Level {
        Level {
            kind: Type::Machine,
            width: 1,
            is_bare: false,
            attributes: Attributes::default(),
            attached: 0,
            at: 0,
        }
    }

    /// Parses `TYPE:COUNT(…)` or `COUNT(…)`, below `above` objects.
    fn level(&mut self, above: usize) -> Result<Level, TopologyError> {
        let at = self.at;
        let is_bare = self.peek().is_some_and(|c| c.is_ascii_digit());
        let kind = if is_bare { Type::Pu } else { self.type_name()? };
        if !is_bare {
            let problem = "unexpected machine: start with its first level";
            self.require(kind != Type::Machine, at, problem)?;
            if !self.take(':') {
                return Err(self.fail(format!("expected ':' and the number of {kind} objects")));
            }
        }
        let count_at = self.at;
        let count = self.number("the number of objects")?;
        self.require(count > 0, count_at, "the number of objects must be at least 1")?;
        let most = MAX_CPU.index() + 1;
        let width = usize::try_from(count).ok().and_then(|count| above.checked_mul(count));
        let width = width
            .filter(|width| *width <= most)
            .ok_or_else(|| self.fail_at(count_at, format!("expected at most {most} objects")))?;
        let mut level = Level { kind, width, is_bare, at, ..Self::root() };
        if self.peek() == Some('(') {
            level.attributes = self.attributes(kind)?;
        }
        Ok(level)
    }

    /// Parses `[numa]` or `[numa(…)]` and returns its `indexes=`.
    fn attached(&mut self) -> Result<Option<(String, usize)>, TopologyError> {
        self.take('[');
        self.skip_blanks();
        let at = self.at;
        let is_numa = self.type_name()? == Type::Numa;
        self.require(is_numa, at, "only numa can be attached in brackets")?;
        self.skip_blanks();
        let indexes =
            if self.peek() == Some('(') { self.attributes(Type::Numa)?.indexes } else { None };
        self.skip_blanks();
        let is_closed = self.take(']');
        self.require(is_closed, self.at, "expected ']' after the attached numa")?;
        Ok(indexes)
    }

    fn type_name(&mut self) -> Result<Type, TopologyError> {
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let name = &rest[..length];
        let kind = Type::named(name).ok_or_else(|| {
            let found =
                if name.is_empty() { rest.chars().take(1).collect() } else { name.to_owned() };
            self.fail(format!("unknown level type {}: expected one of {TYPES}", quoted(&found)))
        })?;
        self.at += length;
        Ok(kind)
    }

    /// Parses `(NAME=VALUE NAME=VALUE …)`.
    fn attributes(&mut self, of: Type) -> Result<Attributes, TopologyError> {
        let open = self.at;
        self.take('(');
        let mut found = Attributes::default();
        loop {
            self.skip_blanks();
            if self.take(')') {
                return Ok(found);
            }
            self.require(self.peek().is_some(), open, "expected ')' to close this parenthesis")?;
            let size = if of.is_cache() { "size=" } else { "memory=" };
            if self.take_word(size) {
                found.size_bytes = Some(self.size()?);
            } else if of == Type::Numa && self.take_word("memorysidecachesize=") {
                self.size()?;
            } else if self.take_word("indexes=") {
                let rest = self.rest();
                let length = rest.find([' ', ')', '\n']).unwrap_or(rest.len());
                found.indexes = Some((rest[..length].to_owned(), self.at));
                self.at += length;
            } else {
                return Err(self.fail(format!("expected {size} or indexes= for {of}, or ')'")));
            }
            let is_apart = matches!(self.peek(), Some(' ' | '\n' | ')') | None);
            self.require(is_apart, self.at, "expected a blank or ')' after the attribute")?;
        }
    }

    /// Parses a number of bytes with a unit, as in `32kB`, `1GiB` or `4096`.
    fn size(&mut self) -> Result<u64, TopologyError> {
        let at = self.at;
        let number = self.number("a size in bytes")?;
        let length = self.rest().find(|c: char| !c.is_ascii_alphabetic());
        let length = length.unwrap_or(self.rest().len());
        let unit = self.rest()[..length].to_ascii_lowercase();
        let bytes: u64 = match unit.as_str() {
            "" => 1,
            "kb" => 1_000,
            "kib" => 1 << 10,
            "mb" => 1_000_000,
            "mib" => 1 << 20,
            "gb" => 1_000_000_000,
            "gib" => 1 << 30,
            "tb" => 1_000_000_000_000,
            "tib" => 1 << 40,
            _ => {
                let units = "expected kB, KiB, MB, MiB, GB, GiB, TB and TiB";
                return Err(self.fail(format!("invalid unit of size {}: {units}", quoted(&unit))));
            }
        };
        self.at += length;
        number.checked_mul(bytes).ok_or_else(|| self.fail_at(at, "the size exceeds 64 bits"))
    }

    /// Parses a number in C syntax: decimal, `0x` hexadecimal, or octal after a `0`.
    fn number(&mut self, what: &str) -> Result<u64, TopologyError> {
        let rest = self.rest();
        let (radix, prefix) = match rest.as_bytes() {
            [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, 2),
            [b'0', b'0'..=b'7', ..] => (8, 1),
            _ => (10, 0),
        };
        let digits = &rest[prefix..];
        let length = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        self.require(length > 0, self.at, format_args!("expected {what}"))?;
        let number = u64::from_str_radix(&digits[..length], radix);
        let number = number.map_err(|_| self.fail("the number exceeds 64 bits"))?;
        self.at += prefix + length;
        Ok(number)
    }

    /// Chooses types for bare numbers. Either all levels have a type, or none except `pu`.
    fn choose_types(&self, levels: &mut [Level]) -> Result<(), TopologyError> {
        let [_, levels @ ..] = levels else { return Ok(()) };
        let attached = levels.iter().any(|level| level.attached > 0);
        let Some((_, levels)) = levels.split_last_mut() else {
            let problem = "expected levels, as in \"pack:2 numa:1 l3:1 core:8 pu:2\"";
            return Err(self.fail_at(self.text.len(), problem));
        };
        let bare = levels.iter().filter(|level| level.is_bare).count();
        if let Some(first) = levels.iter().find(|level| level.is_bare) {
            let problem = "either every level names its type, or none does";
            self.require(bare == levels.len(), first.at, problem)?;
            for (level, kind) in levels.iter_mut().zip(usual_types(bare, attached)) {
                level.kind = kind;
            }
        }
        Ok(())
    }

    /// Checks rules across levels.
    fn check(&self, machine: &Machine) -> Result<(), TopologyError> {
        for (place, level) in machine.levels.iter().enumerate() {
            let Level { kind, at, .. } = *level;
            let is_last = place + 1 == machine.levels.len();
            let is_pu = kind == Type::Pu;
            let end = self.text.trim_end().len();
            let problem = "the last level must be pu; add for example \" pu:1\"";
            self.require(!is_last || is_pu, end, problem)?;
            self.require(is_last || !is_pu, at, "pu must be the last level")?;
            let once = matches!(kind, Type::Package | Type::Die | Type::Numa | Type::Core);
            let is_first = machine.level(kind).map(|first| first.at) == Some(at);
            if !is_first && (once || kind.is_cache()) {
                return Err(self.fail_at(at, format!("unexpected second {kind} level")));
            }
            if kind == Type::Numa && level.width > NODES {
                return Err(self.fail_at(at, format!("expected at most {NODES} NUMA nodes")));
            }
            let has_level = machine.level(Type::Numa).is_some();
            let problem = "NUMA nodes are either a level or attached in brackets, not both";
            self.require(level.attached == 0 || !has_level, at, problem)?;
        }
        let Some(core) = machine.level(Type::Core) else { return Ok(()) };
        let last_cache = machine.last_cache().map(|level| level.at);
        for level in &machine.levels {
            let parts_cpus = matches!(level.kind, Type::Package | Type::Numa)
                || level.attached > 0
                || last_cache == Some(level.at);
            let what = if level.attached > 0 { Type::Numa } else { level.kind };
            if parts_cpus && level.width > core.width {
                return Err(
                    self.fail_at(level.at, format!("a core cannot hold several {what} objects"))
                );
            }
        }
        Ok(())
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    fn take_word(&mut self, wanted: &str) -> bool {
        let found = self.rest().starts_with(wanted);
        self.at += if found { wanted.len() } else { 0 };
        found
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\n' | '\t')) {
            self.at += 1;
        }
    }

    fn require(&self, holds: bool, at: usize, problem: impl Display) -> Result<(), TopologyError> {
        if holds { Ok(()) } else { Err(self.fail_at(at, problem)) }
    }

    fn fail(&self, problem: impl Display) -> TopologyError {
        self.fail_at(self.at, problem)
    }

    fn fail_at(&self, at: usize, problem: impl Display) -> TopologyError {
        TopologyError::synthetic(self.text, at, problem)
    }
}

/// Returns the types hwloc gives to `count` bare levels above `pu`. It assigns NUMA nodes first (unless they are
/// attached), then packages, cores, up to four caches (L2, L1, L3, L1i), then groups. The order of levels is groups,
/// package, numa, L3, L2, L1, L1i, core.
fn usual_types(count: usize, numa_is_attached: bool) -> Vec<Type> {
    let unified = |level| Type::Cache { level, holds: CacheHolds::Unified };
    let l1 = Type::Cache { level: 1, holds: CacheHolds::Data };
    let l1i = Type::Cache { level: 1, holds: CacheHolds::Instructions };
    let mut left = count;
    let mut want = |most: usize| {
        let taken = left.min(most);
        left -= taken;
        taken
    };
    let numa = want(usize::from(!numa_is_attached));
    let package = want(1);
    let core = want(1);
    let caches: &[Type] = match want(4) {
        0 => &[],
        1 => &[unified(2)],
        2 => &[unified(2), l1],
        3 => &[unified(3), unified(2), l1],
        _ => &[unified(3), unified(2), l1, l1i],
    };
    let mut types = vec![Type::Group; left];
    types.extend(std::iter::repeat_n(Type::Package, package));
    types.extend(std::iter::repeat_n(Type::Numa, numa));
    types.extend(caches);
    types.extend(std::iter::repeat_n(Type::Core, core));
    types
}
