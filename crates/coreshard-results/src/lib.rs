//! What the benchmarks measured, as plain data.
//!
//! Whoever measures fills these types in, and whoever shows them needs no runtime: this crate knows
//! neither. Rungs, machines and platforms are named by texts, spelled as in every option of the command, so
//! that a file of an older version stays readable when a ladder gets another rung.
#![forbid(unsafe_code)]

mod block;
mod calibration;
mod hba;
mod ladder;
mod queue;
mod rt;
mod tuning;
mod usl;

pub use block::{BlockResults, Direction, JobResult, Latency, LittlesLaw, Percentile, Repeats};
pub use calibration::{Calibration, Contended, Costs, Figure};
pub use hba::{HbaResults, HbaRow, Interrupts, Published};
pub use ladder::{FairnessRow, LadderResults, OperationRow};
pub use queue::{Mode, QueueCell, QueueResults, ScalingCurve, ScalingPoint, WakeRatio};
pub use rt::{
    CyclicResults, CyclicThread, Durations, IndexCell, IndexResults, PiResults, TranscodeResults,
};
pub use tuning::{Candidate, Load, Tuning};
pub use usl::Usl;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde::de::DeserializeOwned;

    use super::*;

    fn read<R: DeserializeOwned>(name: &str) -> R {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    #[test]
    fn files_of_older_versions_can_be_read() {
        assert_eq!(read::<QueueResults>("bench-queue-2026-11-21.json").results.len(), 36);
        assert_eq!(read::<LadderResults>("block-ladder.json").operations.len(), 7);
        assert_eq!(read::<CyclicResults>("rt-cyclic-host.json").thread.len(), 2);
        assert!(!read::<Vec<TranscodeResults>>("rt-transcode-xeon-hcc-2s.json").is_empty());
    }
}
