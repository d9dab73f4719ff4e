//! What simulated code calls: accesses, waits, wake-ups, starts.

mod inherit;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use coreshard_platform::{AffinityError, SpawnError, ThreadId, ThreadSpec, WaitOutcome};
use coreshard_topology::CpuSet;

use super::failed_calls::refusal;
use super::failing::Call;
use super::fault_injector::FaultInjector;
use super::state::{Pause, SimState, current};
use super::thread::{ThreadState, Wait};
use super::turn::{expect_sim, in_turn, in_turn_for, suspend, with};
use super::waited_at::WaitedAt;
use crate::machine::{Costs, NS, Ps, ps};
use crate::memory::Access;
use crate::profile::Profile;
use crate::site::Site;
use crate::space::in_host;
pub(crate) use inherit::{lock_inheriting, priority, set_priority, unlock_inheriting};

/// Counts a call of the running thread; true if it is to fail.
pub(crate) fn call_fails(sim: NonNull<SimState>, call: Call) -> bool {
    with(sim, |sim| sim.call_fails(call))
}

/// The running thread does what may take it off its CPU.
fn might_sleep(sim: NonNull<SimState>, does: &str, site: Site) {
    with(sim, |sim| sim.might_sleep(does, site));
    preemption_point(sim);
}

/// The running thread accesses `bytes` bytes from `address` on. Several lines are fetched at once,
/// and the last to come is waited for. Outside a simulation it costs nothing.
#[inline]
pub(crate) fn access(address: usize, bytes: usize, access: Access, site: Site) {
    let Some(sim) = current() else { return };
    with(sim, |sim| sim.wait_for_loaded_unless(address, access));
    in_turn_for(sim, address);
    if with(sim, |sim| sim.memory.arbitrates() && sim.awaits_line(address, access)) {
        suspend(sim, Pause::AwaitsLine);
    }
    with(sim, |sim| {
        if sim.mode.uniform_memory {
            return sim.touch_anywhere(access);
        }
        sim.commit_due_stores();
        if !matches!(access, Access::Load | Access::Store) {
            sim.drain_stores(sim.cpu);
        }
        let place = sim.place(address);
        let spins = sim.spin_detector.place == Some(place);
        let granted = sim.take_granted_line(place, access, site);
        let since = sim.now;
        // The loads that were begun ahead of time were wrong.
        let left_loop = granted.is_some() && access == Access::Load && spins;
        let mut end = granted.unwrap_or_else(|| sim.touch(place, access, since, site).end);
        let line_bytes = sim.memory.line_bytes();
        if address % line_bytes + bytes > line_bytes {
            let mut next = (address | (line_bytes - 1)) + 1;
            while next < address + bytes {
                let place = sim.place(next);
                end = end.max(sim.touch(place, access, since, site).end);
                next += line_bytes;
            }
        }
        // The CPU goes on until somebody needs what it loaded; who looks again at the same word does.
        let goes_on = access == Access::Load
            && sim.memory.has_several_misses()
            && granted.is_none()
            && !spins
            && address % line_bytes + bytes <= line_bytes
            && end > since + sim.costs.l1_hit;
        if goes_on {
            sim.spin_detector.comes_at = end;
            end = since + sim.costs.l1_hit;
        }
        sim.now = end + sim.costs.compute;
        if left_loop {
            sim.now += sim.memory.spin_exit();
        }
        sim.interrupt(sim.now - since);
        if access == Access::Load {
            sim.stall_after_load();
        }
    });
    if with(sim, SimState::spins_by_looking) {
        suspend(sim, Pause::Yields);
    }
}

/// The running thread changes a word of `bytes` bytes, if `is_wanted` says so of its value. Where the machine has no instruction
/// for that, it loads the word, and stores to it unless the line was taken meanwhile; else it tries again.
#[inline]
pub(crate) fn modify(
    address: usize,
    bytes: usize,
    kind: Access,
    site: Site,
    is_wanted: impl Fn() -> bool,
) -> bool {
    let sim = current().filter(|sim| with(*sim, |sim| sim.memory.has_exclusives()));
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
        if !with(sim, |sim| sim.store_failed) {
            return true;
        }
    }
}

