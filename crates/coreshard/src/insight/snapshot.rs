//! A snapshot of a process's queues and pools, as it is transmitted.

use coreshard_platform::{Host, Platform};
use coreshard_workqueue::{PoolStats, QueueStats, QueueTimes, RuntimeStats, TimeHistogram};
use serde::{Deserialize, Serialize};

use crate::Runtime;

/// The queues and pools of a runtime at one moment.
///
/// Counters start when the queue or pool is created. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The process ID.
    pub pid: u32,
    /// The kernel's name of the process: at most 15 bytes.
    pub program: String,
    /// The version of Coreshard in the process.
    pub release: String,
    /// The machine of the runtime.
    pub machine: String,
    /// The time of the snapshot, by a monotonic clock with an arbitrary start.
    pub taken_ns: u64,
    /// The queues, oldest first.
    pub queues: Vec<QueueSnapshot>,
    /// The pools, each once.
    pub pools: Vec<PoolSnapshot>,
}

/// A queue; see [`QueueStats`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueueSnapshot {
    /// The name, which need not be unique.
    pub name: String,
    /// The affinity scope.
    pub scope: String,
    /// Accepted items.
    pub queued: u64,
    /// Finished items.
    pub run: u64,
    /// Accepted and unfinished items.
    pub in_flight: u64,
    /// CPU time of workers while they ran items of this queue.
    pub cpu_time_ns: u64,
    /// Items that held a CPU for too long.
    pub cpu_hogs: u64,
    /// Replacements of blocked workers.
    pub hand_overs: u64,
    /// Items run by a rescuer.
    pub rescues: u64,
    /// The IDs of its pools.
    pub pools: Vec<u32>,
    /// Waiting and run times of items, if measured.
    pub times: Option<TimesSnapshot>,
}

/// Waiting and run times of a queue's items; see [`QueueTimes`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TimesSnapshot {
    /// Items per measured item.
    pub items_per_sample: u32,
    /// Time from queueing to start.
    pub delay: Quantiles,
    /// Time from start to end.
    pub run: Quantiles,
}

/// A summary of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Quantiles {
    /// Measured items.
    pub samples: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}

/// A pool; see [`PoolStats`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// The ID in the process.
    pub id: u32,
    /// The scope of its set of pools.
    pub scope: String,
    /// The pod in that scope.
    pub pod: u32,
    /// The CPUs of the pod, as a list.
    pub cpus: String,
    /// The NUMA node of the pod, if known.
    pub node: Option<u32>,
    /// Maximum running workers.
    pub worker_limit: u64,
    /// Workers.
    pub workers: u64,
    /// Parked workers.
    pub idle_workers: u64,
    /// Workers blocked in an item.
    pub blocked_workers: u64,
    /// Items received from all queues.
    pub queued: u64,
    /// Items run by workers.
    pub run: u64,
    /// CPU time of current and past workers.
    pub cpu_time_ns: u64,
    /// Times a worker was selected to be woken.
    pub kicks: u64,
    /// Times the worker was already selected.
    pub coalesced_kicks: u64,
    /// Wake-ups with a system call.
    pub wakeups: u64,
    /// Workers that woke up outside their pod and were moved back.
    pub repatriated: u64,
    /// Claims stolen by another worker.
    pub stolen: u64,
    /// Visits of workers of other pods, which ran waiting items.
    #[serde(default)]
    pub guests: u64,
    /// Replacements of blocked workers.
    pub hand_overs: u64,
    /// Replacements started by the monitor.
    pub presumed_blocked: u64,
    /// Items that held a CPU for too long.
    pub cpu_hogs: u64,
    /// Calls of the rescuer.
    pub rescues: u64,
    /// Failed starts of workers.
    pub failed_worker_starts: u64,
    /// Memory of the intake, in bytes.
    pub intake_bytes: u64,
}

fn ns(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Snapshot {
    /// Takes a snapshot of the queues and pools of `runtime`.
    pub fn of(runtime: &Runtime) -> Self {
        let stats: RuntimeStats = runtime.stats();
        Self {
            pid: std::process::id(),
            // Process names may contain any bytes.
            program: std::fs::read("/proc/self/comm").map_or_else(
                |_| String::new(),
                |name| String::from_utf8_lossy(&name).trim_end().to_owned(),
            ),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            machine: runtime.topology().name().to_owned(),
            taken_ns: Host::now().as_ns(),
            queues: stats.queues.iter().map(QueueSnapshot::from).collect(),
            pools: stats.pools.iter().map(PoolSnapshot::from).collect(),
        }
    }
}

impl From<&QueueStats> for QueueSnapshot {
    fn from(stats: &QueueStats) -> Self {
        Self {
            name: stats.name.clone(),
            scope: stats.scope.to_string(),
            queued: stats.queued,
            run: stats.run,
            in_flight: stats.in_flight(),
            cpu_time_ns: ns(stats.tally.cpu_time),
            cpu_hogs: stats.tally.cpu_hogs,
            hand_overs: stats.tally.hand_overs,
            rescues: stats.tally.rescues,
            pools: stats.pools.iter().map(|pool| pool.id.0).collect(),
            times: stats.times.as_ref().map(TimesSnapshot::from),
        }
    }
}

impl From<&QueueTimes> for TimesSnapshot {
    fn from(times: &QueueTimes) -> Self {
        Self {
            items_per_sample: times.sampling.items_per_sample(),
            delay: Quantiles::from(&times.delay),
            run: Quantiles::from(&times.run),
        }
    }
}

impl From<&TimeHistogram> for Quantiles {
    fn from(times: &TimeHistogram) -> Self {
        let at = |quantile| ns(times.quantile(quantile));
        Self {
            samples: times.samples(),
            mean_ns: ns(times.mean()),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: ns(times.max()),
        }
    }
}

impl From<&PoolStats> for PoolSnapshot {
    fn from(stats: &PoolStats) -> Self {
        Self {
            id: stats.id.0,
            scope: stats.scope.to_string(),
            pod: stats.pod.0,
            cpus: stats.cpus.to_string(),
            node: stats.node.map(|node| node.0),
            worker_limit: stats.worker_limit as u64,
            workers: stats.workers as u64,
            idle_workers: stats.idle_workers as u64,
            blocked_workers: stats.blocked_workers as u64,
            queued: stats.queued,
            run: stats.run,
            cpu_time_ns: ns(stats.cpu_time),
            kicks: stats.kicks,
            coalesced_kicks: stats.coalesced_kicks,
            wakeups: stats.wakeups,
            repatriated: stats.repatriated,
            stolen: stats.stolen,
            guests: stats.guests,
            hand_overs: stats.hand_overs,
            presumed_blocked: stats.presumed_blocked,
            cpu_hogs: stats.cpu_hogs,
            rescues: stats.rescues,
            failed_worker_starts: stats.failed_worker_starts,
            intake_bytes: stats.intake_bytes as u64,
        }
    }
}
