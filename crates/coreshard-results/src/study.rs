//! Results of a run of a study.

use serde::{Deserialize, Serialize};

use crate::QueueMeasurement;
use crate::column::rows;

rows! {
    /// Identifies a run of a study.
    pub struct StudyRun {
        /// The run's number in the study, from 0.
        run: u64 = Count;
        /// The machine as named in the study.
        machine: String = Text;
        /// Target number of cores in a cache shard.
        shard_size: usize = Count;
        /// The seed of the simulation.
        seed: u64 = Count;
        /// Number of producers, one per simulated CPU.
        threads: usize = Count;
        /// Items per producer.
        items_per_thread: u64 = Count;
    }
}

/// A line of a study's results: the run and its measurement in one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyRow {
    /// The run.
    #[serde(flatten)]
    pub run: StudyRun,
    /// Its variants and figures.
    #[serde(flatten)]
    pub measurement: QueueMeasurement,
}
