//! Running a simulation: what simulated code calls, and the loop that resumes it.
#![allow(unsafe_code)]

mod inherit;

use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::time::Duration;

use coreshard_platform::{AffinityError, SpawnError, ThreadId, ThreadSpec, WaitOutcome};
use coreshard_topology::CpuSet;
use corosensei::{Coroutine, CoroutineResult};

use super::core::{Core, Entered, Pause, Site, current};
use super::events::What;
use super::faults::{Dice, Faults};
use super::thread::{State, Thread, Wait};
use crate::machine::{Costs, Machine, NS, Ps};
use crate::memory::{Access, Place};
use crate::profile::Profile;
use crate::report::{LineReport, Recorder, Timeline};
use crate::space::{Arena, in_arena, in_host};
pub(super) use inherit::Inheritance;
pub(crate) use inherit::{lock_inheriting, priority, set_priority, unlock_inheriting};

fn ps(duration: Duration) -> Ps {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / NS).saturating_mul(NS).min(Ps::MAX / 4)
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

/// Returns when it is the running CPU's turn.
#[inline]
fn in_turn(core: NonNull<Core>) {
    // SAFETY: as in `suspend`; the reference ends before it is called.
    let (now, horizon) = unsafe { (core.as_ref().now, core.as_ref().horizon) };
    if now >= horizon {
        suspend(core, Pause::NotNext);
    }
}

/// Calls `act` with the core. `act` does not suspend, and runs no simulated code.
#[inline]
fn with<R>(mut core: NonNull<Core>, act: impl FnOnce(&mut Core) -> R) -> R {
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
        core.now = end;
    });
}

/// The running thread takes a time that the machine's costs tell.
#[inline]
pub(crate) fn charge(core: NonNull<Core>, cost: impl FnOnce(&Costs) -> Ps) {
    with(core, |core| core.now += cost(&core.costs));
}

