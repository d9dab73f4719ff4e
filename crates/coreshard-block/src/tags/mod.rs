//! Tags: the right to have a request in flight, shared by the devices of a host.
//!
//! Who may touch what (`README.md` beside this file tells the protocol):
//!
//! 1. A [`TagPort`] belongs to one thread at a time. Taking and giving back touch one word of the
//!    bitmap, the user's line (read only, but for the packed count), and the port's own line.
//! 2. W: a word's *waited* mark is set and cleared under the set's lock, and read by whoever gives
//!    a tag back, in the same instruction.
//! 3. L: users, shares and the list of who waits are under the set's lock, which is taken only when
//!    somebody has to wait, and when a user becomes busy or idle.

mod bitmap;
#[cfg(all(test, loom))]
mod loom_tests;
mod policy;
mod port;
#[cfg(all(test, not(loom)))]
mod tests;

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

use bitmap::Bitmap;
use policy::{LEAST_SHARE, Window};
pub use policy::{ParseTagPolicyError, TagPolicy};
pub use port::{Tag, TagPort};

use crate::node_slice::NodeSlice;

/// Set in a user's count while a port of that user waits for the count to fall.
const COUNT_WAITED: u32 = 1 << 31;

/// The most tags of a set.
pub const MAX_TAGS: u32 = 1 << 20;
/// The most reserved tags of a set.
pub const MAX_RESERVED_TAGS: u32 = 63;

/// A number that no other set or port of the process ever has. Not the platform's: nothing is decided by
/// how large it is.
fn next_number() -> NonZeroU64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NonZeroU64::new(NUMBERS.fetch_add(1, Relaxed)).expect("fewer than 2⁶⁴ sets and ports were made")
}

/// What a [`TagSet`] is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagSetSpec {
    /// Tags for ordinary requests, 1 to [`MAX_TAGS`].
    pub depth: u32,
    /// Further tags for requests that may not wait for others, such as a flush before power-off; at
    /// most [`MAX_RESERVED_TAGS`].
    pub reserved: u32,
    /// How tags are accounted to users.
    pub policy: TagPolicy,
    /// How many threads will take tags, as far as is known: the bitmap has at least as many words,
    /// where there are as many tags.
    pub threads: u32,
    /// The node that the bitmap is to lie on.
    pub node: Option<NodeId>,
    /// How long a user without a tag keeps its share, while others are short of tags.
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
#[derive(Debug)]
pub struct TagSetError {
    kind: ErrorKind,
}

#[derive(Debug)]
enum ErrorKind {
    Depth(u32),
    Reserved(u32),
    Memory(NodeMemoryError),
}

impl fmt::Display for TagSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Depth(given) => {
                write!(f, "a tag set of depth {given} was asked for; 1 to {MAX_TAGS} are possible")
            }
            ErrorKind::Reserved(given) => write!(
                f,
                "{given} reserved tags were asked for; at most {MAX_RESERVED_TAGS} are possible"
            ),
            ErrorKind::Memory(error) => write!(f, "no memory for a tag set: {error}"),
        }
    }
}

impl std::error::Error for TagSetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Memory(error) => Some(error),
            ErrorKind::Depth(_) | ErrorKind::Reserved(_) => None,
        }
    }
}

impl From<NodeMemoryError> for TagSetError {
    fn from(error: NodeMemoryError) -> Self {
        Self { kind: ErrorKind::Memory(error) }
    }
}

/// What every port of a user reads for each tag. The packed rung's count lies here, beside what is
/// read; that is the rung's point.
#[derive(Debug)]
#[repr(C)]
struct UserLine<P: Platform> {
    /// 1 while the user has a share of the tags.
    active: P::AtomicU32,
    /// The most tags it may have, where they are counted.
    limit: P::AtomicU32,
    /// Its slice, see [`Window`].
    window: P::AtomicU64,
    /// The packed rung's count of tags in use.
    count: P::AtomicU32,
}
fields!(UserLine<P: Platform> { active, limit, window, count });

#[derive(Debug)]
struct User<P: Platform> {
    line: Padded<UserLine<P>>,
    /// The padded rung's count.
    own_count: Padded<P::AtomicU32>,
}

impl<P: Platform> User<P> {
    fn count(&self, policy: TagPolicy) -> Option<&P::AtomicU32> {
        match policy {
            TagPolicy::Packed => Some(&self.line.count),
            TagPolicy::Padded => Some(&self.own_count),
            TagPolicy::Windowed { .. } | TagPolicy::None => None,
        }
    }
}

/// A device, as its tag set knows it.
#[derive(Debug)]
struct UserPlace<P: Platform>(NodeSlice<User<P>>);

impl<P: Platform> std::ops::Deref for UserPlace<P> {
    type Target = User<P>;
    #[inline(always)]
    fn deref(&self) -> &User<P> {
        &self.0[0]
    }
}

