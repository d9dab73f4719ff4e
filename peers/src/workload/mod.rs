//! The workloads, each in a file, generic over the peer.

mod flood;
mod producer;

use crate::cell::{Cell, Outcome};
use crate::measure::peak_rss_bytes;
use crate::peer;

/// Calls a workload's `run` for the peer that the cell names.
macro_rules! for_spawning {
    ($cell:expr, $workload:ident) => {
        match $cell.peer.as_str() {
            "coreshard" => $workload::run::<peer::Coreshard>($cell),
            "rayon" => $workload::run::<peer::Rayon>($cell),
            "tokio" => $workload::run::<peer::Tokio>($cell),
            "async-executor" => $workload::run::<peer::AsyncExecutor>($cell),
            "bevy_tasks" => $workload::run::<peer::BevyTasks>($cell),
            "crossbeam-channel" => $workload::run::<peer::Crossbeam>($cell),
            "threadpool" => $workload::run::<peer::ThreadPool>($cell),
            "rusty_pool" => $workload::run::<peer::RustyPool>($cell),
            other => return Ok(Outcome::Unfit(format!("{other} takes no closures from outside"))),
        }
    };
}

/// Runs a cell in this process, which it should have for itself.
///
/// # Errors
/// Where the workload or a parameter is not known, or the peer does not start.
pub(crate) fn run(cell: &Cell) -> Result<Outcome, String> {
    let mut measured = match cell.workload.as_str() {
        "flood" => for_spawning!(cell, flood),
        other => Err(format!("there is no workload {other}")),
    }?;
    measured.peak_rss_bytes = peak_rss_bytes();
    Ok(Outcome::Measured(Box::new(measured)))
}
