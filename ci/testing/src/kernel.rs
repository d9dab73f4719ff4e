//! Queries the kernel for features, for tests that would otherwise have to infer them from a failed attempt.

/// Whether membarrier(2) is available, in the form that a grace period needs. An attempt alone may also fail because
/// another thread is reading.
#[must_use]
pub fn has_membarrier() -> bool {
    // <linux/membarrier.h>
    const QUERY: libc::c_int = 0;
    const PRIVATE_EXPEDITED: libc::c_long = 1 << 3;
    // SAFETY: the call takes no pointers.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, QUERY, 0, 0) };
    commands > 0 && commands & PRIVATE_EXPEDITED != 0
}
