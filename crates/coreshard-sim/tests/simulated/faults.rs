//! The workqueue on a faulty machine: its guarantees must still hold. Host atomics count the runs, apart from
//! the code under test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Parker, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Faults, Machine, Profile, Schedule, Sim, SimError, Simulation};
use coreshard_topology::{CpuId, Scope};
use coreshard_workqueue::{Intake, Runtime, Wake};

use crate::machines::{self, TWO_SOCKETS};

type AtomicU64 = <Sim as Platform>::AtomicU64;

const FAULTS: Faults = Faults {
    stalls_per_million: 20_000,
    longest_stall: Duration::from_micros(20),
    spurious_wakeups_per_million: 100_000,
    ..Faults::NONE
};

/// Queues items from four producers. Some items queue another one. Returns how often each ran.
fn run_items(machine: &Machine, scope: Scope, intake: Intake, wake: Wake) -> Vec<u32> {
    let runtime = Runtime::<Sim>::builder(machine.topology().clone())
        .idle_timeout(Duration::from_micros(300))
        .build()
        .unwrap();
    let queue = runtime.workqueue().scope(scope).intake(intake).wake(wake).build().unwrap();
    let ran: Arc<Vec<AtomicU32>> = Arc::new((0..4 * 40).map(|_| AtomicU32::new(0)).collect());
    let producers: Vec<_> = (0..4)
        .map(|producer| {
            let (queue, ran) = (queue.clone(), Arc::clone(&ran));
            let body = move || {
                for item in 0..20 {
                    let (inner, ran) = (queue.clone(), Arc::clone(&ran));
                    let number = producer * 40 + item * 2;
                    let work = move || {
                        ran[number].fetch_add(1, Relaxed);
                        let again = move || {
                            ran[number + 1].fetch_add(1, Relaxed);
                        };
                        inner.queue(again).unwrap();
                    };
                    queue.queue(work).unwrap();
                    if item % 6 == 0 {
                        Sim::sleep(Duration::from_micros(150));
                    }
                }
            };
            Sim::spawn(ThreadSpec::default(), Box::new(body)).unwrap()
        })
        .collect();
    producers.into_iter().for_each(ThreadHandle::join);
    drop(queue);
    drop(runtime);
    // The last handle may have been dropped inside an item, which leaves the waiting to a thread.
    Sim::sleep(Duration::from_millis(50));
    ran.iter().map(|count| count.load(Relaxed)).collect()
}

#[test]
fn every_item_runs_exactly_once_whatever_goes_wrong() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let seeds = 10;
    for seed in 0..seeds {
        for intake in Intake::ALL {
            for wake in Wake::ALL {
                for scope in [Scope::Smt, Scope::Cache, Scope::System] {
                    let profile = Profile::ALL[seed as usize % 2];
                    let simulation = Simulation::new(&machine)
                        .seed(seed)
                        .profile(profile)
                        .faults(FAULTS)
                        .time_limit(Duration::from_secs(60));
                    let run = simulation.run(|| run_items(&machine, scope, intake, wake));
                    let replay = format!("{scope} {intake} {wake} {profile} seed {seed}");
                    let ran = run.unwrap_or_else(|error| panic!("{replay}: {error}")).value;
                    assert!(ran.iter().all(|times| *times == 1), "{replay}: {ran:?}");
                }
            }
        }
    }
}

#[test]
fn a_seed_replays_its_faults() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let hash = |seed, faults| {
        let program = || run_items(&machine, Scope::Cache, Intake::LockFree, Wake::Coalesced);
        let simulation = Simulation::new(&machine).seed(seed).faults(faults);
        simulation.run(program).unwrap().summary.trace_hash
    };
    assert_eq!(hash(4, FAULTS), hash(4, FAULTS));
    assert_ne!(hash(4, FAULTS), hash(5, FAULTS));
    assert_ne!(hash(4, FAULTS), hash(4, Faults::default()));
}

#[test]
fn a_thread_that_cannot_be_started_is_an_error_with_its_name() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let faults = Faults { failed_spawns_per_million: 1_000_000, ..Faults::default() };
    let run = Simulation::new(&machine).faults(faults).run(|| {
        let spec = ThreadSpec { name: "lost".to_owned(), ..ThreadSpec::default() };
        Sim::spawn(spec, Box::new(|| ())).unwrap_err().to_string()
    });
    assert!(run.unwrap().value.contains("\"lost\""));
}

