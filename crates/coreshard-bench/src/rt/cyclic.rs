//! `bench rt cyclic`: how late a thread of fixed priority wakes up.
//!
//! **Method**, that of cyclictest (rt-tests): a periodic task on each CPU sleeps until an absolute time, one
//! interval after the last one, and reads the clock when it runs again. The latency is the difference; the
//! loop does nothing else. Here the tasks are the executor's, so each activation also goes through its CPU's
//! lock and the index, after the clock was read. Counting begins when all tasks have started, and all
//! continue until the last one has its wake-ups, so each of them runs among all.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, RealTime, Time};
use coreshard_results::{CyclicResults, CyclicThread};
use coreshard_rt::{Overrun, Periodic, PeriodicHandle, Urgency};
use coreshard_topology::CpuSet;
use hdrhistogram::Histogram;

use super::executor::{ExecutorSettings, executor};
use crate::error::BenchError;
use crate::machine::BenchMachine;

/// The largest latency that is distinguished; later wake-ups count as this.
const MAX_NS: u64 = 10_000_000_000;

/// A benchmark of wake-ups.
#[derive(Clone, Debug)]
pub struct CyclicBench {
    /// Priority, variant and memory.
    pub executor: ExecutorSettings,
    /// The number of threads, one on each of the first CPUs; by default all.
    pub threads: Option<NonZeroUsize>,
    /// The time from one wake-up to the next.
    pub interval: Duration,
    /// Wake-ups of each thread.
    pub cycles: NonZeroU64,
    /// The delay between the wake-ups of successive threads.
    pub distance: Duration,
}

/// The progress of all threads.
struct Together<P: RealTime> {
    threads: u32,
    begun: P::AtomicU32,
    done: P::AtomicU32,
}

/// The results of a thread.
struct Track<P: RealTime> {
    histogram: Lock<P, Histogram<u64>>,
    /// 1 once the thread has all its wake-ups.
    is_done: P::AtomicU32,
    faults: P::AtomicU64,
    first_ns: P::AtomicU64,
    last_ns: P::AtomicU64,
    /// Its own handle, to stop itself: real-time threads may occupy all CPUs, so no other thread could do so.
    itself: Lock<P, Option<PeriodicHandle<P>>>,
}

impl<P: RealTime> Track<P> {
    fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_NS, 3).expect("the bounds are valid");
        Self {
            histogram: Lock::new(histogram),
            is_done: P::AtomicU32::new(0),
            faults: P::AtomicU64::new(0),
            first_ns: P::AtomicU64::new(0),
            last_ns: P::AtomicU64::new(0),
            itself: Lock::new(None),
        }
    }

    fn stop(&self) {
        let itself = self.itself.lock().take();
        itself.map(PeriodicHandle::stop);
    }
}

/// The work of a thread at each wake-up.
struct Cycle<P: RealTime> {
    track: Arc<Track<P>>,
    together: Arc<Together<P>>,
    cycles: u64,
    left: u64,
    has_begun: bool,
}

impl<P: RealTime> Cycle<P> {
    fn woke(&mut self, wanted: Time, woke: Time) {
        let Self { track, together, cycles, left, has_begun } = self;
        let late_ns = woke.ns_since(wanted);
        if !*has_begun {
            *has_begun = true;
            together.begun.fetch_add(1, AcqRel);
        }
        if together.begun.load(Acquire) < together.threads {
            return;
        }
        if *left > 0 {
            track.histogram.lock().saturating_record(late_ns);
        }
        if *left == *cycles {
            // The first wake-up has loaded everything that the loop needs.
            track.faults.store(P::page_faults(), Release);
            track.first_ns.store(wanted.as_ns(), Release);
        }
        *left = left.saturating_sub(1);
        if *left == 0 && track.is_done.load(Acquire) == 0 {
            let faults = P::page_faults() - track.faults.load(Acquire);
            track.faults.store(faults, Release);
            track.last_ns.store(woke.as_ns(), Release);
            together.done.fetch_add(1, AcqRel);
            track.is_done.store(1, Release);
            P::wake_all(&raw const track.is_done);
        }
        if *left == 0 && together.done.load(Acquire) == together.threads {
            track.stop();
        }
    }
}

