//! Compares layouts of counters and policies of shared tags: the cost of an operation, and the fairness among
//! devices.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use coreshard_block::{
    Buffer, CounterLayout, DeviceCounters, FaultPlan, Faulty, HostAdapter, HostOptions, Null,
    Outcome, Queue, QueueOptions, Request, TagPolicy, TagSet, TagSetSpec,
};
use coreshard_platform::Platform;
use coreshard_results::{ComparisonResults, FairnessRow, OperationRow};
use coreshard_topology::CpuId;
use hdrhistogram::Histogram;

use crate::crew::Crew;
use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Progress;
use crate::spread::Spread;

/// Returns Jain's fairness index (Jain, Chiu and Hawe, 1984): (Σx)² / (n Σx²).
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// A comparison of counter layouts and tag policies.
#[derive(Clone, Debug)]
pub struct ComparisonBench {
    /// Runs of each variant, interleaved.
    pub runs: NonZeroUsize,
    /// Operations of each thread in a run.
    pub operations: u64,
    /// The tag policies.
    pub policies: Vec<TagPolicy>,
    /// The duration of each fairness run.
    pub fairness_time: Duration,
}

impl Default for ComparisonBench {
    fn default() -> Self {
        Self {
            runs: NonZeroUsize::new(7).expect("7 is not 0"),
            operations: 2_000_000,
            policies: TagPolicy::ALL.to_vec(),
            fairness_time: Duration::from_millis(500),
        }
    }
}

#[derive(Clone, Copy)]
enum Variant {
    Counters(CounterLayout),
    Tags(TagPolicy),
}

impl ComparisonBench {
    /// Runs the comparison.
    ///
    /// # Errors
    /// If a thread cannot be started, or if there is not enough memory.
    pub fn run<P: Platform>(
        &self,
        machine: &BenchMachine,
        progress: &mut dyn Progress,
    ) -> Result<ComparisonResults, BenchError> {
        let cpus: Vec<CpuId> = machine.usable.iter().collect();
        let counters = CounterLayout::ALL.into_iter().map(Variant::Counters);
        let variants: Vec<Variant> =
            counters.chain(self.policies.iter().copied().map(Variant::Tags)).collect();
        let runs = self.runs.get();
        progress.begin(runs + self.policies.len());
        let mut measured: Vec<[Vec<f64>; 3]> =
            variants.iter().map(|_| Default::default()).collect();
        for run in 0..runs {
            if progress.step(&format!("comparison, run {}", run + 1)).is_break() {
                break;
            }
            for (variant, times) in variants.iter().zip(&mut measured) {
                let (one_ns, _) = self.measure::<P>(*variant, &cpus[..1])?;
                let (all_ns, read_ns) = self.measure::<P>(*variant, &cpus)?;
                times[0].push(one_ns);
                times[1].push(all_ns);
                times[2].push(read_ns);
            }
        }
        let mut fairness = Vec::new();
        for policy in &self.policies {
            if progress.step(&format!("fairness, {policy}")).is_break() {
                break;
            }
            fairness.push(self.fairness::<P>(*policy, &cpus)?);
        }
        let operations = variants.iter().zip(measured).map(|(variant, times)| row(*variant, times));
        Ok(ComparisonResults {
            machine: machine.name.clone(),
            platform: machine.platform.clone(),
            threads: cpus.len(),
            operations: operations.collect(),
            fairness,
        })
    }

    /// Returns the nanoseconds per operation of each thread, and per read of the state afterwards.
    fn measure<P: Platform>(
        &self,
        variant: Variant,
        cpus: &[CpuId],
    ) -> Result<(f64, f64), BenchError> {
        match variant {
            Variant::Counters(layout) => {
                let counters = DeviceCounters::<P>::new(layout, cpus.len(), None);
                let counters = Arc::new(counters.map_err(failed)?);
                let shared = Arc::clone(&counters);
                let each_ns = self.on_each::<P>(cpus, move |thread, operations| {
                    let counters =
                        shared.for_thread(thread).expect("each thread has its own counters");
                    (0..operations).for_each(|_| {
                        counters.issued();
                        counters.done(Outcome::Success);
                    });
                })?;
                Ok((each_ns, read_ns::<P, _>(|| counters.read())))
            }
            Variant::Tags(policy) => {
                let threads = cpus.len() as u32;
                let spec =
                    TagSetSpec { depth: 64 * threads, policy, threads, ..Default::default() };
                let set = Arc::new(TagSet::<P>::new(spec).map_err(failed)?);
                let user = set.add_user().map_err(failed)?;
                let each_ns = self.on_each::<P>(cpus, move |_, operations| {
                    let mut port = user.port();
                    (0..operations).for_each(|_| {
                        let tag = port.get().expect("there are 64 tags for each thread");
                        port.put(tag);
                    });
                })?;
                Ok((each_ns, read_ns::<P, _>(|| set.in_use())))
            }
        }
    }

