//! Which levels have a CPU, so that a search reads those alone.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, ByteAtomics, fields};

use crate::level::Level;

const LEVELS_PER_WORD: usize = if cfg!(loom) { 4 } else { 32 };
const WORDS: usize = Level::COUNT.div_ceil(LEVELS_PER_WORD);

/// A search is about to clear a bit of the word, and checks whether it may.
const DOUBT: u64 = 1 << 32;
/// Of the number that tells one doubt from the next.
const VERSION_UNIT: u64 = 1 << 33;

/// One bit for each level. A bit that is set may be stale; a bit that is clear is not: whoever
/// enters a level does not return before its bit is set. See `README.md`, "Occupied levels".
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

    /// A CPU was counted in `level`, by a sequentially consistent read-modify-write.
    #[inline]
    pub(super) fn entered(&self, level: usize) {
        let word = &self.words[level / LEVELS_PER_WORD];
        let bit = 1 << (level % LEVELS_PER_WORD);
        // SeqCst, with the count before it: pairs with `clear_if`, which writes the doubt first and
        // then reads the count. One of the two sees the other; else a level with a CPU in it would
        // lose its bit.
        let seen = word.load(SeqCst);
        if seen & (bit | DOUBT) != bit {
            self.insist(word, bit, seen);
        }
    }

    #[cold]
    fn insist(&self, word: &P::AtomicU64, bit: u64, mut seen: u64) {
        while seen & (bit | DOUBT) != bit {
            // SeqCst, also if it fails: another CPU may have set the mark just then, and this CPU reads at
            // once whether a task waits. With less it could read that first (README, "At rest").
            match word.compare_exchange(seen, (seen | bit) & !DOUBT, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(found) => seen = found,
            }
        }
    }

    /// The lowest level from `from` on and below `below` whose bit is set. Each call reads the words anew:
    /// a CPU that was seen to have left a level is seen in the level that it went to.
    #[inline]
    pub(super) fn next(&self, from: usize, below: usize) -> Option<usize> {
        let mut from = from;
        while from < below {
            let at = from / LEVELS_PER_WORD;
            // SeqCst also orders it after what the searcher published before it searched.
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

    /// Clears the bit of a level that was found without a CPU, if it still is: for the searches to come. Does
    /// nothing if another thread is at the same word.
    pub(super) fn clear_if(&self, level: usize, is_empty: impl FnOnce() -> bool) {
        let word = &self.words[level / LEVELS_PER_WORD];
        let bit = 1 << (level % LEVELS_PER_WORD);
        let seen = word.load(Relaxed);
        if seen & DOUBT != 0 || seen & bit == 0 {
            return;
        }
        // The version makes this doubt another one than any before or after it, so that the last
        // exchange cannot mistake a later doubt for its own.
        let doubted = (seen | DOUBT).wrapping_add(VERSION_UNIT);
        if word.compare_exchange(seen, doubted, SeqCst, Relaxed).is_err() {
            return;
        }
        // While the doubt stands all bits count as set, and whoever enters a level takes it away.
        let settled = if is_empty() { doubted & !(bit | DOUBT) } else { doubted & !DOUBT };
        // Failed: a CPU entered. Then the bit stays.
        let _ = word.compare_exchange(doubted, settled, SeqCst, Relaxed);
    }
}
