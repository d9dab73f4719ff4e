//! The tags of a request: a tag of its target, if the target has a limit, and then a tag of the host.
//!
//! The order prevents deadlock: a waiter for a host tag may hold a target tag, never the reverse. A queue
//! holds at most one target tag in that way.

use coreshard_platform::Platform;

use crate::backend::Waker;
use crate::tags::{Tag, TagPort};

/// The tags of one request.
#[derive(Debug)]
pub(super) struct Permit {
    pub(super) host: Tag,
    target: Option<Tag>,
}

/// The source of a queue's permits.
pub(super) struct Admission<P: Platform> {
    host: TagPort<P>,
    /// `None` if the target has no limit; its state is then not accessed.
    target: Option<TargetLimit<P>>,
}

struct TargetLimit<P: Platform> {
    port: TagPort<P>,
    /// A target tag that is held while the queue waits for a host tag.
    held: Option<Tag>,
}

impl<P: Platform> Admission<P> {
    pub(super) fn new(mut host: TagPort<P>, target: Option<TagPort<P>>, waker: &Waker) -> Self {
        host.set_waker(waker.clone());
        let target = target.map(|mut port| {
            port.set_waker(waker.clone());
            TargetLimit { port, held: None }
        });
        Self { host, target }
    }

    /// Returns a permit, if one is available at once.
    #[inline]
    pub(super) fn get(&mut self) -> Option<Permit> {
        match &mut self.target {
            None => self.host.get().map(|host| Permit { host, target: None }),
            Some(limit) => limit.get(&mut self.host),
        }
    }

    /// Returns a permit, or else registers as a waiter. The waker is called when a permit is available.
    pub(super) fn get_or_wait(&mut self) -> Option<Permit> {
        let Some(TargetLimit { port, held }) = &mut self.target else {
            return get_or_enlist(&mut self.host).map(|host| Permit { host, target: None });
        };
        let target = held.take().or_else(|| get_or_enlist(port))?;
        match get_or_enlist(&mut self.host) {
            Some(host) => Some(Permit { host, target: Some(target) }),
            None => {
                *held = Some(target);
                None
            }
        }
    }

    /// Returns whether the queue is a waiter, or holds a tag while it waits.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        let limit = |limit: &TargetLimit<P>| limit.port.is_enlisted() || limit.held.is_some();
        self.host.is_enlisted() || self.target.as_ref().is_some_and(limit)
    }

    /// Stops waiting. A tag that was handed over meanwhile is released.
    pub(super) fn stop_waiting(&mut self) {
        if self.host.is_forked() {
            return;
        }
        if let Some(tag) = self.host.withdraw() {
            self.host.put(tag);
        }
        if let Some(TargetLimit { port, held }) = &mut self.target
            && let Some(tag) = held.take().or_else(|| port.withdraw())
        {
            port.put(tag);
        }
    }

    /// Releases the tags of a request.
    #[inline]
    pub(super) fn put(&mut self, permit: Permit) {
        let Permit { host, target } = permit;
        self.host.put(host);
        if let (Some(limit), Some(tag)) = (&mut self.target, target) {
            limit.port.put(tag);
        }
    }
}

impl<P: Platform> TargetLimit<P> {
    #[cold]
    fn get(&mut self, host: &mut TagPort<P>) -> Option<Permit> {
        let target = self.port.get()?;
        match host.get() {
            Some(host) => Some(Permit { host, target: Some(target) }),
            None => {
                self.port.put(target);
                None
            }
        }
    }
}

/// A dropped queue is no longer a waiter and holds no tag.
impl<P: Platform> Drop for Admission<P> {
    fn drop(&mut self) {
        self.stop_waiting();
    }
}

fn get_or_enlist<P: Platform>(port: &mut TagPort<P>) -> Option<Tag> {
    let tag = if port.is_enlisted() { port.granted() } else { port.get() };
    tag.or_else(|| port.enlist())
}
