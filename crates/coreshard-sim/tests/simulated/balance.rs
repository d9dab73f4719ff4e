//! When a waiting thread moves to another CPU.

use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::{CpuId, CpuSet};

use crate::machines::TWO_SOCKETS;
use crate::programs::pinned;

const BUSY: CpuId = CpuId(0);
const OTHER: CpuId = CpuId(1);

const TICK_MS: u64 = 4;
const HALF_A_MILLISECOND: u64 = 500_000;

/// A short computation, after which other threads may continue.
fn work() {
    Sim::compute(Duration::from_micros(5));
    Sim::preemption_point();
}

/// Returns for how many nanoseconds a thread that shares a CPU with a computing one has waited when it is
/// taken to the other CPU, and when that happens. The other CPU sleeps for 20 µs repeatedly, or forever.
fn waited_before_it_moved(rests_for_ever: bool) -> (u64, u64) {
    let machine = TWO_SOCKETS.replace("slice = { ns = 3000000", "slice = { ns = 4000000");
    let machine = Machine::from_toml("ticks of 4 ms", &machine).unwrap();
    let run = Simulation::new(&machine).run(move || {
        let short = Duration::from_micros(20);
        let beside = pinned(BUSY, move || (0..12_000).for_each(|_| work()));
        let other = pinned(OTHER, move || {
            if rests_for_ever {
                return Sim::sleep(3_000 * short);
            }
            (0..1_500).for_each(|_| {
                (0..4).for_each(|_| work());
                Sim::sleep(short);
            });
        });
        let body = move || {
            let begun = Sim::now();
            let both: CpuSet = [BUSY, OTHER].into_iter().collect();
            Sim::set_affinity(&both).unwrap();
            let (mut ran_at, mut waited) = (Sim::now(), 0);
            while Sim::current_cpu() == BUSY {
                work();
                let now = Sim::now();
                waited = now.ns_since(ran_at);
                ran_at = now;
            }
            (waited, ran_at.ns_since(begun))
        };
        let result = Arc::new(std::sync::Mutex::new((0, 0)));
        let theirs = Arc::clone(&result);
        let spec =
            ThreadSpec { affinity: Some([BUSY].into_iter().collect()), ..ThreadSpec::default() };
        let body = Box::new(move || *theirs.lock().unwrap() = body());
        Sim::spawn(spec, body).unwrap().join();
        beside.join();
        other.join();
        *result.lock().unwrap()
    });
    run.unwrap().value
}

/// The thread ran there within the last half millisecond, so its data in the caches is considered more
/// valuable.
#[test]
fn who_has_run_of_late_is_not_taken_by_a_cpu_that_comes_to_rest() {
    let (waited, after) = waited_before_it_moved(false);
    assert!(waited >= HALF_A_MILLISECOND, "{waited} ns");
    assert!(waited < TICK_MS * 1_000_000, "{waited} ns: not by a tick");
    assert!(after < 3 * TICK_MS * 1_000_000, "{after} ns");
}

/// No thread wakes it, and the other CPU does not become idle: it already is.
#[test]
fn ticks_send_a_resting_cpu_for_who_waits() {
    let (_, after) = waited_before_it_moved(true);
    assert!(after >= TICK_MS * 1_000_000, "{after} ns: at a tick");
    assert!(after < 10 * TICK_MS * 1_000_000, "{after} ns");
}

/// The CPU's own thread computes for 30 ms without a pause for the simulation's tick.
#[test]
fn ticks_come_while_a_thread_computes_without_a_pause() {
    let machine = TWO_SOCKETS.replace("slice = { ns = 3000000", "slice = { ns = 4000000");
    let machine = Machine::from_toml("ticks of 4 ms", &machine).unwrap();
    let run = Simulation::new(&machine).run(|| {
        let took_ns = Arc::new(std::sync::Mutex::new(0));
        let theirs = Arc::clone(&took_ns);
        let sleeper = move || {
            work();
            let begun = Sim::now();
            Sim::sleep(Duration::from_micros(50));
            *theirs.lock().unwrap() = Sim::now().ns_since(begun);
        };
        let other = pinned(OTHER, || (0..40).for_each(|_| work()));
        let affinity = Some([BUSY, OTHER].into_iter().collect());
        let spec = ThreadSpec { affinity, ..ThreadSpec::default() };
        let sleeper = Sim::spawn(spec, Box::new(sleeper)).unwrap();
        let computes = pinned(BUSY, || Sim::compute(Duration::from_millis(30)));
        [other, sleeper, computes].into_iter().for_each(ThreadHandle::join);
        *took_ns.lock().unwrap()
    });
    let took_ns: u64 = run.unwrap().value;
    assert!(took_ns > HALF_A_MILLISECOND, "{took_ns} ns: a thread that ran recently is not taken");
    assert!(took_ns < 2 * TICK_MS * 1_000_000, "{took_ns} ns: by the first tick or the second");
}

/// The thread had the CPU, and was preempted by one that may run only there and computes for 30 ms. The other
/// CPU was idle throughout.
#[test]
fn who_was_preempted_by_a_thread_that_computes_is_taken_to_a_cpu_that_rests() {
    let machine = TWO_SOCKETS.replace("slice = { ns = 3000000", "slice = { ns = 4000000");
    let machine = Machine::from_toml("ticks of 4 ms", &machine).unwrap();
    let run = Simulation::new(&machine).run(|| {
        let waited_ns = Arc::new(std::sync::Mutex::new(0));
        let theirs = Arc::clone(&waited_ns);
        let preempted = move || {
            Sim::set_affinity(&[BUSY, OTHER].into_iter().collect()).unwrap();
            let (mut ran_at, mut longest) = (Sim::now(), 0);
            for _ in 0..2_000 {
                work();
                let now = Sim::now();
                longest = longest.max(now.ns_since(ran_at));
                ran_at = now;
            }
            *theirs.lock().unwrap() = longest;
        };
        let preempted = pinned(BUSY, preempted);
        let computes = pinned(BUSY, || {
            Sim::sleep(Duration::from_millis(1));
            Sim::compute(Duration::from_millis(30));
        });
        [preempted, computes].into_iter().for_each(ThreadHandle::join);
        *waited_ns.lock().unwrap()
    });
    let waited_ns: u64 = run.unwrap().value;
    assert!(
        waited_ns > HALF_A_MILLISECOND,
        "{waited_ns} ns: it was preempted, and a thread that ran recently is not taken"
    );
    assert!(waited_ns < 2 * TICK_MS * 1_000_000, "{waited_ns} ns: by the first tick or the second");
}