/// A place where code of a kernel may be preempted.
pub(crate) fn preemption_point(core: NonNull<Core>) {
    let leaves = with(core, |core| core.profile == Profile::InKernel && core.must_leave());
    if leaves {
        suspend(core, Pause::Yields);
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
    preemption_point(core);
    charge(core, |costs| costs.syscall + costs.futex);
    access(address, size_of::<u32>(), Access::Load, site);
    let spurious = with(core, |core| core.dice.as_mut().is_some_and(Dice::wakes_spuriously));
    // Nothing runs between the look and the sleep: as the kernel's lock has it.
    if read() != expected || spurious {
        return WaitOutcome::Returned;
    }
    with(core, |core| {
        let place = core.place(address);
        let wait = Wait::Futex { place, address, expected };
        in_host(|| core.futexes.sleep(place, core.thread));
        core.begin_wait(wait, timeout);
    });
    finish_wait(core)
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
    look: impl FnOnce(&Core, usize) -> R,
) -> Option<R> {
    charge(core, |costs| costs.syscall);
    in_turn(core);
    with(core, |core| {
        let number = (thread.0 as usize).checked_sub(1)?;
        let alive = core.threads.get(number).is_some_and(|thread| thread.state != State::Over);
        alive.then(|| look(core, number))
    })
}

pub(crate) fn cpu_time_of(core: NonNull<Core>, thread: ThreadId) -> Option<Duration> {
    look_at(core, thread, |core, number| Duration::from_nanos(core.cpu_time_of(number) / NS))
}

pub(crate) fn is_waiting(core: NonNull<Core>, thread: ThreadId) -> bool {
    let waits = look_at(core, thread, |core, number| {
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

/// Wakes up to `most` threads that sleep on a word.
pub(crate) fn wake(address: usize, most: usize) {
    let core = needed("a thread is woken");
    charge(core, |costs| costs.syscall + costs.futex);
    in_turn(core);
    with(core, |core| {
        in_host(|| {
            let place = core.place(address);
            if let Some(next) = core.threads[core.thread].hands_lock_to.take() {
                core.hand_lock_to(next);
                return;
            }
            for _ in 0..most {
                let Some(thread) = core.futexes.pop(place) else { break };
                core.now = core.make_runnable(thread, core.now);
            }
        });
    });
}

pub(crate) fn sleep(duration: Duration) {
    let core = needed("a thread sleeps");
    preemption_point(core);
    charge(core, |costs| costs.syscall);
    in_turn(core);
    with(core, |core| core.begin_wait(Wait::Sleep, Some(duration)));
    finish_wait(core);
}

pub(crate) fn yield_now() {
    let core = needed("a thread yields");
    charge(core, |costs| costs.syscall);
    in_turn(core);
    suspend(core, Pause::Yields);
}

pub(crate) fn join(thread: usize) {
    let core = needed("a thread is joined");
    charge(core, |costs| costs.syscall);
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

pub(crate) fn set_affinity(cpus: &CpuSet) -> Result<(), AffinityError> {
    let core = needed("an affinity is set");
    charge(core, |costs| costs.syscall);
    in_turn(core);
    let stays = with(core, |core| {
        in_host(|| {
            let affinity = core.affinity(cpus)?;
            let cpu = core.cpu;
            let thread = &mut core.threads[core.thread];
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
    charge(core, |costs| costs.syscall + costs.thread_create);
    in_turn(core);
    with(core, |core| {
        in_host(|| {
            if core.dice.as_mut().is_some_and(Dice::fails_to_spawn) {
                let reason = io::Error::from(io::ErrorKind::WouldBlock);
                return Err(SpawnError::refused(spec.name, reason));
            }
            let thread = core.new_thread(spec, fifo_priority, body)?;
            core.now = core.make_runnable(thread, core.now);
            Ok(thread)
        })
    })
}

impl Core {
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
        if let Some(timeout) = timeout {
            in_host(|| self.set_timer(self.thread, since + ps(timeout)));
        }
    }

    fn affinity(&self, cpus: &CpuSet) -> Result<Box<[u64]>, AffinityError> {
        let mut affinity = vec![0_u64; self.idle.len()];
        for cpu in cpus {
            let place = self.place_of_cpu.get(cpu.index()).copied().flatten();
            if let Some(place) = place {
                affinity[place as usize / 64] |= 1 << (place % 64);
            }
        }
        // As the kernel: CPUs that are not there are passed over, but one must be left; and the
        // answer must be what was asked for.
        if !cpus.is_empty() && cpus.is_subset(&self.online) {
            return Ok(affinity.into());
        }
        let problem = format!("the simulated machine's CPUs are {}", self.online);
        let reason = io::Error::new(io::ErrorKind::InvalidInput, problem);
        Err(AffinityError::refused(cpus.clone(), reason))
    }

    fn new_thread(
        &mut self,
        spec: ThreadSpec,
        fifo_priority: u8,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<usize, SpawnError> {
        let (affinity, affinity_set) = match spec.affinity {
            Some(cpus) => {
                let affinity = self
                    .affinity(&cpus)
                    .map_err(|error| SpawnError::affinity(spec.name.clone(), error))?;
                (affinity, cpus)
            }
            None if self.threads.is_empty() => {
                let all = self.affinity(&self.online).expect("all CPUs are CPUs of the machine");
                (all, self.online.clone())
            }
            None => {
                let creator = &self.threads[self.thread];
                (creator.affinity.clone(), creator.affinity_set.clone())
            }
        };
        // SAFETY: the arena lives as long as the simulation, and this is its only user now.
        let stack = unsafe { self.arena.as_mut() }.stack();
        let stack = stack.map_err(|reason| SpawnError::refused(spec.name.clone(), reason))?;
        let number = self.threads.len();
        let body = Coroutine::with_stack(stack, move |suspender, ()| {
            let core = current().expect("a coroutine is resumed inside its simulation");
            with(core, |core| {
                core.suspender = suspender;
                core.threads[number].suspender = suspender;
            });
            // A panic was printed by its hook; it ends this thread alone, as on the host.
            drop(panic::catch_unwind(AssertUnwindSafe(body)));
        });
        self.threads.push(Thread {
            name: spec.name,
            body: Some(Box::new(body)),
            suspender: std::ptr::null(),
            state: State::Runnable,
            affinity,
            affinity_set,
            cpu: self.cpu,
            fifo_priority,
            used: 0,
            on_cpu: 0,
            local: std::ptr::null_mut(),
            joiners: Vec::new(),
            deadline: None,
            timer_at: None,
            timed_out: false,
            hands_lock_to: None,
        });
        self.alive += 1;
        Ok(number)
    }

    /// The CPU at hand takes its next thread, or rests. Ends the event that is handled.
    fn go_on(&mut self, cpu: usize) {
        match self.put_on(cpu, self.now) {
            Some(begin) => self.step_on(cpu, begin),
            None => self.events.end(),
        }
    }

    fn step_on(&mut self, cpu: usize, time: Ps) {
        self.cpus[cpu].clock = time;
        self.cpus[cpu].step_at = Some(time);
        self.busy_cpus += 1;
        self.events.end_with(time, What::Cpu(cpu));
    }

    /// The thread at hand has returned.
    fn finish_thread(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        thread.state = State::Over;
        let body = thread.body.take().expect("a thread that runs has a body");
        let joiners = std::mem::take(&mut thread.joiners);
        // SAFETY: as in `new_thread`.
        unsafe { self.arena.as_mut() }.take_stack_back(body.into_stack());
        self.alive -= 1;
        for joiner in joiners {
            self.now = self.make_runnable(joiner, self.now);
        }
    }
}

/// A CPU goes on: its thread runs until it pauses.
///
/// # Safety
/// The core lives, and nobody has a reference to it.
unsafe fn step(core: *mut Core, cpu: usize, time: Ps) {
    // SAFETY: by this function's contract; the reference ends before the coroutine is resumed.
    let c = unsafe { &mut *core };
    if c.cpus[cpu].step_at != Some(time) {
        c.events.end();
        return;
    }
    c.cpus[cpu].step_at = None;
    c.busy_cpus -= 1;
    c.cpu = cpu;
    c.now = time;
    c.last_time = c.last_time.max(time);
    c.stop_spinning(cpu);
    if let Some(stall) = c.dice.as_mut().and_then(Dice::stall) {
        return c.step_on(cpu, time + stall);
    }
    let preemptible = c.profile == Profile::Futex;
    if c.cpus[cpu].current.is_none() || (preemptible && c.must_leave()) {
        c.take_off(cpu, time);
        match c.put_on(cpu, time) {
            None => return c.events.end(),
            Some(begin) if begin >= c.events.next_time() => return c.step_on(cpu, begin),
            Some(begin) => c.now = begin,
        }
    }
    let number = c.cpus[cpu].current.expect("a CPU that goes on has a thread");
    c.thread = number;
    c.watching = c.cpus[cpu].watching;
    let leaves = if preemptible { c.cpus[cpu].preempts_at() } else { Ps::MAX };
    c.horizon = c.events.next_time().min(leaves);
    c.pauses += 1;
    c.trace_hash = c.trace_hash.rotate_left(7) ^ c.now ^ (number as u64) << 48;
    let (arena, thread) = (c.arena(), &mut c.threads[number]);
    c.suspender = thread.suspender;
    // Boxed, so it stays where it is when threads are added.
    let body: *mut _ = &mut **thread.body.as_mut().expect("a thread that runs has a body");
    let result = {
        let _inside = Entered::new(core);
        // SAFETY: the arena and the coroutine live; the coroutine is resumed by nobody else.
        unsafe { in_arena(arena, || (*body).resume(())) }
    };
    // SAFETY: the coroutine is suspended or over, so this is the only reference again.
    let c = unsafe { &mut *core };
    c.cpus[cpu].watching = c.watching;
    c.cpus[cpu].clock = c.now;
    match (result, c.pause) {
        (CoroutineResult::Return(()), _) => {
            c.finish_thread(number);
            c.take_off(cpu, c.now);
            c.go_on(cpu);
        }
        (CoroutineResult::Yield(()), Pause::NotNext) => {
            if preemptible && c.must_leave() {
                c.take_off(cpu, c.now);
                c.go_on(cpu);
            } else {
                c.step_on(cpu, c.now);
            }
        }
        (CoroutineResult::Yield(()), Pause::Spins { until }) => c.step_on(cpu, until),
        // Whoever hands the lock over starts this CPU again.
        (CoroutineResult::Yield(()), Pause::SpinsInQueue) => c.events.end(),
        (CoroutineResult::Yield(()), Pause::Waits | Pause::Yields | Pause::Moves) => {
            c.take_off(cpu, c.now);
            c.go_on(cpu);
        }
    }
}

/// How a simulation is to run. Equal settings give equal runs.
#[derive(Clone, Debug)]
pub struct Simulation<'machine> {
    machine: &'machine Machine,
    seed: u64,
    profile: Profile,
    record_lines: bool,
    record_timeline: bool,
    time_limit: Duration,
    faults: Faults,
}

/// What a simulation has come to.
#[derive(Debug)]
pub struct Run<R> {
    /// What the program returned.
    pub value: R,
    /// Figures of the run.
    pub summary: Summary,
    /// Which lines cost time, if that was recorded.
    pub lines: Option<LineReport>,
    /// What each CPU ran when, if that was recorded.
    pub timeline: Option<Timeline>,
}

/// Figures of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The seed.
    pub seed: u64,
    /// Virtual time from the start to the program's return, in nanoseconds.
    pub virtual_ns: u64,
    /// Depends on every access and every switch of the run, with its time: equal for equal runs.
    pub trace_hash: u64,
    /// Memory accesses that were simulated.
    pub accesses: u64,
    /// Those that did not find the line as they needed it.
    pub misses: u64,
    /// Times that the engine resumed a thread.
    pub resumes: u64,
    /// Times that a CPU began to run a thread.
    pub context_switches: u64,
    /// Times that a thread was made runnable.
    pub wakeups: u64,
    /// Interrupts sent to idle CPUs.
    pub ipis: u64,
    /// Virtual threads, the program's first one among them.
    pub threads: usize,
    /// Threads that still waited when the program had returned.
    pub threads_left: usize,
    /// Lines that were touched.
    pub lines: u64,
}

/// Why a simulation came to no end.
#[derive(Debug)]
pub enum SimError {
    /// The simulation cannot be set up.
    Setup(io::Error),
    /// Every thread waits for something that cannot come any more.
    Deadlock(Stuck),
    /// The time limit is over.
    TimeLimit(Stuck),
}

/// Who waits for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The seed, to run it again.
    pub seed: u64,
    /// The virtual time of the last event, in nanoseconds.
    pub at_ns: u64,
    /// Each thread that is not over.
    pub threads: Vec<WaitingThread>,
}

/// A thread that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingThread {
    /// Its name.
    pub name: String,
    /// What it waits for, or does, in words.
    pub waits_for: String,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ns of virtual time, with seed {}:", self.at_ns, self.seed)?;
        for thread in &self.threads {
            write!(f, "\n  {:?} {}", thread.name, thread.waits_for)?;
        }
        Ok(())
    }
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(error) => write!(f, "the simulation cannot be set up: {error}"),
            Self::Deadlock(stuck) => write!(f, "the simulated program is deadlocked {stuck}"),
            Self::TimeLimit(stuck) => {
                write!(f, "the simulated program came to no end within its time limit {stuck}")
            }
        }
    }
}

impl std::error::Error for SimError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The text has what it says itself already.
            Self::Setup(error) => error.source(),
            Self::Deadlock(_) | Self::TimeLimit(_) => None,
        }
    }
}

