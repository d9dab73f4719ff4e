//! Threads that sleep and are woken.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{
    AtomicInt, Padded, Parker, Platform, SpawnError, ThreadHandle, ThreadSpec,
};
use coreshard_topology::CpuId;

use super::measure::{
    BRIEF_REST, Effort, LONG_REST, RESTS_BETWEEN, SHORT_REST, beside, each_ns, on,
};
use super::samples::{Samples, median};

/// Longer than any measurement.
const LONG: Duration = Duration::from_secs(300);

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
    samples.context_switch.push((yield_ns::<P>(cpus[0], repeats)? - nobody).max(0.0));
    let here = samples.wakeup_calls(calls_here_ns::<P>(cpus[0])?);
    samples.wake_here.push(here);
    let turns = take_turns::<P>(cpus[0], repeats.div_ceil(4), false)?;
    let timed = take_turns::<P>(cpus[0], repeats.div_ceil(4), true)?;
    // Each of the two reads the clock for its deadline, and again when it sleeps.
    let clock = samples.clock_read.last().copied().unwrap_or(0.0) * (2.0 + timed.wakeups);
    let longer_ns = timed.round_trip_ns - turns.round_trip_ns - clock;
    samples.timer.push((longer_ns / timed.wakeups.max(1.0)).max(0.0));
    if let Some(other) = cpus.get(1) {
        let busy = beside_busy_one::<P>(cpus[0], *other)?;
        samples.wake_busy.push(median(&busy));
        let short = sleeper::<P>(cpus[0], *other, SHORT_REST)?;
        let there = samples.wakeup_calls(short.calls_ns);
        samples.wake_there.push(there);
        let woken = samples.wakeups(short.until_they_run_ns);
        samples.woken_after_short_rest.push(woken);
        let brief = sleeper::<P>(cpus[0], *other, BRIEF_REST)?;
        let woken = samples.wakeups(brief.until_they_run_ns);
        samples.woken_after_brief_rest.push(woken);
        for (rest, into) in RESTS_BETWEEN.into_iter().zip(&mut samples.woken_after_rests_between) {
            into.push(median(&sleeper::<P>(cpus[0], *other, rest)?.until_they_run_ns));
        }
        let long = sleeper::<P>(cpus[0], *other, LONG_REST)?;
        samples.woken_after_long_rest.push(median(&long.until_they_run_ns));
    }
    Ok(())
}

struct Woken {
    calls_ns: Vec<f64>,
    until_they_run_ns: Vec<f64>,
}

/// Sleeps until a word exceeds a number.
fn wait_beyond<P: Platform>(word: &P::AtomicU32, number: u32) {
    loop {
        let seen = word.load(Acquire);
        if seen > number {
            return;
        }
        P::wait(word, seen, None);
    }
}

/// Measures calls that wake a thread on the same CPU. The thread is nice, so it does not preempt its waker.
fn calls_here_ns<P: Platform>(cpu: CpuId) -> Result<Vec<f64>, SpawnError> {
    // The number of the current turn, and how many turns the other thread has had.
    let words = Arc::new([0, 0].map(|_| Padded::new(P::AtomicU32::new(0))));
    let theirs = Arc::clone(&words);
    let woken = move || {
        let [turn, had] = &*theirs;
        for seen in 0..WAKEUPS as u32 {
            wait_beyond::<P>(turn, seen);
            had.store(seen + 1, Release);
        }
    };
    let waker = move || {
        let [turn, had] = &*words;
        let calls = (1..=WAKEUPS as u32).map(|next| {
            P::sleep(BRIEF_REST);
            turn.store(next, Release);
            let call = P::now();
            P::wake_one(&raw const **turn);
            let took = P::now().ns_since(call) as f64;
            // The other thread runs while this one sleeps.
            while had.load(Acquire) < next {
                P::sleep(BRIEF_REST);
            }
            took
        });
        calls.collect()
    };
    beside::<P, _>((cpu, Some(19)), woken, cpu, waker)
}

/// Measures wake-ups of a thread on `there`, a different CPU from the waker's, `here`.
fn sleeper<P: Platform>(here: CpuId, there: CpuId, rest: Duration) -> Result<Woken, SpawnError> {
    let words = Arc::new((Padded::new(P::AtomicU32::new(0)), Padded::new(P::AtomicU64::new(0))));
    let theirs = Arc::clone(&words);
    let woken = move || {
        let (word, ran_at_ns) = &*theirs;
        for turn in 0..WAKEUPS as u32 {
            wait_beyond::<P>(word, turn);
            ran_at_ns.store(P::now().as_ns(), Release);
        }
    };
    let waker = move || {
        let (word, ran_at_ns) = &*words;
        let mut found = Woken { calls_ns: Vec::new(), until_they_run_ns: Vec::new() };
        for turn in 0..WAKEUPS as u32 {
            pass::<P>(rest);
            let before = P::now();
            word.store(turn + 1, Release);
            let call = P::now();
            P::wake_one(&raw const **word);
            found.calls_ns.push(P::now().ns_since(call) as f64);
            while ran_at_ns.load(Acquire) < before.as_ns() {
                P::spin_hint();
            }
            let until_ns = ran_at_ns.load(Acquire).saturating_sub(call.as_ns());
            found.until_they_run_ns.push(until_ns as f64);
        }
        found
    };
    beside::<P, _>((there, None), woken, here, waker)
}