/// What others may see of a port.
#[repr(align(128))]
struct PortLine<P: Platform> {
    /// Tags that the port has. Written by its thread alone, without a locked instruction.
    held: P::AtomicU32,
    /// Tags that it ever took, wrapping. As `held`.
    taken: P::AtomicU32,
    /// A tag that was handed to the port while it waited, plus 1; else 0.
    grant: P::AtomicU32,
    parker: Parker<P>,
    /// Called instead of the parker, where the port's thread waits for other things too.
    waker: Lock<P, Option<Arc<dyn Fn() + Send + Sync>>>,
}

struct Waiting<P: Platform> {
    user: usize,
    port: Arc<PortLine<P>>,
}

struct KnownUser<P: Platform> {
    /// Its device is gone; the place may be another's.
    gone: bool,
    place: Arc<UserPlace<P>>,
    ports: Vec<Arc<PortLine<P>>>,
    /// The sum of its ports' `taken` at the last look, and when it last was another.
    seen_taken: u32,
    changed_at: Time,
}

struct Registry<P: Platform> {
    users: Vec<KnownUser<P>>,
    waiting: VecDeque<Waiting<P>>,
    looked_at: Time,
}

/// A set of tags that devices share: `depth` ordinary ones, numbered from 0, and reserved ones
/// after them.
///
/// ```
/// use std::sync::Arc;
/// use coreshard_block::{TagPolicy, TagSet, TagSetSpec};
/// use coreshard_platform::Host;
///
/// let spec = TagSetSpec { depth: 2, policy: TagPolicy::Padded, ..TagSetSpec::default() };
/// let set = Arc::new(TagSet::<Host>::new(spec)?);
/// let mut port = set.add_user()?.port();
/// let first = port.get().expect("nobody has a tag yet");
/// let second = port.get().expect("the only user may have them all");
/// assert!(port.get().is_none());
/// port.put(first);
/// port.put(second);
/// # Ok::<(), coreshard_block::TagSetError>(())
/// ```
pub struct TagSet<P: Platform> {
    /// For messages.
    number: u32,
    spec: TagSetSpec,
    bitmap: Bitmap<P>,
    /// A bit set is a reserved tag in use.
    reserved: Padded<P::AtomicU64>,
    registry: Padded<Lock<P, Registry<P>>>,
}

/// A user of a [`TagSet`], such as a device; makes the ports of its threads.
pub struct TagUser<P: Platform> {
    set: Arc<TagSet<P>>,
    index: usize,
    place: Arc<UserPlace<P>>,
}

impl<P: Platform> TagSet<P> {
    /// A set with all tags free.
    ///
    /// # Errors
    /// Where `depth` or `reserved` are out of range, or there is no memory.
    pub fn new(spec: TagSetSpec) -> Result<Self, TagSetError> {
        if !(1..=MAX_TAGS).contains(&spec.depth) {
            return Err(TagSetError { kind: ErrorKind::Depth(spec.depth) });
        }
        if spec.reserved > MAX_RESERVED_TAGS {
            return Err(TagSetError { kind: ErrorKind::Reserved(spec.reserved) });
        }
        let registry =
            Registry { users: Vec::new(), waiting: VecDeque::new(), looked_at: P::now() };
        Ok(Self {
            number: next_number().get() as u32,
            bitmap: Bitmap::new(spec.depth, spec.threads, spec.node)?,
            reserved: Padded::new(P::AtomicU64::new(0)),
            registry: Padded::new(Lock::new(registry)),
            spec,
        })
    }

    /// What the set is.
    pub fn spec(&self) -> &TagSetSpec {
        &self.spec
    }

    /// Where its bitmap came to lie.
    pub fn placement(&self) -> &Placement {
        self.bitmap.placement()
    }

    /// Ordinary tags in use. Exact at rest.
    pub fn in_use(&self) -> u32 {
        self.bitmap.taken()
    }

    /// Users that have a share of the tags at this moment.
    pub fn active_users(&self) -> usize {
        self.registry.lock().users.iter().filter(|user| is_active(user)).count()
    }