impl<'machine> Simulation<'machine> {
    /// A simulation of `machine`: seed 0, the futex profile, nothing recorded, at most an hour of
    /// virtual time.
    #[must_use]
    pub fn new(machine: &'machine Machine) -> Self {
        Self {
            machine,
            seed: 0,
            profile: Profile::default(),
            record_lines: false,
            record_timeline: false,
            time_limit: Duration::from_secs(3_600),
            faults: Faults::default(),
        }
    }

    /// Settles which of several CPUs at the same time is first.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whose code the program is taken for.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Whether to record who used which line; takes about twice the time.
    #[must_use]
    pub fn record_lines(mut self, record: bool) -> Self {
        self.record_lines = record;
        self
    }

    /// Whether to record what each CPU ran when.
    #[must_use]
    pub fn record_timeline(mut self, record: bool) -> Self {
        self.record_timeline = record;
        self
    }

    /// What goes wrong on purpose. Default: nothing.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// The virtual time after which a run is given up.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Runs `program` as the first thread of the machine, on its first CPU, and everything that it
    /// starts, until it has returned and nothing but waiting is left.
    ///
    /// # Errors
    /// Where the simulation cannot be set up, the program deadlocks, or its time is over. Threads
    /// that are left then are forgotten where they stand: what they hold is leaked.
    ///
    /// # Panics
    /// With what the program's first thread threw. Inside another simulation.
    pub fn run<R>(&self, program: impl FnOnce() -> R) -> Result<Run<R>, SimError> {
        assert!(current().is_none(), "a simulation cannot run inside another one");
        let arena = Arena::reserve().map_err(SimError::Setup)?;
        let recorder = (self.record_lines || self.record_timeline)
            .then(|| Box::new(Recorder::new(self.record_lines, self.record_timeline)));
        let mut core = Box::new(Core::new(self.machine, arena, self.seed, self.profile, recorder));
        if self.faults != Faults::default() {
            let longest = ps(self.faults.longest_stall);
            core.dice = Some(Dice::new(self.faults, longest, self.seed));
        }
        let mut live = Live { core: Box::into_raw(core), arena };
        let mut outcome = None;
        let program = || outcome = Some(panic::catch_unwind(AssertUnwindSafe(program)));
        let end_ns = live.run(program, ps(self.time_limit), self.seed)?;
        let value = match outcome.expect("a program that is over has left its outcome") {
            Ok(value) => value,
            Err(payload) => {
                drop(live);
                panic::resume_unwind(payload)
            }
        };
        let core = live.core();
        let recorder = core.recorder.take();
        let summary = core.summary(self.seed, end_ns);
        let (lines, timeline) = match recorder {
            None => (None, None),
            Some(recorder) => {
                let names = core.threads.iter().map(|thread| thread.name.clone()).collect();
                let cpus = core.cpus.iter().map(|cpu| cpu.id).collect();
                recorder.finish(core.memory.line_bytes(), self.machine, names, cpus)
            }
        };
        Ok(Run { value, summary, lines, timeline })
    }
}

