//! `bench rt transcode`: instances of a media pipeline, each pinned to some neighbouring CPUs.
//!
//! **Method.** An instance has a few frames in progress. A frame is divided into slices. Each stage of a
//! slice is a separate task at the benchmark's priority, which begins the next stage's task on the instance's
//! CPU with the lowest level. When all slices of a frame have passed all stages, the frame counts, and the
//! next one begins. The score is frames per second. The time outside the stages is spent in the executor, its
//! index, wake-ups, switches and idling.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Lock, Padded, Parker, PerCpuCounter, RealTime, Time};
use coreshard_results::{SeedSpreads, TranscodeResults};
use coreshard_rt::{CpuMask, Executor};
use coreshard_topology::CpuId;
use hdrhistogram::Histogram;

use super::durations::{durations, recorder};
use super::executor::{self, ExecutorSettings, executor};
use crate::error::BenchError;
use crate::machine::BenchMachine;

/// The stages of a pipeline.
pub trait Pipeline: Send + Sync + 'static {
    /// A slice on its way through the stages.
    type Slice: Send + 'static;

    /// The number of stages, at least 1.
    fn stages(&self) -> usize;

    /// Creates a slice of a frame of an instance.
    fn begin(&self, instance: usize, frame: u64, slice: usize) -> Self::Slice;

    /// Executes a stage.
    fn work(&self, stage: usize, slice: Self::Slice) -> Self::Slice;
}

/// A benchmark of pipelines.
#[derive(Clone, Debug)]
pub struct TranscodeBench {
    /// Priority, variant and memory.
    pub executor: ExecutorSettings,
    /// CPUs of an instance.
    pub instance_cpus: NonZeroUsize,
    /// The number of instances; by default as many as there are CPUs for.
    pub instances: Option<NonZeroUsize>,
    /// Frames that each instance must finish.
    pub frames: NonZeroU64,
    /// Frames of an instance that are in progress at once.
    pub under_way: NonZeroUsize,
    /// Slices of a frame.
    pub slices: NonZeroUsize,
}

struct Transcoding<P: RealTime, W> {
    executor: Executor<P>,
    pipeline: W,
    bench: TranscodeBench,
    /// Time spent in stages, in nanoseconds.
    work_ns: PerCpuCounter<P>,
    tasks: PerCpuCounter<P>,
    /// Instances that have not finished.
    left: Padded<P::AtomicU32>,
    all_done: Padded<Parker<P>>,
    /// 1 once the instances may begin.
    is_open: Padded<P::AtomicU32>,
    ended_ns: Padded<P::AtomicU64>,
    failed: Lock<P, Option<BenchError>>,
}

struct Instance<P: RealTime> {
    number: usize,
    allowed: CpuMask,
    /// Frames that were begun.
    begun: P::AtomicU64,
    finished: P::AtomicU64,
    frame_times: Lock<P, Histogram<u64>>,
}

impl<P: RealTime> Instance<P> {
    fn new(number: usize, allowed: CpuMask) -> Self {
        Self {
            number,
            allowed,
            begun: P::AtomicU64::new(0),
            finished: P::AtomicU64::new(0),
            frame_times: Lock::new(recorder()),
        }
    }
}

/// A frame in progress, with the number of its unfinished slices.
struct Frame<P: RealTime> {
    instance: Arc<Padded<Instance<P>>>,
    slices: P::AtomicU32,
    begun: Time,
}

