//! The functions that simulated code calls: accesses, waits, wake-ups, thread starts. They suspend the
//! calling thread.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, Ordering::Relaxed};
use std::time::Duration;

use coreshard_platform::{
    AffinityError, SpawnError, ThreadId, ThreadSpec, WaitOutcome, stack_pointer,
};
use coreshard_topology::CpuSet;

use super::faults::Call;
use super::hardware::BufferedStore;
use super::state::{
    Pause, SimState, current, expect_sim, in_kernel, in_turn, in_turn_ahead, suspend, with,
};
use super::threads::{FIRST, Wait};
use crate::machine::{Costs, NS, Ps, ps};
use crate::memory::{Access, Place};
use crate::report::Site;
use crate::space::STACK_BYTES;

/// Accesses `bytes` bytes from `address` on, by the running thread. Free outside a simulation.
#[inline]
pub(crate) fn access(address: usize, bytes: usize, access: Access, site: Site) {
    let Some(sim) = current() else { return };
    with(sim, |sim| sim.hw.wait_for_loaded_unless(address, access));
    in_turn_ahead(sim);
    if with(sim, |sim| sim.hw.awaits_line(address, access)) {
        suspend(sim, Pause::AwaitsLine);
    }
    if with(sim, |sim| sim.access(address, bytes, access, site)) {
        suspend(sim, Pause::Yields);
    }
}

/// Modifies a word of `bytes` bytes, by the running thread, if `is_wanted` accepts its value. If the machine
/// has no such instruction, it loads the word and stores to it, and retries if the line was taken meanwhile.
#[inline]
pub(crate) fn modify(
    address: usize,
    bytes: usize,
    kind: Access,
    site: Site,
    is_wanted: impl Fn() -> bool,
) -> bool {
    let sim = current().filter(|sim| with(*sim, |sim| sim.hw.memory.has_exclusives()));
    let Some(sim) = sim else {
        access(address, bytes, kind, site);
        return true;
    };
    loop {
        access(address, bytes, Access::Load, site);
        if !is_wanted() {
            return false;
        }
        access(address, bytes, Access::StoreExclusive, site);
        if !with(sim, |sim| sim.hw.store_failed) {
            return true;
        }
    }
}

/// Returns true if the store is buffered, so that it is written to memory later. Otherwise the buffer was
/// drained, and the caller executes the store.
#[inline]
pub(crate) fn buffer_store(
    word: *const (),
    bytes: usize,
    value: u64,
    order: Ordering,
    site: Site,
) -> bool {
    let Some(sim) = current() else { return false };
    let store = BufferedStore { word, bytes, value, place: Place::default(), due: 0, site };
    with(sim, |sim| sim.faults.may_buffer_stores()) && buffer_by_chance(sim, store, order)
}

#[cold]
fn buffer_by_chance(sim: NonNull<SimState>, store: BufferedStore, order: Ordering) -> bool {
    in_turn(sim);
    let address = store.word.addr();
    // Stacks are aligned to their size.
    let on_own_stack = address / STACK_BYTES == stack_pointer() / STACK_BYTES;
    with(sim, |sim| {
        sim.hw.commit_due_stores();
        let mut delay = None;
        if !on_own_stack && order != Ordering::SeqCst {
            // Stores keep their order: one after a buffered store is also buffered.
            let is_behind = sim.hw.has_buffered_stores();
            delay = sim.faults.store_delay().or(is_behind.then_some(0));
        }
        let Some(delay) = delay else {
            sim.drain_own_stores();
            return false;
        };
        let (place, due) = (sim.hw.place(address), sim.hw.now + delay);
        sim.hw.buffer_store(BufferedStore { place, due, ..store });
        true
    })
}

/// Enters the kernel on the running thread: writes its CPU's buffered stores to memory, and charges the cost.
#[inline]
pub(super) fn enter_kernel(sim: NonNull<SimState>, cost: impl FnOnce(&Costs) -> Ps) {
    with(sim, |sim| {
        sim.drain_own_stores();
        sim.hw.wait_for_loaded();
        let cost = cost(&sim.hw.costs);
        let time = sim.hw.noise.call(cost);
        sim.hw.run_for(time);
    });
}