    /// Runs `body` on a thread of each CPU, all released together. Returns the mean time of an operation.
    fn on_each<P: Platform>(
        &self,
        cpus: &[CpuId],
        body: impl Fn(usize, u64) + Send + Sync + 'static,
    ) -> Result<f64, BenchError> {
        let operations = self.operations;
        let body = Arc::new(body);
        let mut crew = Crew::<P, u64>::new(cpus.len());
        for (thread, cpu) in cpus.iter().enumerate() {
            let body = Arc::clone(&body);
            crew.spawn_on(*cpu, format!("compare-{thread}"), move || {
                let start = P::now();
                body(thread, operations);
                P::now().ns_since(start)
            })?;
        }
        let spent_ns: u64 = crew.run().results.into_iter().sum();
        Ok(spent_ns as f64 / cpus.len() as f64 / operations as f64)
    }

    fn fairness<P: Platform>(
        &self,
        policy: TagPolicy,
        cpus: &[CpuId],
    ) -> Result<FairnessRow, BenchError> {
        let [greedy, shy] = [(256, 0), (1, 1)];
        let alone = |who| -> Result<Served, BenchError> {
            Ok(self.serve::<P>(policy, cpus, &[who])?.pop().expect("one load was given"))
        };
        let (greedy_alone, shy_alone) = (alone(greedy)?, alone(shy)?);
        let mut both = self.serve::<P>(policy, cpus, &[greedy, shy])?;
        let (shy, greedy) = (both.pop().expect("two"), both.pop().expect("two"));
        // A device that got nothing alone lost nothing to the other.
        let part = |got: &Served, alone: &Served| {
            if alone.iops > 0.0 { got.iops / alone.iops } else { 1.0 }
        };
        let shares = [part(&shy, &shy_alone), part(&greedy, &greedy_alone)];
        let quantile = |served: &Served, at| served.latency_ns.value_at_quantile(at);
        Ok(FairnessRow {
            tags: policy.to_string(),
            shy_iops: shy.iops,
            shy_alone_iops: shy_alone.iops,
            shy_p50_ns: quantile(&shy, 0.5),
            shy_p99_ns: quantile(&shy, 0.99),
            shy_max_ns: shy.latency_ns.max(),
            shy_alone_p99_ns: quantile(&shy_alone, 0.99),
            greedy_iops: greedy.iops,
            greedy_alone_iops: greedy_alone.iops,
            jain: jain(&shares),
        })
    }

    /// Runs devices of one host, each with a thread on the CPU of its number that keeps the given number of
    /// requests in flight. A request takes up to 200 µs.
    fn serve<P: Platform>(
        &self,
        policy: TagPolicy,
        cpus: &[CpuId],
        wanted: &[(u32, usize)],
    ) -> Result<Vec<Served>, BenchError> {
        let options = HostOptions { depth: SHARED_TAGS, tags: policy, ..HostOptions::default() };
        let host = HostAdapter::<P>::new(options)?;
        let target = host.target("fairness");
        let time = self.fairness_time;
        let mut crew = Crew::<P, Served>::new(wanted.len());
        for (place, (in_flight, cpu)) in wanted.iter().copied().enumerate() {
            let plan = FaultPlan {
                seed: place as u64,
                delayed: 1_000_000,
                longest_delay: Duration::from_micros(200),
                ..FaultPlan::default()
            };
            let medium = Faulty::<P>::new(Arc::new(Null::new(1 << 30)), plan);
            let device = target.device(Arc::new(medium))?;
            crew.spawn_on(cpus[cpu % cpus.len()], format!("device-{place}"), move || {
                let options = QueueOptions { depth: in_flight, ..QueueOptions::default() };
                let queue = device.queue(0, options);
                let mut queue = queue.expect("a null device always has a queue");
                keep_in_flight(&mut queue, in_flight, time)
            })?;
        }
        Ok(crew.run().results)
    }
}

