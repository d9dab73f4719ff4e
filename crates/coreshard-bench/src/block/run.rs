//! Runs jobs, one after another, each as often as was asked for.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use coreshard_block::{
    Backend, Engine, Executor, File, FileOptions, HostAdapter, HostOptions, Job, Memory, Null,
    RingOptions, node_of_file,
};
use coreshard_platform::{Lock, Platform, ThreadHandle, ThreadSpec};
use coreshard_results::{BlockResults, Direction, JobResult, LittlesLaw, Repeats};
use coreshard_topology::{CpuId, input};
use coreshard_workqueue::Runtime;

use super::amount::Amount;
use super::extent::Extent;
use super::job::{BlockJob, IoEngine};
use super::need;
use super::overwrite::{self, Consent, Held, LaidOut};
use super::tally::DirectionTally;
use super::usage::Usage;
use super::worker::{Found, JobRun, work};
use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Progress;
use crate::queue::gate::Gate;

/// What a file in memory without a size has.
const DEFAULT_MEMORY_BYTES: u64 = 64 << 20;
/// What is written at once while a file is laid out.
const LAYOUT_BYTES: usize = 1 << 20;
/// How far Little's law may be off before it is said.
const TOLERANCE: f64 = 0.05;

/// Jobs for the block layer, ready to be run.
#[derive(Clone, Debug)]
pub struct BlockBench {
    /// JobRun one after another.
    pub jobs: Vec<BlockJob>,
    /// How often all of them are run; the runs of different jobs are interleaved.
    pub repeat: NonZeroUsize,
}

impl BlockBench {
    /// Runs the jobs. Blocks until they are over, or until `progress` ends them.
    ///
    /// # Errors
    /// Where a file, a ring or a thread cannot be had, a request fails, or what was read is not what
    /// was written.
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
        let mut laid_out = LaidOut::default();
        progress.begin(self.jobs.len() * repeat);
        let mut last: Vec<Option<JobResult>> = self.jobs.iter().map(|_| None).collect();
        let mut iops: Vec<Vec<f64>> = vec![Vec::new(); self.jobs.len()];
        'runs: for _ in 0..repeat {
            for (at, job) in self.jobs.iter().enumerate() {
                if progress.step(&job.name).is_break() {
                    notes.push("ended early".to_owned());
                    break 'runs;
                }
                let ControlFlow::Continue(result) =
                    run_job::<P>(job, machine, progress, &mut laid_out)?
                else {
                    notes.push("ended early".to_owned());
                    break 'runs;
                };
                iops[at].push(result.read.iops + result.write.iops);
                notes.extend(note_on(&result));
                last[at] = Some(result);
            }
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
             times latency is {iops_times_latency:.2}; do not trust these figures",
            result.jobname
        )
    })
}

/// A device's backend, and the part of it that is used.
type Used<P> = (Arc<dyn Backend<P>>, Extent);