/// Charges the running thread one of the machine's costs.
#[inline]
pub(crate) fn charge(sim: NonNull<SimState>, cost: impl FnOnce(&Costs) -> Ps) {
    with(sim, |sim| {
        sim.hw.wait_for_loaded();
        sim.hw.run_for(cost(&sim.hw.costs));
    });
}

/// Charges the running thread for a computation, which a program may repeat forever.
pub(crate) fn compute(sim: NonNull<SimState>, time: Ps, site: Site) {
    charge(sim, |_| time);
    if with(sim, |sim| sim.only_computes(site)) {
        suspend(sim, Pause::NotNext);
    }
}

/// Reports that the running thread may leave its CPU.
pub(super) fn might_sleep(sim: NonNull<SimState>, does: &str, site: Site) {
    with(sim, |sim| sim.might_sleep(does, site));
    preemption_point(sim);
}

/// A point at which kernel code may be preempted, unless it holds a lock.
pub(crate) fn preemption_point(sim: NonNull<SimState>) {
    if with(sim, |sim| sim.leaves_at_point()) {
        in_turn(sim);
        if with(sim, |sim| sim.leaves_at_point()) {
            suspend(sim, Pause::Preempted);
        }
    }
}

pub(crate) fn spin_hint() {
    let Some(sim) = current() else { return std::hint::spin_loop() };
    if let Some(pause) = with(sim, SimState::spin) {
        suspend(sim, pause);
    }
}

/// Checks up to `looks` times whether `done` returns true, spinning before each check.
pub(crate) fn watch(looks: u32, mut done: impl FnMut() -> bool) -> bool {
    let sim = current().filter(|sim| with(*sim, |sim| sim.may_sleep_over_looks()));
    let mut left = looks;
    while left > 0 {
        let since = sim.map(|sim| with(sim, |sim| sim.hw.begin_looks()));
        spin_hint();
        if done() {
            sim.inspect(|sim| with(*sim, |sim| sim.hw.spinning.end_looks()));
            return true;
        }
        left -= 1;
        let Some((sim, since)) = sim.zip(since) else { continue };
        if let Some(until) = with(sim, |sim| sim.sleep_over_looks(since, left)) {
            suspend(sim, Pause::Spins { until });
            let over = with(sim, SimState::go_on_looking);
            // The caller makes the last check.
            left -= u32::try_from(over).unwrap_or(u32::MAX).min(left - 1);
            if done() {
                return true;
            }
            left -= 1;
        }
    }
    false
}

/// The cost of entering the kernel: half of a system call.
fn into_kernel(costs: &Costs) -> Ps {
    costs.syscall / 2
}

/// The cost of leaving the kernel.
fn out_of_kernel(costs: &Costs) -> Ps {
    costs.syscall - into_kernel(costs)
}

/// Suspends the running thread, whose state says that it waits.
pub(super) fn finish_wait(sim: NonNull<SimState>) -> WaitOutcome {
    suspend(sim, Pause::Waits);
    match with(sim, |sim| sim.threads[sim.hw.thread].take_timed_out()) {
        true => WaitOutcome::TimedOut,
        false => WaitOutcome::Returned,
    }
}

pub(crate) fn wait(
    word: &AtomicU32,
    expected: u32,
    timeout: Option<Duration>,
    site: Site,
) -> WaitOutcome {
    let address = (&raw const *word).addr();
    let sim = expect_sim("a thread waits");
    might_sleep(sim, "waits", site);
    enter_kernel(sim, |costs| into_kernel(costs) + costs.futex);
    access(address, size_of::<u32>(), Access::Load, site);
    let ends_after = with(sim, |sim| sim.faults.wait_ends_after(sim.hw.now));
    // No other thread runs between the check and the sleep, as under the kernel's lock.
    if word.load(Relaxed) != expected || ends_after == Some(0) {
        charge(sim, out_of_kernel);
        return WaitOutcome::Returned;
    }
    in_kernel(sim, |sim| {
        let (place, thread) = (sim.hw.place(address), sim.hw.thread);
        sim.futexes.push(place, thread);
        sim.begin_wait(Wait::Futex { place, address, expected }, timeout);
        if let Some(after) = ends_after
            && timeout.is_none_or(|timeout| ps(timeout) > after)
        {
            sim.threads[thread].wake_by_chance();
            sim.set_timer(thread, sim.hw.now + after);
        }
    });
    let outcome = finish_wait(sim);
    charge(sim, |costs| out_of_kernel(costs) + if timeout.is_some() { costs.timer } else { 0 });
    outcome
}

