//! The executor on this machine: the same program works with and without privileges.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::support::usable;
use coreshard_platform::{Host, Platform, Policy, RealTime};
use coreshard_rt::{Degradation, Executor, Incident, Overrun, Periodic, Priority, Urgency};
use coreshard_topology::{CpuId, CpuSet};
use testing::{Lack, NEVER, skip, within};

fn priority(priority: u8) -> Priority {
    Priority::new(priority).unwrap()
}

fn executor() -> (Executor<Host>, Vec<Degradation>) {
    let (machine, cpus) = usable();
    Executor::<Host>::builder(&machine).cpus(cpus).build_degraded().unwrap()
}

/// Runs `body` on a thread that may have no priority and may lock little memory.
fn unprivileged<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    let dropped = move || {
        let no_cap = |capability| caps::drop(None, caps::CapSet::Effective, capability);
        no_cap(caps::Capability::CAP_SYS_NICE).unwrap();
        no_cap(caps::Capability::CAP_IPC_LOCK).unwrap();
        body()
    };
    // The thread has the test's name, for its messages.
    within(NEVER, dropped)
}

/// Checks that hold whatever the machine grants.
fn runs_a_program(executor: &Executor<Host>) {
    let sum = Arc::new(AtomicU64::new(0));
    let handles: Vec<_> = (0..200_u64)
        .map(|number| {
            let sum = Arc::clone(&sum);
            let level = [10, 50, 90][number as usize % 3];
            executor.spawn(priority(level), move || sum.fetch_add(number, SeqCst)).unwrap()
        })
        .collect();
    handles.into_iter().for_each(|handle| assert!(handle.join().is_ok()));
    assert_eq!(sum.load(SeqCst), 19_900);
    assert_eq!(executor.waiting(), 0);

    for cpu in executor.cpus() {
        let one: CpuSet = [cpu].into_iter().collect();
        let where_run = executor.spawn_on(priority(60), &one, None, Host::current_cpu).unwrap();
        assert_eq!(where_run.join().unwrap(), cpu);
    }
    let panics = executor.spawn(priority(5), || panic!("on purpose")).unwrap();
    let panic: Result<(), _> = panics.join();
    assert_eq!(panic.unwrap_err().to_string(), "the task panicked: on purpose");
    assert_eq!(executor.spawn(priority(5), || 1).unwrap().join().unwrap(), 1, "its thread lives");
}

#[test]
fn tasks_run_once_where_they_may_and_panics_reach_their_handles() {
    let (executor, degradations) = executor();
    runs_a_program(&executor);
    assert_eq!(
        executor.has_priorities(),
        !degradations.iter().any(|it| matches!(it, Degradation::Priorities(_)))
    );
    let found = executor.spawn(priority(37), Host::policy).unwrap().join().unwrap();
    let wanted = if executor.has_priorities() { Policy::Fifo(37) } else { Policy::Normal };
    assert_eq!(found, wanted);
}

#[test]
fn equals_take_turns_where_that_is_asked_for() {
    let (machine, cpus) = usable();
    let builder = Executor::<Host>::builder(&machine).cpus(cpus.clone());
    let (executor, _) = builder.round_robin(2.try_into().unwrap()).build_degraded().unwrap();
    let one: CpuSet = cpus.iter().take(1).collect();
    // Each spins until the other has run, on one CPU: without turns, neither ever finishes.
    let met = Arc::new(AtomicU64::new(0));
    let give_up = Host::now() + NEVER;
    let meets = || {
        let met = Arc::clone(&met);
        let spins = move || {
            met.fetch_add(1, SeqCst);
            while met.load(SeqCst) < 2 && Host::now() < give_up {
                std::hint::spin_loop();
            }
            (met.load(SeqCst), Host::policy())
        };
        executor.spawn_on(priority(37), &one, None, spins).unwrap()
    };
    let wanted = if executor.has_priorities() { Policy::RoundRobin(37) } else { Policy::Normal };
    for handle in [meets(), meets()] {
        assert_eq!(handle.join().unwrap(), (2, wanted));
    }
    let (say, hear) = mpsc::channel();
    let every = Periodic::every(Duration::from_millis(1), priority(37));
    let periodic = executor.periodic(every, move |_| say.send(Host::policy()).unwrap()).unwrap();
    assert_eq!(hear.recv().unwrap(), wanted);
    periodic.stop();
    runs_a_program(&executor);
}

