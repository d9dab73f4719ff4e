//! Flood: producers outside the executor submit items as fast as they can, without back-pressure. Typical of
//! services whose requests arrive on separate threads.

use super::producer::{Sampling, pass};
use crate::cell::{Cell, Measured};
use crate::measure::{Usage, allocations_during};
use crate::peer::Spawn;

pub(super) fn run<P: Spawn>(cell: &Cell) -> Result<Measured, String> {
    let producers = cell.param("producers")? as usize;
    let rounds = cell.rounds(cell.param("item_ns")?);
    let peer = super::start::<P>(cell)?;
    let flood = |items, sampling| pass(|_| peer, producers, items, rounds, sampling);

    flood(cell.items / 10, Sampling::None);
    let before = Usage::now();
    let timed = flood(cell.items, Sampling::None);
    let used = Usage::now().since(before);
    let sampled = flood(cell.items, Sampling::Sparse);
    let counted = (cell.items / 10).max(1);
    let allocations = allocations_during(|| {
        flood(counted, Sampling::None);
    });

    Ok(Measured::new(cell.items / producers as u64 * producers as u64, timed.elapsed_ns, used)
        .call(sampled.call)
        .end_to_end(sampled.end_to_end)
        .allocations(allocations, counted))
}
