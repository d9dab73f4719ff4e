//! Lines that another CPU has written and nobody waits for, each fetched once: what that takes beyond a ping-pong, and what
//! comes with it.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Padded, Platform, SpawnError};
use coreshard_topology::CpuId;

use super::measure::{cycle, on};
use super::samples::LineSamples;

/// Pairs of lines in a ring: little enough for a first cache.
const PAIRS: usize = 256;

/// Half of two lines that lie side by side, and are so aligned.
#[repr(align(64))]
struct Line<P: Platform>(P::AtomicU32);

/// Each line of a pair says which pair is next.
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

    /// Whoever calls has all lines then.
    fn write(&self) {
        for (pair, next) in self.pairs.iter().zip(&self.next) {
            pair.iter().for_each(|line| line.0.store(*next, Release));
        }
    }

    /// All the way around: `step` says which pair is next.
    fn walk(&self, mut step: impl FnMut(&[Line<P>; 2], usize) -> u32) {
        let mut at = 0;
        (0..PAIRS).for_each(|_| at = step(&self.pairs[at], at) as usize);
        std::hint::black_box(at);
    }

    /// The same: nanoseconds for each pair.
    fn walk_ns(&self, step: impl FnMut(&[Line<P>; 2], usize) -> u32) -> f64 {
        pair_ns::<P>(|| self.walk(step))
    }
}

/// Nanoseconds of what is done for all pairs, for each.
fn pair_ns<P: Platform>(work: impl FnOnce()) -> f64 {
    let start = P::now();
    work();
    P::now().ns_since(start) as f64 / PAIRS as f64
}

/// What `reader` takes for lines that `writer` has written.
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
            // The same number twice: the second waits for the first.
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

/// What `walk` finds on `reader`, when `writer` has written all lines.
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
