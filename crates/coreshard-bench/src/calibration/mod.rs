//! What things cost on the machine that this runs on: for a simulation of it.
//!
//! Each figure is measured many times, in rounds in which every figure has its turn, so that a machine
//! that becomes slower for a while slows all of them alike; its median and its range are kept. What is
//! measured is what a program can see through the platform: the parts of a wake-up are told apart by
//! differences, as [`Calibration::costs`] says.

mod chains;
mod pairs;
mod waking;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub use chains::item_chains;
use coreshard_platform::{AtomicInt, Lock, Padded, Platform, SpawnError, ThreadHandle, ThreadSpec};
use coreshard_results::{Calibration, Contended};
use coreshard_topology::{CpuId, CpuSet};

use crate::progress::Progress;
use crate::spread::figure;

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds, in each of which every figure is measured once.
    pub rounds: usize,
    /// Times that a short operation is repeated in one measurement.
    pub repeats: u64,
    /// Memory that is walked through to measure what lies beyond the caches, in bytes.
    pub memory_bytes: usize,
}

impl Default for Effort {
    /// 15 rounds, a second or two in all on a small machine.
    fn default() -> Self {
        Self { rounds: 15, repeats: 2_000, memory_bytes: 128 << 20 }
    }
}

/// Calls `body` on a thread of its own on `cpu`, and returns what it returned.
fn on<P: Platform, R: Send + 'static>(
    cpu: CpuId,
    nice: Option<i8>,
    body: impl FnOnce() -> R + Send + 'static,
) -> Result<impl FnOnce() -> R, SpawnError> {
    let result = Arc::new(Lock::<P, Option<R>>::new(None));
    let theirs = Arc::clone(&result);
    let spec = ThreadSpec {
        name: format!("calibrate-{cpu}"),
        affinity: Some([cpu].into_iter().collect()),
        nice,
        ..ThreadSpec::default()
    };
    let thread = P::spawn(
        spec,
        Box::new(move || {
            let value = body();
            *theirs.lock() = Some(value);
        }),
    )?;
    Ok(move || {
        thread.join();
        let value = result.lock().take();
        value.expect("a thread that has ended has left its result")
    })
}

/// Nanoseconds that each of `times` calls takes.
fn each_ns<P: Platform>(times: u64, mut call: impl FnMut()) -> f64 {
    // Once for what it touches first.
    call();
    let start = P::now();
    (0..times).for_each(|_| call());
    P::now().ns_since(start) as f64 / times as f64
}

/// The short operations, on the calling thread.
struct Short {
    load: f64,
    atomic: f64,
    spin_hint: f64,
    clock_read: f64,
}

fn short<P: Platform>(times: u64) -> Short {
    const WORDS: usize = 8;
    let words: Padded<[P::AtomicU64; WORDS]> =
        Padded::new(std::array::from_fn(|at| P::AtomicU64::new((at as u64 + 1) % WORDS as u64)));
    let word = P::AtomicU64::new(0);
    let mut at = 0;
    Short {
        load: each_ns::<P>(times, || at = words[at % WORDS].load(Relaxed) as usize),
        atomic: each_ns::<P>(times, || {
            word.fetch_add(1, Relaxed);
        }),
        spin_hint: each_ns::<P>(times, P::spin_hint),
        clock_read: each_ns::<P>(times, || {
            std::hint::black_box(P::now());
        }),
    }
}

/// Lines in a ring through all of them, in a random order.
fn ring<P: Platform>(bytes: usize) -> Vec<Padded<P::AtomicU32>> {
    let lines = (bytes / size_of::<Padded<P::AtomicU32>>()).max(2);
    // Sattolo's algorithm: one cycle.
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut random = fastrand::Rng::with_seed(1);
    for at in (1..lines).rev() {
        order.swap(at, random.usize(..at));
    }
    order.into_iter().map(|next| Padded::new(P::AtomicU32::new(next))).collect()
}