/// Measures calls that wake a thread on another CPU, on which a nice thread runs meanwhile.
fn beside_busy_one<P: Platform>(here: CpuId, there: CpuId) -> Result<Vec<f64>, SpawnError> {
    let over = Arc::new(P::AtomicU32::new(0));
    let theirs = Arc::clone(&over);
    let busy = on::<P, _>(there, Some(19), move || {
        while theirs.load(Acquire) == 0 {
            P::spin_hint();
        }
    })?;
    let woken = sleeper::<P>(here, there, BRIEF_REST);
    over.store(1, Release);
    busy();
    Ok(woken?.calls_ns)
}

/// Spins for a duration. A sleep of some microseconds would take longer.
fn pass<P: Platform>(time: Duration) {
    if time >= SHORT_REST {
        return P::sleep(time);
    }
    let until = P::now() + time;
    while P::now() < until {
        P::spin_hint();
    }
}

struct RoundTrips {
    round_trip_ns: f64,
    /// Wake-ups per round trip: 2, or fewer if a woken thread preempts its waker before that sleeps.
    wakeups: f64,
}

/// Runs two threads on one CPU that wake each other. If `timed`, each wait has a timeout, which never
/// expires.
fn take_turns<P: Platform>(cpu: CpuId, rounds: u64, timed: bool) -> Result<RoundTrips, SpawnError> {
    let park = move |parker: &Parker<P>| match timed {
        true => drop(parker.park_timeout(LONG)),
        false => parker.park(),
    };
    // Their parkers, and how often each woke the other.
    let pair = Arc::new(([(); 2].map(|()| Parker::<P>::new()), P::AtomicU64::new(0)));
    let theirs = Arc::clone(&pair);
    let pong = move || {
        let ([ping, pong], wakeups) = &*theirs;
        for _ in 0..=rounds {
            park(pong);
            wakeups.fetch_add(u64::from(ping.unpark()), Relaxed);
        }
    };
    let own = Arc::clone(&pair);
    let ping = move || {
        let ([ping, pong], wakeups) = &*own;
        each_ns::<P>(rounds, || {
            wakeups.fetch_add(u64::from(pong.unpark()), Relaxed);
            park(ping);
        })
    };
    let round_trip_ns = beside::<P, _>((cpu, None), pong, cpu, ping)?;
    let wakeups = pair.1.load(Relaxed) as f64 / (rounds + 1) as f64;
    Ok(RoundTrips { round_trip_ns, wakeups })
}

/// Measures a yield to another thread on the same CPU, which yields as well.
fn yield_ns<P: Platform>(cpu: CpuId, times: u64) -> Result<f64, SpawnError> {
    // Whether the measurement has ended, and how often the other thread has yielded.
    let words = Arc::new((P::AtomicU32::new(0), P::AtomicU64::new(0)));
    let theirs = Arc::clone(&words);
    let other = move || {
        while theirs.0.load(Acquire) == 0 {
            P::yield_now();
            theirs.1.fetch_add(1, Relaxed);
        }
    };
    let measured = move || {
        let (over, yields) = &*words;
        let (start, before) = (P::now(), yields.load(Relaxed));
        (0..times).for_each(|_| P::yield_now());
        let took_ns = P::now().ns_since(start) as f64;
        let others = yields.load(Relaxed) - before;
        over.store(1, Release);
        took_ns / (times + others) as f64
    };
    beside::<P, _>((cpu, None), other, cpu, measured)
}

/// Measures the call that starts a thread.
pub(super) fn spawn_ns<P: Platform>() -> Result<f64, SpawnError> {
    let start = P::now();
    let thread = P::spawn(ThreadSpec::default(), Box::new(|| {}))?;
    let took = P::now().ns_since(start);
    thread.join();
    Ok(took as f64)
}

/// How long two threads share a CPU.
const SHARED: Duration = Duration::from_millis(40);
/// A thread that was away for less was interrupted.
const LEAST_SLICE_NS: u64 = 500_000;

/// Returns the time slices of threads, each as the gap that the other thread saw.
pub(super) fn slices_ns<P: Platform>(cpu: CpuId) -> Result<Vec<f64>, SpawnError> {
    let watch = || {
        let turns = P::AtomicU64::new(0);
        let start = P::now();
        let (mut last, mut gaps) = (start, Vec::new());
        while last - start < SHARED {
            turns.fetch_add(1, Relaxed);
            // Reading the clock occasionally is enough.
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
