//! The command line.

use std::path::PathBuf;

use clap::Parser;
use clap::builder::PossibleValuesParser;

use crate::peer::PEERS;
use crate::plan::{Extent, WORKLOADS};

/// Runs Coreshard and the executors that people use instead under the same load, side by side.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub(crate) struct Arguments {
    /// The workloads, with commas in between.
    #[arg(long, value_delimiter = ',', default_values = WORKLOADS,
          value_parser = PossibleValuesParser::new(WORKLOADS))]
    pub(crate) workloads: Vec<String>,
    /// The peers, with commas in between. Ratios need `coreshard` among them.
    #[arg(long, value_delimiter = ',', default_values = PEERS,
          value_parser = PossibleValuesParser::new(PEERS))]
    pub(crate) peers: Vec<String>,
    /// Runs of each cell [default: 7, or 3 with --quick].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: Option<u16>,
    /// Items in each run, instead of each workload's own number.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) items: Option<u64>,
    /// Fewer runs and items, for a quick look.
    #[arg(long)]
    quick: bool,
    /// CPUs, and worker threads of each peer.
    #[arg(long, default_value_t = 2)]
    pub(crate) cpus: usize,
    /// Seconds after which a run is stopped and reported as hung.
    #[arg(long, default_value_t = 20)]
    pub(crate) time_limit_s: u64,
    /// Writes the results as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Writes the results as one page that needs nothing beside it.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn extent(&self) -> Extent {
        if self.quick { Extent::Quick } else { Extent::Full }
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.map_or(if self.quick { 3 } else { 7 }, usize::from)
    }
}
