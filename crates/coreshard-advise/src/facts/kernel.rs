//! The kernel's version, and whether the machine is virtual.

use std::fmt;
use std::str::FromStr;

use coreshard_topology::input;
use serde::Serialize;

use super::parse_error::ParseSettingError;
use crate::tree::Tree;

/// The kernel and its environment.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct KernelFacts {
    /// The release as printed by `uname -r`.
    pub release: Option<String>,
    /// The first two numbers of the release.
    pub version: Option<KernelVersion>,
    /// Whether the version was assumed and not read.
    pub is_assumed: bool,
    /// Whether a hypervisor is visible. Caches and nodes are then as it reports them.
    pub is_virtual: bool,
}

/// The first two numbers of a kernel release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub struct KernelVersion {
    major: u16,
    minor: u16,
}

impl KernelVersion {
    /// Creates a version from its numbers.
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

    /// Parses the beginning of a release: `6.18`, `6.18.44-generic`.
    ///
    /// # Errors
    ///
    /// If it does not begin with two numbers of at most 16 bits, separated by a point.
    fn from_str(text: &str) -> Result<Self, ParseSettingError> {
        let read = || {
            let (major, rest) = text.trim().split_once('.')?;
            let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            let is_number = major.bytes().all(|byte| byte.is_ascii_digit());
            let major = major.parse().ok().filter(|_| is_number)?;
            Some(Self { major, minor: rest[..digits].parse().ok()? })
        };
        let expected = "one such as 7.1 or 6.18.44-generic";
        read().ok_or_else(|| ParseSettingError::new("kernel release", text, expected))
    }
}

pub(super) fn read(tree: &Tree) -> KernelFacts {
    // The last two are from sosreports: `Linux HOST 6.18.44 …`.
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
    // Only x86 lists this flag.
    let is_virtual = tree.head("proc/cpuinfo").is_some_and(|info| {
        info.lines().any(|line| {
            line.starts_with("flags") && line.split_whitespace().any(|word| word == "hypervisor")
        })
    });
    KernelFacts { release, version, is_assumed: false, is_virtual }
}
