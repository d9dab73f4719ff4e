//! Work items, as a runtime reports them: how many wait, how many have begun, and panics without a handler.

/// The known items of a run.
#[derive(Debug, Default)]
pub(crate) struct Items {
    queued: u64,
    begun: u64,
    panics: Vec<String>,
}

impl Items {
    /// Returns the number of accepted items that have not begun.
    pub(crate) const fn queued(&self) -> u64 {
        self.queued
    }

    pub(super) const fn begun(&self) -> u64 {
        self.begun
    }

    /// Returns the panics, with the queue's name.
    pub(super) fn panics(&self) -> &[String] {
        &self.panics
    }

    pub(crate) fn note_queued(&mut self) {
        self.queued += 1;
    }

    pub(crate) fn note_taken(&mut self) {
        self.queued = self.queued.saturating_sub(1);
    }

    pub(super) fn note_begun(&mut self) {
        self.note_taken();
        self.begun += 1;
    }

    pub(crate) fn note_panic(&mut self, queue: &str, panic: &str) {
        self.panics.push(format!("an item of {queue:?}: {panic}"));
    }

    pub(crate) fn take_panics(&mut self) -> Vec<String> {
        std::mem::take(&mut self.panics)
    }
}
