//! A thread that spins: it loads one word again and again until another thread changes it.
//!
//! A recording has as many loads as the wait took when it was recorded, often in emulation and with threads that took
//! turns. In the replay the other thread may be sooner. So when a thread finds that another thread has changed the word,
//! it continues with what followed the loop. If no thread changes the word, the thread loads as often as recorded.

use crate::recording::{Access, AccessKind};

/// The number of consecutive loads from which on they are a loop that waits.
const LEAST: u32 = 4;
/// The largest number of instructions between two loads of such a loop, which only compares and pauses.
const MOST_BETWEEN: u8 = 12;

/// The last accesses of a thread, if they are the same load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spin {
    instruction: u64,
    address: u64,
    times: u32,
    is_over: bool,
}

impl Spin {
    /// Records the next access. Returns whether it belongs to a loop whose word has changed.
    #[inline]
    pub(super) fn is_over(&mut self, access: &Access) -> bool {
        let is_same = access.instruction == self.instruction && access.address == self.address;
        if is_same && access.before <= MOST_BETWEEN && access.kind == AccessKind::Load {
            self.times = self.times.saturating_add(1);
            return self.is_over;
        }
        let instruction = if access.kind == AccessKind::Load { access.instruction } else { 0 };
        *self = Self { instruction, address: access.address, times: 1, is_over: false };
        false
    }

    /// Records that another thread has changed the word since the last load.
    pub(super) fn note_change(&mut self) {
        self.is_over = self.times >= LEAST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(instruction: u64, kind: AccessKind) -> Access {
        let (is_atomic, size_bytes, before) = (false, 8, 3);
        Access { address: 0x1000, instruction, kind, is_atomic, size_bytes, before }
    }

    #[test]
    fn a_loop_of_loads_ends_when_its_word_changes() {
        let mut spin = Spin::default();
        let load = access(1, AccessKind::Load);
        (0..LEAST).for_each(|_| assert!(!spin.is_over(&load)));
        assert!(!spin.is_over(&load), "the word has not changed");
        spin.note_change();
        assert!(spin.is_over(&load) && spin.is_over(&load));
        assert!(!spin.is_over(&access(2, AccessKind::Load)), "what follows the loop");
        assert!(!spin.is_over(&load));
    }

    #[test]
    fn loads_with_stores_or_work_between_them_are_no_wait() {
        let (load, store) = (access(1, AccessKind::Load), access(2, AccessKind::Store));
        let far = Access { before: MOST_BETWEEN + 1, ..load };
        for between in [store, access(2, AccessKind::Load), far] {
            let mut spin = Spin::default();
            for _ in 0..2 * LEAST {
                assert!(!spin.is_over(&load) && !spin.is_over(&between));
                spin.note_change();
            }
        }
    }

    #[test]
    fn adds_to_one_word_are_no_wait() {
        let mut spin = Spin::default();
        for _ in 0..2 * LEAST {
            assert!(!spin.is_over(&access(1, AccessKind::Modify)));
            spin.note_change();
        }
    }
}