/// Wakes up to `most` threads that sleep on a word. Cheap if there are none: Linux's `futex_wake` checks a
/// count before it takes the bucket's lock.
pub(crate) fn wake(address: usize, most: usize) {
    let sim = expect_sim("a thread is woken");
    enter_kernel(sim, into_kernel);
    in_turn(sim);
    let has_sleepers = in_kernel(sim, |sim| {
        let place = sim.hw.place(address);
        match sim.threads[sim.hw.thread].hands_lock_to.take() {
            Some(next) => {
                sim.hand_lock_to(next);
                false
            }
            None => sim.futexes.first(place).is_some(),
        }
    });
    if has_sleepers {
        charge(sim, |costs| costs.futex);
        in_turn(sim);
        in_kernel(sim, |sim| {
            let place = sim.hw.place(address);
            for _ in 0..most {
                let Some(thread) = sim.futexes.pop(place) else { break };
                sim.wake_sleeper(thread);
            }
        });
    }
    charge(sim, out_of_kernel);
}

/// Spins until the holder of a lock hands it over, first come first served. Each waiter spins on its own word
/// (an MCS queue), which reaches it in one transfer. Returns false and does nothing if the word no longer
/// holds `contended`.
pub(crate) fn spin_in_queue(word: &AtomicU32, free: u32, contended: u32, site: Site) -> bool {
    let address = (&raw const *word).addr();
    let sim = expect_sim("a thread spins for a lock");
    in_turn(sim);
    if word.load(Relaxed) != contended {
        return false;
    }
    in_kernel(sim, |sim| {
        let place = sim.hw.place(address);
        sim.lock_queues.push(place, sim.hw.thread);
        sim.begin_wait(Wait::LockQueue { place, free }, None);
    });
    suspend(sim, Pause::SpinsInQueue);
    access(address, size_of::<u32>(), Access::ReadModifyWrite, site);
    true
}

/// Queries a thread through the kernel, at the cost of a system call.
fn look_at<R>(
    sim: NonNull<SimState>,
    thread: ThreadId,
    call: Call,
    look: impl FnOnce(&SimState, usize) -> R,
) -> Option<R> {
    enter_kernel(sim, |costs| costs.syscall);
    in_turn(sim);
    with(sim, |sim| {
        let fails = sim.call_fails(call);
        let number = sim.threads.number_of(thread).filter(|_| !fails)?;
        Some(look(sim, number))
    })
}

pub(crate) fn cpu_time_of(thread: ThreadId) -> Option<Duration> {
    let sim = expect_sim("a thread's CPU time is read");
    look_at(sim, thread, Call::CpuTime, |sim, number| {
        Duration::from_nanos(sim.sched.cpu_time_of(number, sim.hw.now) / NS)
    })
}

pub(crate) fn is_waiting(thread: ThreadId) -> bool {
    let sim = expect_sim("a thread's state is read");
    let waits_for =
        look_at(sim, thread, Call::ThreadState, |sim, number| sim.threads[number].waits_for());
    waits_for.flatten().is_some_and(|wait| !matches!(wait, Wait::LockQueue { .. }))
}

pub(crate) fn sleep(duration: Duration, site: Site) {
    let sim = expect_sim("a thread sleeps");
    might_sleep(sim, "sleeps", site);
    enter_kernel(sim, |costs| costs.syscall);
    in_turn(sim);
    in_kernel(sim, |sim| sim.begin_wait(Wait::Sleep, Some(duration)));
    finish_wait(sim);
}

