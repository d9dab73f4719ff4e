//! The `user_data` of completions that are no command's. A command's is its id, below 2⁶³.

pub(super) const WOKEN: u64 = u64::MAX;
pub(super) const CANCELLED: u64 = u64::MAX - 1;
pub(super) const PROBED: u64 = u64::MAX - 2;
