//! Where the items of a queue lie that was shut down at once; see `backlog.rs`.

use crate::base::returned::Returned;

/// What was set aside, until somebody asks for it.
#[derive(Default)]
pub(super) struct SetAside {
    pub(super) items: Vec<Returned>,
    /// Callers who wait for more.
    pub(super) collectors: usize,
}

impl SetAside {
    /// Keeps it. Gives it back, to be discarded, where its handle tells what became of it and nobody is there to be
    /// handed it: who joins it may hold the queue, and so nothing else would end that wait.
    pub(super) fn put(&mut self, returned: Returned) -> Option<Returned> {
        if self.collectors == 0 && returned.has_handle() {
            return Some(returned);
        }
        self.items.push(returned);
        None
    }

    /// All that is there, for a caller who waits no more.
    pub(super) fn collect(&mut self) -> Vec<Returned> {
        self.collectors -= 1;
        std::mem::take(&mut self.items)
    }
}
