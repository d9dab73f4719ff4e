//! What changed between two looks.

use std::collections::HashMap;

use coreshard::insight::{PoolSnapshot, QueueSnapshot, Snapshot};

/// A second look against a first.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    seconds: f64,
    /// Queues have no id; those of one name are told apart by their order, which is that of age.
    queues: HashMap<(String, usize), QueueSnapshot>,
    pools: HashMap<u32, PoolSnapshot>,
}

impl Rates {
    /// Before the second look.
    pub(super) fn unknown() -> Self {
        Self::default()
    }

    /// From `first` on, over the time until `second`.
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

    /// True if there were two looks.
    pub(super) fn are_known(&self) -> bool {
        self.seconds > 0.0
    }

    /// By how much a queue's count rose in a second; `None` where it is new, or its place is
    /// another queue's now.
    pub(super) fn of_queue(
        &self,
        key: &(String, usize),
        now: &QueueSnapshot,
        count: impl Fn(&QueueSnapshot) -> u64,
    ) -> Option<f64> {
        self.per_second(count(self.queues.get(key)?), count(now))
    }

    /// As [`Self::of_queue`], of a pool.
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

/// The queues, with their names and their numbers among those of that name.
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
