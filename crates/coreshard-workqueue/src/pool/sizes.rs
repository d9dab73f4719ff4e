//! How large a pool may be, and its intake's types at that size.

use crate::base::item::Item;
use crate::intake;
pub(crate) use crate::intake::MAX_INJECTORS;

/// Items in a segment of a pool's intake: 4 KiB of slots.
#[cfg(not(loom))]
pub(super) const SEGMENT_ITEMS: usize = 128;
#[cfg(loom)]
pub(super) const SEGMENT_ITEMS: usize = 2;

/// Workers a pool may have when all but its limit are blocked.
#[cfg(not(loom))]
pub(crate) const MAX_WORKERS: usize = 512;
#[cfg(loom)]
pub(crate) const MAX_WORKERS: usize = 3;

/// Claims that a worker may have open at once, each at another injector: as many as are described in 64 bytes.
pub(super) const MAX_CLAIMS: usize = 4;

pub(super) type Injectors<P> = intake::Injectors<P, Item, SEGMENT_ITEMS>;
pub(super) type SegmentQueue<P> = intake::SegmentQueue<P, Item, SEGMENT_ITEMS>;
pub(super) type Takers<P> = intake::Takers<P, Item, SEGMENT_ITEMS>;
pub(super) type Range<P> = intake::Range<P, Item, SEGMENT_ITEMS>;
pub(super) type Segment<P> = intake::Segment<P, Item, SEGMENT_ITEMS>;
pub(super) type Watches<P> = intake::Watches<P, Item, SEGMENT_ITEMS>;
pub(super) type Claim<P> = intake::Claim<P, Item, SEGMENT_ITEMS>;
