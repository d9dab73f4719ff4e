//! Ids of requests.

/// Identifies one request of a process, and never another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// The queue's number.
    pub(super) queue: u64,
    pub(super) key: SlotKey,
}

/// Names a request of a queue, for good: no other request of the queue ever has its serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SlotKey {
    pub(super) serial: u64,
    /// Its slot.
    pub(super) index: u32,
}
