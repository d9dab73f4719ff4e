//! What simulated code calls: accesses, waits, wake-ups, starts.

mod inherit;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use coreshard_platform::{AffinityError, SpawnError, ThreadId, ThreadSpec, WaitOutcome};
use coreshard_topology::CpuSet;

use super::core::{Core, Pause, current};
use super::failed_calls::refusal;
use super::failing::Call;
use super::fault_injector::FaultInjector;
use super::thread::{ThreadState, Wait};
use super::turn::{expect_core, in_turn, suspend, with};
use crate::machine::{Costs, NS, Ps, ps};
use crate::memory::Access;
use crate::profile::Profile;
use crate::site::Site;
use crate::space::in_host;
pub(crate) use inherit::{lock_inheriting, priority, set_priority, unlock_inheriting};

/// Counts a call of the running thread; true if it is to fail.
pub(crate) fn call_fails(core: NonNull<Core>, call: Call) -> bool {
    with(core, |core| core.call_fails(call))
}

/// The running thread does what may take it off its CPU.
fn might_sleep(core: NonNull<Core>, does: &str, site: Site) {
    with(core, |core| core.might_sleep(does, site));
    preemption_point(core);
}

/// The running thread accesses `bytes` bytes from `address` on. Several lines are fetched at once,
/// and the last to come is waited for. Outside a simulation it costs nothing.
#[inline]
pub(crate) fn access(address: usize, bytes: usize, access: Access, site: Site) {
    let Some(core) = current() else { return };
    in_turn(core);
    with(core, |core| {
        core.commit_due_stores();
        if access == Access::ReadModifyWrite {
            core.drain_stores(core.cpu);
        }
        let since = core.now;
        let place = core.place(address);
        let mut end = core.touch(place, access, since, site).end;
        let line_bytes = core.memory.line_bytes();
        if address % line_bytes + bytes > line_bytes {
            let mut next = (address | (line_bytes - 1)) + 1;
            while next < address + bytes {
                let place = core.place(next);
                end = end.max(core.touch(place, access, since, site).end);
                next += line_bytes;
            }
        }
        core.now = end + core.costs.compute;
        if access == Access::Load {
            core.stall_after_load();
        }
    });
}

/// The running thread enters the kernel, by when its CPU's stores are in memory, and takes a time there.
#[inline]
fn enter_kernel(core: NonNull<Core>, cost: impl FnOnce(&Costs) -> Ps) {
    with(core, |core| core.drain_stores(core.cpu));
    charge(core, cost);
}

/// The running thread takes a time that the machine's costs tell.
#[inline]
pub(crate) fn charge(core: NonNull<Core>, cost: impl FnOnce(&Costs) -> Ps) {
    with(core, |core| core.now += cost(&core.costs));
}

/// A place where code of a kernel may be preempted, unless it holds a lock.
pub(crate) fn preemption_point(core: NonNull<Core>) {
    let leaves = || with(core, |core| core.may_be_preempted() && core.must_leave());
    if leaves() {
        in_turn(core);
        if leaves() {
            suspend(core, Pause::Yields);
        }
    }
}

pub(crate) fn spin_hint() {
    let Some(core) = current() else { return std::hint::spin_loop() };
    if let Some(until) = with(core, Core::spin_turn) {
        suspend(core, Pause::Spins { until });
    }
}

