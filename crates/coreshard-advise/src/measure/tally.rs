//! Computes figures for each workqueue from trace lines.

use std::collections::{BTreeSet, HashMap, HashSet};

use coreshard_topology::input::plain;
use coreshard_topology::{CpuId, Topology};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::event::{self, Event, Kind};

/// Maximum number of waiting items that are tracked, over all queues.
const MOST_PENDING: usize = 1 << 20;
/// Maximum number of workqueues that are tracked.
const MOST_QUEUES: usize = 4_096;
/// The longest time that is resolved, in microseconds: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// The figures of all workqueues.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Measured {
    /// Duration of the measurement.
    pub seconds: f64,
    /// Items that take longer count as hogs, in microseconds.
    pub hog_us: u64,
    /// Sorted by number of items, the most first.
    pub queues: Vec<MeasuredQueue>,
    /// Items that started without a recorded queueing, mostly queued before the measurement.
    pub unmatched: u64,
    /// Events that the kernel dropped.
    pub lost: u64,
}

/// The figures of a workqueue.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct MeasuredQueue {
    /// The name.
    pub name: String,
    /// Whether the workers that ran items belong to single CPUs, judged by their names; `None` if none was seen.
    pub per_cpu: Option<bool>,
    /// Items queued.
    pub queued: u64,
    /// Items started.
    pub started: u64,
    /// Items finished.
    pub ended: u64,
    /// Items that were queued or running when the measurement ended.
    pub in_flight: u64,
    /// Items with both queueing and start recorded. The next two are parts of these.
    pub matched: u64,
    /// Items that started behind another last-level cache than the queueing CPU's.
    pub crossed_llc: u64,
    /// Items that started on another node than the queueing CPU's.
    pub crossed_node: u64,
    /// Threads that ran items.
    pub workers: usize,
    /// CPUs that queued items.
    pub producers: usize,
    /// Items that took longer than the threshold, sleep included.
    pub hogs: u64,
    /// Items run by a rescuer.
    pub rescues: u64,
    /// The function of the longest item.
    pub slowest: Option<String>,
    /// Time from queueing to start.
    pub delay: Times,
    /// Time from start to end, including sleep.
    pub run: Times,
}

/// The distribution of a time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Times {
    /// Number of samples.
    pub count: u64,
    /// The median.
    pub p50_us: u64,
    /// The 90th percentile.
    pub p90_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The maximum.
    pub max_us: u64,
    /// The sum.
    pub sum_us: u64,
}

#[derive(Debug)]
struct Durations {
    histogram: Histogram<u64>,
    sum_us: u64,
}

impl Durations {
    fn new() -> Self {
        // Three significant digits. The bounds are valid.
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, 3).expect("the bounds are right");
        Self { histogram, sum_us: 0 }
    }

    fn record(&mut self, us: u64) {
        self.histogram.saturating_record(us);
        self.sum_us = self.sum_us.saturating_add(us);
    }

    fn times(&self) -> Times {
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        Times {
            count: self.histogram.len(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            max_us: self.histogram.max(),
            sum_us: self.sum_us,
        }
    }
}

/// A workqueue during the measurement.
#[derive(Debug)]
struct Watched {
    figures: MeasuredQueue,
    delay: Durations,
    run: Durations,
    workers: HashSet<u32>,
    producers: BTreeSet<u32>,
    longest_us: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    at_us: u64,
    cpu: u32,
    queue: usize,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    at_us: u64,
    work: u64,
    queue: usize,
}

/// Counts trace events, line by line.
#[derive(Debug)]
pub struct Tally<'machine> {
    topology: &'machine Topology,
    hog_us: u64,
    queues: Vec<Watched>,
    by_name: HashMap<String, usize>,
    /// By item.
    pending: HashMap<u64, Pending>,
    /// By thread.
    running: HashMap<u32, Running>,
    unmatched: u64,
    lost: u64,
}

