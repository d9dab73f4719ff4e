//! The queues' counts in the text format of Prometheus, with the names of `coreshard::integration::metrics`.

use std::collections::BTreeMap;
use std::fmt::Write;

use coreshard::{QueueStats, RuntimeStats};

/// A metric's name, type and description, and the function that reads it.
type Metric = (&'static str, &'static str, &'static str, fn(&QueueStats) -> u64);

const METRICS: [Metric; 6] = [
    ("coreshard_queue_queued_total", "counter", "Items that were accepted.", |queue| queue.queued),
    ("coreshard_queue_run_total", "counter", "Items that have finished.", |queue| queue.run),
    (
        "coreshard_queue_in_flight",
        "gauge",
        "Items accepted and not finished.",
        QueueStats::in_flight,
    ),
    ("coreshard_queue_capacity_used", "gauge", "How much of the capacity is used.", |queue| {
        queue.capacity_used
    }),
    ("coreshard_queue_waiting_producers", "gauge", "Producers that wait for room.", |queue| {
        queue.waiting_producers
    }),
    ("coreshard_queue_refused_total", "counter", "Items refused by a full queue.", |queue| {
        queue.refused
    }),
];

/// The counts of all queues of a runtime. Queues with the same name are added up.
#[must_use]
pub fn prometheus(stats: &RuntimeStats) -> String {
    let mut text = String::new();
    for (name, kind, meaning, read) in METRICS {
        let mut values: BTreeMap<&str, u64> = BTreeMap::new();
        for queue in &stats.queues {
            *values.entry(&queue.name).or_default() += read(queue);
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
        for (queue, value) in values {
            let _ = writeln!(text, "{name}{{queue=\"{}\"}} {value}", escaped(queue));
        }
    }
    text
}

/// A label's value, between quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_escaped_and_queues_of_one_name_added_up() {
        let runtime = coreshard::runtime_builder().unwrap().build().unwrap();
        let builder = || runtime.workqueue().name("a \"b\\c\"\nd");
        let queues = [builder().build().unwrap(), builder().build().unwrap()];
        for queue in &queues {
            queue.submit(|| ()).unwrap().join().unwrap();
        }
        let text = super::prometheus(&runtime.stats());
        let line = "coreshard_queue_queued_total{queue=\"a \\\"b\\\\c\\\"\\nd\"} 2\n";
        assert!(text.contains(line), "{text}");
        assert!(
            text.starts_with("# HELP coreshard_queue_queued_total Items that were accepted.\n")
        );
    }
}
