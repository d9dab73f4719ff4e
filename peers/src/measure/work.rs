//! Work of a known length: a chain of multiplications that no compiler of any language shortens and
//! that touches no memory. Its length is a number of rounds, not a time, so a worker that loses its
//! CPU meanwhile still has all of it to do.

use std::hint::black_box;

use super::now_ns;

/// Spends `rounds` rounds.
#[inline]
pub(crate) fn spin(rounds: u64) {
    let mut value = black_box(rounds);
    for _ in 0..rounds {
        value =
            value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(value);
}

/// How many rounds make a millisecond on a CPU that nobody else uses: the best of many short tries.
/// Measured once by the harness and given to every cell, so that all peers run the same work.
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
