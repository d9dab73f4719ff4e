//! Wakes a ring's thread from other threads.
//!
//! One word says whether the thread sleeps. Every step is a read-modify-write of it, so all steps have one
//! order, and each sees the writes before the previous one:
//!
//! | step | from | to | then |
//! |---|---|---|---|
//! | [`notify`](WakeState::notify), by any thread | any | `NOTIFIED` | wakes the thread if it was `ASLEEP` |
//! | [`prepare_to_wait`](WakeState::prepare_to_wait), by the ring's thread | `AWAKE` | `ASLEEP` | sleeps |
//! | | `NOTIFIED` | `AWAKE` | polls again |
//! | [`finish_wait`](WakeState::finish_wait), by the ring's thread | any | `AWAKE` | polls |
//!
//! No notification is lost. A notification that the thread clears in `finish_wait` or `prepare_to_wait` it
//! has also read, and with it the notifier's earlier writes. Later notifications stay. A plain store in
//! `finish_wait` could clear a notification whose message the next poll does not see yet; `loom_tests` finds
//! that mutation.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use coreshard_platform::{AtomicInt, Lock, Platform};
use io_uring::{opcode, squeue, types};

/// The `user_data` of completions that belong to no command. A command's is its id, below 2⁶³.
pub(super) const WOKEN: u64 = u64::MAX;
pub(super) const CANCELLED: u64 = u64::MAX - 1;
pub(super) const PROBED: u64 = u64::MAX - 2;

const AWAKE: u32 = 0;
const NOTIFIED: u32 = 1;
const ASLEEP: u32 = 2;

/// Whether a ring's thread sleeps, and whether it was notified.
#[derive(Debug)]
pub(super) struct WakeState<P: Platform> {
    word: P::AtomicU32,
}

impl<P: Platform> WakeState<P> {
    pub(super) fn new() -> Self {
        Self { word: P::AtomicU32::new(AWAKE) }
    }

    /// Notifies the thread. Returns true if it sleeps or is about to, and must be woken.
    pub(super) fn notify(&self) -> bool {
        // Release: the thread that clears the notification sees all writes before it (Acquire in
        // `finish_wait` and `prepare_to_wait`).
        self.word.swap(NOTIFIED, AcqRel) == ASLEEP
    }

    /// Returns true if the thread may sleep now, and false if it was notified and must poll again.
    pub(super) fn prepare_to_wait(&self) -> bool {
        if self.word.compare_exchange(AWAKE, ASLEEP, Relaxed, Relaxed).is_ok() {
            return true;
        }
        self.finish_wait();
        false
    }

    /// Marks the thread as awake.
    pub(super) fn finish_wait(&self) {
        // A swap, and Acquire: see the module's header.
        self.word.swap(AWAKE, Acquire);
    }
}

/// How a message reaches the thread of a ring.
#[derive(Debug)]
enum WakeMethod {
    /// A message put into the ring itself (IORING_OP_MSG_RING); the notifier needs no ring. `None` once the
    /// ring is closed.
    Ring(Option<RawFd>),
    /// An eventfd that the ring reads.
    EventFd(OwnedFd),
}

/// Wakes a ring's thread.
pub(super) struct Doorbell<P: Platform> {
    state: WakeState<P>,
    /// Held while a message is sent, so that the descriptor is still the ring's. Notifications are rare and
    /// come one at a time.
    method: Lock<P, WakeMethod>,
}

impl<P: Platform> Doorbell<P> {
    /// Creates a doorbell that puts messages into the ring `fd`, which must support them.
    pub(super) fn of_ring(fd: RawFd) -> Self {
        Self { state: WakeState::new(), method: Lock::new(WakeMethod::Ring(Some(fd))) }
    }

