//! What a run of a study measured.

use serde::{Deserialize, Serialize};

use crate::QueueMeasurement;
use crate::column::rows;

rows! {
    /// Which run of a study it is.
    pub struct StudyRun {
        /// The run's number in the study, from 0 on.
        run: u64 = Count;
        /// The machine, as the study names it.
        machine: String = Text;
        /// The wanted number of cores in a cache shard.
        shard_size: usize = Count;
        /// The seed of its simulation.
        seed: u64 = Count;
        /// Producers: one for each simulated CPU.
        threads: usize = Count;
        /// Items that each producer queued.
        items_per_thread: u64 = Count;
    }
}

/// A line of a study's results: which run it is, and what it measured, in one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyRow {
    /// Which run.
    #[serde(flatten)]
    pub run: StudyRun,
    /// Its variants, and its figures.
    #[serde(flatten)]
    pub measurement: QueueMeasurement,
}
