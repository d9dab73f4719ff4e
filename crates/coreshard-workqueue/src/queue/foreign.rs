//! Calls of functions of another language, each with 16 bytes of data.
#![allow(unsafe_code)]

use std::fmt;
use std::mem::MaybeUninit;

use coreshard_platform::Platform;

use super::link::SubmitPermit;
use crate::base::item::{Item, ItemBody, ItemKind, Name, Payload};
use crate::base::returned::Returned;
use crate::insight::Label;

/// A function of another language that queues call, each time with 16 bytes of the caller's data:
/// [`Workqueue::queue_foreign`](crate::Workqueue::queue_foreign).
///
/// # Examples
/// As [`Workqueue::queue_foreign`](crate::Workqueue::queue_foreign).
pub struct ForeignFunction(ItemKind);

impl ForeignFunction {
    /// Creates a function with a name for reports. It is never freed, so create one for each function, not for each call.
    ///
    /// The function receives the address of the 16 bytes. They are aligned to 8 and belong to it during the call. It may unwind
    /// with a Rust panic, which goes to the queue's panic handler, but not with another language's exception.
    ///
    /// # Examples
    /// As [`Workqueue::queue_foreign`](crate::Workqueue::queue_foreign).
    pub fn leak(
        function: unsafe extern "C-unwind" fn(*mut [MaybeUninit<u64>; 2]),
        name: &str,
    ) -> &'static Self {
        let name = Name::Given(Box::leak(name.to_owned().into_boxed_str()));
        Box::leak(Box::new(Self(ItemKind::awaited(function, name))))
    }

    /// Returns the name.
    ///
    /// # Examples
    /// As [`Workqueue::queue_foreign`](crate::Workqueue::queue_foreign).
    pub fn name(&self) -> &'static str {
        self.0.name.get()
    }
}

impl fmt::Debug for ForeignFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForeignFunction").field(&self.name()).finish()
    }
}

/// Sends a call whose words stay in registers.
#[inline(always)]
#[track_caller]
pub(super) fn send<P: Platform>(
    entry: SubmitPermit<'_, P>,
    function: &'static ForeignFunction,
    words: Payload,
) {
    if entry.is_direct() {
        entry.send_directly(ForeignCall { function, words });
    } else {
        let [first, second] = words;
        send_indirectly(entry, function, first, second);
    }
}

/// Sends a call to a queue that measures or bounds its items. The words are separate arguments, so that the other path never
/// stores them to memory.
#[inline(never)]
#[track_caller]
fn send_indirectly<P: Platform>(
    entry: SubmitPermit<'_, P>,
    function: &'static ForeignFunction,
    first: MaybeUninit<u64>,
    second: MaybeUninit<u64>,
) {
    let words = [first, second];
    entry.send_as(|| Label::Item(function.name()), ForeignCall { function, words });
}

struct ForeignCall {
    function: &'static ForeignFunction,
    words: Payload,
}

impl ItemBody for ForeignCall {
    type Named = Self;
    const IS_AWAITED: bool = true;

    #[inline(always)]
    fn pack(self) -> Item {
        // One by one, so that they stay in registers: a copy of both at once would have to wait until each was stored.
        let [first, second] = self.words;
        Item::of_kind(&self.function.0, [first, second])
    }

    fn run(self) {
        let Self { function, mut words } = self;
        // SAFETY: guaranteed by `queue_foreign`'s caller, and a body is run once.
        unsafe { function.0.act(&raw mut words) };
    }

    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn set_aside(self) -> Option<Returned> {
        unreachable!("it is awaited")
    }
}
