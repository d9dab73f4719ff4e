//! What a queue does when a timer expires.

use coreshard_platform::{Platform, Time};

use super::Queue;
use super::request_id::SlotKey;
use super::slot::Abort;
use super::timers::Timer;
use crate::request::ErrorClass;

impl<P: Platform> Queue<P> {
    /// Sets a timer for a request that is not over.
    pub(super) fn set_timer(&mut self, index: u32, at: Time, timer: Timer) {
        let request = self.slots.get_mut(index);
        request.timers += 1;
        let key = SlotKey { serial: request.serial, index };
        let Self { timers, slots, .. } = self;
        timers.set(at, key, timer, |key| slots.find(key).is_some());
    }

    pub(super) fn fire_timers(&mut self) {
        let now = P::now();
        while let Some((key, timer)) = self.timers.pop(now) {
            if self.slots.find(key).is_none() {
                continue;
            }
            self.slots.get_mut(key.index).timers -= 1;
            self.timers.forget(1);
            match timer {
                Timer::Deadline => self.abort(key, Abort::TimedOut),
                Timer::Retry if self.device.is_online() => self.start_again(key.index),
                Timer::Retry => self.fail(key.index, (ErrorClass::Gone, libc::ENODEV)),
            }
        }
    }
}
