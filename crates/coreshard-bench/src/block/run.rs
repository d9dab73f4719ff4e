//! Runs jobs one after another, each as often as requested.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroUsize;
use std::sync::Arc;

use coreshard_block::{HostAdapter, HostOptions, node_of_file};
use coreshard_platform::{Lock, Platform, ThreadSpec};
use coreshard_results::{BlockResults, JobResult, LittlesLaw, Repeats};
use coreshard_topology::CpuId;

use super::device;
use super::job::BlockJob;
use super::tally::DirectionTally;
use super::usage::Usage;
use super::worker::{Found, JobRun, work};
use crate::crew::Crew;
use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Progress;

/// The deviation from Little's law above which a note reports it.
const TOLERANCE: f64 = 0.05;

/// The benchmark of jobs on the block layer.
#[derive(Clone, Debug)]
pub struct BlockBench {
    /// The jobs, which run one after another.
    pub jobs: Vec<BlockJob>,
    /// How often all jobs are run; the runs of different jobs are interleaved.
    pub repeat: NonZeroUsize,
}

impl BlockBench {
    /// Runs the jobs. Blocks until they have finished, or until `progress` ends them.
    ///
    /// # Errors
    /// If a file, a ring or a thread is unavailable, if a request fails, or if the data read differs from the
    /// data written.
    pub fn run<P: Platform>(
        &self,
        machine: &BenchMachine,
        progress: &mut dyn Progress,
    ) -> Result<BlockResults, BenchError> {
        for job in &self.jobs {
            job.check().map_err(BenchError::bad_job)?;
        }
        let mut notes: Vec<String> = self.jobs.iter().flat_map(BlockJob::notes).collect();
        let repeat = self.repeat.get();
        progress.begin(self.jobs.len() * repeat);
        let mut last: Vec<Option<JobResult>> = self.jobs.iter().map(|_| None).collect();
        let mut iops: Vec<Vec<f64>> = vec![Vec::new(); self.jobs.len()];
        for (at, job) in (0..repeat).flat_map(|_| self.jobs.iter().enumerate()) {
            let goes_on = progress.step(&job.name).is_continue();
            let result = if goes_on { run_job::<P>(job, machine, progress)? } else { None };
            let Some(result) = result else {
                notes.push("ended early".to_owned());
                break;
            };
            iops[at].push(result.read.iops + result.write.iops);
            notes.extend(note_on(&result));
            last[at] = Some(result);
        }
        notes.dedup();
        let repeats = self.jobs.iter().zip(iops).filter(|(_, iops)| !iops.is_empty());
        Ok(BlockResults {
            version: format!("coreshard-{}", env!("CARGO_PKG_VERSION")),
            timestamp: 0,
            jobs: last.into_iter().flatten().collect(),
            machine: machine.name.clone(),
            platform: machine.platform.clone(),
            repeats: repeats.map(|(job, iops)| Repeats::new(&job.name, iops)).collect(),
            notes,
        })
    }
}

fn note_on(result: &JobResult) -> Option<String> {
    let LittlesLaw { in_flight, iops_times_latency, ratio } = result.littles_law;
    ((ratio - 1.0).abs() > TOLERANCE).then(|| {
        format!(
            "{}: Little's law does not hold: {in_flight:.2} requests were in flight, but throughput \
             times latency is {iops_times_latency:.2}; these figures are unreliable",
            result.jobname
        )
    })
}

