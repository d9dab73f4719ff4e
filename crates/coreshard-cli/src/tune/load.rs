//! The load to choose a scope for: named, described, or measured by `coreshard top`.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use crate::common::{MOST_MICROSECONDS, bad_input, bail_input, few, microseconds};
use anyhow::Context;
use coreshard::insight::{QueueSnapshot, Snapshot};
use coreshard_bench::{SeenLoad, TuneLoad};
use coreshard_topology::input::{self, quoted};

/// Snapshots of processes with thousands of queues are smaller than this.
const MOST_BYTES: u64 = 64 << 20;

/// The options that describe the load.
#[derive(Debug, clap::Args)]
pub(super) struct LoadArgs {
    /// Load to optimize for: even (every CPU queues an item and waits for it), lopsided (one CPU queues bursts),
    /// unknown (good under both), or a file written by coreshard top --once --json
    #[arg(long, value_name = "NAME|FILE", default_value = "unknown")]
    load: String,

    /// With --load FILE: the queue to read [default: of those that measure times, the one with the most items]
    #[arg(long, value_name = "NAME", requires = "load")]
    queue: Option<String>,

    /// Describe the load: this many CPUs each queue an item and wait for it [default with --load FILE: all CPUs]
    #[arg(long, value_name = "N", value_parser = few)]
    producers: Option<NonZeroUsize>,

    /// Describe the load: run time of an item, in microseconds [default with --load FILE: the queue's median]
    #[arg(long, value_name = "US", value_parser = microseconds::<u64, 0>)]
    item_us: Option<u64>,
}

impl LoadArgs {
    /// Returns the load and its name.
    pub(super) fn load(&self, cpus: usize) -> anyhow::Result<(TuneLoad, String)> {
        let item_work = self.item_us.map(Duration::from_micros);
        let described = self.producers.is_some() || item_work.is_some();
        if self.queue.is_some() && ["unknown", "even", "lopsided"].contains(&&*self.load) {
            bail_input!("--queue needs a file as --load, not {}", quoted(&self.load));
        }
        let named = match self.load.as_str() {
            "unknown" if described => None,
            "unknown" => Some(TuneLoad::Unknown),
            "even" => Some(TuneLoad::Even),
            "lopsided" => Some(TuneLoad::Lopsided),
            _ => None,
        };
        if let Some(load) = named {
            if described {
                bail_input!(
                    "--producers and --item-us cannot be combined with --load {}",
                    quoted(&self.load)
                );
            }
            return Ok((load, self.load.clone()));
        }
        let (measured, of) = match self.load.as_str() {
            "unknown" => (Duration::ZERO, "described".to_owned()),
            file => self.of_file(Path::new(file)).map_err(bad_input)?,
        };
        let all = NonZeroUsize::new(cpus).unwrap_or(NonZeroUsize::MIN);
        let producers = self.producers.unwrap_or(all);
        if producers > all {
            bail_input!("invalid --producers {producers}: expected 1 to {all}");
        }
        let item_work = item_work.unwrap_or(measured);
        let name = format!(
            "{of}: {producers} CPUs queue items of {:.1} µs",
            item_work.as_nanos() as f64 / 1e3
        );
        Ok((TuneLoad::Seen(SeenLoad { producers, item_work }), name))
    }

    /// Returns the median run time of a queue's items, and the queue's name.
    fn of_file(&self, path: &Path) -> anyhow::Result<(Duration, String)> {
        let shown = input::path(path);
        let text = input::text(path, MOST_BYTES)
            .with_context(|| "invalid --load: expected unknown, even, lopsided or a file")?;
        let snapshot: Snapshot = serde_json::from_str(&text).with_context(|| {
            format!("invalid file {shown}: expected the output of `coreshard top --once --json`")
        })?;
        let queue = self.queue_of(&snapshot.queues).with_context(|| format!("{shown}"))?;
        let times = queue.times.as_ref().filter(|times| times.run.samples > 0);
        let times = times.with_context(|| {
            format!("{shown}: the queue {} does not measure times", quoted(&queue.name))
        })?;
        let name = format!("as the queue {} in {shown}", quoted(&queue.name));
        let longest_ns = MOST_MICROSECONDS * 1_000;
        if times.run.p50_ns > longest_ns {
            let problem = "the median run time is longer than an hour";
            return Err(anyhow::anyhow!("{shown}: the queue {}: {problem}", quoted(&queue.name)));
        }
        Ok((Duration::from_nanos(times.run.p50_ns), name))
    }

