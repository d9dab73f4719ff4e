//! The levels that have a CPU, so that a search reads only those.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, ByteAtomics, fields};

use crate::level::Level;

const LEVELS_PER_WORD: usize = if cfg!(loom) { 4 } else { 32 };
const WORDS: usize = Level::COUNT.div_ceil(LEVELS_PER_WORD);

/// A search is about to clear a bit of the word, and checks whether it may.
const DOUBT: u64 = 1 << 32;
/// The unit of the number that distinguishes one doubt from the next.
const VERSION_UNIT: u64 = 1 << 33;

/// One bit for each level. A set bit may be stale, but a clear bit is reliable: a CPU that enters a level
/// does not return before the bit is set. See `README.md`, "Occupied levels".
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Occupied<P: ByteAtomics> {
    /// Bits 0–31: levels. Bit 32: [`DOUBT`]. Bits 33–63: the number of the last doubt.
    words: [P::AtomicU64; WORDS],
}
fields!(Occupied<P: ByteAtomics> { words });

impl<P: ByteAtomics> Occupied<P> {
    pub(super) fn new() -> Self {
        Self { words: std::array::from_fn(|_| P::AtomicU64::new(0)) }
    }

    /// Marks `level` after a sequentially consistent read-modify-write has counted a CPU in it.
    #[inline]
    pub(super) fn entered(&self, level: usize) {
        let word = &self.words[level / LEVELS_PER_WORD];
        let bit = 1 << (level % LEVELS_PER_WORD);
        // SeqCst, with the count before it. Pairs with `clear_if`, which writes the doubt first and then
        // reads the count. One of the two sees the other; otherwise a level with a CPU in it could lose its
        // bit.
        let seen = word.load(SeqCst);
        if seen & (bit | DOUBT) != bit {
            self.insist(word, bit, seen);
        }
    }

    #[cold]
    fn insist(&self, word: &P::AtomicU64, bit: u64, mut seen: u64) {
        while seen & (bit | DOUBT) != bit {
            // SeqCst, also on failure: another CPU may have just set the mark, and this CPU next reads
            // whether a task waits. With a weaker order it could read that first (README, "At rest").
            match word.compare_exchange(seen, (seen | bit) & !DOUBT, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(found) => seen = found,
            }
        }
    }

    /// Returns the lowest level from `from` on and below `below` whose bit is set. Each call reads the words
    /// again: if a CPU was seen to have left a level, it is seen in its new level.
    #[inline]
    pub(super) fn next(&self, from: usize, below: usize) -> Option<usize> {
        let mut from = from;
        while from < below {
            let at = from / LEVELS_PER_WORD;
            // SeqCst also orders this load after the searcher's earlier publication.
            let bits = self.words[at].load(SeqCst) & (DOUBT - 1);
            let bits = bits & (u64::MAX << (from % LEVELS_PER_WORD));
            if bits != 0 {
                let level = at * LEVELS_PER_WORD + bits.trailing_zeros() as usize;
                return (level < below).then_some(level);
            }
            from = (at + 1) * LEVELS_PER_WORD;
        }
        None
    }

    /// Clears the bit of a level that was found empty, if it still is, for later searches. Does nothing if
    /// another thread changes the same word.
    pub(super) fn clear_if(&self, level: usize, is_empty: impl FnOnce() -> bool) {
        let word = &self.words[level / LEVELS_PER_WORD];
        let bit = 1 << (level % LEVELS_PER_WORD);
        let seen = word.load(Relaxed);
        if seen & DOUBT != 0 || seen & bit == 0 {
            return;
        }
        // The version makes this doubt distinct from all others, so that the last exchange cannot mistake a
        // later doubt for its own.
        let doubted = (seen | DOUBT).wrapping_add(VERSION_UNIT);
        if word.compare_exchange(seen, doubted, SeqCst, Relaxed).is_err() {
            return;
        }
        // While the doubt stands, all bits count as set. A CPU that enters a level removes the doubt.
        let settled = if is_empty() { doubted & !(bit | DOUBT) } else { doubted & !DOUBT };
        // If it fails, a CPU has entered, and the bit stays.
        let _ = word.compare_exchange(doubted, settled, SeqCst, Relaxed);
    }
}
