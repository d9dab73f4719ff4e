//! CPUs that take one line from one another.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Padded, Platform, SpawnError};
use coreshard_topology::CpuId;

use super::measure::on;

/// Half a round trip of a compare-exchange ping-pong, as the public core-to-core-latency tool
/// measures it.
pub(super) fn ping_pong_ns<P: Platform>(
    one: CpuId,
    other: CpuId,
    rounds: u64,
) -> Result<f64, SpawnError> {
    let word = Arc::new(Padded::new(P::AtomicU64::new(0)));
    let (theirs, own) = (Arc::clone(&word), Arc::clone(&word));
    let pong = on::<P, _>(other, None, move || {
        for _ in 0..=rounds {
            while theirs.compare_exchange(1, 0, AcqRel, Relaxed).is_err() {}
        }
    })?;
    let ping = on::<P, _>(one, None, move || {
        // Once for the way into the rhythm.
        while word.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {}
        while word.load(Acquire) == 1 {}
        let start = P::now();
        for _ in 0..rounds {
            while word.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {}
        }
        P::now().ns_since(start)
    });
    match ping {
        Ok(ping) => {
            let took = ping();
            pong();
            Ok(took as f64 / (2 * rounds) as f64)
        }
        Err(error) => {
            // The other one waits for its partner: this thread takes its place.
            for _ in 0..=rounds {
                while own.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {}
            }
            pong();
            Err(error)
        }
    }
}

/// More are nobody's count: the count was given up.
const MOST: u32 = 1 << 16;

/// A fetch-and-add and a compare-exchange loop on one word, per operation and thread.
pub(super) fn contended_ns<P: Platform>(
    cpus: &[CpuId],
    times: u64,
) -> Result<[f64; 2], SpawnError> {
    let mut found = [0.0; 2];
    for (operation, found) in found.iter_mut().enumerate() {
        let words = Arc::new((
            Padded::new(P::AtomicU64::new(0)),
            Padded::new(P::AtomicU32::new(cpus.len() as u32)),
        ));
        let mut threads = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            let theirs = Arc::clone(&words);
            let thread = on::<P, _>(*cpu, None, move || {
                let (word, missing) = &*theirs;
                missing.fetch_sub(1, AcqRel);
                while (1..=MOST).contains(&missing.load(Acquire)) {
                    P::spin_hint();
                }
                let start = P::now();
                for _ in 0..times {
                    if operation == 0 {
                        word.fetch_add(1, Relaxed);
                    } else {
                        let mut seen = word.load(Relaxed);
                        while let Err(now) = word.compare_exchange(seen, seen + 1, AcqRel, Relaxed)
                        {
                            seen = now;
                        }
                    }
                }
                P::now().ns_since(start)
            });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    // Those that are there wait for the rest.
                    words.1.store(0, Release);
                    for thread in threads {
                        let _unused: u64 = thread();
                    }
                    return Err(error);
                }
            }
        }
        let total: u64 = threads.into_iter().map(|thread| thread()).sum();
        *found = total as f64 / (cpus.len() as u64 * times) as f64;
    }
    Ok(found)
}
