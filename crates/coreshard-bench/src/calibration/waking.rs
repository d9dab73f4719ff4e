//! Threads that sleep and are woken.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coreshard_platform::{
    AtomicInt, Padded, Parker, Platform, SpawnError, ThreadHandle, ThreadSpec,
};
use coreshard_topology::CpuId;

use super::measure::{BRIEF_REST, Effort, LONG_REST, SHORT_REST, each_ns, on};
use super::samples::Samples;

/// Wake-ups of a sleeper in one measurement.
const WAKEUPS: u64 = 20;

pub(super) fn measure<P: Platform>(
    cpus: &[CpuId],
    effort: Effort,
    samples: &mut Samples,
) -> Result<(), SpawnError> {
    let repeats = effort.repeats;
    let [nobody, refused] = on::<P, _>(cpus[0], None, move || {
        let word = P::AtomicU32::new(0);
        [
            each_ns::<P>(repeats, || P::wake_one(&raw const word)),
            each_ns::<P>(repeats, || {
                P::wait(&word, 1, None);
            }),
        ]
    })?();
    samples.wake_nobody.push(nobody);
    samples.wait_refused.push(refused);
    // A nice sleeper, which does not come before its waker.
    let here = sleeper::<P>(cpus[0], cpus[0], Some(19), SHORT_REST)?.call_ns;
    samples.wake_here.push(here);
    if let Some(other) = cpus.get(1) {
        let short = sleeper::<P>(cpus[0], *other, None, SHORT_REST)?;
        samples.wake_there.push(short.call_ns);
        samples.woken_after_short_rest.push(short.until_it_runs_ns);
        let brief = sleeper::<P>(cpus[0], *other, None, BRIEF_REST)?;
        samples.woken_after_brief_rest.push(brief.until_it_runs_ns);
        let long = sleeper::<P>(cpus[0], *other, None, LONG_REST)?;
        samples.woken_after_long_rest.push(long.until_it_runs_ns);
    }
    let turns = take_turns::<P>(cpus[0], repeats.div_ceil(4))?;
    // A wake-up that finds its thread awake is no system call, and no wait follows.
    let calls = turns.wakeups * (here + refused);
    samples.context_switch.push(((turns.round_trip_ns - calls) / 2.0).max(0.0));
    Ok(())
}

struct Woken {
    call_ns: f64,
    until_it_runs_ns: f64,
}