/// What a job reads and writes; a break where `progress` ended the run.
fn backend<P: Platform>(
    job: &BlockJob,
    machine: &BenchMachine,
    progress: &mut dyn Progress,
    laid_out: &mut LaidOut,
) -> Result<ControlFlow<(), Used<P>>, BenchError> {
    // What is made for the job has room for it.
    let made = match job.size {
        Some(Amount::Bytes(size)) => size.saturating_add(job.offset.of(0)),
        _ => DEFAULT_MEMORY_BYTES,
    };
    let is_host = machine.platform == "host";
    let enough = |size| if is_host { need::check(job, size) } else { Ok(()) };
    let engine = match job.ioengine {
        IoEngine::Null | IoEngine::Memory => {
            enough(made).map_err(BenchError::bad_job)?;
            let backend: Arc<dyn Backend<P>> = match job.ioengine {
                IoEngine::Null => Arc::new(Null::new(made)),
                _ => Arc::new(Memory::new(made)),
            };
            let extent = Extent::new(job, made);
            let extent = extent.map_err(|problem| {
                BenchError::bad_job(format!("the device in memory {problem}"))
            })?;
            return Ok(ControlFlow::Continue((backend, extent)));
        }
        IoEngine::Auto | IoEngine::Libaio => Engine::Auto,
        IoEngine::IoUring => Engine::IoUring,
        IoEngine::Sync => Engine::Sync,
        IoEngine::Threads => Engine::Threads,
    };
    let path = job.filename.as_deref().expect("the job was checked");
    let write = job.rw.writes();
    let consent = Consent { overwrite: job.allow_overwrite, mounted: job.allow_mounted_write };
    let found = match write {
        true => overwrite::check(path, consent, laid_out).map_err(BenchError::bad_job)?,
        false => None,
    };
    if let Some(Amount::Bytes(size)) = job.size {
        enough(size).map_err(BenchError::bad_job)?;
        // Of a file that is not there, an offset in per cent is of nothing.
        if lay_out(path, made, progress, laid_out)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    let executor = match job.ioengine {
        IoEngine::Auto | IoEngine::Libaio | IoEngine::Threads => Some(executor::<P>(machine)?),
        _ => None,
    };
    let ring = RingOptions {
        sqpoll_idle_ms: job.sqthread_poll.then_some(1_000),
        iopoll: job.hipri,
        ..RingOptions::default()
    };
    // The kernel grants a device to one exclusive user, so that nobody mounts it meanwhile.
    let exclusive = found.as_ref().is_some_and(Held::is_device) && !consent.mounted;
    let options = FileOptions { write, direct: job.direct, exclusive, engine, ring, executor };
    let file = File::open(path, options)?;
    if write {
        // Opened, but not written yet.
        overwrite::confirm(path, file.as_fd(), found.as_ref(), laid_out)
            .map_err(BenchError::bad_job)?;
    }
    let bytes = Backend::<P>::geometry(&file).bytes;
    let extent = Extent::new(job, bytes)
        .map_err(|problem| BenchError::bad_job(format!("{} {problem}", input::path(path))))?;
    enough(extent.bytes).map_err(BenchError::bad_job)?;
    Ok(ControlFlow::Continue((Arc::new(file), extent)))
}

/// Makes a file that is not there, as fio does; a file that is too small is the user's own. A break where
/// `progress` ended the run; then the file is gone again.
fn lay_out(
    path: &Path,
    size: u64,
    progress: &mut dyn Progress,
    laid_out: &mut LaidOut,
) -> Result<ControlFlow<()>, BenchError> {
    if path.exists() {
        return Ok(ControlFlow::Continue(()));
    }
    let failed = |error: &io::Error| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let cause = if path.is_symlink() && !path.exists() {
            "; it is a link to what is not there: make that, or remove the link"
        } else if folder.is_some_and(|folder| !folder.exists()) {
            "; make its folder first"
        } else {
            ""
        };
        let problem =
            format!("{} cannot be laid out with {size} bytes: {error}{cause}", input::path(path));
        match error.kind() {
            io::ErrorKind::StorageFull => BenchError::failed_job(problem),
            _ => BenchError::bad_job(problem),
        }
    };
    if is_among_devices(path) {
        return Err(BenchError::bad_job(format!(
            "{} is not there, and among devices no file is made; name a device that is there (lsblk \
             lists them), or a file elsewhere",
            input::path(path)
        )));
    }
    let made = fs::OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = made.map_err(|error| failed(&error))?;
    let mut write = || -> io::Result<ControlFlow<()>> {
        laid_out.add(&file)?;
        let mut block = vec![0; LAYOUT_BYTES];
        overwrite::fill(&mut block);
        let mut left = size;
        while left > 0 {
            if progress.is_over() {
                return Ok(ControlFlow::Break(()));
            }
            let length = left.min(LAYOUT_BYTES as u64) as usize;
            file.write_all(&block[..length])?;
            left -= length as u64;
        }
        file.sync_all()?;
        Ok(ControlFlow::Continue(()))
    };
    let written = write();
    if !matches!(written, Ok(ControlFlow::Continue(()))) {
        // Half a file is of no use to anybody. It is ours: it was made above, unless another one has come since.
        if Held::new(file).is_ok_and(|made| made.is_at(path)) {
            let _ = fs::remove_file(path);
        }
    }
    written.map_err(|error| failed(&error))
}

