//! Dropping a queue: nothing is freed that the device may still use.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::time::Duration;

use coreshard_platform::{Platform, user};

use super::Queue;
use super::mailbox::Message;
use super::remote::refused_completion;
use super::request_id::SlotKey;
use super::slot::{Abort, OnComplete};
use crate::request::ErrorClass;

impl<P: Platform> Queue<P> {
    /// Cancels everything, and waits for the device. True if it is done with all memory.
    fn drain(&mut self) -> bool {
        self.closing = true;
        self.mailbox.close(&mut self.messages);
        while let Some(message) = self.messages.pop_front() {
            if let Message::Submit(request, cell) = message {
                let refused = refused_completion(self.device.name(), request);
                self.to_notify.push_back((OnComplete::Future(cell), refused));
            }
        }
        let keys: Vec<SlotKey> = self.slots.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.abort(key, Abort::Cancelled));
        self.notify();
        let give_up_at = P::now() + self.drain_timeout;
        while self.at_device > 0 {
            let waited = self.channel.wait(Some(Duration::from_millis(100)));
            // What completed until now did so in time.
            self.advance();
            if self.at_device > 0 && (waited.is_err() || P::now() > give_up_at) {
                return false;
            }
            // What was done but not reported at the first cancel is reported at another.
            let Self { slots, channel, .. } = self;
            for (key, request) in slots.iter() {
                if request.buffers.is_lent() {
                    channel.cancel(slots.command_id(key.index));
                }
            }
        }
        true
    }

    /// The device will never be done: its requests fail, and their buffers are leaked.
    #[cold]
    fn abandon(&mut self) {
        self.device.set_offline();
        let keys: Vec<SlotKey> = self.slots.iter().map(|(key, _)| key).collect();
        for key in keys {
            if self.slots.get(key.index).buffers.is_lent() {
                self.give_up(key);
            } else {
                self.fail(key.index, (ErrorClass::Gone, libc::ENODEV));
            }
        }
        self.notify();
    }
}

/// Everything that was accepted ends: what waits as cancelled, what the device has when it is done
/// with it. The drop waits for the device. Where that takes more than a minute, the memory that
/// the device may still touch is leaked, and the requests fail without it.
///
/// In a process that was forked from the queue's, all of it is leaked instead, and nothing is called.
///
/// A panic of a callback is resumed when all of this is done, unless the thread panics already.
impl<P: Platform> Drop for Queue<P> {
    fn drop(&mut self) {
        if self.device.is_forked() {
            // The channel stays, too: to drop it is to wait for what it has.
            self.disown();
            return;
        }
        let drained = user::call(|| self.drain());
        let dropped = match drained {
            // SAFETY: dropped once, here; the device has no memory any more.
            Ok(true) => user::call(|| unsafe { ManuallyDrop::drop(&mut self.channel) }),
            // A channel that panics is taken for one that never answers.
            Ok(false) | Err(_) => {
                self.abandon();
                drained.map(drop)
            }
        };
        if let Err(thrown) = dropped {
            self.thrown.get_or_insert(thrown);
        }
        if !std::thread::panicking() {
            self.rethrow();
        }
    }
}