/// The median over some wake-ups of a thread on `there`, by one on `here`.
fn sleeper<P: Platform>(
    here: CpuId,
    there: CpuId,
    nice: Option<i8>,
    rest: std::time::Duration,
) -> Result<Woken, SpawnError> {
    let words = Arc::new((Padded::new(P::AtomicU32::new(0)), Padded::new(P::AtomicU64::new(0))));
    let (theirs, own) = (Arc::clone(&words), Arc::clone(&words));
    let woken = on::<P, _>(there, nice, move || {
        let (word, ran_at_ns) = &*theirs;
        for turn in 0..WAKEUPS as u32 {
            while word.load(Acquire) <= turn {
                let seen = word.load(Acquire);
                if seen <= turn {
                    P::wait(word, seen, None);
                }
            }
            ran_at_ns.store(P::now().as_ns(), Release);
        }
    })?;
    let waker = on::<P, _>(here, None, move || {
        let (word, ran_at_ns) = &*words;
        let (mut calls, mut latencies) = (Vec::new(), Vec::new());
        for turn in 0..WAKEUPS as u32 {
            pass::<P>(rest);
            let before = P::now();
            word.store(turn + 1, Release);
            let call = P::now();
            P::wake_one(&raw const **word);
            calls.push(P::now().ns_since(call) as f64);
            // Until it ran: on this CPU, it needs this thread to sleep.
            pass::<P>(rest);
            while ran_at_ns.load(Acquire) < before.as_ns() {
                pass::<P>(rest);
            }
            latencies.push(ran_at_ns.load(Acquire).saturating_sub(call.as_ns()) as f64);
        }
        (calls, latencies)
    });
    let waker = match waker {
        Ok(waker) => waker,
        Err(error) => {
            // The sleeper is told that all of its turns have come.
            own.0.store(WAKEUPS as u32, Release);
            P::wake_one(&raw const *own.0);
            woken();
            return Err(error);
        }
    };
    let (calls, latencies) = waker();
    woken();
    let median = |mut of: Vec<f64>| {
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    Ok(Woken { call_ns: median(calls), until_it_runs_ns: median(latencies) })
}

/// Lets so much time pass. To sleep for some microseconds takes longer than that.
fn pass<P: Platform>(time: std::time::Duration) {
    if time > BRIEF_REST {
        return P::sleep(time);
    }
    let until = P::now() + time;
    while P::now() < until {
        P::spin_hint();
    }
}

struct RoundTrips {
    round_trip_ns: f64,
    /// Wake-ups in a round trip: 2, less where a woken thread comes before its waker sleeps.
    wakeups: f64,
}

/// Two threads on one CPU that wake each other.
fn take_turns<P: Platform>(cpu: CpuId, rounds: u64) -> Result<RoundTrips, SpawnError> {
    let pair = Arc::new((Parker::<P>::new(), Parker::<P>::new()));
    let (theirs, own) = (Arc::clone(&pair), Arc::clone(&pair));
    let pong = on::<P, _>(cpu, None, move || {
        let mut wakeups = 0;
        for _ in 0..=rounds {
            theirs.0.park();
            wakeups += u64::from(theirs.1.unpark());
        }
        wakeups
    })?;
    let ping = on::<P, _>(cpu, None, move || {
        let mut wakeups = 0;
        let round_trip_ns = each_ns::<P>(rounds, || {
            wakeups += u64::from(pair.0.unpark());
            pair.1.park();
        });
        (round_trip_ns, wakeups)
    });
    match ping {
        Ok(ping) => {
            let (round_trip_ns, wakeups) = ping();
            let wakeups = (wakeups + pong()) as f64 / (rounds + 1) as f64;
            Ok(RoundTrips { round_trip_ns, wakeups })
        }
        Err(error) => {
            // The other one waits for its partner: this thread takes its place.
            for _ in 0..=rounds {
                own.0.unpark();
                own.1.park();
            }
            pong();
            Err(error)
        }
    }
}

/// Starting a thread: the call.
pub(super) fn spawn_ns<P: Platform>() -> Result<f64, SpawnError> {
    let began = Arc::new(P::AtomicU64::new(0));
    let theirs = Arc::clone(&began);
    let start = P::now();
    let thread = P::spawn(
        ThreadSpec::default(),
        Box::new(move || {
            theirs.fetch_add(1, AcqRel);
        }),
    )?;
    let took = P::now().ns_since(start);
    thread.join();
    debug_assert_eq!(began.load(Relaxed), 1);
    Ok(took as f64)
}

/// How long two threads that share a CPU have it to themselves.
const SHARED: std::time::Duration = std::time::Duration::from_millis(40);
/// Whoever was away for less was interrupted.
const LEAST_SLICE_NS: u64 = 500_000;

/// The slices that threads had, each as the gap that the other one saw.
pub(super) fn slices_ns<P: Platform>(cpu: CpuId) -> Result<Vec<f64>, SpawnError> {
    let watch = || {
        let turns = P::AtomicU64::new(0);
        let start = P::now();
        let (mut last, mut gaps) = (start, Vec::new());
        while last - start < SHARED {
            turns.fetch_add(1, Relaxed);
            // A look at the clock now and then is enough.
            (0..16).for_each(|_| P::spin_hint());
            let now = P::now();
            let gap = now.ns_since(last);
            if gap >= LEAST_SLICE_NS {
                gaps.push(gap as f64);
            }
            last = now;
        }
        gaps
    };
    let one = on::<P, _>(cpu, None, watch)?;
    let other = on::<P, _>(cpu, None, watch);
    let mut gaps = one();
    gaps.extend(other?());
    Ok(gaps)
}