impl TranscodeBench {
    /// Runs the benchmark.
    ///
    /// # Errors
    /// If the executor cannot be started.
    pub fn run<P: RealTime, W: Pipeline>(
        &self,
        machine: &BenchMachine,
        pipeline: W,
    ) -> Result<TranscodeResults, BenchError> {
        let (executor, notes) = executor::<P>(machine, self.executor, &[self.executor.priority])?;
        let per_instance = self.instance_cpus.get().min(machine.usable.len());
        let cpus = neighbours(machine);
        let instances =
            self.instances.map_or((cpus.len() / per_instance).max(1), NonZeroUsize::get);
        let groups: Vec<_> = cpus.chunks_exact(per_instance).collect();
        let last = machine.usable.last().map_or(0, CpuId::index);
        let mut all = Vec::with_capacity(instances);
        for number in 0..instances {
            let group = groups[number % groups.len()].iter().copied().collect();
            let allowed = executor.index().mask(&group)?;
            all.push(Arc::new(Padded::new(Instance::<P>::new(number, allowed))));
        }
        let has_priorities = executor.has_priorities();
        let shared = Arc::new(Transcoding {
            executor,
            pipeline,
            bench: self.clone(),
            work_ns: PerCpuCounter::new(last + 1),
            tasks: PerCpuCounter::new(last + 1),
            left: Padded::new(P::AtomicU32::new(instances as u32)),
            all_done: Padded::new(Parker::new()),
            is_open: Padded::new(P::AtomicU32::new(0)),
            ended_ns: Padded::new(P::AtomicU64::new(0)),
            failed: Lock::new(None),
        });
        // Each instance begins its first frames itself, all at once: the first frames would keep this thread
        // from beginning the others.
        for instance in &all {
            let (ours, instance) = (Arc::clone(&shared), Arc::clone(instance));
            let allowed = instance.allowed;
            let begins = move || {
                while ours.is_open.load(Acquire) == 0 {
                    P::wait(&ours.is_open, 0, None);
                }
                (0..ours.bench.under_way.get()).for_each(|_| ours.next_frame(&instance));
            };
            shared.executor.spawn_in(self.executor.priority, allowed, None, begins)?;
        }
        let begin = P::now();
        shared.is_open.store(1, Release);
        P::wake_all(&raw const *shared.is_open);
        shared.all_done.park();
        let elapsed_ns = shared.ended_ns.load(Acquire).saturating_sub(begin.as_ns()).max(1);
        executor::released::<P, _>(&shared);
        if let Some(error) = shared.failed.lock().take() {
            return Err(error);
        }
        let frames = self.frames.get() * instances as u64;
        let used = instances.min(groups.len()) * per_instance;
        let whole_ns = elapsed_ns as f64 * used as f64;
        let mut frame_times = recorder();
        for instance in &all {
            frame_times.add(&*instance.frame_times.lock()).expect("the histogram is resizable");
        }
        let (work_ns, tasks) = (shared.work_ns.sum() as f64, shared.tasks.sum());
        Ok(TranscodeResults {
            machine: machine.name.clone(),
            platform: machine.platform.clone(),
            variant: self.executor.variant.to_string(),
            priority: has_priorities.then_some(self.executor.priority.get()),
            instances,
            instance_cpus: per_instance,
            frames,
            tasks,
            frames_per_sec: frames as f64 * 1e9 / elapsed_ns as f64,
            work_share: work_ns / whole_ns,
            frame_times: durations(&frame_times),
            between_tasks_ns: (whole_ns - work_ns) / tasks.max(1) as f64,
            notes,
            seeds: SeedSpreads::default(),
        })
    }
}

/// Returns the CPUs in an order that keeps the CPUs of a core, and of a cache, together.
fn neighbours(machine: &BenchMachine) -> Vec<CpuId> {
    let mut cpus: Vec<_> =
        machine.topology.cpus().iter().filter(|cpu| machine.usable.contains(cpu.id)).collect();
    cpus.sort_by_key(|cpu| (cpu.package, cpu.llc, cpu.core, cpu.id));
    cpus.into_iter().map(|cpu| cpu.id).collect()
}

impl<P: RealTime, W: Pipeline> Transcoding<P, W> {
    /// Begins the instance's next frame, if there is one left.
    fn next_frame(self: &Arc<Self>, instance: &Arc<Padded<Instance<P>>>) {
        let number = instance.begun.fetch_add(1, Relaxed);
        if number >= self.bench.frames.get() {
            return;
        }
        let slices = self.bench.slices.get();
        let frame = Arc::new(Frame {
            instance: Arc::clone(instance),
            slices: P::AtomicU32::new(slices as u32),
            begun: P::now(),
        });
        for slice in 0..slices {
            let begun = self.pipeline.begin(instance.number, number, slice);
            self.stage(Arc::clone(&frame), 0, begun);
        }
    }

