//! What reaches the recorder of the crate `metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use coreshard::{Runtime, Sampling, Scope, Topology};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Keeps what it is told, by name and labels.
#[derive(Default)]
struct Kept {
    values: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    described: Mutex<BTreeMap<String, Option<Unit>>>,
}

impl Kept {
    fn value(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.values.lock().unwrap().entry(name).or_default())
    }

    fn counter(&self, name: &str) -> u64 {
        let values = self.values.lock().unwrap();
        values.get(name).unwrap_or_else(|| panic!("no {name} in {values:#?}")).load(SeqCst)
    }

    fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.counter(name))
    }

    fn describe(&self, name: KeyName, unit: Option<Unit>) {
        self.described.lock().unwrap().insert(name.as_str().to_owned(), unit);
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(name, unit);
    }
    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(name, unit);
    }
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("there is none");
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.value(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.value(key))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("there is none");
    }
}

#[test]
fn queues_and_pools_are_published_under_their_documented_names() {
    testing::own_process!();
    let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
    let usable = coreshard::runtime().unwrap().usable().clone();
    let runtime = Runtime::builder(topology).laid_over(usable).build().unwrap();
    let queue = |name: &str| {
        let builder = runtime.workqueue().name(name).scope(Scope::Cache);
        builder.times(Sampling::EVERY_ITEM).capacity(8).build().unwrap()
    };
    let queues = [queue("twice"), queue("twice"), queue("once")];
    for queue in &queues {
        for _ in 0..3 {
            queue.submit(|| ()).unwrap().join().unwrap();
        }
        queue.drain().unwrap();
    }
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || {
        coreshard::integration::metrics::describe();
        coreshard::integration::metrics::publish(&runtime.stats());
    });
    assert_eq!(kept.counter("coreshard_queue_run_total{queue=once}"), 3);
    assert_eq!(kept.counter("coreshard_queue_run_total{queue=twice}"), 6, "of both");
    assert_eq!(kept.gauge("coreshard_queue_in_flight{queue=once}"), 0.0);
    let longest = kept.gauge("coreshard_queue_run_seconds{queue=once,quantile=1}");
    assert!(
        longest > 0.0
            && longest >= kept.gauge("coreshard_queue_run_seconds{queue=once,quantile=0.5}")
    );
    let pool = runtime.stats().pools[0].id;
    let labels = format!("{{pool={pool},scope=cache,cpus=0-1}}");
    assert_eq!(kept.counter(&format!("coreshard_pool_run_total{labels}")), 9);
    assert_eq!(kept.gauge(&format!("coreshard_pool_worker_limit{labels}")), 2.0);

    // Each name is described, with a unit, and in the module's table.
    let page = include_str!("../../src/integration/metrics.rs");
    let described = kept.described.lock().unwrap();
    for key in kept.values.lock().unwrap().keys() {
        let name = key.split('{').next().unwrap();
        assert!(matches!(described.get(name), Some(Some(_))), "{name} has no unit");
        assert!(page.contains(&format!("//! | `{name}` |")), "{name} is not in the table");
    }
    for name in described.keys() {
        let published =
            kept.values.lock().unwrap().keys().any(|key| key.starts_with(&format!("{name}{{")));
        assert!(published, "{name} is described and not published");
    }
}
