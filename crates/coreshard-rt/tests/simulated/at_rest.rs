//! Invariants of push and pull in every run of a simulated machine. While no task moves, no task waits for a
//! CPU that it could have. No task is lost when CPUs go offline.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, ByteAtomics, Lock, Platform};
use coreshard_rt::{CpuSnapshot, Executor, InheritMutex, Priority, PriorityIndex, Rung};
use coreshard_sim::{Faults, Machine, Sim, Simulation};
use coreshard_topology::{CpuId, CpuSet};

/// The number of seeds; more for a campaign, see docs/results/rt.md.
fn seeds() -> u64 {
    std::env::var("CORESHARD_RT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

const CPUS: u32 = 8;

/// Other CPUs see a CPU's plain stores later, as x86's memory order permits. A store that must be visible
/// before the CPU's next load needs a locked instruction or a fence.
const HELD: Faults = Faults {
    held_stores_per_million: 300_000,
    longest_hold: Duration::from_micros(5),
    ..Faults::NONE
};
const TASKS: u64 = 120;

/// Describes a CPU below the level of a waiting task that could run there, if there is one.
fn unjust(snapshot: &[CpuSnapshot]) -> Option<String> {
    for at in snapshot {
        for (priority, allowed) in &at.waiting {
            let better = snapshot.iter().find(|cpu| {
                cpu.online && allowed.contains(cpu.cpu) && cpu.level < priority.level()
            });
            if let Some(cpu) = better {
                return Some(format!(
                    "a task of {priority} waits at CPU {}, and CPU {} is at level {}",
                    at.cpu, cpu.cpu, cpu.level
                ));
            }
        }
    }
    None
}

struct Told {
    run: u64,
    max_tries: u32,
    rests: usize,
    waited: u64,
    pulled: u64,
}

/// Several tasks concurrently begin tasks of random priorities and CPUs. Each of these waits for its own
/// gate; meanwhile some hold one of two locks that lend priority, or wait for it. Gates are opened in bursts,
/// and CPUs go offline and online. The CPUs are checked when no task moves. Half of the runs let tasks of
/// equal priority take turns, and a third of them delay stores.
fn scenario(seed: u64, variant: Rung) -> Told {
    let machine = Machine::named("xeon-hcc-2s").unwrap();
    let topology = machine.topology().clone();
    // Some of each package.
    let cpus: CpuSet = (0..CPUS).map(|cpu| CpuId(cpu % 4 + cpu / 4 * 120)).collect();
    let faults = if seed % 3 == 2 { HELD } else { Faults::NONE };
    let simulation = Simulation::new(&machine).seed(seed).faults(faults);
    let run = simulation.time_limit(Duration::from_secs(20)).run(move || {
        let mut random = fastrand::Rng::with_seed(seed);
        let priorities: Vec<Priority> =
            [1, 10, 20, 50, 80, 99].map(|at| Priority::new(at).unwrap()).to_vec();
        let mut executor = Executor::<Sim>::builder(&topology)
            .cpus(cpus.clone())
            .rung(variant)
            .watchdog_period(None)
            .priorities(priorities.iter().copied().chain([Priority::new(5).unwrap()]));
        if seed / 4 % 2 == 1 {
            executor = executor.round_robin(2.try_into().unwrap());
        }
        let executor = Arc::new(executor.build().unwrap());
        let locks = [(); 2].map(|()| InheritMutex::<Sim, u32>::new(0));
        let locks = Arc::new(locks);
        type Word = <Sim as Platform>::AtomicU32;
        let gates: Arc<Vec<Word>> = Arc::new((0..TASKS).map(|_| Word::new(0)).collect());
        let ran = Arc::new(Word::new(0));
        let all: Vec<CpuId> = cpus.iter().collect();
        let mut rests = 0;
        let mut begun = 0;
        let mut open: Vec<usize> = Vec::new();
        let mut offline: Option<CpuId> = None;
        while begun < TASKS || !open.is_empty() {
            // A burst of tasks, begun by other tasks, so that several CPUs place them at once.
            let burst = random.u64(0..16).min(TASKS - begun);
            let mut starters = Vec::new();
            for number in begun..begun + burst {
                let priority = priorities[random.usize(..priorities.len())];
                let mut allowed: CpuSet =
                    all.iter().copied().filter(|_| random.u8(..3) > 0).collect();
                allowed.insert(all[random.usize(..all.len())]);
                let (gates, ran) = (Arc::clone(&gates), Arc::clone(&ran));
                let (locks, which) = (Arc::clone(&locks), random.usize(..6));
                let theirs = Arc::clone(&executor);
                let delay = Duration::from_nanos(random.u64(..3_000));
                let body = move || {
                    Sim::compute(delay);
                    let waits = move || {
                        let held = locks.get(which).map(|lock| lock.lock().unwrap());
                        while gates[number as usize].load(Acquire) == 0 {
                            Sim::wait(&gates[number as usize], 0, None);
                        }
                        if let Some(mut held) = held {
                            *held += 1;
                        }
                        ran.fetch_add(1, Relaxed);
                    };
                    drop(theirs.spawn_on(priority, &allowed, None, waits).unwrap());
                };
                let starter = coreshard_platform::ThreadSpec {
                    affinity: Some([all[random.usize(..all.len())]].into_iter().collect()),
                    ..Default::default()
                };
                starters.push(Sim::spawn_fifo(starter, 5, Box::new(body)).unwrap());
                open.push(number as usize);
            }
            begun += burst;
            for _ in 0..random.usize(0..=open.len().min(12)) {
                let gate = open.swap_remove(random.usize(..open.len()));
                gates[gate].store(1, Release);
                Sim::wake_all(&raw const gates[gate]);
            }
            if random.u8(..4) == 0 {
                match offline.take() {
                    Some(cpu) => executor.bring_online(cpu).unwrap(),
                    None => {
                        let cpu = all[random.usize(..all.len())];
                        executor.take_offline(cpu).unwrap();
                        offline = Some(cpu);
                    }
                }
            }
            starters.into_iter().for_each(coreshard_platform::ThreadHandle::join);
            // Every task that could move has moved by then.
            Sim::sleep(Duration::from_millis(5));
            let snapshot = executor.snapshot();
            assert_eq!(unjust(&snapshot), None, "{variant}, seed {seed}: {snapshot:#?}");
            rests += 1;
        }
        let max_tries = executor.max_tries();
        let stats: Vec<_> = executor.snapshot().iter().map(|cpu| cpu.stats).collect();
        drop(executor);
        Told {
            run: u64::from(ran.load(Relaxed)),
            max_tries,
            rests,
            waited: stats.iter().map(|stats| stats.waited).sum(),
            pulled: stats.iter().map(|stats| stats.pulled).sum(),
        }
    });
    run.unwrap_or_else(|error| panic!("{variant}, seed {seed}: {error}")).value
}

#[test]
fn at_rest_no_waiting_task_outranks_a_running_one_and_nothing_is_lost() {
    let (mut max_tries, mut rests, mut waited, mut pulled) = (0, 0, 0, 0);
    for seed in 0..seeds() {
        let variant = Rung::ALL[seed as usize % Rung::ALL.len()];
        let told = scenario(seed, variant);
        assert_eq!(told.run, TASKS, "{variant}, seed {seed}: each task ran once");
        // A task retries its search for a CPU only when another task was faster.
        assert!(told.max_tries <= CPUS, "{variant}, seed {seed}: {} tries", told.max_tries);
        max_tries = max_tries.max(told.max_tries);
        rests += told.rests;
        waited += told.waited;
        pulled += told.pulled;
    }
    // The scenario is useless if no task had to wait or was pulled.
    assert!(waited > 20 * seeds() && pulled > seeds(), "{waited} waited, {pulled} were pulled");
    let figures =
        format!("{rests} checks, {waited} waited, {pulled} pulled, at most {max_tries} tries");
    if std::env::var_os("CORESHARD_RT_SEEDS").is_some() {
        tell(&figures);
    }
}

/// Prints the figures of a campaign, which are recorded.
#[allow(clippy::print_stderr)]
fn tell(figures: &str) {
    eprintln!("{figures}");
}

/// A CPU lowers its level at about the moment when a task finds no CPU. Repeated with many distances between
/// the two, and with delayed stores.
#[test]
fn a_cpu_that_comes_down_while_a_task_is_laid_to_wait_gets_it() {
    let machine = Machine::named("xeon-hcc-2s").unwrap();
    let topology = machine.topology().clone();
    let rounds = 400;
    for (variant, faults) in
        Rung::ALL.into_iter().flat_map(|variant| [(variant, Faults::NONE), (variant, HELD)])
    {
        let simulation = Simulation::new(&machine).seed(7).faults(faults);
        let run = simulation.time_limit(Duration::from_secs(20)).run(|| {
            let mut random = fastrand::Rng::with_seed(7);
            let [full, comes_down] = [CpuId(1), CpuId(130)].map(|cpu| CpuSet::from_iter([cpu]));
            let both = full.union(&comes_down);
            let [high, low] = [50, 20].map(|at| Priority::new(at).unwrap());
            let executor = Executor::<Sim>::builder(&topology)
                .cpus(both.clone())
                .rung(variant)
                .watchdog_period(None)
                .priorities([high, low]);
            let executor = Arc::new(executor.build().unwrap());
            for round in 0..rounds {
                let moment = Sim::now() + Duration::from_micros(200);
                let distance = Duration::from_nanos(random.u64(..4_000));
                let until = move |at: coreshard_platform::Time| Sim::compute(at - Sim::now());
                let gate = Arc::new(<Sim as Platform>::AtomicU32::new(0));
                let theirs = Arc::clone(&gate);
                let waits = move || {
                    while theirs.load(Acquire) == 0 {
                        Sim::wait(&theirs, 0, None);
                    }
                };
                let blocker = executor.spawn_on(high, &full, None, waits).unwrap();
                let falls =
                    executor.spawn_on(high, &comes_down, None, move || until(moment)).unwrap();
                let theirs = Arc::clone(&executor);
                let allowed = both.clone();
                let starter = coreshard_platform::ThreadSpec {
                    affinity: Some(CpuSet::from_iter([CpuId(7)])),
                    ..Default::default()
                };
                let begin = move || {
                    until(coreshard_platform::Time::from_ns(moment.as_ns() - 2_000) + distance);
                    drop(
                        theirs
                            .spawn_on(low, &allowed, None, || Sim::sleep(Duration::from_millis(2))),
                    );
                };
                Sim::spawn_fifo(starter, 99, Box::new(begin)).unwrap();
                Sim::sleep(Duration::from_millis(1));
                let snapshot = executor.snapshot();
                assert_eq!(unjust(&snapshot), None, "{variant}, round {round}: {snapshot:#?}");
                gate.store(1, Release);
                Sim::wake_all(&raw const *gate);
                blocker.join().unwrap();
                falls.join().unwrap();
                Sim::sleep(Duration::from_millis(3));
            }
        });
        run.unwrap_or_else(|error| panic!("{variant}: {error}"));
    }
}

/// Tasks of equal priority take turns, up to the limit on each CPU, and further ones wait. A task that
/// finishes admits the next one, on its CPU or from elsewhere.
#[test]
fn equals_take_turns_on_the_cpu_where_the_fewest_do() {
    let machine = Machine::named("xeon-hcc-2s").unwrap();
    let topology = machine.topology().clone();
    for variant in Rung::ALL {
        let run = Simulation::new(&machine).seed(3).time_limit(Duration::from_secs(5)).run(|| {
            let cpus = [1, 2].map(CpuId);
            let priority = Priority::new(50).unwrap();
            let executor = Executor::<Sim>::builder(&topology)
                .cpus(cpus.into_iter().collect())
                .rung(variant)
                .round_robin(2.try_into().unwrap())
                .watchdog_period(None)
                .build()
                .unwrap();
            type Word = <Sim as Platform>::AtomicU32;
            let gates: Arc<Vec<Word>> = Arc::new((0..7).map(|_| Word::new(0)).collect());
            // 1 + the CPU on which a task has begun.
            let begun: Arc<Vec<Word>> = Arc::new((0..7).map(|_| Word::new(0)).collect());
            let seen = || begun.iter().map(|cpu| cpu.load(Acquire)).collect::<Vec<_>>();
            let open = |gate: usize| {
                gates[gate].store(1, Release);
                Sim::wake_all(&raw const gates[gate]);
                Sim::sleep(Duration::from_millis(1));
            };
            for number in 0..7 {
                let (gates, begun) = (Arc::clone(&gates), Arc::clone(&begun));
                let waits = move || {
                    begun[number].store(1 + Sim::current_cpu().0, Release);
                    while gates[number].load(Acquire) == 0 {
                        Sim::wait(&gates[number], 0, None);
                    }
                };
                // The last one may run only on the second CPU.
                let allowed = if number == 6 { &cpus[1..] } else { &cpus[..] };
                let allowed = allowed.iter().copied().collect();
                drop(executor.spawn_on(priority, &allowed, None, waits).unwrap());
                Sim::sleep(Duration::from_millis(1));
            }
            let first = seen();
            let on = |cpu: u32| first.iter().filter(|it| **it == 1 + cpu).count();
            assert_eq!((on(1), on(2), &first[4..]), (2, 2, &[0, 0, 0][..]), "{variant}: {first:?}");
            assert_eq!(executor.waiting(), 3, "{variant}");
            // One task of each CPU finishes: the first two waiting tasks begin, in order.
            let [one, two] = [1, 2].map(|cpu| first.iter().position(|it| *it == 1 + cpu).unwrap());
            open(one);
            assert_eq!((seen()[4], &seen()[5..]), (2, &[0, 0][..]), "{variant}: {:?}", seen());
            open(two);
            assert_eq!(
                seen()[5..].iter().filter(|it| **it == 3).count(),
                1,
                "{variant}: {:?}",
                seen()
            );
            (0..7).for_each(open);
            assert!(seen().iter().all(|it| *it != 0) && seen()[6] == 3, "{variant}: {:?}", seen());
            // A task of higher priority still precedes them, and they do not take turns with it.
            assert_eq!(executor.waiting(), 0);
        });
        run.unwrap_or_else(|error| panic!("{variant}: {error}"));
    }
}

/// Timers that are due when the executor shuts down: each task runs or is dropped. (A task that is begun
/// after the threads have exited requires a timer thread that is preempted at that moment; no seed produced
/// it.)
#[test]
fn a_timer_that_is_due_at_the_end_runs_or_is_dropped() {
    let machine = Machine::named("xeon-hcc-2s").unwrap();
    let topology = machine.topology().clone();
    let mut random = fastrand::Rng::with_seed(5);
    let (mut ran, rounds, timers) = (0, 12, 30);
    for round in 0..rounds {
        let early = Duration::from_nanos(random.u64(..60_000));
        let topology = topology.clone();
        let run = Simulation::new(&machine).seed(round).run(move || {
            let priority = Priority::new(50).unwrap();
            let executor = Executor::<Sim>::builder(&topology)
                .cpus([1, 2].map(CpuId).into_iter().collect())
                .priorities([priority])
                .watchdog_period(None)
                .build()
                .unwrap();
            let delay = Duration::from_micros(500);
            let after = |delay| executor.after(delay, priority, || ()).unwrap().1;
            after(Duration::ZERO).join().unwrap();
            // All of them are taken out together, and then begun one by one.
            let handles: Vec<_> = (0..timers).map(|_| after(delay)).collect();
            Sim::sleep(delay + Duration::from_micros(20) - early);
            drop(executor);
            handles.into_iter().filter_map(|handle| handle.join().ok()).count()
        });
        ran += run.unwrap_or_else(|error| panic!("round {round}: {error}")).value;
    }
    let all = rounds as usize * timers;
    assert!(0 < ran && ran < all, "{ran} of {all} ran: the shutdown missed the timers");
}

/// The index alone, without the executor's locks, which also flush stores. A CPU lowers its level and checks
/// whether a task waits, while a thread publishes a waiting task and searches for a CPU. Fails without the
/// fence after a byte.
#[test]
fn a_store_that_is_held_back_lets_no_cpu_and_task_miss_each_other() {
    let machine = Machine::named("xeon-hcc-2s").unwrap();
    let topology = machine.topology().clone();
    let [priority, low] = [50, 20].map(|level| Priority::new(level).unwrap().level());
    for variant in Rung::ALL {
        let run = Simulation::new(&machine).seed(11).faults(HELD).run(|| {
            let mut random = fastrand::Rng::with_seed(11);
            let cpus: CpuSet = [1, 130].map(CpuId).into_iter().collect();
            let (index, mut writers) =
                PriorityIndex::<Sim>::new(variant, &topology, &cpus).unwrap();
            let mask = index.mask(&cpus).unwrap();
            writers.iter_mut().for_each(|writer| writer.set(priority));
            let mut writer = writers.remove(0);
            for round in 0..300 {
                writer.set(priority);
                let waits = Arc::new(<Sim as Platform>::AtomicU32::new(0));
                let moment = Sim::now() + Duration::from_micros(100);
                let distance = Duration::from_nanos(random.u64(..2_000));
                let until = move |at: coreshard_platform::Time| Sim::compute(at - Sim::now());
                let on = |cpu| coreshard_platform::ThreadSpec {
                    affinity: Some([cpu].into_iter().collect()),
                    ..Default::default()
                };
                let told = Arc::new(Lock::<Sim, _>::new((None, false)));
                let (theirs, tell) = (Arc::clone(&waits), Arc::clone(&told));
                let body = move || {
                    until(moment + distance);
                    writer.set(low);
                    let seen = theirs.load(SeqCst) == 1;
                    *tell.lock() = (Some(writer), seen);
                };
                let comes_down = Sim::spawn(on(CpuId(1)), Box::new(body)).unwrap();
                let (theirs, index) = (Arc::clone(&waits), Arc::clone(&index));
                let found = Arc::new(<Sim as Platform>::AtomicU32::new(0));
                let tell = Arc::clone(&found);
                let body = move || {
                    until(moment + Duration::from_nanos(700));
                    theirs.store(1, SeqCst);
                    Sim::fence();
                    let is_found = index.find(priority, &mask, CpuId(130)).is_some();
                    tell.store(u32::from(is_found), Release);
                };
                let searches = Sim::spawn(on(CpuId(130)), Box::new(body)).unwrap();
                [comes_down, searches].into_iter().for_each(coreshard_platform::ThreadHandle::join);
                let (back, seen) = std::mem::take(&mut *told.lock());
                assert!(seen || found.load(Acquire) == 1, "{variant}, round {round}");
                writer = back.unwrap();
            }
        });
        run.unwrap_or_else(|error| panic!("{variant}: {error}"));
    }
}
