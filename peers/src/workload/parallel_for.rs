//! Parallel-for over a slice: each element costs the same, or (`skewed=1`) the last sixteenth of them
//! costs as much as all the others, so an even division of the slice is unbalanced.

use crate::cell::{Cell, Measured};
use crate::measure::{Usage, allocations_during, now_ns, spin};
use crate::peer::ParallelFor;

const ROUNDS: u64 = 8;

pub(super) fn run<P: ParallelFor>(cell: &Cell) -> Result<Measured, String> {
    let skewed = cell.param("skewed")? != 0;
    let peer = super::start::<P>(cell)?;
    let items = cell.items as usize;
    let mut costs: Vec<u64> = (0..items)
        .map(|at| if skewed && at >= items / 16 * 15 { 15 * ROUNDS } else { ROUNDS })
        .collect();
    let expected: u64 = costs.iter().sum::<u64>() + cell.items;
    let body = |cost: &mut u64| {
        spin(*cost);
        *cost += 1;
    };
    peer.for_each(&mut costs[..items / 10], &|_| ());
    let before = Usage::now();
    let started_ns = now_ns();
    peer.for_each(&mut costs, &body);
    let elapsed_ns = now_ns() - started_ns;
    let used = Usage::now().since(before);
    let sum: u64 = costs.iter().sum();
    if sum != expected {
        return Err(format!("the elements add up to {sum} instead of {expected}"));
    }
    let allocations = allocations_during(|| peer.for_each(&mut costs, &|_| ()));
    let mut measured =
        Measured::new(cell.items, elapsed_ns, used).allocations(allocations, cell.items);
    measured.note = P::NOTE.map(str::to_owned);
    Ok(measured)
}
