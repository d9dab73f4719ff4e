//! What is counted of a run's work items.

/// What is known of a run's items.
#[derive(Debug, Default)]
pub(super) struct ItemCounts {
    /// Accepted, and not begun.
    pub(super) queued: u64,
    pub(super) begun: u64,
    /// What was thrown, with the queue's name, where nobody asked to hear of it.
    pub(super) panics: Vec<String>,
}