/// Measures the machine, on `cpus`. `None` where `progress` ended it.
///
/// # Errors
/// Where a thread cannot be had on one of them.
pub fn calibrate<P: Platform>(
    cpus: &CpuSet,
    effort: Effort,
    progress: &mut dyn Progress,
) -> Result<Option<Calibration>, SpawnError> {
    let list: Vec<CpuId> = cpus.iter().collect();
    let pairs: Vec<(usize, usize)> =
        (0..list.len()).flat_map(|one| (0..one).map(move |other| (one, other))).collect();
    progress.begin(effort.rounds);
    let ring = Arc::new(ring::<P>(effort.memory_bytes));
    let mut walker = 0;
    let mut samples = Samples::default();
    let mut latency = vec![Vec::new(); pairs.len()];
    for round in 0..effort.rounds {
        if progress.step(&format!("round {} of {}", round + 1, effort.rounds)).is_break() {
            return Ok(None);
        }
        let repeats = effort.repeats;
        let own = on::<P, _>(list[0], None, move || short::<P>(repeats))?();
        samples.load.push(own.load);
        samples.atomic.push(own.atomic);
        samples.spin_hint.push(own.spin_hint);
        samples.clock_read.push(own.clock_read);
        let lines = Arc::clone(&ring);
        let (at, memory) = on::<P, _>(list[0], None, move || {
            let mut at: u32 = walker;
            let ns = each_ns::<P>(repeats, || at = lines[at as usize].load(Relaxed));
            (at, ns)
        })?();
        walker = at;
        samples.memory.push(memory);
        for (pair, into) in pairs.iter().zip(&mut latency) {
            into.push(pairs::ping_pong_ns::<P>(list[pair.0], list[pair.1], repeats)?);
        }
        for threads in 2..=list.len().min(MAX_CONTENDERS) {
            let [add, exchange] = pairs::contended_ns::<P>(&list[..threads], repeats)?;
            samples.contended.entry(threads).or_default().push([add, exchange]);
        }
        waking::measure::<P>(&list, effort, &mut samples)?;
        samples.spawn.push(waking::spawn_ns::<P>()?);
    }
    Ok(Some(samples.calibration(list, &pairs, latency)))
}

/// Threads that contend for one word, at most.
const MAX_CONTENDERS: usize = 8;

#[derive(Default)]
struct Samples {
    load: Vec<f64>,
    atomic: Vec<f64>,
    spin_hint: Vec<f64>,
    clock_read: Vec<f64>,
    memory: Vec<f64>,
    contended: std::collections::BTreeMap<usize, Vec<[f64; 2]>>,
    wake_nobody: Vec<f64>,
    wait_refused: Vec<f64>,
    wake_here: Vec<f64>,
    wake_there: Vec<f64>,
    woken_after_short_rest: Vec<f64>,
    woken_after_long_rest: Vec<f64>,
    context_switch: Vec<f64>,
    spawn: Vec<f64>,
}

impl Samples {
    fn calibration(
        self,
        cpus: Vec<CpuId>,
        pairs: &[(usize, usize)],
        latency: Vec<Vec<f64>>,
    ) -> Calibration {
        let mut matrix = vec![vec![None; cpus.len()]; cpus.len()];
        for ((one, other), samples) in pairs.iter().zip(latency) {
            let figure = figure(samples);
            matrix[*one][*other] = Some(figure);
            matrix[*other][*one] = Some(figure);
        }
        let some = |samples: Vec<f64>| (!samples.is_empty()).then(|| figure(samples));
        let contended = self.contended.into_iter().map(|(threads, samples)| Contended {
            threads,
            add: figure(samples.iter().map(|[add, _]| *add).collect()),
            compare_exchange: figure(samples.iter().map(|[_, exchange]| *exchange).collect()),
        });
        Calibration {
            cpus: cpus.iter().map(|cpu| cpu.0).collect(),
            latency: matrix,
            load: figure(self.load),
            atomic: figure(self.atomic),
            spin_hint: figure(self.spin_hint),
            clock_read: figure(self.clock_read),
            memory: figure(self.memory),
            contended: contended.collect(),
            wake_nobody: figure(self.wake_nobody),
            wait_refused: figure(self.wait_refused),
            wake_here: figure(self.wake_here),
            wake_there: some(self.wake_there),
            woken_after_short_rest: some(self.woken_after_short_rest),
            woken_after_long_rest: some(self.woken_after_long_rest),
            context_switch: figure(self.context_switch),
            spawn: figure(self.spawn),
        }
    }
}

/// How long CPUs rest before they are woken.
const SHORT_REST: Duration = Duration::from_micros(200);
const LONG_REST: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use coreshard_platform::Host;
    use coreshard_topology::{Topology, Usable};

    use super::*;
    use crate::progress::Unwatched;

    #[test]
    fn the_host_is_measured_as_a_whole() {
        let topology = Topology::host().unwrap();
        let usable = Usable::host(&topology).unwrap();
        let effort = Effort { rounds: 2, repeats: 50, memory_bytes: 1 << 16 };
        let found = calibrate::<Host>(usable.cpus(), effort, &mut Unwatched).unwrap().unwrap();
        assert_eq!(found.cpus.len(), usable.cpus().len());
        assert_eq!(found.latency.len(), found.cpus.len());
        let several = NonZeroUsize::new(found.cpus.len() - 1).is_some();
        assert_eq!(found.wake_there.is_some(), several);
        assert_eq!(found.contended.is_empty(), !several);
        for figure in [found.load, found.atomic, found.wait_refused, found.wake_here, found.spawn] {
            assert!(figure.samples == 2 && figure.median_ns > 0.0, "{found:?}");
        }
        let costs = found.costs();
        assert!(costs.syscall_ns > 0.0 && costs.deep_idle_exit_ns >= costs.idle_exit_ns);
    }
}
