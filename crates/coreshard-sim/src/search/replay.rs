//! The name of a run of a search, which reproduces it.

use std::fmt;
use std::str::FromStr;

use coreshard_topology::input::quoted;

/// The version of the search. It is incremented whenever the meaning of a seed changes: how plans and trials
/// are drawn, or how the engine makes random decisions. (A change of the runtime or of a machine also changes
/// runs; the trace reveals that.)
const VERSION: u32 = 3;

/// Names a run of a search: `VERSION-SEED-TRACE`, as in `3-42-9f3a6c01d2e4b587`.
///
/// The last part is the run's trace hash, if it is known. A replay that ends with another hash is not the
/// same run: the code or the machine differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaySeed {
    /// The seed.
    pub seed: u64,
    /// The trace hash of the run that failed.
    pub trace_hash: Option<u64>,
}

impl ReplaySeed {
    /// Creates the name of a run of this version.
    #[must_use]
    pub const fn new(seed: u64, trace_hash: Option<u64>) -> Self {
        Self { seed, trace_hash }
    }
}

impl fmt::Display for ReplaySeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}-{}", self.seed)?;
        self.trace_hash.map_or(Ok(()), |hash| write!(f, "-{hash:016x}"))
    }
}

/// The error when a text does not name a run of this search.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseReplaySeedError(String);

impl fmt::Display for ParseReplaySeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

coreshard_topology::readable_debug!(ParseReplaySeedError);

impl std::error::Error for ParseReplaySeedError {}

impl FromStr for ReplaySeed {
    type Err = ParseReplaySeedError;

    fn from_str(text: &str) -> Result<Self, ParseReplaySeedError> {
        let given = quoted(text);
        let wrong = || {
            ParseReplaySeedError(format!(
                "invalid replay seed {given}: expected a text such as {VERSION}-42 or \
                 {VERSION}-42-9f3a6c01d2e4b587, as a search prints it"
            ))
        };
        let parts: Vec<&str> = text.trim().split('-').collect();
        let [version, seed, trace_hash @ ..] = &parts[..] else { return Err(wrong()) };
        let version: u32 = version.parse().map_err(|_| wrong())?;
        let seed = seed.parse().map_err(|_| wrong())?;
        if version != VERSION {
            return Err(ParseReplaySeedError(format!(
                "the seed {given} is of version {version} of the search, and this is version \
                 {VERSION}, in which it means another run: replay it with the program that printed it"
            )));
        }
        let trace_hash = match trace_hash {
            [] => None,
            [hash] => Some(u64::from_str_radix(hash, 16).map_err(|_| wrong())?),
            _ => return Err(wrong()),
        };
        Ok(Self { seed, trace_hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_read_as_it_is_written() {
        for seed in [ReplaySeed::new(42, None), ReplaySeed::new(u64::MAX, Some(7))] {
            assert_eq!(seed.to_string().parse(), Ok(seed));
        }
    }

    #[test]
    fn a_seed_of_another_version_and_a_text_that_is_none_are_told_apart() {
        let error = |text: &str| text.parse::<ReplaySeed>().unwrap_err().to_string();
        assert!(error("7-42").contains("is of version 7 of the search, and this is version 3"));
        assert!(error("0-42-00ff").contains("is of version 0"));
        for text in ["", "42", "3-", "3-x", "3-42-xyz", "3-42-7-8", "one-42"] {
            assert!(error(text).contains("invalid replay seed"), "{text}");
        }
    }
}
