//! A worker's attributes depend on its queue and on the process, not on the thread that starts it: neither on the thread that
//! builds the queue, nor on a worker that starts its replacement.
#![allow(unsafe_code)]

use std::sync::{Arc, Barrier};
use std::{fs, mem, ptr, thread};

use coreshard_platform::{Host, affinity};
use coreshard_topology::{CpuSet, Scope, Topology};
use coreshard_workqueue::{Runtime, Workqueue, blocking};
use testing::wait_until;

/// The attributes that a thread's children inherit.
#[derive(Clone, Debug, PartialEq)]
struct Traits {
    nice: i32,
    policy: i32,
    priority: i32,
    blocked: u64,
    timer_slack: String,
    cpus: String,
}

/// Returns the traits of a thread of this process; `task` is its id.
fn traits_of(task: i32) -> Traits {
    let status = status_of(task);
    let field = |name| field_of(&status, name);
    // SAFETY: plain integers, and a live structure of integers.
    let (nice, policy, priority) = unsafe {
        let mut param: libc::sched_param = mem::zeroed();
        assert_eq!(libc::sched_getparam(task, &raw mut param), 0);
        let nice = 20 - libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, task) as i32;
        (nice, libc::sched_getscheduler(task), param.sched_priority)
    };
    let slack = fs::read_to_string(format!("/proc/{task}/timerslack_ns"));
    Traits {
        nice,
        policy,
        priority,
        blocked: u64::from_str_radix(field("SigBlk:"), 16).unwrap(),
        timer_slack: slack.map_or_else(|_| "(not told)".into(), |text| text.trim().to_owned()),
        cpus: field("Cpus_allowed_list:").to_owned(),
    }
}

/// Skips moments when the C library blocks all signals, including its own two: it does so while it creates a thread.
fn status_of(task: i32) -> String {
    loop {
        let status = fs::read_to_string(format!("/proc/self/task/{task}/status")).unwrap();
        if u64::from_str_radix(field_of(&status, "SigBlk:"), 16).unwrap() & (0b11 << 31) == 0 {
            return status;
        }
        thread::yield_now();
    }
}

fn field_of<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim()
}

fn this_task() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

fn main_task() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::getpid() }
}

/// Makes this thread as different from the process as possible. Returns false if it could not change back.
fn be_strange() -> bool {
    // SAFETY: plain integers, and live structures.
    unsafe {
        let one: CpuSet = affinity().unwrap().iter().take(1).collect();
        coreshard_platform::set_affinity(&one).unwrap();
        let mut blocked: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut blocked);
        libc::sigaddset(&raw mut blocked, libc::SIGUSR1);
        libc::sigaddset(&raw mut blocked, libc::SIGTERM);
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, ptr::null_mut()), 0);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_234_567_u64);
        let before = libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0);
        let param: libc::sched_param = mem::zeroed();
        let nicer = |nice| libc::setpriority(libc::PRIO_PROCESS, 0, nice) == 0;
        let goes_back = nicer(7) && nicer(20 - before as i32) && nicer(7);
        goes_back && libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const param) == 0
    }
}

fn build(nice: Option<i8>) -> Workqueue<Host> {
    let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
    let cpus = coreshard_platform::affinity().unwrap();
    let runtime = Runtime::builder(topology).laid_over(cpus).build().unwrap();
    let builder = runtime.workqueue().scope(Scope::System);
    match nice {
        Some(nice) => builder.nice(nice),
        None => builder,
    }
    .build()
    .unwrap()
}

/// Returns the traits and names of this many workers of the queue. Most were started by other workers.
fn workers_traits(queue: &Workqueue<Host>, workers: usize) -> Vec<(Traits, String)> {
    let all_here = Arc::new(Barrier::new(workers));
    let report = |_| {
        let all_here = Arc::clone(&all_here);
        let item = move || {
            blocking::<Host, _>(|| all_here.wait());
            let name = thread::current().name().unwrap().to_owned();
            (traits_of(this_task()), name)
        };
        queue.submit(item).unwrap()
    };
    let handles: Vec<_> = (0..workers).map(report).collect();
    handles.into_iter().map(|handle| handle.join().unwrap()).collect()
}

#[test]
fn workers_have_nothing_of_the_thread_that_builds_their_queue() {
    testing::own_process!();
    let strange = thread::spawn(move || {
        let goes_back = be_strange();
        // The queue's CPUs are the ones that the runtime may use: here the thread's own.
        (build(None), traits_of(this_task()), goes_back)
    });
    let (queue, builders, goes_back) = strange.join().unwrap();
    let mut wanted = traits_of(main_task());
    assert_ne!(builders.blocked, wanted.blocked);
    wanted.cpus = builders.cpus;
    if !goes_back {
        // Without the privilege, a thread cannot raise its priority.
        (wanted.nice, wanted.policy) = (builders.nice, builders.policy);
    }
    for (traits, name) in workers_traits(&queue, 6) {
        assert_eq!(traits, wanted, "{name}");
        assert!(name.starts_with("cs-sys0:"), "{name}");
    }
}

#[test]
fn workers_that_are_asked_to_be_nice_start_others_as_they_are_asked_to() {
    testing::own_process!();
    // Needs no privilege.
    let queue = build(Some(19));
    let wanted = traits_of(main_task());
    for (traits, name) in workers_traits(&queue, 6) {
        assert_eq!(traits.nice, 19, "{name}");
        assert_eq!((traits.policy, traits.blocked), (wanted.policy, wanted.blocked), "{name}");
    }
}

/// The same holds for the threads that serve all queues.
#[test]
fn the_threads_of_a_runtime_have_nothing_of_the_thread_that_starts_them() {
    testing::own_process!();
    let strange = thread::spawn(move || {
        let goes_back = be_strange();
        let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
        let cpus = coreshard_platform::affinity().unwrap();
        let runtime = Runtime::<Host>::builder(topology).laid_over(cpus).build().unwrap();
        let sleep = runtime.sleep(std::time::Duration::from_secs(3_600)).unwrap();
        (runtime, sleep, goes_back)
    });
    let (_runtime, _sleep, goes_back) = strange.join().unwrap();
    let wanted = traits_of(main_task());
    let keepers = || {
        let keeper = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
            let task = task.unwrap();
            let name = fs::read_to_string(task.path().join("comm")).ok()?;
            let id = task.file_name().to_str()?.parse().ok()?;
            (name.trim() == "cs-timekeeper").then(|| traits_of(id))
        });
        keeper.collect::<Vec<_>>()
    };
    // The runtime does not wait for its start.
    wait_until("the timekeeper runs, with its attributes", || {
        let keepers = keepers();
        let has = |keeper: &Traits| keeper.blocked == wanted.blocked && keeper.cpus == wanted.cpus;
        !keepers.is_empty()
            && keepers.iter().all(|keeper| has(keeper) && (!goes_back || *keeper == wanted))
    });
    let keepers = keepers();
    for keeper in keepers {
        assert_eq!((&keeper.cpus, keeper.blocked), (&wanted.cpus, wanted.blocked));
        if goes_back {
            assert_eq!(keeper, wanted);
        }
    }
}