/// A simulation's parts, which go when it is over, however that comes.
struct Live {
    core: *mut Core,
    arena: NonNull<Arena>,
}

impl Live {
    fn core(&mut self) -> &mut Core {
        // SAFETY: made by `Box::into_raw`, and freed by `drop`; no coroutine runs.
        unsafe { &mut *self.core }
    }

    /// Runs to the end. Returns when the first thread was over, in nanoseconds.
    fn run(&mut self, program: impl FnOnce(), limit: Ps, seed: u64) -> Result<u64, SimError> {
        let mut root_end = None;
        let program: Box<dyn FnOnce() + '_> = Box::new(|| {
            program();
            root_end = current().map(|core| with(core, |core| core.now));
        });
        // SAFETY: the closure is run, or forgotten, before this function's caller goes on: `drop`
        // forgets all coroutines. It stays on this host thread.
        let program: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(program) };
        let core = self.core();
        let spec = ThreadSpec { name: "main".to_owned(), ..ThreadSpec::default() };
        let root = core
            .new_thread(spec, 0, program)
            .map_err(|error| SimError::Setup(io::Error::other(error.to_string())))?;
        core.make_runnable(root, 0);
        loop {
            let core = self.core();
            let root_is_over = core.threads[root].state == State::Over;
            if root_is_over && (core.alive == 0 || core.busy_cpus == 0) {
                break;
            }
            let Some((time, what)) = core.events.begin() else {
                return Err(SimError::Deadlock(core.stuck(seed)));
            };
            if time > limit {
                return Err(SimError::TimeLimit(core.stuck(seed)));
            }
            match what {
                What::Timer(thread) => {
                    core.timer(thread, time);
                    core.events.end();
                }
                // SAFETY: the core lives, and the reference to it is not used any more.
                What::Cpu(cpu) => unsafe { step(self.core, cpu, time) },
            }
        }
        Ok(root_end.unwrap_or(0) / NS)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `run`, and freed here alone.
        let mut core = unsafe { Box::from_raw(self.core) };
        for thread in &mut core.threads {
            if let Some(body) = &mut thread.body {
                // SAFETY: what is on the stack is forgotten, as a leak is; nobody resumes it.
                unsafe { body.force_reset() };
            }
        }
        drop(core);
        // SAFETY: the simulation's own hold, let go once.
        unsafe { Arena::end_simulation(self.arena) };
    }
}

