//! Sleeping on a word of memory, futex(2). The words are private to the process.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::WaitOutcome;

pub(super) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> WaitOutcome {
    let timeout = timeout.map(|timeout| libc::timespec {
        // A time beyond the type's range is a wait for ever in all but name.
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout_ptr = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word is a live, aligned 32-bit integer for the whole call (a borrow), and the
    // timeout is null or points to a live timespec on this stack.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            timeout_ptr,
        )
    };
    if rc == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT) {
        return WaitOutcome::TimedOut;
    }
    // EAGAIN (another value) and EINTR (a signal) are returns for the caller to look again.
    WaitOutcome::Returned
}

pub(super) fn wake(word: *const AtomicU32, threads: i32) {
    // SAFETY: FUTEX_WAKE on a private futex uses the address as a key and does not read it, so a
    // word that is gone by now costs at worst a spurious wake-up elsewhere, which every waiter
    // expects.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, threads);
    }
}
