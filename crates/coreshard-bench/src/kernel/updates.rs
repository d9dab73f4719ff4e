//! Words that many CPUs update: masks of CPUs, and the counters of a device. Each layout is a patch.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Padded, Platform};
use coreshard_topology::CpuId;

use super::run::{KernelRun, on_each_cpu};
use crate::error::BenchError;
use crate::machine::BenchMachine;

/// Times the operations of a thread on each of the first CPUs.
fn timed<P: Platform>(
    machine: &BenchMachine,
    threads: usize,
    operations: u64,
    operation: impl Fn(usize, u64) + Send + Sync + 'static,
) -> Result<KernelRun, BenchError> {
    on_each_cpu::<P>(machine, threads, (0, operations), move |cpu, number| {
        let before = P::now();
        operation(cpu, number);
        P::now().ns_since(before)
    })
}

/// The layout of a mask of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskLayout {
    /// A bit for each CPU, all of them on the same lines.
    Global,
    /// Each node's bits on their own lines.
    PerNode,
    /// Each last-level cache's bits on their own lines.
    PerLlc,
    /// A byte for each CPU, which only that CPU writes.
    Bytes,
}

/// Words of 64 bits of a group of CPUs.
type Words<P> = Padded<Vec<<P as Platform>::AtomicU64>>;

/// Runs CPUs that each set and clear their bit, and search for a set bit every eighth time.
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
        return timed::<P>(machine, threads, operations, move |cpu, number| {
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
    timed::<P>(machine, threads, operations, move |cpu, number| {
        let word = &words[groups[cpu]][cpu / 64];
        word.fetch_or(1 << (cpu % 64), AcqRel);
        if number % 8 == 7 {
            words.iter().flat_map(|group| group.iter()).any(|word| word.load(Acquire) != 0);
        }
        word.fetch_and(!(1 << (cpu % 64)), AcqRel);
    })
}

/// The layout of a SCSI device's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScsiLayout {
    /// Issued and done side by side, and the queue's count of active requests beside its limit.
    Packed,
    /// Each on its own line.
    Padded,
    /// No count of active requests, the others on their own lines.
    NoSharedCount,
    /// No count of active requests, the others for each CPU.
    PerCpu,
}

/// The words that all requests of a device access, with the limit and the count of active requests on their
/// own lines.
struct Device<P: Platform> {
    issued: P::AtomicU64,
    done: P::AtomicU64,
    _room: [u64; 14],
    limit: P::AtomicU64,
    active: P::AtomicU64,
}

/// Runs requests on a shared tag set. Each request begins and completes on the CPU that issues it. The CPUs
/// are divided among `devices` devices.
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
            let device = |_| {
                let (issued, done, limit, active) = (word(0), word(0), word(1_024), word(0));
                Padded::new(Device::<P> { issued, done, _room: [0; 14], limit, active })
            };
            let all: Vec<_> = (0..devices).map(device).collect();
            timed::<P>(machine, threads, operations, move |cpu, _| {
                let device = &all[cpu % all.len()];
                request(&device.limit, Some(&device.active), &device.issued, &device.done);
            })
        }
        ScsiLayout::Padded | ScsiLayout::NoSharedCount => {
            let device = |_| [0, 0, 1_024, 0].map(|value| Padded::new(word(value)));
            let all: Vec<_> = (0..devices).map(device).collect();
            timed::<P>(machine, threads, operations, move |cpu, _| {
                let [issued, done, limit, active] = &all[cpu % all.len()];
                let active = (layout == ScsiLayout::Padded).then_some(&**active);
                request(&**limit, active, &**issued, &**done);
            })
        }
        ScsiLayout::PerCpu => {
            let all: Vec<_> = (0..threads).map(|_| Padded::new([word(0), word(0)])).collect();
            let limit = Padded::new(word(1_024));
            timed::<P>(machine, threads, operations, move |cpu, _| {
                let [issued, done] = &*all[cpu];
                request(&*limit, None, issued, done);
            })
        }
    }
}

fn request<W: AtomicInt<u64>>(limit: &W, active: Option<&W>, issued: &W, done: &W) {
    let limit = limit.load(Relaxed);
    if let Some(active) = active {
        // Whether the request may have a tag is checked before each request.
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
