//! The tags of a request: one of its target's, if that has a limit, and then one of the host's.
//!
//! In this order: whoever waits for a tag of the host's may hold one of the target's, never the other way
//! round, so there is no deadlock. A queue holds at most one of the target's in that way.

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
    /// `None` if the target has no limit: then nothing of the target's is touched.
    target: Option<TargetLimit<P>>,
}

struct TargetLimit<P: Platform> {
    port: TagPort<P>,
    /// A tag that is held while the queue waits for one of the host's.
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

    /// A permit, if there is one at once.
    #[inline]
    pub(super) fn get(&mut self) -> Option<Permit> {
        match &mut self.target {
            None => self.host.get().map(|host| Permit { host, target: None }),
            Some(limit) => limit.get(&mut self.host),
        }
    }

    /// A permit, or else a place among the waiters; the waker is called when there is one.
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

    /// Whether the queue is a waiter, or holds a tag while it waits.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        let limit = |limit: &TargetLimit<P>| limit.port.is_enlisted() || limit.held.is_some();
        self.host.is_enlisted() || self.target.as_ref().is_some_and(limit)
    }

    /// Waits no more; a tag that was handed over meanwhile goes back.
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

    /// Gives the tags of a request back.
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

/// A queue that is dropped is no waiter, and holds no tag.
impl<P: Platform> Drop for Admission<P> {
    fn drop(&mut self) {
        self.stop_waiting();
    }
}

fn get_or_enlist<P: Platform>(port: &mut TagPort<P>) -> Option<Tag> {
    let tag = if port.is_enlisted() { port.granted() } else { port.get() };
    tag.or_else(|| port.enlist())
}