pub(crate) fn wait(
    word: &AtomicU32,
    expected: u32,
    timeout: Option<Duration>,
    site: Site,
) -> WaitOutcome {
    let address = (&raw const *word).addr();
    let core = expect_core("a thread waits");
    might_sleep(core, "waits", site);
    enter_kernel(core, |costs| into_kernel(costs) + costs.futex);
    access(address, size_of::<u32>(), Access::Load, site);
    // Drawn in any case: a run's other chances do not depend on it.
    let spurious = with(core, |core| {
        let by_chance = core.injector.as_mut().and_then(FaultInjector::spurious_wakeup);
        core.cut_short_wait().or(by_chance)
    });
    // Nothing runs between the look and the sleep: as the kernel's lock has it.
    if word.load(Relaxed) != expected || spurious == Some(0) {
        charge(core, out_of_kernel);
        return WaitOutcome::Returned;
    }
    with(core, |core| {
        let place = core.place(address);
        let wait = Wait::Futex { place, address, expected };
        in_host(|| core.futexes.sleep(place, core.thread));
        core.begin_wait(wait, timeout);
        if let Some(after) = spurious
            && timeout.is_none_or(|timeout| ps(timeout) > after)
        {
            core.threads[core.thread].wakes_by_chance = true;
            in_host(|| core.set_timer(core.thread, core.now + after));
        }
    });
    let outcome = finish_wait(core);
    charge(core, out_of_kernel);
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
    let core = expect_core("a thread spins for a lock");
    in_turn(core);
    if word.load(Relaxed) != contended {
        return false;
    }
    with(core, |core| {
        let place = core.place(address);
        in_host(|| core.lock_queues.sleep(place, core.thread));
        core.in_lock_queues += 1;
        core.begin_wait(Wait::LockQueue { place, free }, None);
    });
    suspend(core, Pause::SpinsInQueue);
    access(address, size_of::<u32>(), Access::ReadModifyWrite, site);
    true
}

/// True if storing `value` frees a lock for which threads spin in a queue: then the word is to stay
/// as it is, since the lock goes to the first of them, at the wake-up that follows, and to nobody
/// else. A wake-up without this is one that came late, and hands nothing over.
#[inline]
pub(crate) fn hands_over(address: usize, value: u64) -> bool {
    let Some(core) = current() else { return false };
    with(core, |core| core.in_lock_queues > 0 && core.begin_handover(address, value))
}

/// Threads are named from 1 on.
pub(crate) fn this_thread(core: NonNull<Core>) -> ThreadId {
    with(core, |core| ThreadId(core.thread as u32 + 1))
}

/// A look at a thread through the kernel, which costs a system call.
fn look_at<R>(
    core: NonNull<Core>,
    thread: ThreadId,
    call: Call,
    look: impl FnOnce(&Core, usize) -> R,
) -> Option<R> {
    enter_kernel(core, |costs| costs.syscall);
    in_turn(core);
    with(core, |core| {
        if core.call_fails(call) {
            return None;
        }
        let number = (thread.0 as usize).checked_sub(1)?;
        let alive =
            core.threads.get(number).is_some_and(|thread| thread.state != ThreadState::Over);
        alive.then(|| look(core, number))
    })
}

pub(crate) fn cpu_time_of(core: NonNull<Core>, thread: ThreadId) -> Option<Duration> {
    let look = |core: &Core, number| Duration::from_nanos(core.cpu_time_of(number) / NS);
    look_at(core, thread, Call::CpuTime, look)
}

pub(crate) fn is_waiting(core: NonNull<Core>, thread: ThreadId) -> bool {
    let waits = look_at(core, thread, Call::ThreadState, |core, number| {
        let state = core.threads[number].state;
        matches!(state, ThreadState::Waiting { wait, .. } if !matches!(wait, Wait::LockQueue { .. }))
    });
    waits.unwrap_or(false)
}

pub(crate) fn profile(core: NonNull<Core>) -> Profile {
    with(core, |core| core.profile)
}

/// Suspends the running thread, whose state says that it waits.
fn finish_wait(core: NonNull<Core>) -> WaitOutcome {
    suspend(core, Pause::Waits);
    with(core, |core| {
        let thread = &mut core.threads[core.thread];
        if std::mem::take(&mut thread.timed_out) {
            WaitOutcome::TimedOut
        } else {
            WaitOutcome::Returned
        }
    })
}

