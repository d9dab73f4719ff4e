//! Whether this process may do more than whoever started it.
#![allow(unsafe_code)]

/// Whether the process was started with rights that its caller does not have: set-user-id, set-group-id or
/// file capabilities. Its environment is then the word of somebody with fewer rights, and is not to be
/// believed where it names files; see `secure_getenv(3)`.
#[must_use]
pub fn is_privileged() -> bool {
    // SAFETY: the call reads what the kernel gave to the process at its start, and nothing else.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