    /// A new user, idle until it takes its first tag.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn add_user(self: &Arc<Self>) -> Result<TagUser<P>, TagSetError> {
        self.add_user_on(self.spec.node)
    }

    /// As [`add_user`](Self::add_user), with its line on `node`.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn add_user_on(self: &Arc<Self>, node: Option<NodeId>) -> Result<TagUser<P>, TagSetError> {
        let make = |_| User {
            line: Padded::new(UserLine {
                active: P::AtomicU32::new(0),
                limit: P::AtomicU32::new(self.spec.depth),
                window: P::AtomicU64::new(Window::new(0..0, 0).word()),
                count: P::AtomicU32::new(0),
            }),
            own_count: Padded::new(P::AtomicU32::new(0)),
        };
        let place = Arc::new(UserPlace(NodeSlice::new::<P>(1, node, make)?));
        P::describe(&raw const *place.line);
        let known = KnownUser {
            gone: false,
            place: Arc::clone(&place),
            ports: Vec::new(),
            seen_taken: 0,
            changed_at: P::now(),
        };
        let mut registry = self.registry.lock();
        let index = match registry.users.iter().position(|user| user.gone && user.ports.is_empty())
        {
            Some(index) => {
                registry.users[index] = known;
                index
            }
            None => {
                registry.users.push(known);
                registry.users.len() - 1
            }
        };
        Ok(TagUser { set: Arc::clone(self), index, place })
    }

    /// Gives `user` a share. Cold: once for each time that it was idle.
    #[cold]
    fn turn_busy(&self, user: usize) {
        let woken = {
            let mut registry = self.registry.lock();
            let known = &mut registry.users[user];
            if is_active(known) {
                return;
            }
            known.changed_at = P::now();
            known.place.line.active.store(1, Release);
            self.share_out(&registry);
            self.serve_waiting(&mut registry)
        };
        wake(woken);
    }

    /// Recomputes what each active user may have.
    fn share_out(&self, registry: &Registry<P>) {
        let active = || registry.users.iter().filter(|user| is_active(user));
        let users = active().count().max(1) as u32;
        let depth = self.spec.depth;
        let limit = depth.div_ceil(users).max(LEAST_SHARE).min(depth);
        let (common, each) = self.spec.policy.split(depth, users, self.bitmap.word_tags());
        // The common part comes last, so that slices begin where words begin.
        for (at, user) in active().enumerate() {
            let start = at as u32 * each;
            let line = &user.place.line;
            line.limit.store(limit, Relaxed);
            let window = Window::new(start..start + each, depth - common);
            line.window.store(window.word(), Relaxed);
        }
    }

    /// Takes a tag for a port that waits, marking what it waits for. Under the lock.
    fn take_for_waiter(&self, user: &User<P>) -> Option<u32> {
        let count = user.count(self.spec.policy);
        if let Some(count) = count {
            let limit = user.line.limit.load(Relaxed);
            // AcqRel: a tag given back later is seen here or sees the mark.
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

    /// Hands free tags to those who wait, first come first served among those who may have them.
    /// Returns whom to wake, outside of the lock.
    fn serve_waiting(&self, registry: &mut Registry<P>) -> Vec<Arc<PortLine<P>>> {
        self.retire_idle(registry);
        self.unmark(registry);
        let mut woken = Vec::new();
        let Registry { users, waiting, .. } = registry;
        waiting.retain(|one| match self.take_for_waiter(&users[one.user].place) {
            Some(tag) => {
                // Release pairs with the Acquire of `granted`: the tag comes with what its last
                // holder did.
                one.port.grant.store(tag + 1, Release);
                woken.push(Arc::clone(&one.port));
                false
            }
            None => true,
        });
        if waiting.is_empty() {
            self.unmark(registry);
        }
        woken
    }

    /// Takes all marks away; whoever still waits marks again, and looks after that.
    fn unmark(&self, registry: &Registry<P>) {
        self.bitmap.unmark();
        for user in &registry.users {
            if let Some(count) = user.place.count(self.spec.policy)
                && count.load(Relaxed) & COUNT_WAITED != 0
            {
                count.fetch_and(!COUNT_WAITED, AcqRel);
            }
        }
    }

    /// Takes the share from users that have had no tag for the grace period.
    fn retire_idle(&self, registry: &mut Registry<P>) {
        let now = P::now();
        let grace_ns = u64::try_from(self.spec.grace.as_nanos()).unwrap_or(u64::MAX);
        // Four looks a period: a share is taken at most a quarter late.
        if now.ns_since(registry.looked_at) < grace_ns / 4 {
            return;
        }
        registry.looked_at = now;
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
                user.place.line.active.store(0, Release);
                changed = true;
            }
        }
        // One that waits has no tag, but wants one.
        for one in &registry.waiting {
            let active = &registry.users[one.user].place.line.active;
            if active.load(Relaxed) == 0 {
                active.store(1, Release);
                changed = true;
            }
        }
        if changed {
            self.share_out(registry);
        }
    }

    /// Called by whoever gave back a tag that somebody waits for.
    #[cold]
    fn serve(&self) {
        let woken = self.serve_waiting(&mut self.registry.lock());
        wake(woken);
    }
}

fn is_active<P: Platform>(user: &KnownUser<P>) -> bool {
    user.place.line.active.load(Acquire) != 0
}

fn wake<P: Platform>(ports: Vec<Arc<PortLine<P>>>) {
    for port in ports {
        let waker = port.waker.lock().clone();
        match waker {
            // Others are to be woken after this one, on whose account nobody else's thread panics.
            Some(waker) => drop(user::call(move || waker())),
            None => {
                port.parker.unpark();
            }
        }
    }
}

/// Its share goes to the others; ports that still have tags keep its place.
impl<P: Platform> Drop for TagUser<P> {
    fn drop(&mut self) {
        let woken = {
            let mut registry = self.set.registry.lock();
            registry.users[self.index].gone = true;
            if !is_active(&registry.users[self.index]) {
                return;
            }
            self.place.line.active.store(0, Release);
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
