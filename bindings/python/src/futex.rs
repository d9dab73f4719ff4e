//! Waits on a word of memory with futex(2). The standard library's waits continue after a signal, but Python's handlers
//! run on the waiting thread.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Blocks until the word's waiters are woken, a signal arrives or the timeout expires. Returns at once if the word
/// differs from `expected`.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| libc::timespec {
        // Beyond the type's range it is effectively infinite.
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is borrowed for the whole call, and the timeout is null or on this stack. The caller checks the
    // word again after any wake-up.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, timeout) };
}

/// Wakes all waiters of the word at this address, which may have been freed.
pub(crate) fn wake_all(word: *const AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the address is a key and is not read. If the word was freed, this wakes at worst an unrelated thread,
    // which checks its own word and continues to wait.
    unsafe { libc::syscall(libc::SYS_futex, word, operation, i32::MAX) };
}
