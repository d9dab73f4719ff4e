//! The users of a tag set, their ports, and the waiters.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use coreshard_platform::{AtomicInt, Lock, Padded, Parker, Platform, Time, fields, user};

use super::policy::TagPolicy;
use crate::node_slice::NodeSlice;

/// Set in a user's count while a port of that user waits for the count to fall.
pub(super) const COUNT_WAITED: u32 = 1 << 31;

/// What every port of a user reads for each tag. The packed rung's count lies here, beside what is
/// read, as that rung wants it.
#[derive(Debug)]
#[repr(C)]
pub(super) struct UserLine<P: Platform> {
    /// 1 while the user has a share of the tags.
    pub(super) active: P::AtomicU32,
    /// The most tags it may have, where they are counted.
    pub(super) limit: P::AtomicU32,
    /// Its slice, see `Window` in `policy.rs`.
    pub(super) window: P::AtomicU64,
    /// The packed rung's count of tags in use.
    pub(super) count: P::AtomicU32,
}
fields!(UserLine<P: Platform> { active, limit, window, count });

#[derive(Debug)]
pub(super) struct UserState<P: Platform> {
    pub(super) line: Padded<UserLine<P>>,
    /// The padded rung's count.
    pub(super) own_count: Padded<P::AtomicU32>,
}

impl<P: Platform> UserState<P> {
    pub(super) fn count(&self, policy: TagPolicy) -> Option<&P::AtomicU32> {
        match policy {
            TagPolicy::Packed => Some(&self.line.count),
            TagPolicy::Padded => Some(&self.own_count),
            TagPolicy::Windowed { .. } | TagPolicy::None => None,
        }
    }
}

/// The user's state, on its node, as its ports share it.
#[derive(Debug)]
pub(super) struct SharedUserState<P: Platform>(pub(super) NodeSlice<UserState<P>>);

impl<P: Platform> std::ops::Deref for SharedUserState<P> {
    type Target = UserState<P>;
    #[inline(always)]
    fn deref(&self) -> &UserState<P> {
        &self.0[0]
    }
}

/// What others may see of a port.
#[repr(align(128))]
pub(super) struct PortLine<P: Platform> {
    /// Tags that the port has. Written by its thread alone, without a locked instruction.
    pub(super) held: P::AtomicU32,
    /// Tags that it ever took, wrapping. As `held`.
    pub(super) taken: P::AtomicU32,
    /// A tag that was handed to the port while it waited, plus 1; else 0.
    pub(super) grant: P::AtomicU32,
    pub(super) parker: Parker<P>,
    /// Called instead of the parker, where the port's thread waits for other things too.
    pub(super) waker: Lock<P, Option<Arc<dyn Fn() + Send + Sync>>>,
}

pub(super) struct Waiter<P: Platform> {
    pub(super) user: usize,
    pub(super) port: Arc<PortLine<P>>,
}

pub(super) struct UserEntry<P: Platform> {
    /// Its device is gone; another user may have the entry.
    pub(super) gone: bool,
    pub(super) shared: Arc<SharedUserState<P>>,
    pub(super) ports: Vec<Arc<PortLine<P>>>,
    /// The sum of its ports' `taken` at the last scan, and when it last changed.
    pub(super) seen_taken: u32,
    pub(super) changed_at: Time,
}

pub(super) struct Registry<P: Platform> {
    pub(super) users: Vec<UserEntry<P>>,
    pub(super) waiters: VecDeque<Waiter<P>>,
    pub(super) scanned_at: Time,
}

pub(super) fn is_active<P: Platform>(user: &UserEntry<P>) -> bool {
    user.shared.line.active.load(Acquire) != 0
}

pub(super) fn wake<P: Platform>(ports: Vec<Arc<PortLine<P>>>) {
    for port in ports {
        let waker = port.waker.lock().clone();
        match waker {
            // A panic of a waker is dropped: this thread has others to wake.
            Some(waker) => drop(user::call(move || waker())),
            None => {
                port.parker.unpark();
            }
        }
    }
}

/// A number that no other set or port of the process ever has. Not the platform's: nothing is decided by
/// how large it is.
pub(super) fn next_number() -> NonZeroU64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NonZeroU64::new(NUMBERS.fetch_add(1, Relaxed)).expect("fewer than 2⁶⁴ sets and ports were made")
}
