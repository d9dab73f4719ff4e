//! The timers as an implementation of `hyper::rt::Timer`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coreshard_platform::Platform;
use hyper::rt;

use super::Runtime;
use crate::queue::Workqueue;
use crate::timers::{Sleep, Timers, sleep_clamped};

/// With the feature `hyper`.
impl<P: Platform> rt::Sleep for Sleep<P> {}

/// With the feature `hyper`. hyper cannot receive an error: a sleep beyond the clock's range never completes, a sleep without a
/// timekeeper requests one at each poll, and a poll in a process that was forked meanwhile panics.
macro_rules! timer {
    ($timers:ident) => {
        impl<P: Platform> rt::Timer for $timers<P> {
            fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
                Box::pin(sleep_clamped(self.timers(), duration))
            }

            fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
                rt::Timer::sleep(self, deadline.saturating_duration_since(self.now()))
            }

            fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
                let left = new_deadline.saturating_duration_since(self.now());
                if !reset(self.timers(), sleep, left) {
                    *sleep = rt::Timer::sleep(self, left);
                }
            }
        }
    };
}

timer!(Runtime);
timer!(Workqueue);

/// Makes `sleep` complete after `left`; returns false if it does not belong to `timers`.
fn reset<P: Platform>(
    timers: &Arc<Timers<P>>,
    sleep: &mut Pin<Box<dyn rt::Sleep>>,
    left: Duration,
) -> bool {
    match sleep.as_mut().downcast_mut_pin::<Sleep<P>>() {
        Some(own) if own.is_of(timers) => {
            own.get_mut().reset_clamped(left);
            true
        }
        _ => false,
    }
}