/// Runs a job once. Returns `None` if `progress` ended it.
fn run_job<P: Platform>(
    job: &BlockJob,
    machine: &BenchMachine,
    progress: &mut dyn Progress,
) -> Result<Option<JobResult>, BenchError> {
    let Some((backend, extent)) = device::open::<P>(job, machine, progress)? else {
        return Ok(None);
    };
    let block_bytes = backend.geometry().block_bytes;
    // Larger requests are multiples of the smallest.
    for (word, given) in [("bs", u64::from(job.smallest_bs())), ("offset", extent.start)] {
        if !given.is_multiple_of(u64::from(block_bytes)) {
            return Err(BenchError::bad_job(format!(
                "{word}={given} is not a multiple of {block_bytes} bytes, as direct I/O on {} requires; give such a \
                 {word}, or direct=0",
                backend.name()
            )));
        }
    }
    let threads = job.numjobs as usize;
    let adapter = HostAdapter::<P>::new(HostOptions {
        node: job.filename.as_deref().and_then(node_of_file),
        memory: job.memory,
        depth: job.tag_depth.unwrap_or(job.iodepth.saturating_mul(job.numjobs)).min(1 << 20),
        tags: job.tags,
        counters: job.counters,
        threads,
        ..HostOptions::default()
    })?;
    let run = Arc::new(JobRun {
        job: job.clone(),
        device: adapter.target(&job.name).device(backend)?,
        extent,
        seed: seed(job),
        measures_usage: machine.is_host(),
        usage_after_ramp: Lock::new(None),
        found: Lock::new(Vec::new()),
    });
    let pins: Vec<CpuId> = match &job.cpus_allowed {
        Some(cpus) => cpus.iter().collect(),
        None if machine.is_host() => Vec::new(),
        None => machine.usable.iter().collect(),
    };
    let mut crew = Crew::<P>::new(threads);
    for thread in 0..threads {
        let pinned = (!pins.is_empty()).then(|| [pins[thread % pins.len()]].into_iter().collect());
        let name = format!("{}-{thread}", job.name);
        let shared = Arc::clone(&run);
        let spec = ThreadSpec { name, affinity: pinned, ..ThreadSpec::default() };
        crew.spawn(spec, move |gate| work(&shared, thread, gate))?;
    }
    crew.assemble();
    let before = Usage::of_process();
    crew.release();
    let before = run.usage_after_ramp.lock().take().unwrap_or(before);
    let used = Usage::of_process().since(before);
    crew.join();
    let found: Result<Vec<Found>, BenchError> =
        std::mem::take(&mut *run.found.lock()).into_iter().collect();
    Ok(Some(summary(&run, &found?, used)))
}

/// Returns the random seed.
fn seed(job: &BlockJob) -> u64 {
    match job.randseed {
        Some(seed) => seed,
        None if job.randrepeat => 0,
        // The standard library's hashes have a random seed.
        None => RandomState::new().build_hasher().finish(),
    }
}

fn summary<P: Platform>(run: &JobRun<P>, found: &[Found], used: Usage) -> JobResult {
    let (mut read, mut write) = (DirectionTally::new(), DirectionTally::new());
    for one in found {
        read.add(&one.read);
        write.add(&one.write);
    }
    let started_at = found.iter().map(|one| one.started_at).min().unwrap_or_default();
    let ended_at = found.iter().map(|one| one.ended_at).max().unwrap_or_default();
    let elapsed_ns = ended_at.ns_since(started_at).max(1);
    let job_ns: u64 = found.iter().map(|one| one.ended_at.ns_since(one.started_at)).sum();
    let usage = found.iter().fold(Usage::default(), |sum, one| sum.and(one.usage));
    // Each thread's own time: a thread that ends early has nothing in flight after that.
    let in_flight: f64 = found.iter().map(|one| one.in_flight_ns).sum::<f64>() / elapsed_ns as f64;
    let iops_times_latency = (read.latency_ns() + write.latency_ns()) / elapsed_ns as f64;
    let ratio = if iops_times_latency > 0.0 { in_flight / iops_times_latency } else { 1.0 };
    let counts = run.device.counts();
    JobResult {
        jobname: run.job.name.clone(),
        elapsed: elapsed_ns.div_ceil(1_000_000_000),
        options: run.job.options(),
        read: read.direction(elapsed_ns),
        write: write.direction(elapsed_ns),
        job_runtime: job_ns / 1_000_000,
        usr_cpu: usage.user_ns / job_ns.max(1) as f64 * 100.0,
        sys_cpu: usage.system_ns / job_ns.max(1) as f64 * 100.0,
        ctx: usage.switches,
        engine: found.first().map_or_else(String::new, |one| one.engine.clone()),
        cpu_ns_per_io: (used.user_ns + used.system_ns) / (read.ios() + write.ios()).max(1) as f64,
        littles_law: LittlesLaw { in_flight, iops_times_latency, ratio },
        issued: counts.issued,
        done: counts.done,
        errors: counts.errors,
        verified_bytes: found.iter().map(|one| one.verified_bytes).sum(),
        ..JobResult::default()
    }
}