/// Two threads alternate on two CPUs. One of the CPUs occasionally goes offline.
fn hand_over(times: u32) -> (u32, u32) {
    let words = Arc::new((Parker::<Sim>::new(), Parker::<Sim>::new()));
    let away = Arc::new(AtomicU32::new(0));
    let pong = {
        let (words, away) = (Arc::clone(&words), Arc::clone(&away));
        let spec = ThreadSpec {
            affinity: Some([CpuId(1)].into_iter().collect()),
            ..ThreadSpec::default()
        };
        let body = move || {
            for _ in 0..times {
                words.0.park();
                away.fetch_add(u32::from(Sim::current_cpu() != CpuId(1)), Relaxed);
                words.1.unpark();
            }
        };
        Sim::spawn(spec, Box::new(body)).unwrap()
    };
    for _ in 0..times {
        words.0.unpark();
        words.1.park();
    }
    pong.join();
    (times, away.load(Relaxed))
}

#[test]
fn a_thread_whose_cpu_goes_offline_runs_elsewhere_and_comes_back() {
    let machine = Machine::from_toml("skylake", machines::SKYLAKE).unwrap();
    let faults = Faults {
        offline_every: Duration::from_micros(200),
        longest_offline: Duration::from_micros(400),
        ..Faults::NONE
    };
    let run = Simulation::new(&machine).faults(faults).run(|| hand_over(500)).unwrap();
    let (times, away) = run.value;
    assert!(away > times / 50 && away < times, "{away} of {times}");
    let calm = Simulation::new(&machine).run(|| hand_over(500)).unwrap();
    assert_eq!(calm.value.1, 0);
}

#[test]
fn wake_ups_come_late_or_for_nothing_and_a_deadlock_is_still_seen() {
    let machine = Machine::from_toml("skylake", machines::SKYLAKE).unwrap();
    let faults = Faults {
        delayed_wakeups_per_million: 500_000,
        spurious_wakeups_per_million: 500_000,
        longest_delay: Duration::from_micros(100),
        offline_every: Duration::from_micros(200),
        longest_offline: Duration::from_micros(400),
        ..Faults::NONE
    };
    // Several seeds: once both threads are awake, each may find the other about to sleep, when it needs no
    // wake-up that could be late. This may continue for half of a run.
    let virtual_ns = |faults| {
        let mut took: Vec<u64> = (0..5)
            .map(|seed| {
                let simulation = Simulation::new(&machine).seed(seed).faults(faults);
                simulation.run(|| hand_over(300)).unwrap().summary.virtual_ns
            })
            .collect();
        took.sort_unstable();
        took[2]
    };
    let (calm, late) = (virtual_ns(Faults::NONE), virtual_ns(faults));
    assert!(late > calm + 300 * 20_000, "{late} and {calm}");
    let stuck = Simulation::new(&machine).faults(faults).run(|| Parker::<Sim>::new().park());
    let Err(error @ SimError::Deadlock(_)) = stuck else { panic!("{stuck:?}") };
    assert!(error.to_string().contains("\"main\" waits since"), "{error}");
}

#[test]
fn the_programs_clock_jumps_ahead_and_never_back() {
    let machine = Machine::from_toml("skylake", machines::SKYLAKE).unwrap();
    let faults = Faults {
        clock_jumps_per_million: 100_000,
        longest_jump: Duration::from_millis(50),
        ..Faults::NONE
    };
    let run = Simulation::new(&machine).faults(faults).run(|| {
        let reads: Vec<_> = (0..200).map(|_| Sim::now()).collect();
        assert!(reads.is_sorted());
        reads.windows(2).filter(|two| two[1].ns_since(two[0]) > 100_000).count()
    });
    let run = run.unwrap();
    assert!((5..60).contains(&run.value), "{}", run.value);
    assert!(run.summary.virtual_ns < 1_000_000, "virtual time is unaffected");
}

/// A reader that looks between two consecutive writes of a writer. On the machine's own schedule it never
/// does, since it begins much later.
fn reader_comes_between() -> bool {
    let words = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let seen = Arc::new(AtomicU32::new(0));
    let pinned = |cpu, body: Box<dyn FnOnce() + Send>| {
        let affinity = Some([CpuId(cpu)].into_iter().collect());
        Sim::spawn(ThreadSpec { affinity, ..ThreadSpec::default() }, body).unwrap()
    };
    let write = Arc::clone(&words);
    let writer = pinned(
        1,
        Box::new(move || {
            (0..20).for_each(|_| assert!(write.0.load(Relaxed) < 2));
            write.0.store(1, Relaxed);
            (0..20).for_each(|_| assert!(write.1.load(Relaxed) < 2));
            write.1.store(1, Relaxed);
        }),
    );
    let (read, found) = (Arc::clone(&words), Arc::clone(&seen));
    let reader = pinned(
        2,
        Box::new(move || {
            Sim::compute(Duration::from_micros(60));
            (0..20).for_each(|_| assert!(read.1.load(Relaxed) < 2));
            let (first, second) = (read.0.load(Relaxed), read.1.load(Relaxed));
            found.store(u32::from(first == 1 && second == 0), Relaxed);
        }),
    );
    writer.join();
    reader.join();
    seen.load(Relaxed) == 1
}

