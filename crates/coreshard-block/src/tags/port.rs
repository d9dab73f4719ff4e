//! Ports: a port is one thread's handle to the tags of a user.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Lock, Parker, Platform};

use super::policy::{TagPolicy, Window};
use super::set::{
    COUNT_WAITED, MAX_RESERVED_TAGS, MAX_TAGS, PortLine, SharedUserState, TagSet, TagUser, Waiter,
    next_number, wake,
};

/// The width of a tag's number in a tag's word; reserved tags have numbers of the same range.
const NUMBER_BITS: u32 = 21;
const _: () = assert!(MAX_TAGS + MAX_RESERVED_TAGS <= 1 << NUMBER_BITS);

/// The right to have one request in flight. It must be released through the port that it was taken through.
#[derive(PartialEq, Eq, Hash)]
#[must_use = "a tag that is not released is lost to its set"]
pub struct Tag {
    /// The tag's number, and above it its port's number.
    word: NonZeroU64,
}

impl Tag {
    /// Returns the tag's number: below the set's depth, or from there on for reserved tags.
    pub fn index(&self) -> usize {
        self.number() as usize
    }

    #[inline]
    fn number(&self) -> u32 {
        self.word.get() as u32 & ((1 << NUMBER_BITS) - 1)
    }

    #[inline]
    fn port(&self) -> u64 {
        self.word.get() >> NUMBER_BITS
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tag").field("number", &self.number()).field("port", &self.port()).finish()
    }
}

/// Identifies a port, and so its tags: no two ports of a process have the same id, in any set.
#[derive(Clone, Copy, Debug)]
struct PortId {
    /// The port's number, shifted above the tags' numbers.
    mark: NonZeroU64,
}

impl PortId {
    fn new() -> Self {
        let mark = next_number().get().checked_mul(1 << NUMBER_BITS).and_then(NonZeroU64::new);
        Self { mark: mark.expect("fewer than 2⁴³ sets and ports were made") }
    }

    #[inline]
    fn tag(self, number: u32) -> Tag {
        Tag { word: self.mark | u64::from(number) }
    }

    #[inline]
    fn has(self, tag: &Tag) -> bool {
        tag.port() == self.port()
    }

    #[inline]
    fn port(self) -> u64 {
        self.mark.get() >> NUMBER_BITS
    }
}

/// One thread's handle to a user's tags.
///
/// It first tries the tag that it released last, so that an uncontended thread touches one line of the
/// bitmap.
pub struct TagPort<P: Platform> {
    set: Arc<TagSet<P>>,
    id: PortId,
    user: usize,
    shared: Arc<SharedUserState<P>>,
    line: Arc<PortLine<P>>,
    policy: TagPolicy,
    depth: u32,
    hint: u32,
    enlisted: bool,
}

impl<P: Platform> TagUser<P> {
    /// Creates a port for a thread.
    pub fn port(&self) -> TagPort<P> {
        let line = Arc::new(PortLine {
            held: P::AtomicU32::new(0),
            taken: P::AtomicU32::new(0),
            grant: P::AtomicU32::new(0),
            parker: Parker::new(),
            waker: Lock::new(None),
        });
        let mut registry = self.set.registry.lock();
        let ports: usize = registry.users.iter().map(|user| user.ports.len()).sum();
        registry.users[self.index].ports.push(Arc::clone(&line));
        let depth = self.set.spec.depth;
        TagPort {
            set: Arc::clone(&self.set),
            id: PortId::new(),
            user: self.index,
            shared: Arc::clone(&self.shared),
            line,
            policy: self.set.spec.policy,
            depth,
            // Each port begins at its own word.
            hint: (ports as u64 * u64::from(self.set.bitmap.word_tags()) % u64::from(depth)) as u32,
            enlisted: false,
        }
    }
}

impl<P: Platform> TagPort<P> {
    /// Takes a free tag that this user may have now.
    ///
    /// Also returns `None` if other ports wait for it; to wait as well, call [`enlist`](Self::enlist) or
    /// [`wait`](Self::wait).
    #[inline]
    pub fn get(&mut self) -> Option<Tag> {
        let line = &self.shared.line;
        if line.active.load(Acquire) == 0 {
            self.set.activate(self.user);
        }
        let tag = match self.policy {
            TagPolicy::None => self.set.bitmap.take(0..self.depth, self.hint)?,
            TagPolicy::Packed | TagPolicy::Padded => {
                let count = self.shared.count(self.policy).expect("these variants count");
                // The mark makes the number larger than any limit, so waiters go first. Several threads of a
                // user may pass this check at once and exceed its limit by as many, as in Linux.
                if count.load(Relaxed) >= line.limit.load(Relaxed) {
                    return None;
                }
                let tag = self.set.bitmap.take(0..self.depth, self.hint)?;
                count.fetch_add(1, Relaxed);
                tag
            }
            TagPolicy::Windowed { .. } => {
                let window = Window::from_word(line.window.load(Relaxed));
                let bitmap = &self.set.bitmap;
                let own = bitmap.take(window.slice(), self.hint);
                own.or_else(|| bitmap.take(window.common()..self.depth, self.hint))?
            }
        };
        Some(self.have(tag))
    }

    #[inline]
    fn have(&self, tag: u32) -> Tag {
        // Plain additions: no other thread writes here.
        self.line.held.store(self.line.held.load(Relaxed) + 1, Relaxed);
        self.line.taken.store(self.line.taken.load(Relaxed).wrapping_add(1), Relaxed);
        self.id.tag(tag)
    }

