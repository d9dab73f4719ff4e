//! Measures the costs of operations on this machine, for a simulation of it.
//!
//! Each figure is measured in many rounds, and every figure has its turn in each round. A machine that slows
//! down for a while therefore slows all figures alike. Median and range are kept. A program can measure all figures
//! through the platform; the parts of a wake-up are separated by differences, see [`Calibration::costs`].

mod chains;
mod clocks;
mod interruptions;
mod lines;
mod measure;
mod pairs;
mod places;
mod samples;
mod waking;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Padded, Platform, SpawnError};
use coreshard_results::{Calibration, Contended};
use coreshard_topology::{CpuId, CpuSet, Topology};

use crate::progress::Progress;
pub use chains::item_chains;
pub use measure::Effort;
use measure::{cycle, each_ns, on};
use pairs::Operation;
use places::Places;
use samples::{Contests, Samples};

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
    let load = each_ns::<P>(times, || at = words[at % WORDS].load(Relaxed) as usize);
    // A check of a word partly overlaps with the CPU's pause: the rest of a turn.
    let turn = each_ns::<P>(times, || {
        P::spin_hint();
        std::hint::black_box(word.load(Relaxed));
    });
    Short {
        load,
        atomic: each_ns::<P>(times, || {
            word.fetch_add(1, Relaxed);
        }),
        spin_hint: (turn - load).max(0.0),
        clock_read: each_ns::<P>(times, || {
            std::hint::black_box(P::now());
        }),
    }
}

/// Returns lines that form a ring in a random order.
fn ring<P: Platform>(bytes: usize) -> Vec<Padded<P::AtomicU32>> {
    let lines = (bytes / size_of::<Padded<P::AtomicU32>>()).max(2);
    cycle(lines).into_iter().map(|next| Padded::new(P::AtomicU32::new(next))).collect()
}

/// Measures the machine, on all CPUs of the topology. Returns `None` if `progress` ended it.
///
/// # Errors
/// If a thread cannot be started on one of them.
pub fn calibrate<P: Platform>(
    topology: &Topology,
    effort: Effort,
    progress: &mut dyn Progress,
) -> Result<Option<Calibration>, SpawnError> {
    let cpus: CpuSet = topology.cpus().iter().map(|cpu| cpu.id).collect();
    let list: Vec<CpuId> = cpus.iter().collect();
    let places = Places::new(topology);
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
        contend::<P>(&places, repeats, &mut samples.contended)?;
        clocks::measure::<P>(&places, &mut samples.clocks)?;
        if let [one, other, ..] = list[..] {
            lines::measure::<P>(one, other, &mut samples.lines)?;
        }
        samples.interruptions.push(interruptions::watch::<P>(list[0])?);
        waking::measure::<P>(&list, effort, &mut samples)?;
        samples.spawn.push(waking::spawn_ns::<P>()?);
        if round % SLICES_EVERY == 0 {
            samples.slice.extend(waking::slices_ns::<P>(list[0])?);
        }
    }
    Ok(Some(samples.calibration(list, &pairs, latency)))
}

/// One round in this many measures time slices, which takes longer than all other measurements.
const SLICES_EVERY: usize = 5;

/// Measures all operations once, for each choice of CPUs.
fn contend<P: Platform>(
    places: &Places,
    repeats: u64,
    into: &mut Contests,
) -> Result<(), SpawnError> {
    for (contenders, cpus) in places.contests() {
        let found = into.entry((contenders, cpus.len())).or_default();
        for (operation, into) in Operation::ALL.into_iter().zip(found) {
            into.push(pairs::contended_ns::<P>(cpus, operation, repeats)?);
        }
    }
    Ok(())
}

/// Measures contending threads as [`calibrate`] does, alone and once, to compare a simulated machine with the
/// result.
///
/// # Errors
/// If a thread cannot be started on one of the CPUs.
///
/// ```
/// use coreshard_platform::Host;
/// use coreshard_topology::Topology;
/// let host = Topology::host()?;
/// let alone = host.restrict(&host.cpus()[..1].iter().map(|cpu| cpu.id).collect())?;
/// let alone = coreshard_bench::contended::<Host>(&alone, 100)?;
/// assert_eq!(alone.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn contended<P: Platform>(
    topology: &Topology,
    repeats: u64,
) -> Result<Vec<Contended>, SpawnError> {
    let mut found = Contests::new();
    contend::<P>(&Places::new(topology), repeats, &mut found)?;
    Ok(samples::curves(found))
}

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
        let topology = topology.restrict(usable.cpus()).unwrap();
        let effort = Effort { rounds: 2, repeats: 50, memory_bytes: 1 << 16 };
        let found = calibrate::<Host>(&topology, effort, &mut Unwatched).unwrap().unwrap();
        assert_eq!(found.cpus.len(), usable.cpus().len());
        assert_eq!(found.latency.len(), found.cpus.len());
        let several = NonZeroUsize::new(found.cpus.len() - 1).is_some();
        assert_eq!(found.wake_there.is_some(), several);
        assert!(found.slice.is_none_or(|slice| slice.median_ns > 1e5), "{:?}", found.slice);
        assert_eq!(found.contended.len() > 1, several);
        assert_eq!(found.contended[0].threads, 1);
        let clocks = found.clocks.unwrap();
        assert!(clocks.alone.median_ns > 1e5 && clocks.cores.median_ns > 0.1, "{clocks:?}");
        for curve in &found.contended {
            let figures = [
                curve.add,
                curve.swap,
                curve.compare_exchange,
                curve.paused_exchange,
                curve.ticket_lock,
                curve.mutex,
            ];
            assert!(figures.iter().all(|it| it.samples == 2 && it.median_ns > 0.0), "{curve:?}");
        }
        for figure in [found.load, found.atomic, found.wait_refused, found.wake_here, found.spawn] {
            assert!(figure.samples == 2 && figure.median_ns > 0.0, "{found:?}");
        }
        let costs = found.costs();
        assert!(costs.syscall_ns > 0.0 && costs.deep_idle_exit_ns >= costs.idle_exit_ns);
    }
}
