//! What simulated code calls: accesses, waits, wake-ups, starts.
#![allow(unsafe_code)]

mod inherit;

use std::io;
use std::ptr::NonNull;
use std::time::Duration;

use coreshard_platform::{AffinityError, SpawnError, ThreadId, ThreadSpec, WaitOutcome};
use coreshard_topology::CpuSet;

use super::core::{Core, Pause, Site, current};
use super::failing::Call;
use super::faults::Dice;
use super::thread::{State, Wait};
use crate::machine::{Costs, NS, Ps};
use crate::memory::Access;
use crate::profile::Profile;
use crate::space::in_host;
pub(super) use inherit::Inheritance;
pub(crate) use inherit::{lock_inheriting, priority, set_priority, unlock_inheriting};

pub(super) fn ps(duration: Duration) -> Ps {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / NS).saturating_mul(NS).min(Ps::MAX / 4)
}

/// Counts a call of the running thread; true if it is to fail.
pub(crate) fn call_fails(core: NonNull<Core>, call: Call) -> bool {
    with(core, |core| core.call_fails(call))
}

/// Gives the host thread back to the engine, which resumes this virtual thread later.
fn suspend(core: NonNull<Core>, pause: Pause) {
    // SAFETY: the core lives while simulated code runs, and no reference into it is held here: the
    // engine changes it meanwhile. The suspender belongs to the running coroutine.
    unsafe {
        (*core.as_ptr()).pause = pause;
        let suspender = (*core.as_ptr()).suspender;
        (*suspender).suspend(());
    }
}

/// The running thread does what may take it off its CPU.
fn may_sleep(core: NonNull<Core>, does: &str, site: Site) {
    with(core, |core| core.may_sleep(does, site));
    preemption_point(core);
}

/// Returns when it is the running CPU's turn.
#[inline]
pub(super) fn in_turn(core: NonNull<Core>) {
    // SAFETY: as in `suspend`; the reference ends before it is called.
    let (now, horizon) = unsafe { (core.as_ref().now, core.as_ref().horizon) };
    if now >= horizon {
        suspend(core, Pause::NotNext);
    }
}

/// Calls `act` with the core. `act` does not suspend, and runs no simulated code.
#[inline]
pub(super) fn with<R>(mut core: NonNull<Core>, act: impl FnOnce(&mut Core) -> R) -> R {
    // SAFETY: one thread runs a simulation, and simulated code is suspended while the engine
    // runs, so this is the only reference, for as long as `act` lasts.
    act(unsafe { core.as_mut() })
}

fn needed(what: &str) -> NonNull<Core> {
    current().unwrap_or_else(|| panic!("{what} on the simulated machine, outside a simulation"))
}

/// The running thread accesses `bytes` bytes from `address` on. Several lines are fetched at once,
/// and the last to come is waited for. Outside a simulation it costs nothing.
#[inline]
pub(crate) fn access(address: usize, bytes: usize, access: Access, site: Site) {
    let Some(core) = current() else { return };
    in_turn(core);
    with(core, |core| {
        core.bring_due_stores();
        if access == Access::ReadModifyWrite {
            core.let_stores_go(core.cpu);
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
            core.linger();
        }
    });
}

/// The running thread enters the kernel, by when its CPU's stores are in memory, and takes a time there.
#[inline]
fn enter_kernel(core: NonNull<Core>, cost: impl FnOnce(&Costs) -> Ps) {
    with(core, |core| core.let_stores_go(core.cpu));
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
    address: usize,
    expected: u32,
    read: impl FnOnce() -> u32,
    timeout: Option<Duration>,
    site: Site,
) -> WaitOutcome {
    let core = needed("a thread waits");
    may_sleep(core, "waits", site);
    enter_kernel(core, |costs| into_kernel(costs) + costs.futex);
    access(address, size_of::<u32>(), Access::Load, site);
    // Drawn in any case: a run's other chances do not depend on it.
    let spurious = with(core, |core| {
        let by_chance = core.dice.as_mut().and_then(Dice::wakes_spuriously);
        core.wait_is_cut_short().or(by_chance)
    });
    // Nothing runs between the look and the sleep: as the kernel's lock has it.
    if read() != expected || spurious == Some(0) {
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
pub(crate) fn spin_in_queue(
    address: usize,
    free: u32,
    contended: u32,
    read: impl FnOnce() -> u32,
    site: Site,
) -> bool {
    let core = needed("a thread spins for a lock");
    in_turn(core);
    if read() != contended {
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
        let alive = core.threads.get(number).is_some_and(|thread| thread.state != State::Over);
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
        matches!(state, State::Waiting { wait, .. } if !matches!(wait, Wait::LockQueue { .. }))
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
    let core = needed("a thread is woken");
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
                let by_chance = core.dice.as_mut().and_then(Dice::wakes_late);
                match core.wake_is_late().or(by_chance) {
                    Some(delay) => core.delay_wakeup(thread, delay),
                    None => core.now = core.make_runnable(thread, core.now),
                }
            }
        });
    });
}

