//! A member's thread, where the program starts it.

use std::fmt;

use coreshard_platform::ThreadSpec;

/// A member's thread that is to be started, by whoever makes the team ([`TeamBuilder::build_on`](crate::TeamBuilder::build_on)).
///
/// One that is dropped and never run is a member that never comes: the team waits for it with its end.
#[must_use = "the team lacks a member until it runs"]
pub struct MemberThread {
    pub(super) index: usize,
    pub(super) has_name: bool,
    pub(super) spec: ThreadSpec,
    pub(super) body: Box<dyn FnOnce() + Send>,
}

impl MemberThread {
    /// Which member it is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What it is to be called, where the builder says so.
    pub fn name(&self) -> Option<&str> {
        self.has_name.then_some(&*self.spec.name)
    }

    /// How large its stack is to be, where the builder says so.
    pub fn stack_bytes(&self) -> Option<usize> {
        self.spec.stack_bytes
    }

    /// Is the member, on this thread, until the team ends.
    pub fn run(self) {
        (self.body)();
    }
}

impl fmt::Debug for MemberThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberThread").field("index", &self.index).finish_non_exhaustive()
    }
}
