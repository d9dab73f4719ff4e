//! The queues and pools of a process at one moment, as they travel.

use coreshard_platform::{Host, Platform};
use coreshard_workqueue::{PoolStats, QueueStats, QueueTimes, RuntimeStats, TimeHistogram};
use serde::{Deserialize, Serialize};

use crate::Runtime;

/// The queues and pools of a runtime at one moment.
///
/// Counts are since the queue or pool was made, times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The process.
    pub pid: u32,
    /// Its name, as the kernel has it: at most 15 bytes.
    pub program: String,
    /// The release of Coreshard that it was built with.
    pub release: String,
    /// The machine that the runtime is on.
    pub machine: String,
    /// When the snapshot was made, by a clock that never goes back and starts anywhere.
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
    /// Its name. Not unique.
    pub name: String,
    /// Its affinity scope.
    pub scope: String,
    /// Items that were accepted.
    pub queued: u64,
    /// Items that are over.
    pub run: u64,
    /// Items that were accepted and are not over.
    pub in_flight: u64,
    /// CPU time of the workers while they were with this queue.
    pub cpu_time_ns: u64,
    /// Items that kept a CPU for too long.
    pub cpu_hogs: u64,
    /// Times an item blocked and its worker's place was handed over.
    pub hand_overs: u64,
    /// Items that a rescuer ran.
    pub rescues: u64,
    /// The ids of its pools.
    pub pools: Vec<u32>,
    /// How long items waited and ran, where that is measured.
    pub times: Option<TimesSnapshot>,
}

/// How long a queue's items waited and ran; see [`QueueTimes`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TimesSnapshot {
    /// How many items one that was measured stands for.
    pub items_per_sample: u32,
    /// From being queued to being begun.
    pub delay: Quantiles,
    /// From there to the end.
    pub run: Quantiles,
}

/// A histogram in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Quantiles {
    /// How many items were measured.
    pub samples: u64,
    /// The mean.
    pub mean_ns: u64,
    /// Half of the items took no longer.
    pub p50_ns: u64,
    /// 90 % took no longer.
    pub p90_ns: u64,
    /// 99 % took no longer.
    pub p99_ns: u64,
    /// 99.9 % took no longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A pool; see [`PoolStats`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// Its name in the process.
    pub id: u32,
    /// The scope of the set that it belongs to.
    pub scope: String,
    /// Its pod in that scope.
    pub pod: u32,
    /// The pod's CPUs, as a list.
    pub cpus: String,
    /// The pod's node, where it is known.
    pub node: Option<u32>,
    /// Workers that may run at once.
    pub worker_limit: u64,
    /// Workers that exist.
    pub workers: u64,
    /// Workers that sleep.
    pub idle_workers: u64,
    /// Workers that wait inside an item.
    pub blocked_workers: u64,
    /// Items that came in, of all queues.
    pub queued: u64,
    /// Items that workers ran.
    pub run: u64,
    /// CPU time of all workers that the pool has had.
    pub cpu_time_ns: u64,
    /// Times a worker was chosen to be woken.
    pub kicks: u64,
    /// Times a kick found the chosen worker chosen already.
    pub coalesced_kicks: u64,
    /// Wake-ups that took a system call.
    pub wakeups: u64,
    /// Workers that woke up outside their pod and were brought back.
    pub repatriated: u64,
    /// Times a worker took over what another one had claimed.
    pub stolen: u64,
    /// Visits of other pods' workers, which helped with waiting items.
    #[serde(default)]
    pub guests: u64,
    /// Times a worker's place was handed over, since its item blocked.
    pub hand_overs: u64,
    /// Of these, times the monitor found it out.
    pub presumed_blocked: u64,
    /// Items that kept a CPU for too long.
    pub cpu_hogs: u64,
    /// Times the reserve was called.
    pub rescues: u64,
    /// Workers that could not be started.
    pub failed_worker_starts: u64,
    /// Memory that the intake holds, in bytes.
    pub intake_bytes: u64,
}

fn ns(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Snapshot {
    /// The queues and pools of `runtime` at this moment.
    pub fn of(runtime: &Runtime) -> Self {
        let stats: RuntimeStats = runtime.stats();
        Self {
            pid: std::process::id(),
            // Anybody may name a process, in any bytes.
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
