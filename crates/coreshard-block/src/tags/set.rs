//! A set of tags, and how it is shared.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{
    AtomicInt, Lock, NodeMemoryError, Padded, Parker, Placement, Platform, Time, fields, user,
};
use coreshard_topology::NodeId;

use super::bitmap::Bitmap;
use super::policy::{MIN_SHARE, TagPolicy, Window};
use crate::node_slice::NodeSlice;

/// A set of tags that devices share: `depth` ordinary ones, numbered from 0, followed by reserved ones.
///
/// ```
/// use std::sync::Arc;
/// use coreshard_block::{TagPolicy, TagSet, TagSetSpec};
/// use coreshard_platform::Host;
///
/// let spec = TagSetSpec { depth: 2, policy: TagPolicy::Padded, ..TagSetSpec::default() };
/// let set = Arc::new(TagSet::<Host>::new(spec)?);
/// let mut port = set.add_user()?.port();
/// let first = port.get().expect("all tags are free");
/// let second = port.get().expect("the only user may have them all");
/// assert!(port.get().is_none());
/// port.put(first);
/// port.put(second);
/// # Ok::<(), coreshard_block::TagSetError>(())
/// ```
pub struct TagSet<P: Platform> {
    /// For messages.
    pub(super) number: u32,
    pub(super) spec: TagSetSpec,
    pub(super) bitmap: Bitmap<P>,
    /// A set bit marks a reserved tag in use.
    pub(super) reserved: Padded<P::AtomicU64>,
    pub(super) registry: Padded<Lock<P, Registry<P>>>,
    /// The generation of the process that created it.
    process_generation: u32,
}

/// A user of a [`TagSet`], such as a device. Creates the ports of its threads.
pub struct TagUser<P: Platform> {
    pub(super) set: Arc<TagSet<P>>,
    pub(super) index: usize,
    pub(super) shared: Arc<SharedUserState<P>>,
}

impl<P: Platform> TagSet<P> {
    /// Creates a set with all tags free.
    ///
    /// # Errors
    /// If `depth` or `reserved` are out of range, or there is not enough memory.
    pub fn new(spec: TagSetSpec) -> Result<Self, TagSetError> {
        spec.check()?;
        let registry =
            Registry { users: Vec::new(), waiters: VecDeque::new(), scanned_at: P::now() };
        Ok(Self {
            number: next_number().get() as u32,
            bitmap: Bitmap::new(spec.depth, spec.threads, spec.node)?,
            reserved: Padded::new(P::AtomicU64::new(0)),
            registry: Padded::new(Lock::new(registry)),
            process_generation: P::process_generation(),
            spec,
        })
    }

    /// Returns the options.
    pub fn spec(&self) -> &TagSetSpec {
        &self.spec
    }

    /// Returns where the bitmap lies.
    pub fn placement(&self) -> &Placement {
        self.bitmap.placement()
    }

    /// Returns the number of ordinary tags in use. Exact while no tag is taken or released.
    pub fn in_use(&self) -> u32 {
        self.bitmap.taken()
    }

    /// Returns the number of users that currently have a share of the tags.
    pub fn active_users(&self) -> usize {
        self.registry.lock().users.iter().filter(|user| is_active(user)).count()
    }

