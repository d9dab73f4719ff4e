//! How other threads wake a ring's thread.
//!
//! One word says whether the thread sleeps, and every step is a read-modify-write of it, so that steps
//! have one order and each sees what came before it:
//!
//! | step | from | to | then |
//! |---|---|---|---|
//! | [`ring`](Bell::ring), by anybody | any | `RUNG` | wakes the thread where it was `ASLEEP` |
//! | [`lie_down`](Bell::lie_down), by the thread | `AWAKE` | `ASLEEP` | sleeps |
//! | | `RUNG` | `AWAKE` | looks again |
//! | [`rise`](Bell::rise), by the thread | any | `AWAKE` | looks |
//!
//! Nobody's ring is lost: what the thread takes away in `rise` or `lie_down` it has read, and with it what
//! the ringer left before; what comes later stays. A plain store in `rise` could wipe out a ring whose
//! letter the look that follows does not see yet; `loom_tests` was seen to find that.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use coreshard_platform::{AtomicInt, Lock, Platform};
use io_uring::{opcode, squeue, types};

const AWAKE: u32 = 0;
const RUNG: u32 = 1;
const ASLEEP: u32 = 2;

/// The word of a doorbell.
#[derive(Debug)]
pub(super) struct Bell<P: Platform> {
    word: P::AtomicU32,
}

impl<P: Platform> Bell<P> {
    pub(super) fn new() -> Self {
        Self { word: P::AtomicU32::new(AWAKE) }
    }

    /// Leaves word for the thread. True where it sleeps, or is about to, and has to be woken.
    pub(super) fn ring(&self) -> bool {
        // Release: what was left before this is seen by the thread that takes the ring away.
        self.word.swap(RUNG, AcqRel) == ASLEEP
    }

    /// True if the thread may sleep now; false where somebody rang, and it has to look again.
    pub(super) fn lie_down(&self) -> bool {
        if self.word.compare_exchange(AWAKE, ASLEEP, Relaxed, Relaxed).is_ok() {
            return true;
        }
        self.rise();
        false
    }

    /// The thread does not sleep any more.
    pub(super) fn rise(&self) {
        // A swap, and Acquire: see the module's header.
        self.word.swap(AWAKE, Acquire);
    }
}

/// How a message reaches the thread of a ring.
#[derive(Debug)]
enum Wire {
    /// A message put into the ring itself (io_uring_enter(2), IORING_OP_MSG_RING), by whoever rings and
    /// without a ring of its own. `None` once the ring is gone.
    Ring(Option<RawFd>),
    /// A count that the ring reads.
    Event(OwnedFd),
}

/// What wakes a ring's thread.
pub(super) struct Doorbell<P: Platform> {
    bell: Bell<P>,
    /// Held while a message is sent, so that the ring's number is not another file's by then. One in many
    /// rings comes here, and one of many ringers at a time.
    wire: Lock<P, Wire>,
}

impl<P: Platform> Doorbell<P> {
    /// A bell that puts messages into the ring `fd`; probed already.
    pub(super) fn of_ring(fd: RawFd) -> Self {
        Self { bell: Bell::new(), wire: Lock::new(Wire::Ring(Some(fd))) }
    }

    /// A bell with an eventfd, for the ring to read.
    ///
    /// # Errors
    /// Where there is none to be had.
    pub(super) fn of_event() -> io::Result<(Self, RawFd)> {
        // SAFETY: takes two integers, answers a descriptor or −1.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just opened and is nobody else's.
        let owned = unsafe { OwnedFd::from_raw_fd(event) };
        Ok((Self { bell: Bell::new(), wire: Lock::new(Wire::Event(owned)) }, event))
    }

    pub(super) fn bell(&self) -> &Bell<P> {
        &self.bell
    }

    /// Wakes the thread if it sleeps; else it finds the word before it sleeps next.
    pub(super) fn ring(&self) {
        if !self.bell.ring() {
            return;
        }
        match &*self.wire.lock() {
            Wire::Ring(Some(fd)) => {
                // A full completion queue is the one thing that can go wrong with a ring that took the
                // probe's message, and then the thread has cause enough to wake.
                let _ = send_message(*fd, super::WOKEN);
            }
            Wire::Ring(None) => {}
            Wire::Event(event) => {
                let one = 1_u64;
                // SAFETY: writes eight bytes from a live integer. It fails only where the count would
                // overflow, and then the thread is being woken anyway.
                unsafe { libc::write(event.as_raw_fd(), (&raw const one).cast(), 8) };
            }
        }
    }

    /// The ring is about to be gone: no message goes there any more.
    pub(super) fn disconnect(&self) {
        if let Wire::Ring(fd) = &mut *self.wire.lock() {
            *fd = None;
        }
    }
}

impl<P: Platform> fmt::Debug for Doorbell<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell").field("bell", &self.bell).finish_non_exhaustive()
    }
}

/// Puts a completion with this number into the ring `fd`, from any thread and without a ring of its own
/// (Linux 6.13, io_uring/msg_ring.c).
///
/// # Errors
/// Where the kernel cannot or may not.
pub(super) fn send_message(fd: RawFd, user_data: u64) -> io::Result<()> {
    /// From linux/io_uring.h.
    const IORING_REGISTER_SEND_MSG_RING: libc::c_uint = 31;
    /// In place of a ring: the operation needs none.
    const NO_RING: libc::c_int = -1;
    let entry: squeue::Entry = opcode::MsgRingData::new(types::Fd(fd), 0, user_data, None).build();
    // SAFETY: the kernel reads one submission entry, which `Entry` is laid out as, and nothing that the
    // entry names is memory of ours.
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

    use super::Bell;

    struct House {
        bell: Bell<Loom>,
        /// Stands for the kernel, which keeps a message until the ring's thread comes for it.
        kernel: Parker<Loom>,
        letters: [<Loom as Platform>::AtomicU32; 2],
    }

    /// Two ringers, and a thread that looks without order of its own (`Mailbox::take` looks so) and sleeps
    /// until it has seen both letters. Fails (the thread sleeps for ever) where `rise` is a plain store,
    /// where its order is Relaxed, and where `lie_down` sleeps without a look at the word.
    #[test]
    fn no_ring_is_lost() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let house = Arc::new(House {
                bell: Bell::new(),
                kernel: Parker::new(),
                letters: [
                    <Loom as Platform>::AtomicU32::new(0),
                    <Loom as Platform>::AtomicU32::new(0),
                ],
            });
            let ringers: Vec<_> = (0..2)
                .map(|number| {
                    let house = Arc::clone(&house);
                    loom::thread::spawn(move || {
                        house.letters[number].store(1, Relaxed);
                        if house.bell.ring() {
                            house.kernel.unpark();
                        }
                    })
                })
                .collect();
            while house.letters.iter().any(|letter| letter.load(Relaxed) == 0) {
                if house.bell.lie_down() {
                    house.kernel.park();
                    house.bell.rise();
                }
            }
            ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
        });
    }
}
