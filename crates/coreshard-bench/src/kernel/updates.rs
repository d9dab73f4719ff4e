//! Words that many CPUs update: masks of CPUs, and the counters of a device. Each layout is a patch.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Lock, Padded, Platform, ThreadHandle, ThreadSpec, Time};
use coreshard_topology::CpuId;
use hdrhistogram::Histogram;

use super::run::{KernelRun, histogram};
use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::queue::gate::Gate;

/// Lets a thread on each of the first CPUs do `operation` so often, and times each.
pub(super) fn on_each_cpu<P: Platform>(
    machine: &BenchMachine,
    threads: usize,
    operations: u64,
    operation: impl Fn(usize, u64) + Send + Sync + 'static,
) -> Result<KernelRun, BenchError> {
    struct Found {
        took_ns: Histogram<u64>,
        ended_at: Option<Time>,
    }
    let gate: Arc<Gate<P>> = Arc::new(Gate::new(threads));
    let found = Found { took_ns: histogram(), ended_at: None };
    let found: Arc<Lock<P, Found>> = Arc::new(Lock::new(found));
    let operation = Arc::new(operation);
    let mut running = Vec::new();
    for (place, cpu) in machine.usable.iter().take(threads).enumerate() {
        let (gate, found, operation) =
            (Arc::clone(&gate), Arc::clone(&found), Arc::clone(&operation));
        let spec = ThreadSpec {
            name: format!("cpu-{place}"),
            affinity: Some([cpu].into_iter().collect()),
            ..ThreadSpec::default()
        };
        let body = move || {
            let mut took_ns = histogram();
            gate.pass();
            for number in 0..operations {
                let before = P::now();
                operation(place, number);
                took_ns.record(P::now().ns_since(before)).expect("it grows");
            }
            let ended_at = P::now();
            let mut found = found.lock();
            found.took_ns.add(&took_ns).expect("equal digits can be added");
            found.ended_at = found.ended_at.max(Some(ended_at));
            drop(found);
            gate.leave();
        };
        running.push(P::spawn(spec, Box::new(body))?);
    }
    let count = running.len() as u64;
    gate.wait_for_all();
    let released_at = P::now();
    gate.open();
    gate.wait_until_left();
    running.into_iter().for_each(ThreadHandle::join);
    let found = found.lock();
    let elapsed_ns = found.ended_at.unwrap_or(released_at).ns_since(released_at);
    Ok(KernelRun::of(count * operations, elapsed_ns, &found.took_ns))
}

/// How a mask of CPUs lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskLayout {
    /// A bit for each CPU, all of them on the same lines.
    Global,
    /// Each node's on lines of their own.
    PerNode,
    /// Each last-level cache's on lines of their own.
    PerLlc,
    /// A byte for each CPU, which it alone writes.
    Bytes,
}

/// Words of 64 bits of a group of CPUs.
type Words<P> = Padded<Vec<<P as Platform>::AtomicU64>>;

/// Each CPU sets its bit and clears it again; each eighth time it looks for one that is set.
pub(super) fn mask<P: Platform>(
    machine: &BenchMachine,
    layout: MaskLayout,
    threads: usize,
    operations: u64,
) -> Result<KernelRun, BenchError> {
    let cpus: Vec<_> = machine.usable.iter().take(threads).collect();
    let group_of = |cpu: &CpuId| {
        let cpu = machine.topology.cpus().iter().find(|known| known.id == *cpu);
        cpu.map_or(0, |cpu| match layout {
            MaskLayout::Global | MaskLayout::Bytes => 0,
            MaskLayout::PerNode => cpu.node.map_or(0, |node| node.index()),
            MaskLayout::PerLlc => cpu.llc.index(),
        })
    };
    let groups: Vec<usize> = cpus.iter().map(group_of).collect();
    if layout == MaskLayout::Bytes {
        let bytes: Vec<P::AtomicU32> = cpus.iter().map(|_| P::AtomicU32::new(0)).collect();
        return on_each_cpu::<P>(machine, threads, operations, move |cpu, number| {
            bytes[cpu].store(1, Release);
            if number % 8 == 7 {
                bytes.iter().any(|byte| byte.load(Acquire) != 0);
            }
            bytes[cpu].store(0, Release);
        });
    }
    let count = groups.iter().max().map_or(1, |most| most + 1);
    let words = cpus.len().div_ceil(64);
    let words: Vec<Words<P>> = (0..count)
        .map(|_| Padded::new((0..words).map(|_| P::AtomicU64::new(0)).collect()))
        .collect();
    on_each_cpu::<P>(machine, threads, operations, move |cpu, number| {
        let word = &words[groups[cpu]][cpu / 64];
        word.fetch_or(1 << (cpu % 64), AcqRel);
        if number % 8 == 7 {
            words.iter().flat_map(|group| group.iter()).any(|word| word.load(Acquire) != 0);
        }
        word.fetch_and(!(1 << (cpu % 64)), AcqRel);
    })
}