    /// Adds a user, which is idle until it takes its first tag.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn add_user(self: &Arc<Self>) -> Result<TagUser<P>, TagSetError> {
        self.add_user_on(self.spec.node)
    }

    /// As [`add_user`](Self::add_user), with the user's line on `node`.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn add_user_on(self: &Arc<Self>, node: Option<NodeId>) -> Result<TagUser<P>, TagSetError> {
        let make = |_| UserState {
            line: Padded::new(UserLine {
                active: P::AtomicU32::new(0),
                limit: P::AtomicU32::new(self.spec.depth),
                window: P::AtomicU64::new(Window::new(0..0, 0).word()),
                count: P::AtomicU32::new(0),
            }),
            own_count: Padded::new(P::AtomicU32::new(0)),
        };
        let shared = Arc::new(SharedUserState(NodeSlice::new::<P>(1, node, make)?));
        P::describe(&raw const *shared.line);
        let entry = UserEntry {
            gone: false,
            shared: Arc::clone(&shared),
            ports: Vec::new(),
            seen_taken: 0,
            changed_at: P::now(),
        };
        let mut registry = self.registry.lock();
        let index = match registry.users.iter().position(|user| user.gone && user.ports.is_empty())
        {
            Some(index) => {
                registry.users[index] = entry;
                index
            }
            None => {
                registry.users.push(entry);
                registry.users.len() - 1
            }
        };
        Ok(TagUser { set: Arc::clone(self), index, shared })
    }

    /// Gives `user` a share. Cold: called once each time the user was idle.
    #[cold]
    pub(super) fn activate(&self, user: usize) {
        let woken = {
            let mut registry = self.registry.lock();
            let entry = &mut registry.users[user];
            if is_active(entry) {
                return;
            }
            entry.changed_at = P::now();
            entry.shared.line.active.store(1, Release);
            self.share_out(&registry);
            self.serve_waiting(&mut registry)
        };
        wake(woken);
    }

    /// Returns true in a process that was forked from the set's. The lock may be held by a thread that does
    /// not exist here.
    pub(super) fn is_forked(&self) -> bool {
        P::process_generation() != self.process_generation
    }

    /// Recomputes the tags that each active user may have.
    fn share_out(&self, registry: &Registry<P>) {
        let active = || registry.users.iter().filter(|user| is_active(user));
        let users = active().count().max(1) as u32;
        let depth = self.spec.depth;
        let limit = depth.div_ceil(users).max(MIN_SHARE).min(depth);
        let (common, each) = self.spec.policy.split(depth, users, self.bitmap.word_tags());
        // The common part comes last, so that slices begin at word boundaries.
        for (at, user) in active().enumerate() {
            let start = at as u32 * each;
            let line = &user.shared.line;
            line.limit.store(limit, Relaxed);
            let window = Window::new(start..start + each, depth - common);
            line.window.store(window.word(), Relaxed);
        }
    }

    /// Takes a tag for a waiting port, and marks the words that it waits for. Called under the lock.
    fn take_for_waiter(&self, user: &UserState<P>) -> Option<u32> {
        let count = user.count(self.spec.policy);
        if let Some(count) = count {
            let limit = user.line.limit.load(Relaxed);
            // AcqRel: either a later release sees the mark, or it is seen here. Pairs with the `fetch_sub` in
            // `TagPort::put`.
            if count.fetch_or(COUNT_WAITED, AcqRel) & !COUNT_WAITED >= limit {
                return None;
            }
        }
        let tag = match self.spec.policy {
            TagPolicy::Windowed { .. } => {
                let window = Window::from_word(user.line.window.load(Relaxed));
                let common = window.common()..self.spec.depth;
                let own = self.bitmap.take_or_mark(window.slice());
                own.or_else(|| self.bitmap.take_or_mark(common))
            }
            _ => self.bitmap.take_or_mark(0..self.spec.depth),
        }?;
        if let Some(count) = count {
            count.fetch_add(1, Relaxed);
        }
        Some(tag)
    }

    /// Hands free tags to waiters that may have them, first come, first served. Returns the ports to wake,
    /// outside the lock.
    pub(super) fn serve_waiting(&self, registry: &mut Registry<P>) -> Vec<Arc<PortLine<P>>> {
        self.deactivate_idle(registry);
        self.unmark(registry);
        let mut woken = Vec::new();
        let Registry { users, waiters, .. } = registry;
        waiters.retain(|waiter| match self.take_for_waiter(&users[waiter.user].shared) {
            Some(tag) => {
                // Release pairs with the Acquire of `granted`: the last holder's writes come with the tag.
                waiter.port.grant.store(tag + 1, Release);
                woken.push(Arc::clone(&waiter.port));
                false
            }
            None => true,
        });
        if waiters.is_empty() {
            self.unmark(registry);
        }
        woken
    }

    /// Clears all marks. The remaining waiters mark again, and then search.
    fn unmark(&self, registry: &Registry<P>) {
        self.bitmap.unmark();
        for user in &registry.users {
            if let Some(count) = user.shared.count(self.spec.policy)
                && count.load(Relaxed) & COUNT_WAITED != 0
            {
                count.fetch_and(!COUNT_WAITED, AcqRel);
            }
        }
    }

    /// Takes the share of users that have had no tag for the grace period.
    fn deactivate_idle(&self, registry: &mut Registry<P>) {
        let now = P::now();
        let grace_ns = u64::try_from(self.spec.grace.as_nanos()).unwrap_or(u64::MAX);
        // Four scans per period, so a share is taken at most a quarter late.
        if now.ns_since(registry.scanned_at) < grace_ns / 4 {
            return;
        }
        registry.scanned_at = now;
        let mut changed = false;
        for user in registry.users.iter_mut().filter(|user| is_active(user)) {
            let held: u32 = user.ports.iter().map(|port| port.held.load(Relaxed)).sum();
            let taken = user
                .ports
                .iter()
                .fold(0_u32, |sum, port| sum.wrapping_add(port.taken.load(Relaxed)));
            if held > 0 || taken != user.seen_taken {
                user.seen_taken = taken;
                user.changed_at = now;
            } else if now.ns_since(user.changed_at) >= grace_ns {
                user.shared.line.active.store(0, Release);
                changed = true;
            }
        }
        // A waiter has no tag, but wants one.
        for waiter in &registry.waiters {
            let active = &registry.users[waiter.user].shared.line.active;
            if active.load(Relaxed) == 0 {
                active.store(1, Release);
                changed = true;
            }
        }
        if changed {
            self.share_out(registry);
        }
    }

    /// Serves the waiters. Called after releasing a tag that a port waits for.
    #[cold]
    pub(super) fn serve(&self) {
        let woken = self.serve_waiting(&mut self.registry.lock());
        wake(woken);
    }
}

