//! The thread that makes an access, and the piece of memory that it refers to.

use super::owners::Owner;

/// Determines the piece of memory that an access refers to, together with its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The approximate time of the access.
    pub(crate) ticket: u64,
    /// The piece of memory at that time, if the address belonged to several.
    pub(crate) owner: Owner,
}

/// The thread that accesses a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accessor {
    pub(crate) thread: u32,
    /// Whether it holds a lock on the line.
    pub(crate) is_locked: bool,
    pub(crate) ticket: u64,
    /// The piece of memory and its kind, if the address belonged to several.
    pub(crate) owner: Owner,
    pub(crate) owner_kind: u32,
}