    /// Takes a reserved tag, if one is free.
    pub fn get_reserved(&mut self) -> Option<Tag> {
        let all = (1_u64 << self.set.spec.reserved) - 1;
        let mut seen = self.set.reserved.load(Relaxed);
        loop {
            let free = !seen & all;
            if free == 0 {
                return None;
            }
            let bit = free.trailing_zeros();
            seen = self.set.reserved.fetch_or(1 << bit, Acquire);
            if seen & (1 << bit) == 0 {
                return Some(self.id.tag(self.depth + bit));
            }
        }
    }

    /// Releases a tag, or hands it to a waiter.
    ///
    /// # Panics
    /// If the tag was taken through another port, of this set or of another one. Nothing is released then.
    #[inline]
    pub fn put(&mut self, tag: Tag) {
        if !self.id.has(&tag) {
            wrong_port(&tag, self.id, self.set.number);
        }
        let tag = tag.number();
        if tag >= self.depth {
            let bit = 1 << (tag - self.depth);
            let before = self.set.reserved.fetch_and(!bit, Release);
            assert!(before & bit != 0, "reserved tag {tag} was released, but was not taken");
            return;
        }
        self.hint = tag;
        self.line.held.store(self.line.held.load(Relaxed) - 1, Relaxed);
        let mut waited = false;
        if let Some(count) = self.shared.count(self.policy) {
            // AcqRel: either a waiter sees this, or the waiter's mark is seen here. Pairs with the `fetch_or`
            // in `take_for_waiter`.
            waited = count.fetch_sub(1, AcqRel) & COUNT_WAITED != 0;
        }
        waited |= self.set.bitmap.put(tag);
        if waited {
            self.set.serve();
        }
    }

    /// Sets a waker, called when a tag is handed to this port while it waits, instead of waking a thread
    /// inside [`wait`](Self::wait).
    ///
    /// It runs on the releasing thread, where its panics are dropped.
    pub fn set_waker(&mut self, waker: Arc<dyn Fn() + Send + Sync>) {
        let before = self.line.waker.lock().replace(waker);
        drop(before);
    }

    /// Takes a tag if one is available.
    ///
    /// Otherwise becomes a waiter, without sleeping, and a tag is handed to the port later, see
    /// [`granted`](Self::granted).
    pub fn enlist(&mut self) -> Option<Tag> {
        if self.enlisted {
            return self.granted();
        }
        if self.shared.line.active.load(Acquire) == 0 {
            self.set.activate(self.user);
        }
        let woken = {
            let mut registry = self.set.registry.lock();
            let waiter = Waiter { user: self.user, port: Arc::clone(&self.line) };
            registry.waiters.push_back(waiter);
            // Earlier waiters come first.
            self.set.serve_waiting(&mut registry)
        };
        self.enlisted = true;
        let others = woken.into_iter().filter(|port| !Arc::ptr_eq(port, &self.line)).collect();
        wake(others);
        self.granted()
    }

    /// Takes the tag that was handed to this port since it was enlisted, if any.
    pub fn granted(&mut self) -> Option<Tag> {
        if !self.enlisted || self.line.grant.load(Acquire) == 0 {
            return None;
        }
        // Only this thread takes a grant, and there is no other until it is enlisted again. Acquire pairs
        // with the Release in `serve_waiting`.
        let tag = self.line.grant.swap(0, Acquire) - 1;
        self.enlisted = false;
        Some(self.have(tag))
    }

    /// Returns true while the port is a waiter.
    pub fn is_enlisted(&self) -> bool {
        self.enlisted
    }

    /// Stops waiting, and returns a tag that was handed over meanwhile.
    pub fn withdraw(&mut self) -> Option<Tag> {
        if !self.enlisted {
            return None;
        }
        self.stop_waiting();
        let tag = self.granted();
        self.enlisted = false;
        tag
    }

    fn stop_waiting(&self) {
        let mut registry = self.set.registry.lock();
        registry.waiters.retain(|waiter| !Arc::ptr_eq(&waiter.port, &self.line));
    }

    /// Takes a tag, and sleeps until there is one.
    ///
    /// Waiters that may have a tag are served first come, first served. Not for a port with its own waker.
    pub fn wait(&mut self) -> Tag {
        if let Some(tag) = self.get().or_else(|| self.enlist()) {
            return tag;
        }
        loop {
            self.line.parker.park();
            if let Some(tag) = self.granted() {
                return tag;
            }
        }
    }

    /// Returns the number of tags that this port has taken and not released, without reserved ones.
    pub fn held(&self) -> u32 {
        self.line.held.load(Relaxed)
    }

    /// Returns true in a process that was forked from the set's, where it must not be used.
    pub(crate) fn is_forked(&self) -> bool {
        self.set.is_forked()
    }
}

#[cold]
#[inline(never)]
fn wrong_port(tag: &Tag, id: PortId, set: u32) -> ! {
    panic!(
        "tag {} was taken through port {}, but released through port {} of tag set {set}: release it \
         through the port that it was taken through",
        tag.number(),
        tag.port(),
        id.port(),
    )
}

impl<P: Platform> Drop for TagPort<P> {
    fn drop(&mut self) {
        if self.set.is_forked() {
            return;
        }
        if let Some(tag) = self.withdraw() {
            self.put(tag);
        }
        // A port that still has tags stays in its user's entry, so that they count as in use.
        if self.held() == 0 {
            let mut registry = self.set.registry.lock();
            let entry = &mut registry.users[self.user];
            entry.ports.retain(|port| !Arc::ptr_eq(port, &self.line));
            if entry.gone && entry.ports.is_empty() {
                self.shared.line.active.store(0, Release);
            }
        }
    }
}

impl<P: Platform> fmt::Debug for TagPort<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TagPort")
            .field("user", &self.user)
            .field("held", &self.held())
            .field("enlisted", &self.enlisted)
            .finish()
    }
}