    /// Creates a doorbell that writes an eventfd, which the ring must read.
    ///
    /// # Errors
    /// If the eventfd cannot be created.
    pub(super) fn of_event() -> io::Result<(Self, RawFd)> {
        // SAFETY: takes two integers and returns a descriptor or −1.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and has no other owner.
        let owned = unsafe { OwnedFd::from_raw_fd(event) };
        Ok((Self { state: WakeState::new(), method: Lock::new(WakeMethod::EventFd(owned)) }, event))
    }

    pub(super) fn state(&self) -> &WakeState<P> {
        &self.state
    }

    /// Wakes the thread if it sleeps. Otherwise it sees the notification before it sleeps next.
    pub(super) fn ring(&self) {
        if !self.state.notify() {
            return;
        }
        match &*self.method.lock() {
            WakeMethod::Ring(Some(fd)) => {
                // A ring that took the probe's message fails only if its completion queue is full; then the
                // thread has reason enough to wake.
                let _ = send_message(*fd, WOKEN);
            }
            WakeMethod::Ring(None) => {}
            WakeMethod::EventFd(event) => {
                let one = 1_u64;
                // SAFETY: writes eight bytes from a live integer. The write fails only if the count would
                // overflow, and then the thread is being woken anyway.
                unsafe { libc::write(event.as_raw_fd(), (&raw const one).cast(), 8) };
            }
        }
    }

    /// Stops sending messages to the ring, which is about to be closed.
    pub(super) fn disconnect(&self) {
        if let WakeMethod::Ring(fd) = &mut *self.method.lock() {
            *fd = None;
        }
    }
}

impl<P: Platform> fmt::Debug for Doorbell<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Puts a completion with this number into the ring `fd`. Works from any thread, which needs no ring (Linux 6.13,
/// io_uring/msg_ring.c).
///
/// # Errors
/// If the kernel cannot do this or refuses.
pub(super) fn send_message(fd: RawFd, user_data: u64) -> io::Result<()> {
    /// From linux/io_uring.h.
    const IORING_REGISTER_SEND_MSG_RING: libc::c_uint = 31;
    /// In place of a ring's descriptor: the operation needs no ring.
    const NO_RING: libc::c_int = -1;
    let entry: squeue::Entry = opcode::MsgRingData::new(types::Fd(fd), 0, user_data, None).build();
    // SAFETY: the kernel reads one submission entry, which `Entry` has the layout of. The entry refers to no
    // memory of this program.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            NO_RING,
            IORING_REGISTER_SEND_MSG_RING,
            &raw const entry,
            1,
        )
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use coreshard_platform::{AtomicInt, Loom, Parker, Platform};

    use super::WakeState;

    struct WakeModel {
        state: WakeState<Loom>,
        /// Models the kernel, which keeps a message until the ring's thread receives it.
        kernel: Parker<Loom>,
        messages: [<Loom as Platform>::AtomicU32; 2],
    }

    /// Two notifiers, and a thread that loads with relaxed order (as `Mailbox::take` does) and sleeps until
    /// it has seen both messages. Fails (the thread sleeps forever) if `finish_wait` is a plain store, if its
    /// order is Relaxed, and if `prepare_to_wait` sleeps without reading the word.
    #[test]
    fn loom_no_notification_is_lost() {
        Loom::check(3, || {
            let model = Arc::new(WakeModel {
                state: WakeState::new(),
                kernel: Parker::new(),
                messages: [
                    <Loom as Platform>::AtomicU32::new(0),
                    <Loom as Platform>::AtomicU32::new(0),
                ],
            });
            let notifiers: Vec<_> = (0..2)
                .map(|number| {
                    let model = Arc::clone(&model);
                    loom::thread::spawn(move || {
                        model.messages[number].store(1, Relaxed);
                        if model.state.notify() {
                            model.kernel.unpark();
                        }
                    })
                })
                .collect();
            while model.messages.iter().any(|message| message.load(Relaxed) == 0) {
                if model.state.prepare_to_wait() {
                    model.kernel.park();
                    model.state.finish_wait();
                }
            }
            notifiers.into_iter().for_each(|notifier| notifier.join().unwrap());
        });
    }
}