impl Core {
    fn summary(&self, seed: u64, virtual_ns: u64) -> Summary {
        Summary {
            seed,
            virtual_ns,
            trace_hash: self.trace_hash,
            accesses: self.accesses,
            misses: self.misses,
            resumes: self.pauses,
            context_switches: self.context_switches,
            wakeups: self.wakeups,
            ipis: self.ipis,
            threads: self.threads.len(),
            threads_left: self.alive,
            lines: self.memory.touched_lines(),
        }
    }

    fn stuck(&mut self, seed: u64) -> Stuck {
        let threads = (0..self.threads.len())
            .filter(|number| self.threads[*number].state != State::Over)
            .map(|number| WaitingThread {
                name: self.threads[number].name.clone(),
                waits_for: self.waits_for(number),
            })
            .collect();
        Stuck { seed, at_ns: self.last_time / NS, threads }
    }

    fn waits_for(&self, number: usize) -> String {
        let thread = &self.threads[number];
        match thread.state {
            State::Over => "is over".to_owned(),
            State::Runnable => match self.cpus[thread.cpu].spins_on {
                Some(line) if self.cpus[thread.cpu].current == Some(number) => {
                    let name = self.name_of(line);
                    format!("spins on {name}, on CPU {}", self.cpus[thread.cpu].id)
                }
                _ => format!("can run on CPU {}", self.cpus[thread.cpu].id),
            },
            State::Waiting { wait, since } => {
                let since = since / NS;
                match wait {
                    Wait::LockQueue { place, .. } => {
                        format!("spins since {since} ns for its turn at {}", self.name_of(place))
                    }
                    Wait::Sleep => format!("sleeps since {since} ns"),
                    Wait::Join(other) => {
                        let other = &self.threads[other].name;
                        format!("waits since {since} ns for the end of {other:?}")
                    }
                    Wait::Futex { place, address, expected } => {
                        // SAFETY: the word's owner sleeps on it, so it is live, and it is a
                        // 32-bit atomic; nobody else runs.
                        let holds = unsafe { *(address as *const u32) };
                        let name = self.name_of(place);
                        format!(
                            "waits since {since} ns for a wake-up on {name}, which held \
                             {expected} then and holds {holds} now"
                        )
                    }
                }
            }
        }
    }

    fn name_of(&self, place: Place) -> String {
        self.recorder
            .as_ref()
            .and_then(|recorder| recorder.field_at(place))
            .unwrap_or_else(|| crate::report::bare_name(place))
    }
}