#[test]
fn without_privilege_the_same_program_runs_and_says_so() {
    unprivileged(|| {
        let (machine, cpus) = usable();
        let builder = || {
            let builder = Executor::<Host>::builder(&machine).cpus(cpus.clone());
            builder.priorities([priority(80)])
        };
        if Host::real_time_limits().priority >= 80 {
            return skip(Lack::Rlimit, "RLIMIT_RTPRIO grants what the capability would");
        }
        let limit = Host::real_time_limits().priority;
        let error = builder().build().unwrap_err().to_string();
        let needed = format!("RLIMIT_RTPRIO is {limit}, and 80 or CAP_SYS_NICE is needed");
        assert!(error.contains(&needed), "{error}");
        let (executor, degradations) = builder().build_degraded().unwrap();
        assert!(!executor.has_priorities());
        assert!(degradations[0].to_string().starts_with("degraded: tasks run at normal priority"));
        runs_a_program(&executor);
    });
}

#[test]
fn memory_that_cannot_be_locked_is_an_error_with_the_limit() {
    unprivileged(|| {
        let Some(limit) = Host::real_time_limits().locked_bytes else {
            return skip(Lack::Rlimit, "all memory may be locked here");
        };
        let (machine, cpus) = usable();
        let executor = Executor::<Host>::builder(&machine).cpus(cpus).lock_memory(true);
        let (_executor, degradations) = executor.build_degraded().unwrap();
        let of_memory = degradations.iter().find(|it| matches!(it, Degradation::MemoryLock(_)));
        // The memory of a process below the limit is locked nevertheless.
        if let Some(degradation) = of_memory {
            let text = degradation.to_string();
            assert!(text.contains(&format!("RLIMIT_MEMLOCK is {limit} bytes, and ")), "{text}");
            let (_, needed) = text.split_once(" bytes, and ").unwrap();
            let (needed, rest) = needed.split_once(' ').unwrap();
            assert!(needed.parse::<u64>().unwrap() > limit, "{text}");
            assert_eq!(rest, "bytes or CAP_IPC_LOCK are needed");
        }
    });
}

#[test]
fn a_more_important_task_runs_before_those_that_wait() {
    let (executor, _) = executor();
    let one: CpuSet = executor.cpus().iter().take(1).collect();
    let (go, gate) = mpsc::channel::<()>();
    let blocker = executor.spawn_on(priority(90), &one, None, move || gate.recv().unwrap_err());
    let blocker = blocker.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let waiting: Vec<_> = [20, 40, 30, 40, 10]
        .into_iter()
        .enumerate()
        .map(|(number, level)| {
            let order = Arc::clone(&order);
            let run = move || order.lock().unwrap().push((level, number));
            executor.spawn_on(priority(level), &one, None, run).unwrap()
        })
        .collect();
    assert_eq!(executor.waiting(), 5);
    drop(go);
    blocker.join().unwrap();
    waiting.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(*order.lock().unwrap(), [(40, 1), (40, 3), (30, 2), (20, 0), (10, 4)]);
}

#[test]
fn a_timer_runs_its_task_in_time_or_not_at_all() {
    let (executor, _) = executor();
    let asked = Host::now();
    let delay = Duration::from_millis(3);
    let (_, late) = executor.after(Duration::from_millis(5), priority(30), Host::now).unwrap();
    let (_, early) = executor.after(delay, priority(30), Host::now).unwrap();
    let (timer, cancelled) = executor.after(Duration::from_secs(600), priority(30), || ()).unwrap();
    assert!(early.join().unwrap() >= asked + delay);
    late.join().unwrap();
    assert!(timer.cancel());
    let error = cancelled.join().unwrap_err().to_string();
    assert_eq!(error, "the task was dropped before it began");
}

