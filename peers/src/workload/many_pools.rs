//! Many pools: a program of 16 components that each start an executor, with as many workers as CPUs, which
//! is every executor's default, and use them all at once.

use super::producer::{Sampling, pass};
use crate::cell::{Cell, Measured};
use crate::measure::{Usage, allocations_during, threads};
use crate::peer::Spawn;

pub(super) fn run<P: Spawn>(cell: &Cell) -> Result<Measured, String> {
    let components = cell.param("components")? as usize;
    let rounds = cell.rounds(cell.param("item_ns")?);
    let before_threads = threads();
    let peers: Vec<&P> =
        (0..components).map(|_| super::start::<P>(cell)).collect::<Result<_, String>>()?;
    let flood = |items, sampling| pass(|at| peers[at], components, items, rounds, sampling);

    flood(cell.items / 10, Sampling::None);
    let before = Usage::now();
    let timed = flood(cell.items, Sampling::None);
    let used = Usage::now().since(before);
    let grown = threads().zip(before_threads).map(|(now, before)| (now - before) as f64);
    let sampled = flood(cell.items, Sampling::Sparse);
    let counted = (cell.items / 10).max(1);
    let allocations = allocations_during(|| {
        flood(counted, Sampling::None);
    });
    let items = cell.items / components as u64 * components as u64;
    let mut measured = Measured::new(items, timed.elapsed_ns, used)
        .call(sampled.call)
        .end_to_end(sampled.end_to_end)
        .allocations(allocations, counted);
    if let Some(grown) = grown {
        measured = measured.figure("threads", grown);
    }
    Ok(measured)
}
