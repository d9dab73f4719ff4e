//! Counts of queues and pools for the facade of the crate `metrics`.
//!
//! Nothing is reported while items run. [`publish`] reads the runtime's counters and sets the program's recorder to
//! them. Call it before an exporter is read, or periodically with [`publish_every`].
//!
//! | name | kind | unit | labels |
//! |---|---|---|---|
//! | `coreshard_queue_queued_total` | counter | items | `queue` |
//! | `coreshard_queue_run_total` | counter | items | `queue` |
//! | `coreshard_queue_in_flight` | gauge | items | `queue` |
//! | `coreshard_queue_refused_total` | counter | items, of a queue with a capacity | `queue` |
//! | `coreshard_queue_capacity_used` | gauge | items, of a queue with a capacity | `queue` |
//! | `coreshard_queue_waiting_producers` | gauge | producers, of a queue with a capacity | `queue` |
//! | `coreshard_queue_cpu_time_ns_total` | counter | nanoseconds | `queue` |
//! | `coreshard_queue_cpu_hogs_total` | counter | items | `queue` |
//! | `coreshard_queue_hand_overs_total` | counter | times | `queue` |
//! | `coreshard_queue_rescues_total` | counter | items | `queue` |
//! | `coreshard_queue_delay_seconds` | gauge | seconds | `queue`, `quantile` (0.5, 0.9, 0.99, 0.999, 1) |
//! | `coreshard_queue_run_seconds` | gauge | seconds | `queue`, `quantile` |
//! | `coreshard_pool_worker_limit` | gauge | workers | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_workers` | gauge | workers | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_idle_workers` | gauge | workers | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_blocked_workers` | gauge | workers | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_run_total` | counter | items | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_cpu_time_ns_total` | counter | nanoseconds | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_kicks_total` | counter | times | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_wakeups_total` | counter | system calls | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_stolen_total` | counter | times | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_guests_total` | counter | times | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_repatriated_total` | counter | times | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_hand_overs_total` | counter | times | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_failed_worker_starts_total` | counter | times | `pool`, `scope`, `cpus` |
//! | `coreshard_pool_intake_bytes` | gauge | bytes | `pool`, `scope`, `cpus` |
//!
//! Counters start when the queue or pool is created. The two gauges in seconds exist for queues that measure their
//! times ([`Builder::times`](crate::Builder::times)), over all items so far. Queues of the same name are added up,
//! except for these two gauges, which take the slowest.
//!
//! Queues and pools that have ended are no longer published, and the facade cannot remove them: a recorder shows their
//! last figures until it expires them (an exporter's idle time-out). A queue created again under the same name starts
//! at 0. Recorders that keep the highest count of a counter, as the facade's own storage does, do not change until it
//! is exceeded. Keep queues that are monitored, or give each its own name.
//!
//! ```
//! let queue = coreshard::workqueue()?.name("thumbnails").build()?;
//! coreshard::integration::metrics::describe();
//! coreshard::integration::metrics::publish(&coreshard::runtime()?.stats());
//! # drop(queue);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use ::metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use coreshard_platform::Platform;
use coreshard_workqueue::{
    Periodic, PoolStats, QueueStats, Runtime, RuntimeStats, TimeHistogram, Workqueue,
};

use crate::{MissedTick, WorkError};

const QUANTILES: [(&str, f64); 5] =
    [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("0.999", 0.999), ("1", 1.0)];

/// Describes units and meanings to the recorder. Call it once, after the recorder was installed.
///
/// # Examples
/// ```
/// // After the recorder was installed.
/// coreshard::integration::metrics::describe();
/// ```
pub fn describe() {
    let counters = [
        ("coreshard_queue_queued_total", Unit::Count, "Accepted items."),
        ("coreshard_queue_run_total", Unit::Count, "Finished items."),
        ("coreshard_queue_cpu_time_ns_total", Unit::Nanoseconds, "CPU time used for the queue."),
        ("coreshard_queue_cpu_hogs_total", Unit::Count, "Items that held a CPU for too long."),
        ("coreshard_queue_hand_overs_total", Unit::Count, "Replacements of blocked workers."),
        ("coreshard_queue_rescues_total", Unit::Count, "Items run by a rescuer."),
        ("coreshard_queue_refused_total", Unit::Count, "Items rejected by a full queue."),
        ("coreshard_pool_run_total", Unit::Count, "Items run by workers."),
        ("coreshard_pool_cpu_time_ns_total", Unit::Nanoseconds, "CPU time of the workers."),
        ("coreshard_pool_kicks_total", Unit::Count, "Times a worker was chosen to be woken."),
        ("coreshard_pool_wakeups_total", Unit::Count, "Wake-ups that took a system call."),
        ("coreshard_pool_stolen_total", Unit::Count, "Claims stolen by another worker."),
        ("coreshard_pool_guests_total", Unit::Count, "Visits of workers of other pods."),
        ("coreshard_pool_repatriated_total", Unit::Count, "Workers moved back to their pod."),
        ("coreshard_pool_hand_overs_total", Unit::Count, "Replacements of blocked workers."),
        ("coreshard_pool_failed_worker_starts_total", Unit::Count, "Failed starts of workers."),
    ];
    for (name, unit, meaning) in counters {
        describe_counter!(name, unit, meaning);
    }
    let gauges = [
        ("coreshard_queue_in_flight", Unit::Count, "Accepted and unfinished items."),
        ("coreshard_queue_capacity_used", Unit::Count, "Waiting items of a queue with a capacity."),
        ("coreshard_queue_waiting_producers", Unit::Count, "Producers waiting for room."),
        ("coreshard_queue_delay_seconds", Unit::Seconds, "Time from queueing to start."),
        ("coreshard_queue_run_seconds", Unit::Seconds, "Time from start to end."),
        ("coreshard_pool_worker_limit", Unit::Count, "Maximum running workers."),
        ("coreshard_pool_workers", Unit::Count, "Workers."),
        ("coreshard_pool_idle_workers", Unit::Count, "Parked workers."),
        ("coreshard_pool_blocked_workers", Unit::Count, "Workers blocked in an item."),
        ("coreshard_pool_intake_bytes", Unit::Bytes, "Memory of the intake."),
    ];
    for (name, unit, meaning) in gauges {
        describe_gauge!(name, unit, meaning);
    }
}