impl<'machine> Tally<'machine> {
    /// Creates a tally for a machine. Items that take longer than `hog_us` microseconds count as hogs.
    #[must_use]
    pub fn new(topology: &'machine Topology, hog_us: u64) -> Self {
        Self {
            topology,
            hog_us,
            queues: Vec::new(),
            by_name: HashMap::new(),
            pending: HashMap::new(),
            running: HashMap::new(),
            unmatched: 0,
            lost: 0,
        }
    }

    /// Processes a line of the trace. Other lines are ignored.
    pub fn line(&mut self, line: &str) {
        if let Some(event) = event::parse(line) {
            self.event(event);
        } else if let Some(lost) = event::lost(line) {
            self.lost = self.lost.saturating_add(lost);
        }
    }

    fn event(&mut self, event: Event<'_>) {
        let Event { at_us, cpu, thread, .. } = event;
        match event.kind {
            Kind::Queue { work, workqueue } => {
                let Some(queue) = self.queue(workqueue) else { return };
                self.queues[queue].figures.queued += 1;
                self.queues[queue].producers.insert(cpu);
                if self.pending.len() < MOST_PENDING || self.pending.contains_key(&work) {
                    self.pending.insert(work, Pending { at_us, cpu, queue });
                }
            }
            Kind::Start { work, .. } => {
                let Some(pending) = self.pending.remove(&work) else {
                    self.unmatched += 1;
                    self.running.remove(&thread);
                    return;
                };
                let crosses = self.crosses(pending.cpu, cpu);
                let queue = &mut self.queues[pending.queue];
                queue.figures.started += 1;
                queue.figures.matched += 1;
                queue.figures.crossed_llc += u64::from(crosses.0);
                queue.figures.crossed_node += u64::from(crosses.1);
                // The name of rescuers since Linux 6.8.
                queue.figures.rescues += u64::from(event.comm.starts_with("kworker/R-"));
                queue.figures.per_cpu = is_of_a_cpu(event.comm).or(queue.figures.per_cpu);
                queue.delay.record(at_us.saturating_sub(pending.at_us));
                queue.workers.insert(thread);
                self.running.insert(thread, Running { at_us, work, queue: pending.queue });
            }
            Kind::End { work, function } => {
                let Some(running) = self.running.remove(&thread).filter(|it| it.work == work)
                else {
                    return;
                };
                let queue = &mut self.queues[running.queue];
                let took_us = at_us.saturating_sub(running.at_us);
                queue.figures.ended += 1;
                queue.figures.hogs += u64::from(took_us > self.hog_us);
                queue.run.record(took_us);
                if took_us > queue.longest_us {
                    queue.longest_us = took_us;
                    queue.figures.slowest = Some(plain(function)).filter(|name| !name.is_empty());
                }
            }
        }
    }

    /// Returns whether two CPUs have different last-level caches, and different nodes.
    fn crosses(&self, from: u32, to: u32) -> (bool, bool) {
        let cpu = |number| self.topology.cpu(CpuId(number));
        cpu(from).zip(cpu(to)).map_or((false, false), |(from, to)| {
            (from.llc != to.llc, from.node.zip(to.node).is_some_and(|(from, to)| from != to))
        })
    }

    fn queue(&mut self, name: &str) -> Option<usize> {
        if let Some(at) = self.by_name.get(name) {
            return Some(*at);
        }
        if self.queues.len() == MOST_QUEUES {
            return None;
        }
        self.by_name.insert(name.to_owned(), self.queues.len());
        self.queues.push(Watched {
            figures: MeasuredQueue { name: plain(name), ..MeasuredQueue::default() },
            delay: Durations::new(),
            run: Durations::new(),
            workers: HashSet::new(),
            producers: BTreeSet::new(),
            longest_us: 0,
        });
        Some(self.queues.len() - 1)
    }

    /// Returns the figures of a measurement of this many seconds.
    #[must_use]
    pub fn finish(mut self, seconds: f64) -> Measured {
        let pending = self.pending.values().map(|it| it.queue);
        for queue in pending.chain(self.running.values().map(|it| it.queue)) {
            self.queues[queue].figures.in_flight += 1;
        }
        let finished = self.queues.into_iter().map(|watched| MeasuredQueue {
            workers: watched.workers.len(),
            producers: watched.producers.len(),
            delay: watched.delay.times(),
            run: watched.run.times(),
            ..watched.figures
        });
        let mut queues: Vec<_> = finished.collect();
        queues.sort_by(|a, b| b.queued.cmp(&a.queued).then_with(|| a.name.cmp(&b.name)));
        Measured {
            seconds,
            hog_us: self.hog_us,
            queues,
            unmatched: self.unmatched,
            lost: self.lost,
        }
    }
}

