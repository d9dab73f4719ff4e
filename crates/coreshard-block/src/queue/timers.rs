//! Deadlines, and retries that are put off: one heap, looked at when the queue is polled.

use std::cmp::Reverse;
use std::mem;

use coreshard_platform::{Platform, Time};

use super::Queue;
use super::slot::End;
use crate::error::ErrorClass;

/// Something that happens at a time. The order of the fields is that of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Deadline(u64),
    Retry(u64),
}

impl<P: Platform> Queue<P> {
    pub(super) fn set_timer(&mut self, at: Time, timer: Timer) {
        if self.timers.len() > 64 + 4 * self.outstanding() {
            // Most are of requests that are over.
            let timers = mem::take(&mut self.timers);
            let live = |timer: Timer| match timer {
                Timer::Retry(_) => true,
                Timer::Deadline(serial) => {
                    // Only those in flight are cheap to look up; of the others all are kept.
                    let oldest = self
                        .slots
                        .iter()
                        .filter_map(|slot| Some(slot.flight.as_ref()?.serial))
                        .min();
                    !self.pending.is_empty() || oldest.is_some_and(|oldest| serial >= oldest)
                }
            };
            self.timers = timers.into_iter().filter(|Reverse((_, timer))| live(*timer)).collect();
        }
        self.timers.push(Reverse((at, timer)));
    }

    pub(super) fn fire_timers(&mut self) {
        let now = P::now();
        while let Some(Reverse((at, timer))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            match timer {
                Timer::Deadline(serial) => self.end(serial, End::TimedOut),
                Timer::Retry(id) => self.retry(id),
            }
        }
    }

    fn retry(&mut self, id: u64) {
        let index = id as u32 as usize;
        let slot = &self.slots[index];
        let waits = slot.flight.as_ref().is_some_and(|flight| !flight.at_device);
        if slot.id(index) != id || !waits {
            return;
        }
        if self.device.is_online() {
            self.start(index);
        } else {
            self.finish(index, Err((ErrorClass::Gone, libc::ENODEV)));
        }
    }
}