#[test]
fn a_periodic_task_keeps_its_grid() {
    let (executor, _) = executor();
    let (say, hear) = mpsc::channel();
    let period = Duration::from_millis(2);
    let task = Periodic { phase: period, ..Periodic::every(period, priority(50)) };
    let handle = executor.periodic(task, move |activation| say.send(*activation).unwrap()).unwrap();
    let seen: Vec<_> = hear.iter().take(5).collect();
    let stats = handle.stop();
    assert!(stats.activations >= 5 && stats.panics == 0, "{stats:?}");
    for pair in seen.windows(2) {
        let steps = pair[1].number - pair[0].number;
        assert_eq!((pair[1].wanted - pair[0].wanted).as_nanos(), 2_000_000 * u128::from(steps));
        assert!(pair[1].woke >= pair[1].wanted && pair[1].deadline == pair[1].wanted + period);
    }
}

#[test]
fn an_overrun_is_skipped_made_up_for_or_told() {
    let (executor, _) = executor();
    let period = Duration::from_millis(1);
    let run = |overrun: Overrun| {
        let (say, hear) = mpsc::channel();
        let task = Periodic { overrun, ..Periodic::every(period, priority(50)) };
        let body = move |activation: &coreshard_rt::Activation| {
            if activation.number == 0 {
                Host::sleep(period * 4);
            }
            let _ = say.send(*activation);
        };
        let handle = executor.periodic(task, body).unwrap();
        let seen: Vec<_> = hear.iter().take(2).collect();
        (seen, handle.stop())
    };
    let (seen, stats) = run(Overrun::Skip);
    assert!(seen[1].number >= 4 && stats.skipped >= 3 && stats.late >= 1, "{seen:?} {stats:?}");
    let (seen, stats) = run(Overrun::CatchUp);
    assert_eq!((seen[1].number, stats.skipped), (1, 0));
    let (say, hear) = mpsc::channel();
    let (seen, _) =
        run(Overrun::Call(Box::new(move |activation| say.send(activation.number).unwrap())));
    assert!(seen[1].number >= 4);
    assert_eq!(hear.recv().unwrap(), 0);
}

#[test]
fn bad_input_is_refused_with_its_numbers() {
    let (executor, _) = executor();
    let ms = Duration::from_millis;
    let every = |period| Periodic::every(period, priority(50));
    let refused = |task| executor.periodic(task, |_| ()).unwrap_err().to_string();
    assert!(refused(every(Duration::ZERO)).starts_with("invalid period 0"));
    let error = refused(Periodic { deadline: Some(ms(11)), ..every(ms(10)) });
    assert!(error.contains("11ms") && error.contains("10ms"), "{error}");
    let error = refused(Periodic { deadline: Some(ms(5)), budget: Some(ms(6)), ..every(ms(10)) });
    assert!(error.contains("6ms") && error.contains("5ms"), "{error}");
    let absent: CpuSet = [CpuId(4_000)].into_iter().collect();
    let error = refused(Periodic { cpus: Some(absent.clone()), ..every(ms(10)) });
    assert!(error.contains("4000") && error.contains(&executor.cpus().to_string()), "{error}");
    let error = executor.spawn_on(priority(1), &absent, None, || ()).unwrap_err().to_string();
    assert!(error.contains("4000"), "{error}");
    let error = refused(Periodic { urgency: Urgency::Deadline, ..every(ms(10)) });
    assert!(error.contains("needs a budget"), "{error}");
    let one: CpuSet = executor.cpus().iter().take(1).collect();
    let hungry = |budget| Periodic {
        urgency: Urgency::Deadline,
        budget: Some(budget),
        cpus: Some(one.clone()),
        ..every(ms(100))
    };
    let first = executor.periodic(hungry(ms(60)), |_| ()).unwrap();
    let error = refused(hungry(ms(50)));
    assert!(error.contains("1.100") && error.contains("at most 0.950"), "{error}");
    first.stop();
    executor.periodic(hungry(ms(50)), |_| ()).unwrap().stop();
    for wrong in [0, 100] {
        let error = Priority::new(wrong).unwrap_err().to_string();
        assert!(error.contains(&wrong.to_string()) && error.contains("1 to 99"), "{error}");
    }
}

