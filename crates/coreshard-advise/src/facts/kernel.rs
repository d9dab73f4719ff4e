//! The kernel's version, and whether it runs on a virtual machine.

use std::fmt;
use std::str::FromStr;

use coreshard_topology::input;
use serde::Serialize;

use super::parse_error::ParseSettingError;
use crate::tree::Tree;

/// The kernel, and what it runs on.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct KernelFacts {
    /// As `uname -r` says it.
    pub release: Option<String>,
    /// Its first two numbers.
    pub version: Option<KernelVersion>,
    /// Whether the version was not read but asked for.
    pub is_assumed: bool,
    /// Whether a hypervisor shows itself: caches and nodes are then what it says they are.
    pub is_virtual: bool,
}

/// The first two numbers of a kernel's release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub struct KernelVersion {
    major: u16,
    minor: u16,
}

impl KernelVersion {
    /// A version by its numbers.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl From<KernelVersion> for String {
    fn from(version: KernelVersion) -> Self {
        version.to_string()
    }
}

impl FromStr for KernelVersion {
    type Err = ParseSettingError;

    /// Reads the beginning of a release: `6.18`, `6.18.44-generic`.
    ///
    /// # Errors
    /// If it does not begin with two numbers of at most 16 bits, parted by a point.
    fn from_str(text: &str) -> Result<Self, ParseSettingError> {
        let read = || {
            let (major, rest) = text.trim().split_once('.')?;
            let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            let is_number = major.bytes().all(|byte| byte.is_ascii_digit());
            let major = major.parse().ok().filter(|_| is_number)?;
            Some(Self { major, minor: rest[..digits].parse().ok()? })
        };
        let expected = "no kernel's release; give one such as 7.1 or 6.18.44-generic";
        read().ok_or_else(|| ParseSettingError::new(text, expected))
    }
}

pub(super) fn read(tree: &Tree) -> KernelFacts {
    // The last two are where sosreports have it: `Linux HOST 6.18.44 …`.
    let third = |name: &str| tree.word(name)?.split_whitespace().nth(2).map(str::to_owned);
    let release = tree
        .word("proc/sys/kernel/osrelease")
        .or_else(|| third("proc/version"))
        .or_else(|| third("uname"))
        .or_else(|| third("sos_commands/kernel/uname_-a"))
        .map(|it| input::plain(&it));
    let version = release.as_ref().and_then(|release| match release.parse() {
        Ok(version) => Some(version),
        Err(error) => {
            tree.note(error);
            None
        }
    });
    // The first processor's flags tell it; other architectures have no such word.
    let is_virtual = tree.head("proc/cpuinfo").is_some_and(|info| {
        info.lines().any(|line| {
            line.starts_with("flags") && line.split_whitespace().any(|word| word == "hypervisor")
        })
    });
    KernelFacts { release, version, is_assumed: false, is_virtual }
}
