//! Protocols of other executors, as programs of the simulated machine. Each follows its project's own description, and none is
//! handicapped.

pub(crate) mod channel;
mod deque;
pub(crate) mod floor;
mod injector;
pub(crate) mod rayon;
mod sleep;
pub(crate) mod tokio;

use std::sync::Arc;

use coreshard_platform::{Platform, ThreadSpec};
use coreshard_sim::Sim;
use coreshard_topology::CpuSet;

type Threads = Vec<<Sim as Platform>::Thread>;

/// Starts an unpinned thread for each CPU, as these executors do.
fn start_threads(cpus: &CpuSet, body: impl Fn(usize) + Send + Sync + 'static) -> Threads {
    let body = Arc::new(body);
    (0..cpus.len())
        .map(|index| {
            let body = Arc::clone(&body);
            let spec = ThreadSpec {
                name: format!("thread-{index}"),
                affinity: Some(cpus.clone()),
                ..ThreadSpec::default()
            };
            Sim::spawn(spec, Box::new(move || body(index))).expect("room for the thread")
        })
        .collect()
}