pub(crate) fn sleep(duration: Duration, site: Site) {
    let core = needed("a thread sleeps");
    may_sleep(core, "sleeps", site);
    enter_kernel(core, |costs| costs.syscall);
    in_turn(core);
    with(core, |core| core.begin_wait(Wait::Sleep, Some(duration)));
    finish_wait(core);
}

pub(crate) fn yield_now(site: Site) {
    let core = needed("a thread yields");
    with(core, |core| core.may_sleep("yields", site));
    enter_kernel(core, |costs| costs.syscall);
    in_turn(core);
    suspend(core, Pause::Yields);
}

pub(crate) fn join(thread: usize, site: Site) {
    let core = needed("a thread is joined");
    with(core, |core| core.may_sleep("joins a thread", site));
    enter_kernel(core, |costs| costs.syscall);
    in_turn(core);
    let over = with(core, |core| {
        let over = core.threads[thread].state == State::Over;
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
    let core = needed("an affinity is set");
    with(core, |core| core.may_sleep("changes its affinity", site));
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
    let core = needed("a thread is started");
    enter_kernel(core, |costs| costs.syscall + costs.thread_create);
    in_turn(core);
    with(core, |core| {
        in_host(|| {
            let thread = core
                .refusal_to_start(&spec)
                .map_or_else(|| core.new_thread(spec, fifo_priority, body), Err);
            let thread = thread.inspect_err(|_| {
                core.failed_spawns += 1;
                core.failures.note(core.now);
            })?;
            core.now = core.make_runnable(thread, core.now);
            Ok(thread)
        })
    })
}

/// What is said where a limit is reached.
fn refusal() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

impl Core {
    /// Why a thread is not started, if that goes wrong.
    fn refusal_to_start(&mut self, spec: &ThreadSpec) -> Option<SpawnError> {
        let name = || spec.name.clone();
        let now = self.now;
        let by_chance = self.dice.as_mut().and_then(|dice| dice.fails_to_spawn(now));
        if let Some(delay) = by_chance {
            self.now += delay;
            return Some(SpawnError::refused(name(), refusal()));
        }
        if self.call_fails(Call::Start) {
            self.now += self.slowness_of_failure();
            return Some(SpawnError::refused(name(), refusal()));
        }
        if spec.nice.is_some() && self.call_fails(Call::Nice) {
            return Some(SpawnError::refused(name(), refusal()));
        }
        match &spec.affinity {
            Some(cpus) if self.call_fails(Call::Affinity) => {
                let refused = AffinityError::refused(cpus.clone(), refusal());
                Some(SpawnError::affinity(name(), refused))
            }
            _ => None,
        }
    }

    fn begin_handover(&mut self, address: usize, value: u64) -> bool {
        let place = self.place(address);
        let Some(first) = self.lock_queues.first(place) else { return false };
        let State::Waiting { wait: Wait::LockQueue { free, .. }, .. } = self.threads[first].state
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
        self.threads[thread].state = State::Runnable;
        let cpu = self.threads[thread].cpu;
        let transfer = self.memory.latency(cpu, self.cpu);
        self.step_at(cpu, self.now + transfer);
    }

    fn begin_wait(&mut self, wait: Wait, timeout: Option<Duration>) {
        let since = self.now;
        let thread = &mut self.threads[self.thread];
        thread.state = State::Waiting { wait, since };
        thread.timed_out = false;
        thread.wakes_by_chance = false;
        if let Some(timeout) = timeout {
            in_host(|| self.set_timer(self.thread, since + ps(timeout)));
        }
    }
}
