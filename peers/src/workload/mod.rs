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
use crate::peer::{self, Start};

/// Starts a peer that is never torn down: the process ends when its cell is over.
fn start<P: Start>(cell: &Cell) -> Result<&'static P, String> {
    Ok(Box::leak(Box::new(P::start(cell.workers)?)))
}

/// Calls a workload's `run` for the peer that the cell names, or says why it does not fit that peer.
macro_rules! for_peer {
    ($cell:expr, $workload:ident, $otherwise:literal, $($name:literal => $peer:ident,)*) => {
        match $cell.peer.as_str() {
            $($name => $workload::run::<peer::$peer>($cell),)*
            _ => return Ok(Outcome::Unfit($otherwise.to_owned())),
        }
    };
}

/// The peers that take closures from outside.
macro_rules! for_spawning {
    ($cell:expr, $workload:ident) => {
        for_peer!(
            $cell, $workload, "takes no closures from outside",
            "coreshard" => Coreshard,
            "rayon" => Rayon,
            "tokio" => Tokio,
            "async-executor" => AsyncExecutor,
            "bevy_tasks" => BevyTasks,
            "crossbeam-channel" => Crossbeam,
            "threadpool" => ThreadPool,
            "rusty_pool" => RustyPool,
        )
    };
}

/// Runs a cell in this process, which it should have for itself.
///
/// # Errors
/// Where the workload or a parameter is not known, or the peer does not start.
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
        ("fork-join", _) => for_peer!(
            cell, fork_join, "has no recursive fork and join of borrowed data",
            "coreshard" => Coreshard,
            "rayon" => Rayon,
            "chili" => Chili,
        ),
        ("parallel-for", _) => for_peer!(
            cell, parallel_for, "takes no borrowed data, so no slice",
            "coreshard" => Coreshard,
            "rayon" => Rayon,
            "bevy_tasks" => BevyTasks,
            "chili" => Chili,
        ),
        ("async", _) => for_peer!(
            cell, futures, "runs no futures that can be awaited",
            "coreshard" => Coreshard,
            "tokio" => Tokio,
            "async-executor" => AsyncExecutor,
            "bevy_tasks" => BevyTasks,
        ),
        (other, _) => Err(format!("there is no workload {other}")),
    }?;
    measured.peak_rss_bytes = peak_rss_bytes();
    Ok(Outcome::Measured(Box::new(measured)))
}