#[test]
fn a_pct_schedule_finds_orders_that_time_does_not_bring_about() {
    let machine = Machine::from_toml("skylake", machines::SKYLAKE).unwrap();
    let found = |schedule| {
        let faults = Faults { schedule, ..Faults::NONE };
        (0..500)
            .filter(|seed| {
                let simulation = Simulation::new(&machine).seed(*seed).faults(faults);
                simulation.run(reader_comes_between).unwrap().value
            })
            .count()
    };
    assert_eq!(found(Schedule::Timed), 0);
    let with_pct = found(Schedule::Pct { depth: 3, turns: 60 });
    assert!(with_pct > 4, "{with_pct} of 500");
}

#[test]
fn a_run_that_is_watched_is_the_same_and_ends_where_a_rule_is_broken() {
    let machine = Machine::from_toml("skylake", machines::SKYLAKE).unwrap();
    let simulation = Simulation::new(&machine).seed(3).faults(FAULTS);
    let alone = simulation.run(|| hand_over(50)).unwrap();
    let mut looks = 0;
    let every = Duration::from_micros(5);
    let watched = simulation.run_watched(
        || hand_over(50),
        every,
        |view| {
            looks += 1;
            // Two threads take turns: at least one CPU is idle, or is being woken.
            let rests = |cpu| view.idle_ns(CpuId(cpu)).is_some();
            assert!(rests(2) || rests(3) || view.now_ns() < 100_000);
            Ok(())
        },
    );
    assert_eq!(alone.summary, watched.unwrap().summary);
    assert!(looks > 10, "{looks}");
    let broken = simulation.run_watched(
        || hand_over(50),
        every,
        |view| {
            if view.now_ns() > 40_000 { Err("it is late".to_owned()) } else { Ok(()) }
        },
    );
    let Err(error @ SimError::Broken { .. }) = broken else { panic!("{broken:?}") };
    assert!(error.to_string().starts_with("it is late\nat 4"), "{error}");
}

/// Returns how long an item waits for its turn, in microseconds, on a pool of two whose other worker is busy
/// for 60 ms, and how many workers could not be started.
fn waits_behind_a_busy_worker(machine: &Machine, intake: Intake) -> Option<(u64, u64)> {
    let cpus = "0-1".parse().unwrap();
    let runtime = Runtime::<Sim>::builder(machine.topology().clone()).usable(cpus).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::Smt).intake(intake).build().ok()?;
    queue.queue(|| Sim::compute(Duration::from_millis(60))).unwrap();
    Sim::sleep(Duration::from_micros(100));
    let queued = Sim::now();
    let handle = queue.submit(move || Sim::now().ns_since(queued) / 1_000).unwrap();
    let waited = handle.join().unwrap();
    let failed = queue.stats().pools.iter().map(|pool| pool.failed_worker_starts).sum();
    drop(queue);
    drop(runtime);
    Sim::sleep(Duration::from_millis(50));
    Some((waited, failed))
}

#[test]
fn a_worker_that_could_not_be_started_is_started_later() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let faults = Faults { failed_spawns_per_million: 400_000, ..Faults::NONE };
    let mut seen = 0;
    for seed in 0..60 {
        let intake = Intake::ALL[seed as usize % 2];
        let simulation = Simulation::new(&machine).seed(seed).faults(faults);
        let run = simulation.run(|| waits_behind_a_busy_worker(&machine, intake));
        // A queue cannot be created without its first worker or the monitor.
        if let Some((waited_us, failed)) = run.unwrap().value
            && failed > 0
            && waited_us < 59_000
        {
            assert!(waited_us > 3_000, "seed {seed}: only the monitor tries again: {waited_us} µs");
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}

/// A queue is not created without its monitor. Once created, it makes progress however many of its workers
/// fail to start: the monitor retries at each scan.
#[test]
fn a_queue_that_is_made_has_a_monitor_that_makes_up_for_workers() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let faults = Faults { failed_spawns_per_million: 400_000, ..Faults::NONE };
    let (mut refused, mut once, mut again) = (0, 0, 0);
    for seed in 0..200 {
        let intake = Intake::ALL[seed as usize % 2];
        let simulation = Simulation::new(&machine).seed(seed).faults(faults);
        let run = simulation.run(|| waits_behind_a_busy_worker(&machine, intake));
        let Some((waited_us, failed)) = run.unwrap().value else {
            refused += 1;
            continue;
        };
        assert!(waited_us < 59_000, "seed {seed}, {failed} failures: {waited_us} µs");
        once += u32::from(failed == 1);
        again += u32::from(failed > 1);
    }
    assert!(refused > 10 && once > 10 && again > 4, "{refused}, {once}, {again}");
}
