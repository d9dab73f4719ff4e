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

    /// Nanoseconds for each pair on the way around: `step` says which is next.
    fn walk_ns(&self, mut step: impl FnMut(&[Line<P>; 2], u32) -> u32) -> f64 {
        let start = P::now();
        let mut at = 0;
        (0..PAIRS).for_each(|_| at = step(&self.pairs[at as usize], at));
        std::hint::black_box(at);
        P::now().ns_since(start) as f64 / PAIRS as f64
    }
}

/// What `reader` takes for lines that `writer` has written.
pub(super) fn measure<P: Platform>(
    writer: CpuId,
    reader: CpuId,
    samples: &mut LineSamples,
) -> Result<(), SpawnError> {
    let ring = Arc::new(Ring::<P>::new());
    let fetched = |walk: fn(&Ring<P>) -> [f64; 2]| {
        let (theirs, own) = (Arc::clone(&ring), Arc::clone(&ring));
        on::<P, _>(writer, None, move || theirs.write())?();
        Ok(on::<P, _>(reader, None, move || walk(&own))?())
    };
    let [load, of_pair] = fetched(|ring| {
        let first = ring.walk_ns(|[line, _], _| line.0.load(Acquire));
        [first, ring.walk_ns(|[_, other], _| other.0.load(Acquire))]
    })?;
    samples.load.push(load);
    samples.load_of_pair.push(of_pair);
    let [add, _] = fetched(|ring| [ring.walk_ns(|[line, _], _| line.0.fetch_add(0, AcqRel)), 0.0])?;
    samples.add.push(add);
    let [load_and_add, _] = fetched(|ring| {
        let both = |[line, _]: &[Line<P>; 2], _| {
            // The same number twice: the second waits for the first.
            let next = line.0.load(Acquire);
            line.0.fetch_add(std::hint::black_box(next) - next, AcqRel)
        };
        [ring.walk_ns(both), 0.0]
    })?;
    samples.load_and_add.push(load_and_add);
    let [store, _] = fetched(|ring| {
        let own = P::AtomicU32::new(0);
        let stores = |[line, _]: &[Line<P>; 2], at: u32| {
            line.0.store(ring.next[at as usize], Relaxed);
            ring.next[at as usize]
        };
        // A locked instruction waits for the stores before it.
        let start = P::now();
        ring.walk_ns(stores);
        own.fetch_add(1, AcqRel);
        [P::now().ns_since(start) as f64 / PAIRS as f64, 0.0]
    })?;
    samples.store.push(store);
    Ok(())
}