#[test]
fn a_runaway_is_demoted_and_reported_and_its_cpu_goes_on() {
    let (machine, cpus) = usable();
    let builder = Executor::<Host>::builder(&machine).cpus(cpus.clone());
    let (executor, _) =
        builder.watchdog_period(Some(Duration::from_millis(5))).build_degraded().unwrap();
    let one: CpuSet = cpus.iter().take(1).collect();
    let stop = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&stop);
    let runs_away = move || {
        while theirs.load(SeqCst) == 0 {
            std::hint::spin_loop();
        }
        Host::policy()
    };
    let budget = Duration::from_millis(10);
    let runaway = executor.spawn_on(priority(70), &one, Some(budget), runs_away).unwrap();
    // It waits for the runaway's CPU, and gets it although the runaway never finishes.
    executor.spawn_on(priority(70), &one, None, || ()).unwrap().join().unwrap();
    let incidents = executor.take_incidents();
    let [Incident::Demoted { cpu, priority: 70, budget: of, used }] = incidents[..] else {
        panic!("{incidents:?}")
    };
    assert_eq!((one.contains(cpu), of), (true, budget));
    assert!(used > budget);
    stop.store(1, SeqCst);
    assert_eq!(runaway.join().unwrap(), Policy::Normal);
}

#[test]
fn what_was_accepted_runs_before_the_end() {
    let count = Arc::new(AtomicU64::new(0));
    {
        let (executor, _) = executor();
        for _ in 0..50 {
            let count = Arc::clone(&count);
            executor.spawn(priority(20), move || count.fetch_add(1, SeqCst)).unwrap();
        }
    }
    assert_eq!(count.load(SeqCst), 50);
}

/// Occupies a CPU for three seconds, so it runs only with `CORESHARD_RT_THROTTLE=1`. The kernel's behaviour
/// depends on whether normal threads want the CPU, so the result is meaningful only under other load.
#[test]
fn a_task_that_the_kernel_throttles_is_reported() {
    if std::env::var_os("CORESHARD_RT_THROTTLE").is_none() {
        return skip(Lack::RtThrottle, "it takes a CPU for three seconds");
    }
    let (executor, _) = executor();
    if !executor.has_priorities() || Host::real_time_limits().throttle.is_none() {
        return skip(Lack::Rt, "no priorities, or no throttling");
    }
    let last: CpuSet = executor.cpus().last().into_iter().collect();
    let until = Host::now() + Duration::from_secs(3);
    let spins = executor.spawn_on(priority(40), &last, None, move || while Host::now() < until {});
    spins.unwrap().join().unwrap();
    let incidents = executor.take_incidents();
    let throttled = |it: &Incident| matches!(it, Incident::Throttled { priority: 40, .. });
    assert!(incidents.iter().any(throttled), "{incidents:?}");
    let text = incidents[0].to_string();
    assert!(text.contains("sched_rt_runtime_us"), "{text}");
}

/// Options that would take unlimited threads or CPU time are rejected, with the accepted values.
#[test]
fn numbers_without_an_end_are_refused() {
    let (machine, cpus) = usable();
    let builder = || Executor::<Host>::builder(&machine).cpus(cpus.clone());
    let refused = |builder: coreshard_rt::ExecutorBuilder<Host>| {
        builder.build_degraded().map(drop).unwrap_err().to_string()
    };
    let error = refused(builder().round_robin(std::num::NonZero::<usize>::MAX));
    assert!(error.contains(&usize::MAX.to_string()) && error.contains("256"), "{error}");
    for period in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(99)] {
        let error = refused(builder().watchdog_period(Some(period)));
        assert!(error.contains(&format!("{period:?}")) && error.contains("100µs"), "{error}");
    }
}
