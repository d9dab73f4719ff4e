//! The affinity scopes.

use std::fmt;
use std::str::FromStr;

use crate::input::quoted;

/// Which CPUs share a pool, from the finest to the coarsest scope.
///
/// The six scopes are the same as in Linux workqueues (`Documentation/core-api/workqueue.rst`,
/// "Affinity Scopes"); `cache_shard` joined them in Linux 7.1. Each scope's pods lie within the pods
/// of every coarser one; see [`Pods`](crate::Pods).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Each CPU by itself.
    Cpu,
    /// The CPUs of one core.
    Smt,
    /// A part of one last-level cache with a configurable number of cores. The default.
    #[default]
    CacheShard,
    /// The CPUs of one last-level cache.
    Cache,
    /// The CPUs of one NUMA node.
    Numa,
    /// All CPUs.
    System,
}

impl Scope {
    /// All scopes, finest first.
    pub const ALL: [Self; 6] =
        [Self::Cpu, Self::Smt, Self::CacheShard, Self::Cache, Self::Numa, Self::System];

    /// Returns the name in options and files, such as `"cache_shard"`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Smt => "smt",
            Self::CacheShard => "cache_shard",
            Self::Cache => "cache",
            Self::Numa => "numa",
            Self::System => "system",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scope {
    type Err = ParseScopeError;

    /// # Errors
    ///
    /// If the text is not one of the six names.
    fn from_str(text: &str) -> Result<Self, ParseScopeError> {
        let found = Self::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            ParseNameError::new(format!(
                "invalid affinity scope {}: expected {names}",
                quoted(text)
            ))
        })
    }
}

/// The error of parsing a [`Scope`].
pub type ParseScopeError = ParseNameError;

/// An unknown name. The message lists the known ones.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseNameError {
    text: String,
}

impl ParseNameError {
    /// Creates an error with this message, for a type whose values have names.
    ///
    /// ```
    /// let error = coreshard_topology::ParseNameError::new("invalid taste \"red\": expected sweet");
    /// assert_eq!(error.to_string(), "invalid taste \"red\": expected sweet");
    /// ```
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

impl fmt::Display for ParseNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

crate::readable_debug!(ParseNameError);

impl std::error::Error for ParseNameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_in_order_from_fine_to_coarse() {
        let names: Vec<String> = Scope::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["cpu", "smt", "cache_shard", "cache", "numa", "system"]);
        for scope in Scope::ALL {
            assert_eq!(scope.name().parse(), Ok(scope));
        }
        assert!(Scope::ALL.is_sorted());
        let error = "cache-shard".parse::<Scope>().unwrap_err().to_string();
        assert!(error.contains("\"cache-shard\"") && error.contains("cache_shard"), "{error}");
    }
}
