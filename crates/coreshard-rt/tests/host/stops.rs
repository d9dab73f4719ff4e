//! Shutdown of an executor: for every thread that may drop the last handle, with and without the ability to
//! start threads, and with and without waiting tasks. Each case runs in its own process, since it may hang or
//! abort.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::support::{status, usable};
use coreshard_platform::Host;
use coreshard_rt::{CpuMask, Executor, Overrun, Periodic, Priority};
use testing::{NEVER, within};

const CASE: &str = "CORESHARD_RT_STOP";
const PENDING: u64 = 40;
const MS: Duration = Duration::from_millis(1);

/// The thread that drops the last handle.
const DROPPERS: [&str; 12] = [
    "outside",
    "task",
    "result",
    "payload",
    "timer",
    "cancelled-timer",
    "periodic-body",
    "periodic-capture",
    "overrun-hook",
    "overrun-capture",
    "thread-local-of-task",
    "thread-local-of-periodic",
];

type Handle = Arc<Executor<Host>>;

thread_local! {
    static KEPT: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

fn priority(priority: u8) -> Priority {
    Priority::new(priority).unwrap()
}

/// Prevents this process from starting threads. (The limit does not bind root, so the process changes its
/// user.)
fn without_threads() {
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls; the limit is live.
    unsafe {
        if libc::getuid() == 0 {
            assert_eq!(libc::setresuid(65_534, 65_534, 65_534), 0);
        }
        assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit), 0);
    }
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "a thread could be started");
}

fn every(period: Duration, overrun: Overrun) -> Periodic {
    Periodic { overrun, ..Periodic::every(period, priority(30)) }
}

/// Runs one case. Returns when the executor has ended completely.
fn run_case(dropper: &str, threads: bool, pending: bool) {
    let before = status("Threads:");
    let (machine, cpus) = usable();
    let builder = Executor::<Host>::builder(&machine).cpus(cpus);
    let builder = builder.priorities([priority(20), priority(30)]);
    let executor = Arc::new(builder.build_degraded().unwrap().0);
    executor.after(Duration::ZERO, priority(20), || ()).unwrap().1.join().unwrap();
    let opened = Arc::new(AtomicBool::new(false));
    let wait = wait_for(&opened);
    let mut last = Some(Arc::clone(&executor));
    let mut stops = None;
    let mut cancels = None;
    match dropper {
        "outside" => drop(last),
        "task" => {
            let drops = move || {
                wait();
                drop(last);
            };
            drop(executor.spawn(priority(20), drops).unwrap());
        }
        "result" => {
            let returns = move || {
                wait();
                last
            };
            drop(executor.spawn(priority(20), returns).unwrap());
        }
        "payload" => {
            let throws = move || {
                wait();
                std::panic::panic_any(Mutex::new(last))
            };
            drop(executor.spawn::<()>(priority(20), throws).unwrap());
        }
        "timer" => {
            let drops = move || {
                wait();
                drop(last);
            };
            drop(executor.after(MS, priority(20), drops).unwrap());
        }
        "cancelled-timer" => {
            let timer = executor.after(NEVER * 10, priority(20), move || drop(last)).unwrap();
            cancels = Some(timer.0);
        }
        "periodic-body" => {
            let drops = move |_: &_| {
                wait();
                drop(last.take());
            };
            drop(executor.periodic(every(MS, Overrun::Skip), drops).unwrap());
        }
        "periodic-capture" => {
            let holds = move |_: &_| assert!(last.is_some());
            stops = Some(executor.periodic(every(MS, Overrun::Skip), holds).unwrap());
        }
        "overrun-hook" | "overrun-capture" => {
            let drops = dropper == "overrun-hook";
            let hook = move |_: &_| {
                if drops {
                    drop(last.take());
                }
                assert_eq!(last.is_some(), !drops);
            };
            let too_long = move |_: &_| {
                wait();
                std::thread::sleep(MS * 2);
            };
            let task = every(MS, Overrun::Call(Box::new(hook)));
            let periodic = executor.periodic(task, too_long).unwrap();
            stops = Some(periodic).filter(|_| !drops);
        }
        "thread-local-of-task" => {
            let (say, hear) = mpsc::channel();
            let keeps = move || {
                KEPT.set(last);
                say.send(()).unwrap();
            };
            drop(executor.spawn(priority(20), keeps).unwrap());
            hear.recv().unwrap();
            // Another task drops it; otherwise it would keep its executor forever.
            let all: Vec<_> = executor.cpus().iter().collect();
            for cpu in all {
                let wait = wait.clone();
                let drops = move || {
                    wait();
                    KEPT.take();
                };
                let one = [cpu].into_iter().collect();
                drop(executor.spawn_on(priority(20), &one, None, drops).unwrap());
            }
        }
        "thread-local-of-periodic" => {
            let (say, hear) = mpsc::channel();
            let keeps = move |_: &_| {
                if let Some(last) = last.take() {
                    KEPT.set(Some(last));
                    say.send(()).unwrap();
                }
            };
            stops = Some(executor.periodic(every(MS, Overrun::Skip), keeps).unwrap());
            hear.recv().unwrap();
        }
        other => panic!("unknown case {other}"),
    }
    let ran = Arc::new(AtomicU64::new(0));
    let all: Vec<_> = executor.cpus().iter().collect();
    for number in 0..if pending { PENDING } else { 0 } {
        let (ran, wait) = (Arc::clone(&ran), wait_for(&opened));
        let one = [all[number as usize % all.len()]].into_iter().collect();
        let task = move || {
            wait();
            ran.fetch_add(1, SeqCst);
        };
        drop(executor.spawn_on(priority(30), &one, None, task).unwrap());
    }
    if !threads {
        without_threads();
    }
    opened.store(true, SeqCst);
    drop(executor);
    if let Some(timer) = cancels {
        assert!(timer.cancel());
    }
    if let Some(periodic) = stops {
        periodic.stop();
    }
    while status("Threads:") > before {
        std::thread::sleep(MS);
    }
    assert_eq!(ran.load(SeqCst), if pending { PENDING } else { 0 }, "every accepted task has run");
}

