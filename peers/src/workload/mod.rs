//! The workloads, each in a file, generic over the peer.

mod blocking;
mod burst;
mod flood;
mod floor;
mod fork_join;
mod futures;
mod many_pools;
mod mixed;
mod parallel_for;
mod ping_pong;
mod producer;
mod trickle;
mod word;

use crate::cell::{Cell, Outcome};
use crate::measure::peak_rss_bytes;
use crate::peer::{Start, for_forking, for_futures, for_slices, for_spawning};

/// Starts a peer that is never torn down: the process ends with its cell.
fn start<P: Start>(cell: &Cell) -> Result<&'static P, String> {
    Ok(Box::leak(Box::new(P::start(cell.workers)?)))
}

/// Runs a cell in this process, which should do nothing else.
///
/// # Errors
/// Fails if the workload or a parameter is unknown, or if the peer does not start.
pub(crate) fn run(cell: &Cell) -> Result<Outcome, String> {
    let mut measured = match (cell.workload.as_str(), cell.peer.as_str()) {
        ("flood", "floor") => floor::run(cell),
        ("ping-pong", "floor") => ping_pong::floor(cell),
        ("trickle", "floor") => trickle::floor(cell),
        ("flood", _) => for_spawning!(cell, flood),
        ("ping-pong", _) => for_spawning!(cell, ping_pong),
        ("burst", _) => for_spawning!(cell, burst),
        ("trickle", _) => for_spawning!(cell, trickle),
        ("blocking", _) => for_spawning!(cell, blocking),
        ("many-pools", _) => for_spawning!(cell, many_pools),
        ("mixed", _) => for_spawning!(cell, mixed),
        ("fork-join", _) => for_forking!(cell, fork_join),
        ("parallel-for", _) => for_slices!(cell, parallel_for),
        ("async", _) => for_futures!(cell, futures),
        (other, _) => Err(format!("unknown workload {other}")),
    }?;
    measured.peak_rss_bytes = peak_rss_bytes();
    Ok(Outcome::Measured(Box::new(measured)))
}
