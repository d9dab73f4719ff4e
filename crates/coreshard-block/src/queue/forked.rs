//! A queue in a process that was forked from its own.
//!
//! Its requests are the other process's: the kernel's ring is not mapped here, and threads that hold locks or
//! would answer are not here. So nothing is submitted, waited for, called or dropped that came over the fork.

use std::collections::VecDeque;
use std::mem;

use coreshard_platform::Platform;

use super::Queue;
use super::pending::Pending;
use super::slot::Slots;
use super::timers::Timers;

impl<P: Platform> Queue<P> {
    /// Lets go of everything, without a call or a drop of anything. Nothing is outstanding from here on.
    #[cold]
    pub(super) fn disown(&mut self) -> usize {
        mem::forget(mem::replace(&mut self.slots, Slots::new()));
        mem::forget(mem::take(&mut self.to_notify));
        mem::forget(mem::take(&mut self.messages));
        mem::forget(self.thrown.take());
        self.pending = Pending::new(self.options.best_effort_share, self.options.idle_share);
        self.stalled = VecDeque::new();
        self.completions = Vec::new();
        self.timers = Timers::default();
        (self.in_flight, self.at_device, self.staged, self.handled) = (0, 0, 0, 0);
        0
    }
}
