//! Who lets a request through to the device: its target, where that has a limit, and then the host.
//!
//! In this order, so that whoever waits for a tag of the host's may hold one of the target's, but never
//! the other way round: nobody waits for somebody who waits for him. A queue holds at most one of the
//! target's in that way.

use coreshard_platform::Platform;

use crate::backend::Waker;
use crate::tags::{Tag, TagPort};

/// The right of one request to be at the device.
#[derive(Debug)]
pub(super) struct Permit {
    pub(super) host: Tag,
    target: Option<Tag>,
}

/// A queue's ways to permits.
pub(super) struct Admission<P: Platform> {
    host: TagPort<P>,
    /// `None` where the target has no limit: then nothing of the target's is touched.
    target: Option<TargetLimit<P>>,
}

struct TargetLimit<P: Platform> {
    port: TagPort<P>,
    /// A tag that waits for one of the host's.
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

    /// A permit, or a place in line, of which the waker tells.
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

    /// Whether the queue stands in a line, or holds what others wait for.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        let limit = |limit: &TargetLimit<P>| limit.port.is_enlisted() || limit.held.is_some();
        self.host.is_enlisted() || self.target.as_ref().is_some_and(limit)
    }

    /// Leaves all lines; what was handed over meanwhile goes to others.
    pub(super) fn leave_lines(&mut self) {
        if let Some(tag) = self.host.withdraw() {
            self.host.put(tag);
        }
        if let Some(TargetLimit { port, held }) = &mut self.target
            && let Some(tag) = held.take().or_else(|| port.withdraw())
        {
            port.put(tag);
        }
    }

    /// The request is over.
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

/// A queue that is dropped stands in no line, and holds nothing that no request has.
impl<P: Platform> Drop for Admission<P> {
    fn drop(&mut self) {
        self.leave_lines();
    }
}

fn get_or_enlist<P: Platform>(port: &mut TagPort<P>) -> Option<Tag> {
    let tag = if port.is_enlisted() { port.granted() } else { port.get() };
    tag.or_else(|| port.enlist())
}