const READS: u64 = 1_000;

/// Returns the mean time of a read of the state.
fn read_ns<P: Platform, T>(read: impl Fn() -> T) -> f64 {
    let start = P::now();
    for _ in 0..READS {
        std::hint::black_box(read());
    }
    P::now().ns_since(start) as f64 / READS as f64
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::failed_job(error.to_string())
}

const SHARED_TAGS: u32 = 64;

/// The requests that a device completed, and their latencies.
struct Served {
    iops: f64,
    latency_ns: Histogram<u64>,
}

fn keep_in_flight<P: Platform>(queue: &mut Queue<P>, in_flight: u32, time: Duration) -> Served {
    let mut latency_ns =
        Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("these bounds are valid");
    let start = P::now();
    let end = start + time;
    let mut free: Vec<(u64, Buffer)> =
        (0..u64::from(in_flight)).map(|place| (place, Buffer::from(vec![0; 512]))).collect();
    let mut began_at = vec![start; in_flight as usize];
    let mut done = 0_u64;
    let mut now = start;
    while now < end {
        for (place, buffer) in free.drain(..) {
            began_at[place as usize] = now;
            queue.submit(Request::read(0, buffer), place).expect("the device is online");
        }
        queue.wait(Some(end - now));
        now = P::now();
        while let Some(completed) = queue.next() {
            done += 1;
            latency_ns.saturating_record(now.ns_since(began_at[completed.cookie as usize]));
            let buffer = completed.payload.into_one().expect("each request has one buffer");
            free.push((completed.cookie, buffer));
        }
    }
    // A request that still waits counts as well, so that a device without any completion is not taken for one
    // that never waited.
    let waiting = queue.outstanding().min(1);
    if done == 0 && waiting > 0 {
        latency_ns.saturating_record(now.ns_since(start));
    }
    Served { iops: done as f64 * 1e9 / now.ns_since(start).max(1) as f64, latency_ns }
}

fn row(variant: Variant, times: [Vec<f64>; 3]) -> OperationRow {
    let (comparison, variant) = match variant {
        Variant::Counters(layout) => ("counters", layout.to_string()),
        Variant::Tags(policy) => ("tags", policy.to_string()),
    };
    let none = Spread { median: f64::NAN, min: f64::NAN, max: f64::NAN };
    let [one, all, read] = times.map(|runs| Spread::of(runs).unwrap_or(none));
    OperationRow {
        comparison: comparison.to_owned(),
        variant,
        one_ns: one.median,
        one_ns_min: one.min,
        one_ns_max: one.max,
        all_ns: all.median,
        all_ns_min: all.min,
        all_ns_max: all.max,
        read_ns: read.median,
    }
}

#[cfg(test)]
mod tests {
    use coreshard_platform::Host;

    use super::*;
    use crate::progress::Unwatched;

    #[test]
    fn jain_s_index_is_one_for_equals_and_one_nth_for_one_who_takes_all() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[5.0, 0.0]), 0.5);
        assert_eq!(jain(&[0.0, 0.0]), 0.0);
    }

    #[test]
    fn every_variant_is_measured() {
        let machine = BenchMachine::host();
        let bench = ComparisonBench {
            runs: NonZeroUsize::new(2).unwrap(),
            operations: 2_000,
            fairness_time: Duration::from_millis(40),
            ..ComparisonBench::default()
        };
        let results = bench.run::<Host>(&machine, &mut Unwatched).unwrap();
        assert_eq!((results.operations.len(), results.fairness.len()), (7, 4));
        for row in &results.operations {
            assert!(row.one_ns_min > 0.0 && row.one_ns_min <= row.one_ns, "{row:?}");
            assert!(row.all_ns <= row.all_ns_max && row.read_ns > 0.0, "{row:?}");
        }
        for row in &results.fairness {
            // On a loaded machine, the scheduler decides how much each device gets in so short a time. The
            // tests of the waiters check that no device is passed over.
            assert!(row.greedy_alone_iops > 0.0 && row.greedy_iops > 0.0, "{row:?}");
            assert!(row.shy_p50_ns > 1_000 && row.shy_p99_ns >= row.shy_p50_ns, "{row:?}");
            assert!((0.0..=1.0 + 1e-9).contains(&row.jain), "{row:?}");
        }
    }
}
