//! Work of a known length: a chain of operations that no compiler of any language shortens, and
//! that touches no memory. Its length is a number of rounds, not a time, so a worker that loses its
//! CPU meanwhile still has to do all of it.

use std::hint::black_box;

use super::now_ns;

/// Spends `rounds` rounds.
#[inline]
pub(crate) fn spin(rounds: u64) {
    let mut value = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..rounds {
        // Shifts and exclusive ors (Marsaglia's xorshift): unlike multiplications and additions,
        // several rounds do not fold into one.
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    black_box(value);
}

/// Returns the number of rounds that take a millisecond on an otherwise idle CPU: the best of many short
/// tries. The harness measures it once and passes it to every cell, so that all peers run the same work.
pub(crate) fn calibrate_rounds_per_ms() -> u64 {
    const ROUNDS: u64 = 100_000;
    let best_ns = (0..50)
        .map(|_| {
            let started = now_ns();
            spin(ROUNDS);
            now_ns() - started
        })
        .min()
        .expect("there are tries");
    ROUNDS * 1_000_000 / best_ns.max(1)
}