/// Whether a file there would be beside the system's devices.
fn is_among_devices(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).unwrap_or_default();
    folder.starts_with("/dev") && !folder.starts_with("/dev/shm")
}

fn executor<P: Platform>(machine: &BenchMachine) -> Result<Arc<dyn Executor>, BenchError> {
    let runtime =
        Runtime::<P>::builder(machine.topology.clone()).usable(machine.usable.clone()).build()?;
    let queue = runtime.workqueue().name("block").build()?;
    Ok(Arc::new(move |job: Job| {
        let blocks = || coreshard_workqueue::blocking::<P, _>(job);
        queue.queue(blocks).map_err(|_| -> Job {
            // The queue lives as long as this executor, and is never shut down.
            unreachable!("the executor's workqueue is open")
        })
    }))
}

fn run_job<P: Platform>(
    job: &BlockJob,
    machine: &BenchMachine,
    progress: &mut dyn Progress,
    laid_out: &mut LaidOut,
) -> Result<ControlFlow<(), JobResult>, BenchError> {
    let (backend, extent) = match backend::<P>(job, machine, progress, laid_out)? {
        ControlFlow::Continue(used) => used,
        ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
    };
    let geometry = backend.geometry();
    // Larger requests are multiples of the smallest.
    let [bs, offset] = [("bs", u64::from(job.smallest_bs())), ("offset", extent.start)];
    for (word, given) in [bs, offset] {
        if !given.is_multiple_of(u64::from(geometry.block_bytes)) {
            return Err(BenchError::bad_job(format!(
                "{word}={given} is no multiple of {} bytes, which direct I/O on {} needs; give such a \
                 {word}, or direct=0",
                geometry.block_bytes,
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
    let device = adapter.target(&job.name).device(backend)?;
    let is_host = machine.platform == "host";
    let run = Arc::new(JobRun {
        job: job.clone(),
        device,
        extent,
        seed: seed(job),
        gate: Gate::new(threads),
        measures_usage: is_host,
        usage_after_ramp: Lock::new(None),
        found: Lock::new(Vec::new()),
    });
    let pins: Vec<CpuId> = match (&job.cpus_allowed, is_host) {
        (Some(cpus), _) => cpus.iter().collect(),
        (None, true) => Vec::new(),
        (None, false) => machine.usable.iter().collect(),
    };
    let spawned = spawn(&run, &pins)?;
    run.gate.wait_for_all();
    let before = Usage::of_process();
    run.gate.open();
    run.gate.wait_until_left();
    let before = run.usage_after_ramp.lock().take().unwrap_or(before);
    let used = Usage::of_process().since(before);
    spawned.into_iter().for_each(ThreadHandle::join);
    let found: Result<Vec<Found>, BenchError> =
        std::mem::take(&mut *run.found.lock()).into_iter().collect();
    Ok(ControlFlow::Continue(summary(&run, &found?, used)))
}

/// Where the dice begin.
fn seed(job: &BlockJob) -> u64 {
    match job.randseed {
        Some(seed) => seed,
        None if job.randrepeat => 0,
        // Below 2³², so that the files which are written are known again. The standard library's hashes begin at random.
        None => RandomState::new().build_hasher().finish() & u64::from(u32::MAX),
    }
}

fn spawn<P: Platform>(run: &Arc<JobRun<P>>, pins: &[CpuId]) -> Result<Vec<P::Thread>, BenchError> {
    let mut spawned: Vec<P::Thread> = Vec::new();
    for thread in 0..run.job.numjobs as usize {
        let pinned = (!pins.is_empty()).then(|| [pins[thread % pins.len()]].into_iter().collect());
        let name = format!("{}-{thread}", run.job.name);
        let spec = ThreadSpec { name, affinity: pinned, ..ThreadSpec::default() };
        let shared = Arc::clone(run);
        match P::spawn(spec, Box::new(move || work(&shared, thread))) {
            Ok(handle) => spawned.push(handle),
            Err(error) => {
                run.gate.give_up();
                spawned.into_iter().for_each(ThreadHandle::join);
                return Err(error.into());
            }
        }
    }
    Ok(spawned)
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
    let ios = read.ios + write.ios;
    // Each thread's own time: the one that ends first has nothing in flight after that.
    let in_flight: f64 = found.iter().map(|one| one.in_flight_ns).sum::<f64>() / elapsed_ns as f64;
    let latency_ns = read.lat.sum_ns() + write.lat.sum_ns();
    let iops_times_latency = latency_ns / elapsed_ns as f64;
    let ratio = if iops_times_latency > 0.0 { in_flight / iops_times_latency } else { 1.0 };
    let counts = run.device.counts();
    JobResult {
        jobname: run.job.name.clone(),
        groupid: 0,
        error: 0,
        elapsed: elapsed_ns.div_ceil(1_000_000_000),
        options: options(&run.job),
        read: read.direction(elapsed_ns),
        write: write.direction(elapsed_ns),
        trim: Direction::default(),
        job_runtime: job_ns / 1_000_000,
        usr_cpu: usage.user_ns / job_ns.max(1) as f64 * 100.0,
        sys_cpu: usage.system_ns / job_ns.max(1) as f64 * 100.0,
        ctx: usage.switches,
        majf: 0,
        minf: 0,
        engine: found.first().map_or_else(String::new, |one| one.engine.clone()),
        cpu_ns_per_io: (used.user_ns + used.system_ns) / ios.max(1) as f64,
        littles_law: LittlesLaw { in_flight, iops_times_latency, ratio },
        issued: counts.issued,
        done: counts.done,
        errors: counts.errors,
        verified_bytes: found.iter().map(|one| one.verified_bytes).sum(),
    }
}

fn options(job: &BlockJob) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    let mut add = |key: &str, value: String| {
        options.insert(key.to_owned(), value);
    };
    add("name", job.name.clone());
    if let Some(path) = &job.filename {
        add("filename", path.display().to_string());
    }
    add("rw", job.rw.to_string());
    if job.bssplit.is_empty() {
        add("bs", job.bs.to_string());
    } else {
        let part = |(bytes, percent): &(u32, u8)| format!("{bytes}/{percent}");
        add("bssplit", job.bssplit.iter().map(part).collect::<Vec<_>>().join(":"));
    }
    add("iodepth", job.iodepth.to_string());
    add("numjobs", job.numjobs.to_string());
    add("ioengine", job.ioengine.to_string());
    add("direct", u8::from(job.direct).to_string());
    add("tags", job.tags.to_string());
    add("counters", job.counters.to_string());
    add("memory", job.memory.to_string());
    if let Some(size) = job.size {
        add("size", size.to_string());
    }
    if job.offset != Amount::Bytes(0) {
        add("offset", job.offset.to_string());
    }
    if let Some(io_size) = job.io_size {
        add("io_size", io_size.to_string());
    }
    if job.loops > 1 {
        add("loops", job.loops.to_string());
    }
    if !job.ramp_time.is_zero() {
        add("ramp_time", format!("{:?}", job.ramp_time));
    }
    if let Some([reads, writes]) = job.rate_iops {
        add("rate_iops", format!("{reads},{writes}"));
    }
    for (key, is_on) in [("time_based", job.time_based), ("norandommap", job.norandommap)] {
        if is_on {
            add(key, "1".to_owned());
        }
    }
    if let Some(runtime) = job.runtime {
        add("runtime", format!("{:?}", runtime));
    }
    if let Some(ios) = job.number_ios {
        add("number_ios", ios.to_string());
    }
    options
}
