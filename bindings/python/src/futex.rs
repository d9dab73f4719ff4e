//! Sleeping on a word of memory, futex(2). Not the standard library's waits: those go on sleeping when a signal comes, and
//! Python's handlers run on the thread that waits.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps until the word's sleepers are woken, a signal comes or the time is over; not at all if the word holds
/// something else than `expected`.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| libc::timespec {
        // Beyond the type's range it is for ever in all but name.
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is borrowed for the whole call, and the timeout is null or on this stack. Whatever ends the wait, the
    // caller looks at the word again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, timeout) };
}

/// Wakes all who sleep on the word at this address, which may be gone by now.
pub(crate) fn wake_all(word: *const AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the address is a key here and is not read. If the word is gone, it wakes at worst another thread, which looks at
    // his own and sleeps on.
    unsafe { libc::syscall(libc::SYS_futex, word, operation, i32::MAX) };
}
