//! The end of a queue: nothing is freed that the device may still touch.
#![allow(unsafe_code)]

use std::mem::{self, ManuallyDrop};
use std::time::Duration;

use coreshard_platform::Platform;

use super::Queue;
use super::future::{Message, refused_completion};
use super::slot::End;
use crate::error::ErrorClass;

/// How long a queue that is dropped waits for its device before it gives the memory up.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

impl<P: Platform> Queue<P> {
    /// Ends everything, and waits for the device. True if it is done with all memory.
    fn drain(&mut self) -> bool {
        self.closing = true;
        while let Some(accepted) = self.pending.pop() {
            self.give_up(accepted, ErrorClass::Cancelled, libc::ECANCELED);
        }
        for message in self.inbox.close() {
            if let Message::Submit(request, cell) = message {
                cell.complete(refused_completion(self.device.name(), request));
            }
        }
        let serials: Vec<u64> =
            self.slots.iter().filter_map(|slot| Some(slot.flight.as_ref()?.serial)).collect();
        serials.into_iter().for_each(|serial| self.end(serial, End::Cancelled));
        let give_up_at = P::now() + DRAIN_LIMIT;
        while self.at_device > 0 {
            if self.lane.wait(Some(Duration::from_millis(100))).is_err() || P::now() > give_up_at {
                return false;
            }
            self.poll();
            // What was done but not told when it was cancelled first is told when it is again.
            for index in 0..self.slots.len() {
                let slot = &self.slots[index];
                let id = slot.id(index);
                if slot.flight.as_ref().is_some_and(|flight| flight.at_device) {
                    self.lane.cancel(id);
                }
            }
        }
        true
    }
}

/// Everything that was accepted ends: what waits as cancelled, what the device has when it is done
/// with it. The drop waits for the device. Where that takes more than a minute, the memory that
/// the device may still touch is leaked.
impl<P: Platform> Drop for Queue<P> {
    fn drop(&mut self) {
        if self.drain() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.lane) };
        } else {
            mem::forget(mem::take(&mut self.slots));
            self.device.set_offline();
        }
    }
}
