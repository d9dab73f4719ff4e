//! Lines that another CPU has written and no thread waits for, each fetched once: their cost beyond a
//! ping-pong, and how many arrive together.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Padded, Platform, SpawnError};
use coreshard_topology::CpuId;

use super::measure::{cycle, on};
use super::samples::LineSamples;

/// Pairs of lines in a ring: few enough for a first-level cache.
const PAIRS: usize = 256;

/// Half of a pair of adjacent lines, aligned to the pair.
#[repr(align(64))]
struct Line<P: Platform>(P::AtomicU32);

/// A ring of pairs. Each line of a pair contains the index of the next pair.
struct Ring<P: Platform> {
    pairs: Vec<Padded<[Line<P>; 2]>>,
    next: Vec<u32>,
}

impl<P: Platform> Ring<P> {
    fn new() -> Self {
        let next = cycle(PAIRS);
        let pair = |next: &u32| Padded::new([0, 1].map(|_| Line(P::AtomicU32::new(*next))));
        Self { pairs: next.iter().map(pair).collect(), next }
    }

    /// Moves all lines into the calling CPU's cache.
    fn write(&self) {
        for (pair, next) in self.pairs.iter().zip(&self.next) {
            pair.iter().for_each(|line| line.0.store(*next, Release));
        }
    }

    /// Visits the whole ring; `step` returns the next pair.
    fn walk(&self, mut step: impl FnMut(&[Line<P>; 2], usize) -> u32) {
        let mut at = 0;
        (0..PAIRS).for_each(|_| at = step(&self.pairs[at], at) as usize);
        std::hint::black_box(at);
    }

    /// The same, in nanoseconds per pair.
    fn walk_ns(&self, step: impl FnMut(&[Line<P>; 2], usize) -> u32) -> f64 {
        pair_ns::<P>(|| self.walk(step))
    }
}

/// Returns the nanoseconds per pair of `work`, which handles all pairs.
fn pair_ns<P: Platform>(work: impl FnOnce()) -> f64 {
    let start = P::now();
    work();
    P::now().ns_since(start) as f64 / PAIRS as f64
}

/// Measures how long `reader` takes for lines that `writer` has written.
pub(super) fn measure<P: Platform>(
    writer: CpuId,
    reader: CpuId,
    samples: &mut LineSamples,
) -> Result<(), SpawnError> {
    let ring = Arc::new(Ring::<P>::new());
    samples.load.push(fetched(writer, reader, &ring, |ring| {
        ring.walk_ns(|[line, _], _| line.0.load(Acquire))
    })?);
    samples.load_of_pair.push(fetched(writer, reader, &ring, |ring| {
        ring.walk(|[line, _], _| line.0.load(Acquire));
        ring.walk_ns(|[_, other], _| other.0.load(Acquire))
    })?);
    samples.add.push(fetched(writer, reader, &ring, |ring| {
        ring.walk_ns(|[line, _], _| line.0.fetch_add(0, AcqRel))
    })?);
    samples.load_and_add.push(fetched(writer, reader, &ring, |ring| {
        ring.walk_ns(|[line, _], _| {
            // The same number twice: the second load depends on the first.
            let next = line.0.load(Acquire);
            line.0.fetch_add(std::hint::black_box(next) - next, AcqRel)
        })
    })?);
    samples.store.push(fetched(writer, reader, &ring, |ring| {
        let own = P::AtomicU32::new(0);
        pair_ns::<P>(|| {
            ring.walk(|[line, _], at| {
                line.0.store(ring.next[at], Relaxed);
                ring.next[at]
            });
            // A locked instruction waits for the stores before it.
            own.fetch_add(1, AcqRel);
        })
    })?);
    Ok(())
}

/// Returns the result of `walk` on `reader`, after `writer` has written all lines.
fn fetched<P: Platform>(
    writer: CpuId,
    reader: CpuId,
    ring: &Arc<Ring<P>>,
    walk: fn(&Ring<P>) -> f64,
) -> Result<f64, SpawnError> {
    let (theirs, own) = (Arc::clone(ring), Arc::clone(ring));
    on::<P, _>(writer, None, move || theirs.write())?();
    Ok(on::<P, _>(reader, None, move || walk(&own))?())
}
