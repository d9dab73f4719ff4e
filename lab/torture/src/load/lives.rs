//! Operations on whole queues and runtimes: build, change, freeze, move, fork, drop.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use coreshard::{CpuSet, Hooks, Intake, PanicPolicy, Priority, Runtime, Scope, Wake};
use fastrand::Rng;

use super::{Site, patiently};

const SCOPES: [Scope; 6] =
    [Scope::Cpu, Scope::Smt, Scope::CacheShard, Scope::Cache, Scope::Numa, Scope::System];
const WAKES: [Wake; 3] = [Wake::UnderLock, Wake::AfterUnlock, Wake::Coalesced];

pub(super) fn freeze(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    // Fails if the workers of a past shape cannot be started: then nothing was frozen.
    if queue.freeze().is_ok() {
        thread::sleep(Duration::from_micros(rng.u64(..500)));
        site.ledger.check(patiently(|| queue.thaw()).is_ok(), "a frozen queue was not thawed");
    }
}

pub(super) fn change(site: &Site, rng: &mut Rng) {
    // Not the ordered and the limited ones, whose limits must not change.
    let queue = &site.queues[[0, 3, 4, 5][rng.usize(..4)]];
    let change = queue.change();
    let _ = match rng.u32(..4) {
        0 => change.scope(SCOPES[rng.usize(..6)]),
        1 => change.strict(rng.bool()),
        2 => change.shard_size(rng.usize(1..5)),
        _ => change.nice(rng.bool().then_some(1)),
    }
    .apply();
}

pub(super) fn short_queue(site: &Site, rng: &mut Rng) {
    let entry = site.ledger.entry("an item of a short queue");
    // A hook may use the runtime that calls it.
    let forks = |_| drop(std::hint::black_box(coreshard::join(|| vec![1], || 2)));
    let hooks = match rng.u32(..4) {
        0 => Hooks::new().on_start(forks).on_stop(forks),
        1 => Hooks::new().on_stop(|_| resume_unwind(Box::new("a hook's"))),
        _ => Hooks::new(),
    };
    let builder = site.runtime.workqueue();
    let builder = builder
        .scope(SCOPES[rng.usize(..6)])
        .wake(WAKES[rng.usize(..3)])
        .intake(if rng.bool() { Intake::Locked } else { Intake::LockFree })
        .priority(if rng.bool() { Priority::Normal } else { Priority::High })
        .rescuer(rng.u32(..4) == 0)
        .panic_policy(PanicPolicy::default())
        .hooks(hooks);
    let builder = if rng.u32(..3) == 0 { builder.ordered() } else { builder };
    match builder.build() {
        Err(_) => entry.back(),
        Ok(queue) => {
            let inner = queue.clone();
            let queued = queue.queue(move || {
                // An item may drop the last handle of its queue.
                drop(inner);
                entry.ran();
            });
            site.ledger.accepted("a new queue refused an item", queued);
        }
    }
}

pub(super) fn short_runtime(site: &Site, rng: &mut Rng) {
    let entry = site.ledger.entry("an item of a short runtime");
    let builder = Runtime::builder(site.topology.clone())
        .laid_over(site.cpus.clone())
        .max_workers(rng.usize(1..6).max(4))
        .stall_after(Duration::from_secs(20));
    let queue = builder.build().and_then(|runtime| {
        let queue = runtime.workqueue().scope(SCOPES[rng.usize(..6)]).build()?;
        Ok((runtime, queue))
    });
    match queue {
        Err(_) => entry.back(),
        Ok((runtime, queue)) => {
            let queued = queue.queue(move || entry.ran());
            site.ledger.accepted("a new queue refused an item", queued);
            if rng.bool() {
                let shut = runtime.shutdown(Duration::from_secs(60));
                site.ledger.succeeded("a runtime's shutdown ran out of time", shut);
            }
        }
    }
}

pub(super) fn usable_cpus(site: &Site, rng: &mut Rng) {
    let all = site.topology.online();
    let some: CpuSet = all.iter().filter(|_| rng.bool()).collect();
    // If a worker cannot be started, the queue keeps its old shape.
    let _ = site.runtime.set_usable(some);
    thread::sleep(Duration::from_micros(rng.u64(..500)));
    let _ = site.runtime.set_usable(all.clone());
}

pub(super) fn statistics(site: &Site, rng: &mut Rng) {
    std::hint::black_box(site.runtime.stats());
    std::hint::black_box(site.any_queue(rng).stats());
    std::hint::black_box(coreshard::runtime().map(|runtime| runtime.stats()).is_ok());
}

/// In a child process, every call that needs the runtime's threads reports that they do not exist, and
/// the exit does not hang.
#[allow(unsafe_code)]
pub(super) fn fork(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    // SAFETY: the child calls only functions that work in a forked process, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    match child {
        -1 => {}
        0 => {
            let is_refused = queue.queue(|| ()).is_err();
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(if is_refused { 0 } else { 3 }) }
        }
        child => {
            let status = wait_for(child);
            site.ledger.check(
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
                "a queue accepted an item in a forked process, or its child crashed",
            );
        }
    }
}

/// Waits for a child that ends by itself, and returns its status.
#[allow(unsafe_code)]
fn wait_for(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this process, and a word on this stack.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {}
    status
}