/// Its share goes to the other users. Ports that still have tags keep its entry.
impl<P: Platform> Drop for TagUser<P> {
    fn drop(&mut self) {
        if self.set.is_forked() {
            return;
        }
        let woken = {
            let mut registry = self.set.registry.lock();
            registry.users[self.index].gone = true;
            if !is_active(&registry.users[self.index]) {
                return;
            }
            self.shared.line.active.store(0, Release);
            self.set.share_out(&registry);
            self.set.serve_waiting(&mut registry)
        };
        wake(woken);
    }
}

impl<P: Platform> fmt::Debug for TagSet<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TagSet").field("spec", &self.spec).field("in_use", &self.in_use()).finish()
    }
}

impl<P: Platform> fmt::Debug for TagUser<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TagUser").field("index", &self.index).finish()
    }
}

/// The most ordinary tags of a set.
pub const MAX_TAGS: u32 = 1 << 20;
/// The most reserved tags of a set.
pub const MAX_RESERVED_TAGS: u32 = 63;

/// Options of a [`TagSet`](crate::TagSet).
///
/// Use `..TagSetSpec::default()` for the remaining fields; later versions may add some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagSetSpec {
    /// The number of tags for ordinary requests, 1 to [`MAX_TAGS`]. Default: 64.
    pub depth: u32,
    /// The number of additional tags for requests that must not wait for others, such as a flush before
    /// power-off; at most [`MAX_RESERVED_TAGS`]. Default: 1.
    pub reserved: u32,
    /// How tags are accounted to users. Default: [`TagPolicy::default`].
    pub policy: TagPolicy,
    /// The number of threads that will take tags, if known: the bitmap has at least as many words, if there
    /// are as many tags. Default: 1.
    pub threads: u32,
    /// The node of the bitmap. Default: any.
    pub node: Option<NodeId>,
    /// How long a user without a tag keeps its share while others are short of tags. Default: 5 s.
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

