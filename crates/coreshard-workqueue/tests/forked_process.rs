//! A process that is forked under load: typed errors in the child, and no hang; nothing changes for
//! the parent.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use coreshard_platform::Host;
use coreshard_topology::{Topology, Usable};
use coreshard_workqueue::{Forked, RefusedReason, Runtime, Work, WorkErrorReason, Workqueue};

/// Longer than any test needs; only a failure takes so long.
const NEVER: Duration = Duration::from_secs(60);

fn runtime() -> Runtime<Host> {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap();
    Runtime::builder(topology).usable(usable.cpus().clone()).build().unwrap()
}

/// Ends a child in which all went well. Not an exit: a child has no threads, so what theirs held is
/// lost to it, of which a leak checker would tell.
const WELL: libc::c_int = libc::SIGKILL;

/// Forks, and returns how the child ended that ran `child`.
fn forked(child: impl FnOnce() -> Result<(), &'static str>) -> Result<(), String> {
    // SAFETY: the child calls `child` and ends; what it may touch is what this test is about.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        let (signal, text) = match outcome {
            Ok(Ok(())) => (WELL, ""),
            Ok(Err(text)) => (libc::SIGABRT, text),
            Err(_) => (libc::SIGABRT, "the child panicked"),
        };
        // SAFETY: writes a live text to stderr, and ends the child without its atexit handlers.
        unsafe {
            libc::write(2, text.as_ptr().cast(), text.len());
            libc::raise(signal);
            libc::_exit(1);
        }
    }
    let started = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: `status` is live, and the child is this process's own.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
            0 if started.elapsed() < NEVER => std::thread::sleep(Duration::from_millis(1)),
            0 => {
                // SAFETY: the child's id, which was not waited for yet.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                return Err("the child hangs".to_owned());
            }
            _ if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == WELL => return Ok(()),
            _ => return Err(format!("the child ended with status {status:#x}")),
        }
    }
}

/// Each promise by its name, in the child.
fn in_the_child(
    queue: Workqueue<Host>,
    handle: coreshard_workqueue::JoinHandle<Host, ()>,
    running: &Work<Host>,
    waiting: &Work<Host>,
    old: &Runtime<Host>,
) -> Result<(), &'static str> {
    let expect = |holds: bool, what| if holds { Ok(()) } else { Err(what) };
    let forked = WorkErrorReason::Refused(RefusedReason::Forked);
    let refused = queue.queue(|| ()).map_err(|refused| refused.reason());
    expect(refused == Err(RefusedReason::Forked), "queue")?;
    let payload = handle.join().unwrap_err().into_payload();
    expect(payload.is::<Forked>(), "join")?;
    expect(queue.drain().is_err_and(|error| error.is_forked()), "drain")?;
    expect(queue.flush().is_err_and(|error| error.is_forked()), "flush")?;
    expect(queue.change().max_active(3).apply().is_err(), "change")?;
    expect(queue.freeze().is_err(), "freeze")?;
    expect(queue.shutdown(NEVER).is_err(), "shutdown")?;
    expect(old.workqueue().build().is_err(), "a new queue on the old runtime")?;
    expect(running.flush().is_err_and(|error| error.reason() == forked), "flush of an item")?;
    expect(running.cancel_and_wait().is_err(), "a cancel that waits")?;
    expect(waiting.queue(&queue).is_err_and(|error| error.reason() == forked), "pending")?;
    let fresh = Work::new(|_| ());
    expect(fresh.queue(&queue).is_err_and(|error| error.reason() == forked), "an item")?;
    expect(fresh.queue_after(&queue, NEVER).is_err(), "a delay")?;
    let _ = (queue.stats(), format!("{queue:?}"), old.usable(), old.delayed_items());
    expect(old.set_usable(old.usable()).is_err(), "other CPUs")?;
    waiting.cancel();
    drop(queue);
    // And a runtime of its own works, with the very items.
    let own = runtime();
    let queue = own.workqueue().build().map_err(|_| "no queue of its own")?;
    expect(queue.submit(|| 7).is_ok_and(|handle| handle.join().is_ok_and(|n| n == 7)), "own")?;
    expect(fresh.queue(&queue).is_ok_and(|queued| queued), "an item on its own queue")?;
    expect(fresh.flush().is_ok(), "its flush")?;
    expect(queue.drain().is_ok(), "its own drain")?;
    drop(queue);
    Ok(())
}

#[test]
fn a_forked_child_gets_errors_and_hangs_nowhere() {
    let runtime = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let (queue, ran) = (runtime.workqueue().build().unwrap(), Arc::new(AtomicU64::new(0)));
    // Others queue all the time, so that their locks are held when the fork comes.
    let busy: Vec<_> = (0..2)
        .map(|_| {
            let (queue, stop, ran) = (queue.clone(), Arc::clone(&stop), Arc::clone(&ran));
            std::thread::spawn(move || {
                let mut queued = 0_u64;
                while !stop.load(SeqCst) {
                    let ran = Arc::clone(&ran);
                    let run = move || {
                        ran.fetch_add(1, SeqCst);
                    };
                    queue.queue(run).unwrap();
                    queued += 1;
                    if queued.is_multiple_of(64) {
                        queue.flush().unwrap();
                    }
                }
                queued
            })
        })
        .collect();
    for _ in 0..20 {
        let release = Arc::new(AtomicBool::new(false));
        let hold = |release: &Arc<AtomicBool>| {
            let release = Arc::clone(release);
            move || {
                while !release.load(SeqCst) {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        };
        let handle = queue.submit(hold(&release)).unwrap();
        let inside = hold(&release);
        let running = Work::new(move |_| inside());
        running.queue(&queue).unwrap();
        while !running.is_running() {
            std::thread::yield_now();
        }
        let waiting = Work::new(|_| ());
        waiting.queue_after(&queue, NEVER * 60).unwrap();
        let mut child = Some((queue.clone(), handle));
        let outcome = forked(|| {
            let (queue, handle) = child.take().expect("the child has a copy");
            in_the_child(queue, handle, &running, &waiting, &runtime)
        });
        // The parent goes on as if nothing had been.
        release.store(true, SeqCst);
        outcome.unwrap();
        child.take().expect("the parent has its own").1.join().unwrap();
        assert!(waiting.cancel());
        running.flush().unwrap();
    }
    stop.store(true, SeqCst);
    let queued: u64 = busy.into_iter().map(|thread| thread.join().unwrap()).sum();
    queue.drain().unwrap();
    assert_eq!(ran.load(SeqCst), queued, "nothing is lost in the parent");
}
