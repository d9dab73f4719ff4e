//! How shared tags are accounted, and the shares that each policy gives.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use coreshard_topology::ParseNameError;
use coreshard_topology::input::quoted;

/// No active user's limit is below this, as in Linux' `hctx_may_queue` (block/blk-mq.h).
pub(super) const MIN_SHARE: u32 = if cfg!(loom) { 1 } else { 4 };

/// How tags that several devices share are accounted to them. The oldest variant comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TagPolicy {
    /// A device counts its tags in one atomic word beside its limits, as Linux' request queue did. Threads
    /// that read the limits contend with threads that count.
    Packed,
    /// The count has its own lines.
    Padded,
    /// Nothing is counted. Each active device has its own slice of the tags, and `shared_pct` per cent of
    /// them are common to all. The slice is one word, which changes only when a device becomes busy or idle.
    Windowed {
        /// The common part of the tags, in per cent, 0 to 100.
        shared_pct: u8,
    },
    /// Nothing is counted and nothing reserved: first come, first served.
    #[default]
    None,
}

impl TagPolicy {
    /// All variants, the oldest first; the windowed one with half of its tags common.
    pub const ALL: [Self; 4] =
        [Self::Packed, Self::Padded, Self::Windowed { shared_pct: 50 }, Self::None];

    /// Returns the number of common tags if the rest is split into `slices` slices, and a slice's length.
    /// Slices longer than a word of `word_tags` tags are whole words, so that no two share lines.
    pub(super) fn split(self, depth: u32, slices: u32, word_tags: u32) -> (u32, u32) {
        let Self::Windowed { shared_pct } = self else { return (depth, 0) };
        if slices <= 1 {
            return (depth, 0);
        }
        let common = (u64::from(depth) * u64::from(shared_pct.min(100)) / 100) as u32;
        let each = (depth - common) / slices;
        let each = if each >= word_tags { each - each % word_tags } else { each };
        (depth - each * slices, each)
    }
}

impl fmt::Display for TagPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packed => f.pad("packed"),
            Self::Padded => f.pad("padded"),
            Self::Windowed { shared_pct } => f.pad(&format!("windowed:{shared_pct}")),
            Self::None => f.pad("none"),
        }
    }
}

/// The error when a text does not name a [`TagPolicy`].
pub type ParseTagPolicyError = ParseNameError;

impl FromStr for TagPolicy {
    type Err = ParseTagPolicyError;

    fn from_str(text: &str) -> Result<Self, ParseTagPolicyError> {
        match text {
            "packed" => Some(Self::Packed),
            "padded" => Some(Self::Padded),
            "windowed" => Some(Self::Windowed { shared_pct: 50 }),
            "none" => Some(Self::None),
            _ => text
                .strip_prefix("windowed:")
                .and_then(|pct| pct.parse().ok())
                .filter(|pct| *pct <= 100)
                .map(|shared_pct| Self::Windowed { shared_pct }),
        }
        .ok_or_else(|| {
            ParseNameError::new(format!(
                "invalid tag policy {}: expected packed, padded, windowed:PERCENT (0 to 100, the part of the \
                 tags that is common) or none",
                quoted(text)
            ))
        })
    }
}

/// The width of a tag's number, or of the number after the last one.
const BITS: u32 = 21;
const MASK: u64 = (1 << BITS) - 1;

/// The tags that a device may take, packed into one word so that it is read and changed atomically: the
/// slice's first tag, the slice's end, and the start of the common part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window(u64);

impl Window {
    pub(super) fn new(slice: Range<u32>, common: u32) -> Self {
        let [start, end, common] = [slice.start, slice.end, common].map(u64::from);
        debug_assert!(start <= MASK && end <= MASK && common <= MASK);
        Self(common << (2 * BITS) | end << BITS | start)
    }

    pub(super) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// Returns the tags that no other device may take.
    pub(super) fn slice(self) -> Range<u32> {
        (self.0 & MASK) as u32..(self.0 >> BITS & MASK) as u32
    }

    /// Returns the first tag of the common part, which extends to the end of the set.
    pub(super) fn common(self) -> u32 {
        (self.0 >> (2 * BITS) & MASK) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_written() {
        for policy in TagPolicy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("windowed:0".parse(), Ok(TagPolicy::Windowed { shared_pct: 0 }));
        for bad in ["", "windowed:101", "windowed:", "Packed"] {
            let error = bad.parse::<TagPolicy>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")) && error.contains("none"), "{error}");
        }
    }

    #[test]
    fn slices_and_the_common_part_make_the_whole() {
        for (depth, pct, slices, word, wanted) in [
            (64, 50, 1, 16, (64, 0)),
            (64, 50, 2, 16, (32, 16)),
            (64, 0, 2, 16, (0, 32)),
            (64, 0, 3, 16, (16, 16)),
            (64, 100, 3, 16, (64, 0)),
            (3, 34, 2, 1, (1, 1)),
            (2, 0, 3, 1, (2, 0)),
        ] {
            let policy = TagPolicy::Windowed { shared_pct: pct };
            assert_eq!(policy.split(depth, slices, word), wanted, "{depth} {pct} {slices}");
        }
    }

    #[test]
    fn a_window_is_one_word() {
        let most = 1 << 20;
        let window = Window::from_word(Window::new(17..most, most - 1).word());
        assert_eq!((window.slice(), window.common()), (17..most, most - 1));
    }
}