/// The running thread enters the kernel, by when its CPU's stores are in memory, and takes a time there.
#[inline]
fn enter_kernel(sim: NonNull<SimState>, cost: impl FnOnce(&Costs) -> Ps) {
    with(sim, |sim| {
        sim.drain_stores(sim.cpu);
        sim.wait_for_loaded();
        let time = sim.call_takes(cost(&sim.costs));
        sim.run_for(time);
    });
}

/// The running thread takes a time that the machine's costs tell.
#[inline]
pub(crate) fn charge(sim: NonNull<SimState>, cost: impl FnOnce(&Costs) -> Ps) {
    with(sim, |sim| {
        sim.wait_for_loaded();
        sim.run_for(cost(&sim.costs));
    });
}

/// A place where code of a kernel may be preempted, unless it holds a lock.
pub(crate) fn preemption_point(sim: NonNull<SimState>) {
    let leaves = || with(sim, |sim| sim.may_be_preempted() && sim.must_leave());
    if leaves() {
        in_turn(sim);
        if leaves() {
            suspend(sim, Pause::Preempted);
        }
    }
}

pub(crate) fn spin_hint() {
    let Some(sim) = current() else { return std::hint::spin_loop() };
    if with(sim, |sim| sim.mode.at_waits) {
        with(sim, SimState::spin_once);
        return suspend(sim, Pause::Yields);
    }
    if with(sim, |sim| sim.is_to_stop()) {
        // Who computes for hours, while nothing else happens, gives way to the engine, which ends the run.
        return suspend(sim, Pause::NotNext);
    }
    if let Some(until) = with(sim, SimState::spin_turn) {
        suspend(sim, Pause::Spins { until });
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
    // Drawn in any case: a run's other chances do not depend on it.
    let spurious = with(sim, |sim| {
        let by_chance = sim.injector.as_mut().and_then(FaultInjector::spurious_wakeup);
        sim.cut_short_wait().or(by_chance)
    });
    // Nothing runs between the look and the sleep: as the kernel's lock has it.
    if word.load(Relaxed) != expected || spurious == Some(0) {
        charge(sim, out_of_kernel);
        return WaitOutcome::Returned;
    }
    with(sim, |sim| {
        let place = sim.place(address);
        let wait = Wait::Futex { place, address, expected };
        in_host(|| sim.futexes.push(place, sim.thread));
        sim.begin_wait(wait, timeout);
        if let Some(after) = spurious
            && timeout.is_none_or(|timeout| ps(timeout) > after)
        {
            sim.threads[sim.thread].wakes_by_chance = true;
            in_host(|| sim.set_timer(sim.thread, sim.now + after));
        }
    });
    let outcome = finish_wait(sim);
    charge(sim, |costs| out_of_kernel(costs) + if timeout.is_some() { costs.timer } else { 0 });
    outcome
}

/// The way into the kernel: half of a system call.
fn into_kernel(costs: &Costs) -> Ps {
    costs.syscall / 2
}

/// The way out of it.
fn out_of_kernel(costs: &Costs) -> Ps {
    costs.syscall - into_kernel(costs)
}

/// The running thread spins, first come first served, until the holder of a lock hands it over: each
/// spins on a word of its own (an MCS queue), which reaches it in one transfer. False, and nothing
/// done, if the word does not hold `contended` any more.
pub(crate) fn spin_in_queue(word: &AtomicU32, free: u32, contended: u32, site: Site) -> bool {
    let address = (&raw const *word).addr();
    let sim = expect_sim("a thread spins for a lock");
    in_turn(sim);
    if word.load(Relaxed) != contended {
        return false;
    }
    with(sim, |sim| {
        let place = sim.place(address);
        in_host(|| sim.lock_queues.push(place, sim.thread));
        sim.in_lock_queues += 1;
        sim.begin_wait(Wait::LockQueue { place, free }, None);
    });
    suspend(sim, Pause::SpinsInQueue);
    access(address, size_of::<u32>(), Access::ReadModifyWrite, site);
    true
}

/// True if storing `value` frees a lock for which threads spin in a queue. Then the word is to stay as it
/// is: the wake-up that follows hands the lock to the first of them. A wake-up without such a store hands
/// nothing over.
#[inline]
pub(crate) fn hands_over(address: usize, value: u64) -> bool {
    let Some(sim) = current() else { return false };
    with(sim, |sim| sim.in_lock_queues > 0 && sim.begin_handover(address, value))
}

/// Threads are named from 1 on.
pub(crate) fn this_thread(sim: NonNull<SimState>) -> ThreadId {
    with(sim, |sim| ThreadId(sim.thread as u32 + 1))
}

/// A look at a thread through the kernel, which costs a system call.
fn look_at<R>(
    sim: NonNull<SimState>,
    thread: ThreadId,
    call: Call,
    look: impl FnOnce(&SimState, usize) -> R,
) -> Option<R> {
    enter_kernel(sim, |costs| costs.syscall);
    in_turn(sim);
    with(sim, |sim| {
        if sim.call_fails(call) {
            return None;
        }
        let number = (thread.0 as usize).checked_sub(1)?;
        let alive = sim.threads.get(number).is_some_and(|thread| thread.state != ThreadState::Over);
        alive.then(|| look(sim, number))
    })
}

pub(crate) fn cpu_time_of(sim: NonNull<SimState>, thread: ThreadId) -> Option<Duration> {
    let look = |sim: &SimState, number| Duration::from_nanos(sim.cpu_time_of(number) / NS);
    look_at(sim, thread, Call::CpuTime, look)
}

pub(crate) fn is_waiting(sim: NonNull<SimState>, thread: ThreadId) -> bool {
    let waits = look_at(sim, thread, Call::ThreadState, |sim, number| {
        let state = sim.threads[number].state;
        matches!(state, ThreadState::Waiting { wait, .. } if !matches!(wait, Wait::LockQueue { .. }))
    });
    waits.unwrap_or(false)
}

/// Where threads are switched at waits alone, one that looks for work would keep all others from bringing it.
pub(crate) fn idlers_may_spin(sim: NonNull<SimState>) -> bool {
    with(sim, |sim| sim.profile == Profile::Futex && !sim.mode.at_waits)
}

pub(crate) fn profile(sim: NonNull<SimState>) -> Profile {
    with(sim, |sim| sim.profile)
}

/// Suspends the running thread, whose state says that it waits.
fn finish_wait(sim: NonNull<SimState>) -> WaitOutcome {
    suspend(sim, Pause::Waits);
    with(sim, |sim| {
        let thread = &mut sim.threads[sim.thread];
        if std::mem::take(&mut thread.timed_out) {
            WaitOutcome::TimedOut
        } else {
            WaitOutcome::Returned
        }
    })
}

/// Wakes up to `most` threads that sleep on a word. Where none does, that costs little: Linux's
/// `futex_wake` looks at a count before it takes the bucket's lock.
pub(crate) fn wake(address: usize, most: usize) {
    let sim = expect_sim("a thread is woken");
    enter_kernel(sim, into_kernel);
    in_turn(sim);
    let has_sleepers = with(sim, |sim| {
        let place = sim.place(address);
        match sim.threads[sim.thread].hands_lock_to.take() {
            Some(next) => {
                in_host(|| sim.hand_lock_to(next));
                false
            }
            None => sim.futexes.first(place).is_some(),
        }
    });
    if has_sleepers {
        charge(sim, |costs| costs.futex);
        in_turn(sim);
        wake_sleepers(sim, address, most);
    }
    charge(sim, out_of_kernel);
}

fn wake_sleepers(sim: NonNull<SimState>, address: usize, most: usize) {
    with(sim, |sim| {
        in_host(|| {
            let place = sim.place(address);
            for _ in 0..most {
                let Some(thread) = sim.futexes.pop(place) else { break };
                let by_chance = sim.injector.as_mut().and_then(FaultInjector::wakeup_delay);
                match sim.late_wake().or(by_chance) {
                    Some(delay) => sim.delay_wakeup(thread, delay),
                    None => sim.now = sim.make_runnable(thread, sim.now),
                }
            }
        });
    });
}

pub(crate) fn sleep(duration: Duration, site: Site) {
    let sim = expect_sim("a thread sleeps");
    might_sleep(sim, "sleeps", site);
    enter_kernel(sim, |costs| costs.syscall);
    in_turn(sim);
    with(sim, |sim| sim.begin_wait(Wait::Sleep, Some(duration)));
    finish_wait(sim);
}

pub(crate) fn yield_now(site: Site) {
    let sim = expect_sim("a thread yields");
    with(sim, |sim| sim.might_sleep("yields", site));
    enter_kernel(sim, |costs| costs.syscall);
    in_turn(sim);
    with(sim, |sim| sim.looks_around(1));
    suspend(sim, Pause::Yields);
}

pub(crate) fn join(thread: usize, site: Site) {
    let sim = expect_sim("a thread is joined");
    with(sim, |sim| sim.might_sleep("joins a thread", site));
    enter_kernel(sim, |costs| costs.syscall);
    in_turn(sim);
    let over = with(sim, |sim| {
        let over = sim.threads[thread].state == ThreadState::Over;
        if !over {
            in_host(|| sim.threads[thread].joiners.push(sim.thread));
            sim.begin_wait(Wait::Join(thread), None);
        }
        over
    });
    if !over {
        finish_wait(sim);
    }
}

pub(crate) fn set_affinity(cpus: &CpuSet, site: Site) -> Result<(), AffinityError> {
    let sim = expect_sim("an affinity is set");
    with(sim, |sim| sim.might_sleep("changes its affinity", site));
    enter_kernel(sim, |costs| costs.syscall);
    in_turn(sim);
    let stays = with(sim, |sim| {
        in_host(|| {
            if sim.call_fails(Call::Affinity) {
                return Err(AffinityError::refused(cpus.clone(), refusal()));
            }
            let affinity = sim.affinity(cpus)?;
            let cpu = sim.cpu;
            let thread = &mut sim.threads[sim.thread];
            thread.asked = affinity.clone();
            thread.affinity = affinity;
            thread.affinity_set = cpus.clone();
            Ok(thread.may_run_on(cpu))
        })
    })?;
    if !stays {
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
    with(sim, |sim| {
        in_host(|| {
            let thread = sim
                .refusal_to_start(&spec)
                .map_or_else(|| sim.new_thread(spec, fifo_priority, body), Err);
            let thread = thread.inspect_err(|_| {
                sim.failed_spawns += 1;
                sim.call_failures.note(sim.now);
            })?;
            sim.now = sim.make_runnable(thread, sim.now);
            Ok(thread)
        })
    })
}

impl SimState {
    fn begin_handover(&mut self, address: usize, value: u64) -> bool {
        let place = self.place(address);
        let Some(first) = self.lock_queues.first(place) else { return false };
        let ThreadState::Waiting { wait: Wait::LockQueue { free, .. }, .. } =
            self.threads[first].state
        else {
            return false;
        };
        if u64::from(free) != value {
            return false;
        }
        self.lock_queues.pop(place);
        self.threads[self.thread].hands_lock_to = Some(first);
        true
    }

    /// Ends the spinning of the one who was the first in a lock's queue.
    fn hand_lock_to(&mut self, thread: usize) {
        self.in_lock_queues -= 1;
        self.threads[thread].state = ThreadState::Runnable;
        let cpu = self.threads[thread].cpu;
        let transfer = self.memory.latency(cpu, self.cpu);
        self.step_at(cpu, self.now + transfer);
    }

    fn begin_wait(&mut self, wait: Wait, timeout: Option<Duration>) {
        let since = self.now;
        let thread = &mut self.threads[self.thread];
        thread.state = ThreadState::Waiting { wait, since };
        thread.timed_out = false;
        thread.wakes_by_chance = false;
        // Others wait for work alone, and always at the same place.
        if self.mode.records_waits && (self.thread == 0 || !thread.items.is_empty()) {
            in_host(|| thread.waited_at = Some(WaitedAt::here()));
        }
        self.hand_sees_wait();
        if let Some(timeout) = timeout {
            in_host(|| self.set_timer(self.thread, since + ps(timeout)));
        }
    }
}
