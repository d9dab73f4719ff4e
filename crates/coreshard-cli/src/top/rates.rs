//! Rates between two readings.

use std::collections::HashMap;

use coreshard::insight::{PoolSnapshot, QueueSnapshot, Snapshot};

/// A reading compared with an earlier one.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    seconds: f64,
    /// Queues have no ID. Queues of one name are distinguished by their order, which is by age.
    queues: HashMap<(String, usize), QueueSnapshot>,
    pools: HashMap<u32, PoolSnapshot>,
}

impl Rates {
    /// Returns rates before the second reading.
    pub(super) fn unknown() -> Self {
        Self::default()
    }

    /// Computes rates from `first` to `second`.
    pub(super) fn between(first: &Snapshot, second: &Snapshot) -> Self {
        if second.taken_ns <= first.taken_ns || second.pid != first.pid {
            return Self::unknown();
        }
        let names = numbered(first).map(|(key, queue)| (key, queue.clone()));
        Self {
            seconds: (second.taken_ns - first.taken_ns) as f64 / 1e9,
            queues: names.collect(),
            pools: first.pools.iter().map(|pool| (pool.id, pool.clone())).collect(),
        }
    }

    /// Returns true if there were two readings.
    pub(super) fn are_known(&self) -> bool {
        self.seconds > 0.0
    }

    /// Returns the increase of a queue's count per second, or `None` if the queue is new or its place is taken by
    /// another queue.
    pub(super) fn of_queue(
        &self,
        key: &(String, usize),
        now: &QueueSnapshot,
        count: impl Fn(&QueueSnapshot) -> u64,
    ) -> Option<f64> {
        self.per_second(count(self.queues.get(key)?), count(now))
    }

    /// Like [`Self::of_queue`], for a pool.
    pub(super) fn of_pool(
        &self,
        now: &PoolSnapshot,
        count: impl Fn(&PoolSnapshot) -> u64,
    ) -> Option<f64> {
        self.per_second(count(self.pools.get(&now.id)?), count(now))
    }

    fn per_second(&self, before: u64, now: u64) -> Option<f64> {
        Some(now.checked_sub(before)? as f64 / self.seconds)
    }
}

/// Returns the queues with their names and their numbers among queues of that name.
pub(super) fn numbered(
    snapshot: &Snapshot,
) -> impl Iterator<Item = ((String, usize), &QueueSnapshot)> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    snapshot.queues.iter().map(move |queue| {
        let number = seen.entry(queue.name.as_str()).or_default();
        *number += 1;
        ((queue.name.clone(), *number), queue)
    })
}