/// Returns whether a worker belongs to one CPU (`kworker/3:1`, `kworker/3:1H`) or to an unbound pool (`kworker/u8:1`).
fn is_of_a_cpu(worker: &str) -> Option<bool> {
    let name = worker.strip_prefix("kworker/")?;
    let (pool, _) = name.split_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    match pool.strip_prefix('u') {
        Some(unbound) => is_number(unbound).then_some(false),
        None => is_number(pool).then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workers_name_tells_whose_pool_it_is_of() {
        for (name, expected) in [
            ("kworker/0:1", Some(true)),
            ("kworker/17:2H", Some(true)),
            ("kworker/u8:1", Some(false)),
            ("kworker/u513:0H", Some(false)),
            ("kworker/R-nfs:1", None),
            ("kworker/u:1", None),
            ("kworker/", None),
            ("ksoftirqd/0", None),
        ] {
            assert_eq!(is_of_a_cpu(name), expected, "{name}");
        }
    }

    fn line(at_us: u64, cpu: u32, thread: &str, what: &str) -> String {
        format!(
            "{thread} [{cpu:03}] d.... {}.{:06}: workqueue_{what}",
            at_us / 1_000_000,
            at_us % 1_000_000
        )
    }

    #[test]
    fn items_are_followed_from_cpu_to_cpu() {
        let machine = Topology::from_synthetic("pack:2 numa:1 l3:2 core:1 pu:1").unwrap();
        let mut tally = Tally::new(&machine, 100);
        // To the same cache, another cache, another node.
        for (work, (from, to)) in [(0, 0), (0, 1), (0, 2)].into_iter().enumerate() {
            let at_us = work as u64 * 1_000;
            let queue =
                format!("queue_work: work struct={work:x} function=f workqueue=q req_cpu=9 cpu=0");
            tally.line(&line(at_us, from, "cp-1", &queue));
            let worker = if work == 2 { "kworker/R-q-7" } else { "kworker/u4:1-6" };
            tally.line(&line(
                at_us + 10,
                to,
                worker,
                &format!("execute_start: work struct {work:x}: function f"),
            ));
            let long = if work == 1 { 200 } else { 20 };
            let end = format!("execute_end: work struct {work:x}: function f{work}");
            tally.line(&line(at_us + 10 + long, to, worker, &end));
        }
        tally.line("CPU:1 [LOST 3 EVENTS]");
        tally.line(&line(9, 0, "kworker/0:1-9", "execute_start: work struct ff: function g"));
        tally.line(&line(9, 0, "kworker/0:1-9", "execute_end: work struct ff: function g"));
        // Its timer was changed before it started: it is one item, and still waits.
        for at_us in [9, 10] {
            let queue = "queue_work: work struct=fe function=f workqueue=q req_cpu=9 cpu=0";
            tally.line(&line(at_us, 0, "cp-1", queue));
        }
        let measured = tally.finish(1.0);
        assert_eq!((measured.lost, measured.unmatched, measured.queues.len()), (3, 1, 1));
        let queue = &measured.queues[0];
        assert_eq!((queue.queued, queue.started, queue.ended, queue.matched), (5, 3, 3, 3));
        assert_eq!((queue.crossed_llc, queue.crossed_node, queue.in_flight), (2, 1, 1));
        assert_eq!((queue.hogs, queue.rescues, queue.workers, queue.producers), (1, 1, 2, 1));
        assert_eq!(queue.per_cpu, Some(false));
        assert_eq!((queue.delay.max_us, queue.run.max_us, queue.run.sum_us), (10, 200, 240));
        assert_eq!(queue.slowest.as_deref(), Some("f1"));
    }
}
