//! A word that one thread signals and another waits on, spinning for a while before it sleeps: the
//! cheapest hand-over. So waiting for an item costs the same with every peer.

use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::measure::Padded;

const EMPTY: u32 = 0;
const GIVEN: u32 = 1;
const ASLEEP: u32 = 2;

/// Spins before the reader sleeps: some microseconds.
pub(super) const PATIENT: u32 = 200;
/// Sleeps at once, and leaves the CPU to the workers.
pub(super) const SLEEPY: u32 = 0;

#[derive(Default)]
pub(super) struct Word(Padded<AtomicU32>);

impl Word {
    /// Hands over, and wakes the reader if it sleeps.
    #[inline]
    pub(super) fn give(&self) {
        // Release: the reader sees all earlier writes.
        if self.0.0.swap(GIVEN, Ordering::AcqRel) == ASLEEP {
            // SAFETY: the word lives through the call, and the kernel only compares addresses.
            unsafe {
                let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
                libc::syscall(libc::SYS_futex, self.0.0.as_ptr(), op, 1);
            }
        }
    }

    /// Waits for `give`, and resets the word. For one reader.
    #[inline]
    pub(super) fn take(&self, looks: u32) {
        for _ in 0..looks {
            if self.0.0.load(Ordering::Acquire) == GIVEN {
                self.0.0.store(EMPTY, Ordering::Relaxed);
                return;
            }
            spin_loop();
        }
        let word = &self.0.0;
        if word.compare_exchange(EMPTY, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            while word.load(Ordering::Acquire) == ASLEEP {
                // SAFETY: the word lives through the call; without a timeout the pointer is null.
                unsafe {
                    let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
                    let no_timeout = ptr::null::<libc::timespec>();
                    libc::syscall(libc::SYS_futex, word.as_ptr(), op, ASLEEP, no_timeout);
                }
            }
        }
        word.store(EMPTY, Ordering::Relaxed);
    }
}
