//! Sleeping on a word of memory, futex(2). The words are private to the process.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::WaitOutcome;

pub(super) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> WaitOutcome {
    let timeout = timeout.map(|timeout| libc::timespec {
        // A time beyond the type's range is effectively infinite.
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout_ptr = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word is a live, aligned 32-bit integer for the whole call (a borrow). The timeout is null
    // or points to a live timespec on this stack.
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
    // On EAGAIN (another value) and EINTR (a signal), the caller checks the word again.
    WaitOutcome::Returned
}

pub(super) fn wake(word: *const AtomicU32, threads: i32) {
    // SAFETY: FUTEX_WAKE on a private futex uses the address as a key and does not read it. If the word has
    // been freed, the worst case is a spurious wake-up elsewhere, which every waiter expects.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, threads);
    }
}