/// Sets the program's recorder to the values of `stats`.
///
/// # Examples
/// ```
/// let queue = coreshard::workqueue()?.name("thumbnails").build()?;
/// coreshard::integration::metrics::publish(&coreshard::runtime()?.stats());
/// # drop(queue);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn publish(stats: &RuntimeStats) {
    let mut by_name: BTreeMap<&str, Vec<&QueueStats>> = BTreeMap::new();
    for queue in &stats.queues {
        by_name.entry(&queue.name).or_default().push(queue);
    }
    by_name.iter().for_each(|(name, queues)| publish_queues(name, queues));
    stats.pools.iter().for_each(publish_pool);
}

fn publish_queues(name: &str, queues: &[&QueueStats]) {
    let sum = |value: fn(&QueueStats) -> u64| queues.iter().map(|queue| value(queue)).sum::<u64>();
    let queue = || name.to_owned();
    counter!("coreshard_queue_queued_total", "queue" => queue()).absolute(sum(|q| q.queued));
    counter!("coreshard_queue_run_total", "queue" => queue()).absolute(sum(|q| q.run));
    gauge!("coreshard_queue_in_flight", "queue" => queue()).set(sum(QueueStats::in_flight) as f64);
    counter!("coreshard_queue_cpu_time_ns_total", "queue" => queue())
        .absolute(sum(|q| ns(q.tally.cpu_time)));
    counter!("coreshard_queue_cpu_hogs_total", "queue" => queue())
        .absolute(sum(|q| q.tally.cpu_hogs));
    counter!("coreshard_queue_hand_overs_total", "queue" => queue())
        .absolute(sum(|q| q.tally.hand_overs));
    counter!("coreshard_queue_rescues_total", "queue" => queue())
        .absolute(sum(|q| q.tally.rescues));
    if queues.iter().any(|queue| queue.capacity.is_some()) {
        counter!("coreshard_queue_refused_total", "queue" => queue()).absolute(sum(|q| q.refused));
        gauge!("coreshard_queue_capacity_used", "queue" => queue())
            .set(sum(|q| q.capacity_used) as f64);
        gauge!("coreshard_queue_waiting_producers", "queue" => queue())
            .set(sum(|q| q.waiting_producers) as f64);
    }
    let times: Vec<_> = queues.iter().filter_map(|queue| queue.times.as_ref()).collect();
    if times.is_empty() {
        return;
    }
    for (label, quantile) in QUANTILES {
        let slowest = |of: fn(&crate::QueueTimes) -> &TimeHistogram| {
            let all = times.iter().map(|times| of(times).quantile(quantile));
            all.max().unwrap_or_default().as_secs_f64()
        };
        gauge!("coreshard_queue_delay_seconds", "queue" => queue(), "quantile" => label)
            .set(slowest(|times| &times.delay));
        gauge!("coreshard_queue_run_seconds", "queue" => queue(), "quantile" => label)
            .set(slowest(|times| &times.run));
    }
}

fn publish_pool(pool: &PoolStats) {
    let labels = [
        ("pool", pool.id.to_string()),
        ("scope", pool.scope.to_string()),
        ("cpus", pool.cpus.to_string()),
    ];
    let set = |name: &'static str, value: usize| gauge!(name, &labels).set(value as f64);
    set("coreshard_pool_worker_limit", pool.worker_limit);
    set("coreshard_pool_workers", pool.workers);
    set("coreshard_pool_idle_workers", pool.idle_workers);
    set("coreshard_pool_blocked_workers", pool.blocked_workers);
    set("coreshard_pool_intake_bytes", pool.intake_bytes);
    let count = |name: &'static str, value: u64| counter!(name, &labels).absolute(value);
    count("coreshard_pool_run_total", pool.run);
    count("coreshard_pool_cpu_time_ns_total", ns(pool.cpu_time));
    count("coreshard_pool_kicks_total", pool.kicks);
    count("coreshard_pool_wakeups_total", pool.wakeups);
    count("coreshard_pool_stolen_total", pool.stolen);
    count("coreshard_pool_guests_total", pool.guests);
    count("coreshard_pool_repatriated_total", pool.repatriated);
    count("coreshard_pool_hand_overs_total", pool.hand_overs);
    count("coreshard_pool_failed_worker_starts_total", pool.failed_worker_starts);
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Publishes the statistics of `runtime` as an item of `queue`, every `period`, until the returned value is dropped.
/// Missed ticks are skipped.
///
/// # Errors
/// As for periodic work: if the period is zero, or the timekeeper cannot be started.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// let runtime = coreshard::runtime()?;
/// let queue = runtime.workqueue().name("metrics").build()?;
/// let publishing = coreshard::integration::metrics::publish_every(runtime, &queue, Duration::from_secs(10))?;
/// # drop(publishing);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn publish_every<P: Platform>(
    runtime: &Runtime<P>,
    queue: &Workqueue<P>,
    period: Duration,
) -> Result<Periodic<P>, WorkError> {
    let runtime = runtime.clone();
    Periodic::start(queue, period, MissedTick::Skip, move || publish(&runtime.stats()))
}