    fn queue_of<'a>(&self, queues: &'a [QueueSnapshot]) -> anyhow::Result<&'a QueueSnapshot> {
        let measures = |queue: &&QueueSnapshot| {
            queue.times.as_ref().is_some_and(|times| times.run.samples > 0)
        };
        let found = match &self.queue {
            Some(name) => queues.iter().find(|queue| queue.name == *name),
            None => queues.iter().filter(measures).max_by_key(|queue| queue.run),
        };
        found.with_context(|| match &self.queue {
            Some(name) => format!("no queue is named {}", quoted(name)),
            None => "no queue measures run times: enable it with `.measure_times(…)`".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use coreshard::insight::{Quantiles, TimesSnapshot};

    use super::*;

    fn args(load: &str) -> LoadArgs {
        LoadArgs { load: load.to_owned(), queue: None, producers: None, item_us: None }
    }

    #[test]
    fn a_load_is_named_or_described_and_not_both() {
        assert_eq!(args("even").load(8).unwrap().0, TuneLoad::Even);
        let described = LoadArgs { item_us: Some(7), ..args("unknown") };
        let item_work = Duration::from_micros(7);
        let seen = SeenLoad { producers: NonZeroUsize::new(8).unwrap(), item_work };
        assert_eq!(described.load(8).unwrap().0, TuneLoad::Seen(seen));
        let both = LoadArgs { item_us: Some(7), ..args("lopsided") };
        assert!(both.load(8).unwrap_err().to_string().contains("--item-us"));
        let of_none = LoadArgs { queue: Some("mail".to_owned()), ..args("even") };
        assert!(of_none.load(8).unwrap_err().to_string().contains("--queue needs a file"));
        let neither = args("even-ish").load(8).unwrap_err();
        assert!(format!("{neither:#}").contains("expected unknown, even, lopsided or a file"));
    }

    #[test]
    fn the_busiest_queue_that_measures_times_is_taken() {
        let queue = |name: &str, run, p50_ns| {
            let mut queue = QueueSnapshot::default();
            (queue.name, queue.run) = (name.to_owned(), run);
            let mut quantiles = Quantiles::default();
            (quantiles.samples, quantiles.p50_ns) = (u64::from(p50_ns > 0), p50_ns);
            let mut times = TimesSnapshot::default();
            times.run = quantiles;
            queue.times = Some(times);
            queue
        };
        let mut snapshot = Snapshot::default();
        snapshot.queues = vec![
            queue("idle", 3, 900),
            queue("mail", 70, 4_000),
            queue("log", 99, 0),
            queue("slow", 1, u64::MAX),
        ];
        let file = std::env::temp_dir().join(format!("coreshard-load-{}", std::process::id()));
        std::fs::write(&file, serde_json::to_string(&snapshot).unwrap()).unwrap();
        let of = |queue: Option<&str>| {
            let queue = queue.map(str::to_owned);
            LoadArgs { queue, ..args(&file.display().to_string()) }.load(4)
        };
        let work = |load: TuneLoad| match load {
            TuneLoad::Seen(load) => load.item_work.as_nanos(),
            other => panic!("{other:?}"),
        };
        assert_eq!(work(of(None).unwrap().0), 4_000);
        assert_eq!(work(of(Some("idle")).unwrap().0), 900);
        assert!(format!("{:#}", of(Some("log")).unwrap_err()).contains("does not measure times"));
        assert!(format!("{:#}", of(Some("slow")).unwrap_err()).contains("longer than an hour"));
        assert!(format!("{:#}", of(Some("x")).unwrap_err()).contains("no queue is named \"x\""));
        std::fs::remove_file(file).unwrap();
    }
}
