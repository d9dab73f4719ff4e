//! Ids of requests.

/// Identifies one request of a process. Ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// The queue's number.
    pub(super) queue: u64,
    pub(super) key: SlotKey,
}

/// Names a request of a queue permanently: no other request of the queue ever has its serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SlotKey {
    pub(super) serial: u64,
    /// The index of its slot.
    pub(super) index: u32,
}