    fn stage(self: &Arc<Self>, frame: Arc<Frame<P>>, stage: usize, slice: W::Slice) {
        let shared = Arc::clone(self);
        let allowed = frame.instance.allowed;
        let run = move || {
            let begin = P::now();
            let slice = shared.pipeline.work(stage, slice);
            shared.work_ns.add(P::now().ns_since(begin));
            shared.tasks.add(1);
            if stage + 1 < shared.pipeline.stages() {
                shared.stage(frame, stage + 1, slice);
            } else if frame.slices.fetch_sub(1, AcqRel) == 1 {
                let took_ns = P::now().ns_since(frame.begun);
                frame.instance.frame_times.lock().saturating_record(took_ns);
                shared.finished(&frame.instance);
            }
        };
        let priority = self.bench.executor.priority;
        if let Err(error) = self.executor.spawn_in(priority, allowed, None, run) {
            *self.failed.lock() = Some(error.into());
            self.all_done.unpark();
        }
    }

    fn finished(self: &Arc<Self>, instance: &Arc<Padded<Instance<P>>>) {
        if instance.finished.fetch_add(1, AcqRel) + 1 == self.bench.frames.get()
            && self.left.fetch_sub(1, AcqRel) == 1
        {
            self.ended_ns.store(P::now().as_ns(), Release);
            self.all_done.unpark();
        } else {
            self.next_frame(instance);
        }
    }
}

/// Real work: a slice is generated, filtered, compressed (DEFLATE), and decompressed and compared.
#[derive(Clone, Copy, Debug)]
pub struct Compression {
    /// The bytes of a slice.
    pub bytes: usize,
}

/// A slice of [`Compression`].
#[derive(Debug)]
pub struct Pixels {
    seed: u64,
    raw: Vec<u8>,
    packed: Vec<u8>,
}

impl Pipeline for Compression {
    type Slice = Pixels;

    fn stages(&self) -> usize {
        4
    }

    fn begin(&self, instance: usize, frame: u64, slice: usize) -> Pixels {
        let seed = (instance as u64) << 48 | frame << 16 | slice as u64;
        Pixels { seed, raw: Vec::new(), packed: Vec::new() }
    }

    fn work(&self, stage: usize, mut slice: Pixels) -> Pixels {
        match stage {
            // A smooth picture with some noise.
            0 => {
                let mut random = fastrand::Rng::with_seed(slice.seed);
                let pixel = |at: usize| ((at % 640) / 3 + at / 640) as u8 ^ (random.u8(..) >> 6);
                slice.raw = (0..self.bytes).map(pixel).collect();
            }
            // Each byte minus its left neighbour, as PNG's filter 1.
            1 => {
                let mut left = 0;
                for byte in &mut slice.raw {
                    left = std::mem::replace(byte, byte.wrapping_sub(left));
                }
            }
            2 => slice.packed = miniz_oxide::deflate::compress_to_vec(&slice.raw, 3),
            _ => {
                let unpacked = miniz_oxide::inflate::decompress_to_vec(&slice.packed);
                let same = unpacked.is_ok_and(|unpacked| unpacked == slice.raw);
                assert!(same, "decompression restores the data");
            }
        }
        slice
    }
}

/// Stages that only take time, with a function of the platform.
#[derive(Clone, Copy, Debug)]
pub struct Computing {
    /// The number of stages.
    pub stages: usize,
    /// How long each takes.
    pub time: Duration,
    /// Lets the time pass.
    pub compute: fn(Duration),
}

impl Pipeline for Computing {
    type Slice = ();

    fn stages(&self) -> usize {
        self.stages
    }

    fn begin(&self, _instance: usize, _frame: u64, _slice: usize) {}

    fn work(&self, _stage: usize, (): ()) {
        (self.compute)(self.time);
    }
}