/// How a SCSI device's counters lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScsiLayout {
    /// Issued and done beside each other, and the queue's count of active requests beside its limit.
    Packed,
    /// Each on a line of its own.
    Padded,
    /// No count of active requests, the others on lines of their own.
    NoSharedCount,
    /// No count of active requests, the others for each CPU.
    PerCpu,
}

/// What all requests of a device touch.
struct Device<P: Platform> {
    issued: P::AtomicU64,
    done: P::AtomicU64,
    _room: [u64; 14],
    limit: P::AtomicU64,
    active: P::AtomicU64,
}

struct PaddedDevice<P: Platform> {
    issued: Padded<P::AtomicU64>,
    done: Padded<P::AtomicU64>,
    limit: Padded<P::AtomicU64>,
    active: Padded<P::AtomicU64>,
}

/// Requests of one device on a shared tag set, each begun and completed on the CPU that issues it; `devices` of them, the
/// CPUs shared out among them.
pub(super) fn scsi<P: Platform>(
    machine: &BenchMachine,
    layout: ScsiLayout,
    devices: usize,
    threads: usize,
    operations: u64,
) -> Result<KernelRun, BenchError> {
    let word = |value| P::AtomicU64::new(value);
    match layout {
        ScsiLayout::Packed => {
            let device = || {
                Padded::new(Device::<P> {
                    issued: word(0),
                    done: word(0),
                    _room: [0; 14],
                    limit: word(1_024),
                    active: word(0),
                })
            };
            let all: Vec<_> = (0..devices).map(|_| device()).collect();
            on_each_cpu::<P>(machine, threads, operations, move |cpu, _| {
                let device = &all[cpu % all.len()];
                request(&device.limit, Some(&device.active), &device.issued, &device.done);
            })
        }
        ScsiLayout::Padded | ScsiLayout::NoSharedCount => {
            let device = || PaddedDevice::<P> {
                issued: Padded::new(word(0)),
                done: Padded::new(word(0)),
                limit: Padded::new(word(1_024)),
                active: Padded::new(word(0)),
            };
            let all: Vec<_> = (0..devices).map(|_| device()).collect();
            on_each_cpu::<P>(machine, threads, operations, move |cpu, _| {
                let device = &all[cpu % all.len()];
                let active = (layout == ScsiLayout::Padded).then_some(&*device.active);
                request(&*device.limit, active, &*device.issued, &*device.done);
            })
        }
        ScsiLayout::PerCpu => {
            let all: Vec<Padded<[P::AtomicU64; 2]>> =
                (0..threads).map(|_| Padded::new([word(0), word(0)])).collect();
            let limit = Padded::new(word(1_024));
            on_each_cpu::<P>(machine, threads, operations, move |cpu, _| {
                let [issued, done] = &*all[cpu];
                request(&*limit, None, issued, done);
            })
        }
    }
}

fn request<W: AtomicInt<u64>>(limit: &W, active: Option<&W>, issued: &W, done: &W) {
    let limit = limit.load(Relaxed);
    if let Some(active) = active {
        // May it have a tag: looked at before each request.
        if active.load(Relaxed) < limit {
            active.fetch_add(1, Relaxed);
        }
    }
    issued.fetch_add(1, Relaxed);
    done.fetch_add(1, Relaxed);
    if let Some(active) = active {
        active.fetch_sub(1, Relaxed);
    }
}