fn wait_for(opened: &Arc<AtomicBool>) -> impl Fn() + Clone + Send + use<> {
    let gate = Arc::clone(opened);
    move || {
        while !gate.load(SeqCst) {
            std::thread::sleep(MS);
        }
    }
}

/// The child's side. Does nothing in other processes.
#[test]
fn a_case() {
    let Ok(case) = std::env::var(CASE) else { return };
    let [dropper, threads, pending] = case.split('/').collect::<Vec<_>>()[..] else {
        panic!("unknown case {case}")
    };
    run_case(dropper, threads == "threads", pending == "pending");
}

fn start(case: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "stops::a_case", "--nocapture", "--test-threads=1"]).env(CASE, case);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns how a case's process failed, if it did.
fn trouble(mut child: Child, since: Instant) -> Option<String> {
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let said = child.wait_with_output().unwrap().stderr;
            return (!status.success()).then(|| match status.signal() {
                Some(signal) => format!("killed by signal {signal}"),
                None => format!("failed: {}", String::from_utf8_lossy(&said)),
            });
        }
        if since.elapsed() > NEVER {
            child.kill().unwrap();
            child.wait().unwrap();
            return Some("hung".to_owned());
        }
        std::thread::sleep(MS);
    }
}

#[test]
fn an_executor_ends_whoever_drops_it() {
    let mut cases = Vec::new();
    for dropper in DROPPERS {
        for threads in ["threads", "no-threads"] {
            for pending in ["pending", "nothing"] {
                cases.push(format!("{dropper}/{threads}/{pending}"));
            }
        }
    }
    let mut troubles = Vec::new();
    for batch in cases.chunks(12) {
        let since = Instant::now();
        let children: Vec<_> = batch.iter().map(|case| (case, start(case))).collect();
        for (case, child) in children {
            troubles.extend(trouble(child, since).map(|how| format!("{case} {how}")));
        }
    }
    assert!(troubles.is_empty(), "{} of {}: {troubles:#?}", troubles.len(), cases.len());
}

#[test]
fn an_empty_mask_is_refused_and_the_executor_ends() {
    let error = within(NEVER, || {
        let (machine, cpus) = usable();
        let (executor, _) =
            Executor::<Host>::builder(&machine).cpus(cpus).build_degraded().unwrap();
        executor.spawn_in(priority(20), CpuMask::EMPTY, None, || ()).unwrap_err().to_string()
    });
    assert!(error.contains("empty"), "{error}");
}

/// A mask of a larger index may have positions that this one lacks.
#[test]
fn a_mask_of_another_index_is_refused_and_the_executor_ends() {
    let error = within(NEVER, || {
        let (machine, cpus) = usable();
        let larger =
            coreshard_topology::Topology::from_synthetic("pack:1 l3:1 core:200 pu:1").unwrap();
        let variant = coreshard_rt::Rung::PerLlc;
        let (index, _seats) =
            coreshard_rt::PriorityIndex::<Host>::new(variant, &larger, larger.online()).unwrap();
        let last = larger.online().last().into_iter().collect();
        let mask = index.mask(&last).unwrap();
        let (executor, _) =
            Executor::<Host>::builder(&machine).cpus(cpus).build_degraded().unwrap();
        executor.spawn_in(priority(20), mask, None, || ()).unwrap_err().to_string()
    });
    assert!(error.contains("another index"), "{error}");
}

/// `stop` would wait for the activation that calls it, so it does not wait.
#[test]
fn a_periodic_task_may_stop_itself() {
    within(NEVER, || {
        let (machine, cpus) = usable();
        let (executor, _) =
            Executor::<Host>::builder(&machine).cpus(cpus).build_degraded().unwrap();
        let (give, take) = mpsc::channel::<coreshard_rt::PeriodicHandle<Host>>();
        let (say, hear) = mpsc::channel();
        let body = move |_: &_| {
            let itself = take.recv().unwrap();
            say.send(itself.stop().activations).unwrap();
        };
        give.send(executor.periodic(every(MS, Overrun::Skip), body).unwrap()).unwrap();
        assert_eq!(hear.recv().unwrap(), 0, "the current activation has not finished");
        assert!(hear.recv().is_err(), "it was the last activation");
    });
}