/// Makes a system call that may take the running thread off its CPU.
fn call_that_might_sleep(what: &str, does: &str, site: Site) -> NonNull<SimState> {
    let sim = expect_sim(what);
    with(sim, |sim| sim.might_sleep(does, site));
    enter_kernel(sim, |costs| costs.syscall);
    in_turn(sim);
    sim
}

pub(crate) fn yield_now(site: Site) {
    let sim = call_that_might_sleep("a thread yields", "yields", site);
    with(sim, |sim| sim.looks_around(1));
    suspend(sim, Pause::Yields);
}

pub(crate) fn join(thread: usize, site: Site) {
    let sim = call_that_might_sleep("a thread is joined", "joins a thread", site);
    let waits = in_kernel(sim, |sim| {
        let waits = !sim.threads[thread].is_over();
        if waits {
            let joiner = sim.hw.thread;
            sim.threads[thread].joiners.push(joiner);
            sim.begin_wait(Wait::Join(thread), None);
        }
        waits
    });
    if waits {
        finish_wait(sim);
    }
}

pub(crate) fn set_affinity(cpus: &CpuSet, site: Site) -> Result<(), AffinityError> {
    let sim = call_that_might_sleep("an affinity is set", "changes its affinity", site);
    if !in_kernel(sim, |sim| sim.set_affinity(cpus))? {
        suspend(sim, Pause::Moves);
    }
    Ok(())
}

pub(crate) fn spawn(
    spec: ThreadSpec,
    fifo_priority: u8,
    body: Box<dyn FnOnce() + Send>,
) -> Result<usize, SpawnError> {
    let sim = expect_sim("a thread is started");
    enter_kernel(sim, |costs| costs.syscall + costs.thread_create);
    in_turn(sim);
    in_kernel(sim, |sim| sim.spawn(spec, fifo_priority, body))
}

/// Begins the item of the function `name` on the running thread, unless it is void.
pub(crate) fn item_begins(name: &'static str, is_void: impl Fn() -> bool) {
    let Some(sim) = current() else { return };
    switch_point();
    while !is_void() && with(sim, |sim| sim.is_held_by_hand()) {
        in_kernel(sim, |sim| {
            let (thread, since) = (sim.hw.thread, sim.hw.now);
            sim.threads[thread].begin_wait(Wait::Item, since);
            if let Some(hand) = &mut sim.hand {
                hand.hold(thread);
            }
        });
        suspend(sim, Pause::Waits);
    }
    let is_void = is_void();
    with(sim, |sim| sim.begin_item(name, is_void));
}

pub(crate) fn item_is_over() {
    let Some(sim) = current() else { return };
    with(sim, |sim| sim.threads[sim.hw.thread].items.pop());
    switch_point();
}

/// A point at which another thread may continue, in any switching mode.
pub(crate) fn switch_point() {
    let Some(sim) = current() else { return };
    with(sim, |sim| sim.hw.now += sim.faults.stall_at_point().unwrap_or(0));
    suspend(sim, Pause::NotNext);
}

/// Lets up to `items` items begin and time pass for `duration`; called on the first thread of a run by hand.
/// Returns the number of begun items once no thread can continue.
pub(crate) fn let_run(items: u64, duration: Duration) -> u64 {
    let sim = expect_sim("items are run by hand");
    let begun = in_kernel(sim, |sim| {
        let hand = sim.hand.as_mut();
        let hand = hand.expect("items can be run by hand only in a simulation by hand");
        let (thread, now) = (sim.hw.thread, sim.hw.now);
        assert!(thread == FIRST, "items are run by the test's own thread, not by an item");
        let held = hand.give(items, ps(duration));
        sim.threads[thread].begin_wait(Wait::Hand, now);
        for thread in held {
            sim.wake(thread, now);
        }
        sim.items.begun()
    });
    suspend(sim, Pause::Waits);
    with(sim, |sim| {
        if let Some(hand) = &mut sim.hand {
            hand.take_back();
        }
        sim.items.begun() - begun
    })
}
