//! Benchmark results as plain data.
//!
//! Benchmarks fill these types, and reports read them. Neither the runtime nor formatting is part of this crate.
//! Variants, machines and platforms are strings, spelled as in the command's options, so that older files stay readable
//! when a variant is added.
#![forbid(unsafe_code)]
#![doc(html_root_url = "https://docs.rs/coreshard-results/0.1.0")]

mod block;
mod calibration;
pub mod column;
mod comparison;
mod hba;
mod kernel;
mod queue;
mod rt;
mod seeds;
mod study;
mod tuning;
mod usl;

pub use block::{BlockResults, Direction, JobResult, Latency, LittlesLaw, Percentile, Repeats};
pub use calibration::{
    Calibration, Clocks, Contended, Contenders, Costs, Fetched, Figure, Variation,
};
pub use comparison::{ComparisonResults, FairnessRow, OperationRow};
pub use hba::{HbaResults, HbaRow, Interrupts, Published};
pub use kernel::{KernelMeasurement, KernelResults};
pub use queue::{Mode, QueueMeasurement, QueueResults, ScalingCurve, ScalingPoint, WakeRatio};
pub use rt::{
    CyclicResults, CyclicThread, Durations, IndexMeasurement, IndexResults, PiResults,
    TranscodeResults,
};
pub use seeds::{SeedRatio, SeedSpread, SeedSpreads};
pub use study::{StudyRow, StudyRun};
pub use tuning::{Candidate, Load, Tuning, TuningRow};
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

    /// Checks that each key has a column, in the same order, and that each column has a key.
    fn has_its_keys<R: column::Row + Default + serde::Serialize>() {
        let json = serde_json::to_string(&R::default()).unwrap();
        let columns = || R::COLUMNS.iter().filter(|column| !column.key.is_empty());
        let at = |key: &str| {
            json.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key}: {json}"))
        };
        assert!(columns().map(|column| at(column.key)).is_sorted(), "{json}");
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(object.as_object().unwrap().len(), columns().count(), "{json}");
    }

    #[test]
    fn every_key_has_its_column() {
        has_its_keys::<QueueResults>();
        has_its_keys::<QueueMeasurement>();
        has_its_keys::<StudyRun>();
        has_its_keys::<IndexMeasurement>();
        has_its_keys::<KernelMeasurement>();
        has_its_keys::<CyclicResults>();
        has_its_keys::<PiResults>();
        has_its_keys::<TranscodeResults>();
        has_its_keys::<OperationRow>();
        has_its_keys::<FairnessRow>();
        has_its_keys::<HbaRow>();
        assert!(QueueResults::IN_EACH_ROW.iter().all(|key| {
            <QueueResults as column::Row>::COLUMNS.iter().any(|column| column.key == *key)
        }));
    }

    #[test]
    fn files_of_older_versions_can_be_read() {
        assert_eq!(read::<QueueResults>("bench-queue-2026-11-21.json").results.len(), 36);
        assert_eq!(read::<ComparisonResults>("block-ladder.json").operations.len(), 7);
        assert_eq!(read::<CyclicResults>("rt-cyclic-host.json").thread.len(), 2);
        assert!(!read::<Vec<TranscodeResults>>("rt-transcode-xeon-hcc-2s.json").is_empty());
    }
}

#[cfg(test)]
testing::watch!();
