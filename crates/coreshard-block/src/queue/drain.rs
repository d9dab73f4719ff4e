//! Dropping a queue: no memory is freed that the device may still use.
#![allow(unsafe_code)]

use std::time::Duration;

use coreshard_platform::{Platform, user};

use super::Queue;
use super::remote::Message;
use crate::request::Completed;

impl<P: Platform> Queue<P> {
    /// Cancels everything, and waits for the device. Returns true if the device has finished with all memory.
    fn drain(&mut self) -> bool {
        self.mailbox.close(&mut self.messages);
        while let Some(message) = self.messages.pop_front() {
            if let Message::Submit(request, cell) = message {
                let refused = Completed::cancelled(self.device().name(), request);
                self.requests.outbox.refuse(cell, refused);
            }
        }
        self.requests.close();
        let give_up_at = P::now() + self.drain_timeout;
        while self.requests.channel.is_busy() {
            let waited = self.requests.channel.wait(Some(Duration::from_millis(100)));
            // Commands that have completed by now did so in time.
            self.advance();
            if self.requests.channel.is_busy() && (waited.is_err() || P::now() > give_up_at) {
                return false;
            }
            self.requests.cancel_again();
        }
        true
    }
}

/// Ends every accepted request. Waiting requests end as cancelled; those at the device end when it finishes.
/// The drop waits for the device. After a minute, memory that the device may still use is leaked, and the
/// requests fail without it.
///
/// In a process that was forked from the queue's, everything is leaked instead, and nothing is called.
///
/// A callback's panic is resumed after all of this, unless the thread is already panicking.
impl<P: Platform> Drop for Queue<P> {
    fn drop(&mut self) {
        if self.device().is_forked() {
            // The channel is also leaked, since its drop would wait for its commands.
            self.disown();
            return;
        }
        let drained = user::call(|| self.drain());
        let dropped = match drained {
            // SAFETY: dropped once, here; the device no longer has any memory.
            Ok(true) => user::call(|| unsafe { self.requests.channel.drop_channel() }),
            // A channel that panics is treated as one that never answers.
            Ok(false) | Err(_) => {
                self.requests.abandon();
                drained.map(drop)
            }
        };
        if let Err(thrown) = dropped {
            self.requests.outbox.keep(thrown);
        }
        if !std::thread::panicking() {
            self.requests.outbox.rethrow();
        }
    }
}