/// The error when a tag set cannot be created.
pub struct TagSetError {
    text: String,
    memory: Option<NodeMemoryError>,
}

impl TagSetSpec {
    pub(super) fn check(&self) -> Result<(), TagSetError> {
        let Self { depth, reserved, .. } = self;
        let text = if !(1..=MAX_TAGS).contains(depth) {
            format!("invalid depth {depth} of a tag set: expected 1 to {MAX_TAGS}")
        } else if *reserved > MAX_RESERVED_TAGS {
            format!(
                "invalid number of reserved tags {reserved}: expected at most {MAX_RESERVED_TAGS}"
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
        Self { text: format!("not enough memory for a tag set: {error}"), memory: Some(error) }
    }
}

/// Set in a user's count while one of its ports waits for the count to fall.
pub(super) const COUNT_WAITED: u32 = 1 << 31;

/// The words that every port of a user reads for each tag. The packed variant's count lies here on purpose,
/// beside the words that are read.
#[derive(Debug)]
#[repr(C)]
pub(super) struct UserLine<P: Platform> {
    /// 1 while the user has a share of the tags.
    pub(super) active: P::AtomicU32,
    /// The most tags that it may have, if they are counted.
    pub(super) limit: P::AtomicU32,
    /// Its slice, see `Window` in `policy.rs`.
    pub(super) window: P::AtomicU64,
    /// The packed variant's count of tags in use.
    pub(super) count: P::AtomicU32,
}
fields!(UserLine<P: Platform> { active, limit, window, count });

#[derive(Debug)]
pub(super) struct UserState<P: Platform> {
    pub(super) line: Padded<UserLine<P>>,
    /// The padded variant's count.
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

/// The user's state, on its node, shared by its ports.
#[derive(Debug)]
pub(super) struct SharedUserState<P: Platform>(pub(super) NodeSlice<UserState<P>>);

impl<P: Platform> std::ops::Deref for SharedUserState<P> {
    type Target = UserState<P>;
    #[inline(always)]
    fn deref(&self) -> &UserState<P> {
        &self.0[0]
    }
}

/// The part of a port that other threads may access.
#[repr(align(128))]
pub(super) struct PortLine<P: Platform> {
    /// The number of tags that the port has. Only its thread writes it, without a locked instruction.
    pub(super) held: P::AtomicU32,
    /// The number of tags that it ever took, wrapping. Written like `held`.
    pub(super) taken: P::AtomicU32,
    /// A tag that was handed to the port while it waited, plus 1; otherwise 0.
    pub(super) grant: P::AtomicU32,
    pub(super) parker: Parker<P>,
    /// Called instead of the parker, if the port's thread also waits for other events.
    pub(super) waker: Lock<P, Option<Arc<dyn Fn() + Send + Sync>>>,
}

pub(super) struct Waiter<P: Platform> {
    pub(super) user: usize,
    pub(super) port: Arc<PortLine<P>>,
}

pub(super) struct UserEntry<P: Platform> {
    /// Its device was dropped; another user may have the entry.
    pub(super) gone: bool,
    pub(super) shared: Arc<SharedUserState<P>>,
    pub(super) ports: Vec<Arc<PortLine<P>>>,
    /// The sum of its ports' `taken` at the last scan; then when the sum last changed.
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
            // A waker's panic is dropped: this thread has others to wake.
            Some(waker) => drop(user::call(move || waker())),
            None => {
                port.parker.unpark();
            }
        }
    }
}

/// Returns a number that no other set or port of the process ever has. Not the platform's atomic: no decision
/// depends on its value.
pub(super) fn next_number() -> NonZeroU64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NonZeroU64::new(NUMBERS.fetch_add(1, Relaxed)).expect("fewer than 2⁶⁴ sets and ports were made")
}
