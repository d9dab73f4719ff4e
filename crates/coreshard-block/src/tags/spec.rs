//! What a tag set is to be, and why it cannot be.

use std::fmt;
use std::time::Duration;

use coreshard_platform::NodeMemoryError;
use coreshard_topology::NodeId;

use super::policy::TagPolicy;

/// The most tags of a set.
pub const MAX_TAGS: u32 = 1 << 20;
/// The most reserved tags of a set.
pub const MAX_RESERVED_TAGS: u32 = 63;

/// What a [`TagSet`](crate::TagSet) is to be.
///
/// Write `..TagSetSpec::default()` after the fields that differ: there may be more of them in a later version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagSetSpec {
    /// Tags for ordinary requests, 1 to [`MAX_TAGS`]. Default: 64.
    pub depth: u32,
    /// Further tags for requests that may not wait for others, such as a flush before power-off; at
    /// most [`MAX_RESERVED_TAGS`]. Default: 1.
    pub reserved: u32,
    /// How tags are accounted to users. Default: [`TagPolicy::default`].
    pub policy: TagPolicy,
    /// How many threads will take tags, as far as is known: the bitmap has at least as many words,
    /// if there are as many tags. Default: 1.
    pub threads: u32,
    /// The node that the bitmap is to lie on. Default: any.
    pub node: Option<NodeId>,
    /// How long a user without a tag keeps its share, while others are short of tags. Default: 5 s.
    pub grace: Duration,
}

impl Default for TagSetSpec {
    fn default() -> Self {
        Self {
            depth: 64,
            reserved: 1,
            policy: TagPolicy::default(),
            threads: 1,
            node: None,
            grace: Duration::from_secs(5),
        }
    }
}

/// Why there is no tag set.
pub struct TagSetError {
    text: String,
    memory: Option<NodeMemoryError>,
}

impl TagSetSpec {
    pub(super) fn check(&self) -> Result<(), TagSetError> {
        let Self { depth, reserved, .. } = self;
        let text = if !(1..=MAX_TAGS).contains(depth) {
            format!("a tag set of depth {depth} was asked for; 1 to {MAX_TAGS} are possible")
        } else if *reserved > MAX_RESERVED_TAGS {
            format!(
                "{reserved} reserved tags were asked for; at most {MAX_RESERVED_TAGS} are possible"
            )
        } else {
            return Ok(());
        };
        Err(TagSetError { text, memory: None })
    }
}

impl fmt::Display for TagSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

coreshard_topology::readable_debug!(TagSetError);

impl std::error::Error for TagSetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.memory.as_ref().map(|error| error as _)
    }
}

impl From<NodeMemoryError> for TagSetError {
    fn from(error: NodeMemoryError) -> Self {
        Self { text: format!("no memory for a tag set: {error}"), memory: Some(error) }
    }
}