impl CyclicBench {
    /// Runs the benchmark.
    ///
    /// # Errors
    /// If the executor or its threads cannot be started.
    pub fn run<P: RealTime>(&self, machine: &BenchMachine) -> Result<CyclicResults, BenchError> {
        let priority = self.executor.priority;
        let (executor, notes) = executor::<P>(machine, self.executor, &[])?;
        let threads = self.threads.map_or(machine.usable.len(), NonZeroUsize::get);
        let cycles = self.cycles.get();
        let together = Arc::new(Together::<P> {
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            begun: P::AtomicU32::new(0),
            done: P::AtomicU32::new(0),
        });
        let mut running = Vec::with_capacity(threads);
        for (number, cpu) in machine.usable.iter().cycle().take(threads).enumerate() {
            let track = Arc::new(Track::<P>::new());
            let task = Periodic {
                urgency: Urgency::Fixed(priority),
                period: self.interval,
                phase: Duration::from_millis(5)
                    + self.distance * u32::try_from(number).unwrap_or(u32::MAX),
                deadline: None,
                budget: None,
                cpus: Some(CpuSet::from_iter([cpu])),
                overrun: Overrun::Skip,
            };
            let (theirs, together) = (Arc::clone(&track), Arc::clone(&together));
            let mut cycle =
                Cycle { track: theirs, together, cycles, left: cycles, has_begun: false };
            let handle = executor
                .periodic(task, move |activation| cycle.woke(activation.wanted, activation.woke))?;
            *track.itself.lock() = Some(handle);
            running.push((cpu, track));
        }
        let mut all = Histogram::<u64>::new(3).expect("three digits are possible");
        let mut results = CyclicResults {
            file_version: 1,
            num_threads: threads,
            machine: machine.name.clone(),
            platform: machine.platform.clone(),
            variant: self.executor.variant.to_string(),
            priority: executor.has_priorities().then_some(priority.get()),
            interval_us: self.interval.as_secs_f64() * 1e6,
            notes,
            ..CyclicResults::default()
        };
        for (number, (cpu, track)) in running.into_iter().enumerate() {
            while track.is_done.load(Acquire) == 0 {
                P::wait(&track.is_done, 0, None);
            }
            track.stop();
            let histogram = track.histogram.lock();
            all.add(&*histogram).expect("it grows as it must");
            let span_ns = track.last_ns.load(Acquire) - track.first_ns.load(Acquire);
            results.cycles_per_sec += per_sec(cycles, span_ns, self.interval);
            results.page_faults += track.faults.load(Acquire);
            let node = machine.topology.cpu(cpu).and_then(|cpu| cpu.node).map_or(0, |node| node.0);
            results.thread.insert(number, thread(&histogram, cpu.0, node));
        }
        let at = |quantile| all.value_at_quantile(quantile);
        (results.p50_ns, results.p99_ns, results.p99_9_ns) = (at(0.5), at(0.99), at(0.999));
        results.max_ns = all.max();
        Ok(results)
    }
}

/// Returns the wake-ups per second of a thread, given the time from its first to its last. Each wake-up
/// includes the interval after it.
fn per_sec(cycles: u64, span_ns: u64, interval: Duration) -> f64 {
    cycles as f64 * 1e9 / (span_ns as f64 + interval.as_nanos() as f64)
}

fn thread(histogram: &Histogram<u64>, cpu: u32, node: u32) -> CyclicThread {
    let mut by_us = BTreeMap::new();
    for step in histogram.iter_recorded() {
        *by_us.entry(step.value_iterated_to() / 1_000).or_insert(0) += step.count_at_value();
    }
    CyclicThread {
        histogram: by_us,
        cycles: histogram.len(),
        min: histogram.min() / 1_000,
        max: histogram.max() / 1_000,
        avg: histogram.mean() / 1e3,
        cpu,
        node,
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: histogram.value_at_quantile(0.99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_wake_ups_are_counted_than_intervals_pass() {
        let interval = Duration::from_millis(1);
        assert_eq!(per_sec(1, 0, interval), 1000.0);
        assert_eq!(per_sec(10, 9_000_000, interval), 1000.0);
        // Skipped wake-ups also take their time.
        assert_eq!(per_sec(10, 19_000_000, interval), 500.0);
        assert!(per_sec(2, 1_004_000, interval) < 1000.0);
    }
}