/// Wakes up to `most` threads that sleep on a word. Where nobody does, the kernel sees that at a
/// glance, as Linux's `futex_wake` does, which looks at a count before it takes the bucket's lock.
pub(crate) fn wake(address: usize, most: usize) {
    let core = expect_core("a thread is woken");
    enter_kernel(core, into_kernel);
    in_turn(core);
    let somebody = with(core, |core| {
        let place = core.place(address);
        match core.threads[core.thread].hands_lock_to.take() {
            Some(next) => {
                in_host(|| core.hand_lock_to(next));
                false
            }
            None => core.futexes.first(place).is_some(),
        }
    });
    if somebody {
        charge(core, |costs| costs.futex);
        in_turn(core);
        wake_sleepers(core, address, most);
    }
    charge(core, out_of_kernel);
}

fn wake_sleepers(core: NonNull<Core>, address: usize, most: usize) {
    with(core, |core| {
        in_host(|| {
            let place = core.place(address);
            for _ in 0..most {
                let Some(thread) = core.futexes.pop(place) else { break };
                let by_chance = core.injector.as_mut().and_then(FaultInjector::wakeup_delay);
                match core.late_wake().or(by_chance) {
                    Some(delay) => core.delay_wakeup(thread, delay),
                    None => core.now = core.make_runnable(thread, core.now),
                }
            }
        });
    });
}

pub(crate) fn sleep(duration: Duration, site: Site) {
    let core = expect_core("a thread sleeps");
    might_sleep(core, "sleeps", site);
    enter_kernel(core, |costs| costs.syscall);
    in_turn(core);
    with(core, |core| core.begin_wait(Wait::Sleep, Some(duration)));
    finish_wait(core);
}

pub(crate) fn yield_now(site: Site) {
    let core = expect_core("a thread yields");
    with(core, |core| core.might_sleep("yields", site));
    enter_kernel(core, |costs| costs.syscall);
    in_turn(core);
    suspend(core, Pause::Yields);
}

pub(crate) fn join(thread: usize, site: Site) {
    let core = expect_core("a thread is joined");
    with(core, |core| core.might_sleep("joins a thread", site));
    enter_kernel(core, |costs| costs.syscall);
    in_turn(core);
    let over = with(core, |core| {
        let over = core.threads[thread].state == ThreadState::Over;
        if !over {
            in_host(|| core.threads[thread].joiners.push(core.thread));
            core.begin_wait(Wait::Join(thread), None);
        }
        over
    });
    if !over {
        finish_wait(core);
    }
}

pub(crate) fn set_affinity(cpus: &CpuSet, site: Site) -> Result<(), AffinityError> {
    let core = expect_core("an affinity is set");
    with(core, |core| core.might_sleep("changes its affinity", site));
    enter_kernel(core, |costs| costs.syscall);
    in_turn(core);
    let stays = with(core, |core| {
        in_host(|| {
            if core.call_fails(Call::Affinity) {
                return Err(AffinityError::refused(cpus.clone(), refusal()));
            }
            let affinity = core.affinity(cpus)?;
            let cpu = core.cpu;
            let thread = &mut core.threads[core.thread];
            thread.asked = affinity.clone();
            thread.affinity = affinity;
            thread.affinity_set = cpus.clone();
            Ok(thread.may_run_on(cpu))
        })
    })?;
    if !stays {
        suspend(core, Pause::Moves);
    }
    Ok(())
}

pub(crate) fn spawn(
    spec: ThreadSpec,
    fifo_priority: u8,
    body: Box<dyn FnOnce() + Send>,
) -> Result<usize, SpawnError> {
    let core = expect_core("a thread is started");
    enter_kernel(core, |costs| costs.syscall + costs.thread_create);
    in_turn(core);
    with(core, |core| {
        in_host(|| {
            let thread = core
                .refusal_to_start(&spec)
                .map_or_else(|| core.new_thread(spec, fifo_priority, body), Err);
            let thread = thread.inspect_err(|_| {
                core.failed_spawns += 1;
                core.call_failures.note(core.now);
            })?;
            core.now = core.make_runnable(thread, core.now);
            Ok(thread)
        })
    })
}

impl Core {
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
        if let Some(timeout) = timeout {
            in_host(|| self.set_timer(self.thread, since + ps(timeout)));
        }
    }
}
