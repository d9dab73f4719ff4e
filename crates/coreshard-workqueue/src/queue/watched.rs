//! An item on a platform that [watches items](Platform::WATCHES_ITEMS): it is told when the item is about to
//! begin, and when it is over.

use std::marker::PhantomData;

use coreshard_platform::Platform;

use crate::base::item::ItemBody;
use crate::base::returned::Returned;

pub(super) struct WatchedItem<P, F> {
    work: F,
    _platform: PhantomData<fn() -> P>,
}

impl<P: Platform, F: ItemBody> WatchedItem<P, F> {
    /// Of an item that was counted in just now.
    pub(super) fn new(work: F) -> Self {
        P::item_is_queued();
        Self { work, _platform: PhantomData }
    }
}

impl<P: Platform, F: ItemBody> ItemBody for WatchedItem<P, F> {
    type Named = F::Named;
    const IS_AWAITED: bool = F::IS_AWAITED;

    fn run(self) {
        P::item_begins(self.work.name(), || self.work.is_void());
        let _over = WatchedRun::<P>(PhantomData);
        self.work.run();
    }

    fn set_aside(self) -> Option<Returned> {
        if !self.work.is_void() {
            P::item_is_taken();
        }
        self.work.set_aside()
    }
}

/// Tells when it goes, so also of an item that panics.
struct WatchedRun<P: Platform>(PhantomData<P>);

impl<P: Platform> Drop for WatchedRun<P> {
    fn drop(&mut self) {
        P::item_is_over();
    }
}
