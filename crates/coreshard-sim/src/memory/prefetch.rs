//! What the host is about to need.
#![allow(unsafe_code)]

/// Has the host's processor fetch a line into its cache, where it can be told to.
#[inline]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, which reads nothing, and does not fault whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
