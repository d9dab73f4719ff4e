//! The state of a simulation, how simulated code reaches it, and how it suspends itself.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{Fields, LocalKey, ThreadId};
use coreshard_topology::{CpuId, NodeId};

use super::faults::{Call, FaultInjector};
use super::hand::Hand;
use super::hardware::{Event, Hardware, LOOKS};
use super::inheritance::Inheritance;
use super::items::Items;
use super::progress::{Check, LastAccess, Progress};
use super::scheduler::Scheduler;
use super::settings::Settings;
use super::threads::{FIRST, HeldLock, Suspender, Threads, Wait};
use super::wait_queues::WaitQueues;
use crate::machine::{Machine, Ps, ps};
use crate::memory::Access;
use crate::profile::Profile;
use crate::report::Site;
use crate::space::{Arena, in_host};

thread_local! {
    static CURRENT: Cell<*mut SimState> = const { Cell::new(ptr::null_mut()) };
}

/// Returns the simulation whose code runs on this host thread.
#[inline]
pub(crate) fn current() -> Option<NonNull<SimState>> {
    NonNull::new(CURRENT.get())
}

/// Returns the simulation whose code runs on this host thread.
///
/// # Panics
/// If there is none; `what` describes the attempt.
pub(crate) fn expect_sim(what: &str) -> NonNull<SimState> {
    current().unwrap_or_else(|| panic!("{what} on the simulated machine, outside a simulation"))
}

/// As [`with`], on the simulation whose code runs on this host thread.
///
/// # Panics
/// If there is none; `what` describes the attempt.
pub(crate) fn expect<R>(what: &str, act: impl FnOnce(&mut SimState) -> R) -> R {
    with(expect_sim(what), act)
}

/// While this guard lives, `current` returns its simulation.
pub(super) struct EnterGuard(*mut SimState);

impl EnterGuard {
    pub(super) fn new(sim: *mut SimState) -> Self {
        Self(CURRENT.replace(sim))
    }
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Calls `act` with the simulation's state. `act` must neither suspend nor run simulated code.
#[inline]
pub(crate) fn with<R>(mut sim: NonNull<SimState>, act: impl FnOnce(&mut SimState) -> R) -> R {
    // SAFETY: one thread runs a simulation, and simulated code is suspended while the engine runs. So this is
    // the only reference for as long as `act` lasts.
    act(unsafe { sim.as_mut() })
}

/// As [`with`], but allocations of `act` do not belong to the simulated program.
#[inline]
pub(crate) fn in_kernel<R>(sim: NonNull<SimState>, act: impl FnOnce(&mut SimState) -> R) -> R {
    with(sim, |sim| in_host(|| act(sim)))
}

/// As [`with`], if simulated code runs on this host thread.
#[inline]
pub(crate) fn with_current<R>(act: impl FnOnce(&mut SimState) -> R) -> Option<R> {
    current().map(|sim| with(sim, act))
}

/// Suspends the running virtual thread; the engine resumes it later.
pub(super) fn suspend(sim: NonNull<SimState>, pause: Pause) {
    // SAFETY: the simulation lives while simulated code runs, and no reference into it is held here: the
    // engine changes it meanwhile. The suspender belongs to the running coroutine.
    unsafe {
        (*sim.as_ptr()).pause = pause;
        let suspender = (*sim.as_ptr()).suspender;
        (*suspender).suspend(());
    }
}

/// Returns when it is the running CPU's turn.
#[inline]
pub(super) fn in_turn(sim: NonNull<SimState>) {
    with(sim, |sim| sim.hw.wait_for_loaded());
    in_turn_ahead(sim);
}

/// As [`in_turn`], for a thread that does not need its last loaded value.
#[inline]
pub(super) fn in_turn_ahead(sim: NonNull<SimState>) {
    if with(sim, |sim| sim.hw.now >= sim.hw.agenda.horizon()) {
        suspend(sim, Pause::NotNext);
    }
}

/// The number of accesses per beat of the pulse.
const BEAT_EVERY: u32 = 64;

/// Why a thread returned the host thread to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Another CPU is earlier.
    NotNext,
    /// It waits; its state has the reason.
    Waits,
    /// It yields.
    Yields,
    /// Its slice has ended, or another thread must run at once.
    Preempted,
    /// It spins on a line, and continues when that is written, or at this time.
    Spins { until: Ps },
    /// It must go to another CPU.
    Moves,
    /// It waits, and keeps its CPU.
    SpinsInQueue,
    /// Its CPU waits for a contended line.
    AwaitsLine,
}

/// The whole state of a simulation.
///
/// The parts do not know this root. They return what happened; only the scheduler gets access to another
/// part, the hardware.
pub(crate) struct SimState {
    pub(super) settings: Settings,
    pub(crate) hw: Hardware,
    pub(super) sched: Scheduler,
    pub(super) threads: Threads,
    pub(super) faults: FaultInjector,
    pub(super) futexes: WaitQueues,
    /// Threads that spin in the queues of locks, by the lock's word.
    pub(super) lock_queues: WaitQueues,
    pub(super) inheritance: Inheritance,
    pub(crate) items: Items,
    /// Set while the run is by hand.
    pub(super) hand: Option<Hand>,
    pub(super) pause: Pause,
    pub(super) suspender: Suspender,
    /// How often a thread was resumed.
    pub(super) resumes: u64,
    /// Threads that ended by a panic.
    pub(super) panicked: usize,
    /// The time of the last event.
    pub(super) last_time: Ps,
    /// A rule that the program has broken: the run ends.
    pub(super) broken_rule: Option<String>,
    arena: NonNull<Arena>,
    node_ids: Vec<NodeId>,
    /// How far ahead the program's clock is.
    clock_ahead: Ps,
    /// The number of open read-side sections.
    readings: u64,
    progress: Progress,
}

impl SimState {
    pub(super) fn new(machine: &Machine, arena: NonNull<Arena>, mut settings: Settings) -> Self {
        settings.at_waits |= settings.by_hand;
        // SAFETY: the arena lives as long as the simulation.
        let arena_start = unsafe { arena.as_ref() }.start();
        let mut hw = Hardware::new(machine, arena_start, &settings);
        let cpus = machine.topology().cpus().len();
        let mut faults = FaultInjector::new(settings.faults, settings.seed, cpus);
        if let Some(first) = faults.next_offline() {
            hw.agenda.push_background(first, Event::Offline);
        }
        Self {
            sched: Scheduler::new(machine, &settings, hw.costs.slice),
            hw,
            threads: Threads::default(),
            faults,
            futexes: WaitQueues::default(),
            lock_queues: WaitQueues::default(),
            inheritance: Inheritance::default(),
            items: Items::default(),
            hand: settings.by_hand.then(Hand::default),
            pause: Pause::NotNext,
            suspender: ptr::null(),
            resumes: 0,
            panicked: 0,
            last_time: 0,
            broken_rule: None,
            arena,
            node_ids: machine.topology().node_ids().to_vec(),
            clock_ahead: 0,
            readings: 0,
            progress: Progress::new(settings.progress_limit),
            settings,
        }
    }

    pub(crate) fn arena(&self) -> *mut Arena {
        self.arena.as_ptr()
    }

    pub(crate) const fn profile(&self) -> Profile {
        self.settings.profile
    }

    /// Returns the name of the running thread: its number, from 1 on.
    pub(crate) const fn thread_id(&self) -> ThreadId {
        ThreadId(self.hw.thread as u32 + 1)
    }

    pub(crate) fn cpu_id(&self) -> CpuId {
        self.sched.id_of(self.hw.cpu)
    }

    pub(crate) fn local(&mut self, key: LocalKey) -> &mut *mut () {
        &mut self.threads[self.hw.thread].locals[key as usize]
    }

    /// Reads the program's clock.
    pub(crate) fn read_clock(&mut self) -> Ps {
        self.clock_ahead += self.faults.clock_jump().unwrap_or(0);
        self.hw.now + self.clock_ahead
    }

    /// Counts a call of the running thread. Returns true if it must fail.
    pub(crate) fn call_fails(&mut self, call: Call) -> bool {
        self.faults.call_fails(call, self.hw.now)
    }

    /// If threads are switched only at waits, a worker that spins for work would keep all others from
    /// queueing it.
    pub(crate) fn idlers_may_spin(&self) -> bool {
        self.settings.profile == Profile::Futex && !self.settings.at_waits
    }

    pub(crate) fn begin_reading(&mut self) {
        self.readings += 1;
    }

    pub(crate) fn end_reading(&mut self) {
        self.readings -= 1;
    }

    /// Returns true if no read-side section is open. Every CPU, including the running thread's, passes a
    /// barrier.
    pub(crate) fn try_grace_period(&mut self) -> bool {
        self.drain_own_stores();
        self.readings == 0
    }

    /// Places fresh pages on a node. Returns false if there is no node of that number; they then lie on the
    /// node of the first access.
    pub(crate) fn renew(&mut self, address: usize, bytes: usize, node: Option<NodeId>) -> bool {
        let index = node.and_then(|node| self.node_ids.iter().position(|known| *known == node));
        let start = self.hw.memory.place(address);
        self.hw.memory.renew(start, bytes, index.map(|index| index as u16));
        node.is_none() || index.is_some()
    }

    /// Records which fields lie at an address.
    pub(crate) fn describe<T: Fields>(&mut self, address: usize) {
        let place = self.hw.place(address);
        if let Some(recorder) = &mut self.hw.recorder {
            in_host(|| recorder.describe::<T>(place));
        }
    }

    /// Records that a block of memory is freed.
    pub(super) fn release(&mut self, address: usize, bytes: usize) {
        let place = self.hw.place(address);
        if let Some(recorder) = &mut self.hw.recorder {
            in_host(|| recorder.release(place, bytes));
        }
    }

    /// Records whether the running thread is measured from now on.
    pub(crate) fn measure(&mut self, measured: bool) {
        let thread = self.hw.thread;
        if let Some(recorder) = &mut self.hw.recorder {
            in_host(|| recorder.measure(thread, measured));
        }
    }

    /// Returns true if a CPU continues while the lines of its stores are in transit.
    pub(crate) fn stores_run_ahead(&self) -> bool {
        self.hw.memory.has_several_misses()
    }

    pub(crate) fn drain_own_stores(&mut self) {
        self.hw.drain_stores(self.hw.cpu);
    }

    /// Accesses memory by the running thread, at its CPU's turn. Returns true if the thread must yield.
    #[inline]
    pub(super) fn access(
        &mut self,
        address: usize,
        bytes: usize,
        access: Access,
        site: Site,
    ) -> bool {
        if self.hw.has_uniform_memory() {
            let accesses = self.hw.touch_anywhere(access);
            if accesses.is_multiple_of(BEAT_EVERY)
                && let Some(pulse) = &self.settings.pulse
            {
                pulse.beat();
            }
        } else {
            let arbitrates = self.hw.memory.arbitrates();
            let granted =
                if arbitrates { self.threads[self.hw.thread].granted.take() } else { None };
            self.hw.access(address, bytes, access, granted, site);
            // A CPU with buffered stores may stall, so that others run between this load and the stores
            // before it. That order is the one that breaks programs.
            if access == Access::Load && self.hw.has_buffered_stores() {
                self.hw.now += self.faults.stall_after_load().unwrap_or(0);
            }
        }
        let spins = self.hw.spins_by_looking();
        if spins {
            self.looks_around(LOOKS);
        }
        spins
            || self.progress.is_due(self.hw.trace.simulated())
                && self.is_stuck(address, access, site)
    }

    /// Records that the program has made progress.
    pub(crate) const fn note_progress(&mut self) {
        self.progress.note(self.hw.trace.simulated());
    }

    /// Called now and then after an access. Returns true if the run must end.
    #[cold]
    fn is_stuck(&mut self, address: usize, access: Access, site: Site) -> bool {
        match self.progress.check(self.hw.trace.simulated()) {
            Check::Limits => self.exceeds_limits(),
            Check::Record => {
                let place = self.hw.place(address);
                self.threads[self.hw.thread].last_access = Some(LastAccess { place, access, site });
                false
            }
            Check::Report(accesses) => {
                self.broken_rule.get_or_insert_with(|| {
                    in_host(|| {
                        format!(
                            "the simulated program makes no progress: no thread has started or ended, and no item \
                             has begun, for {accesses} accesses to memory"
                        )
                    })
                });
                true
            }
        }
    }

    /// Returns true once the run must end, although no event says so.
    fn exceeds_limits(&self) -> bool {
        self.is_to_stop() || self.hw.now > ps(self.settings.time_limit)
    }

    /// Called when the running thread has computed. Returns true if the run must end.
    pub(super) fn only_computes(&mut self, site: Site) -> bool {
        let (is_due, too_many) = self.progress.note_compute(self.hw.trace.accesses);
        let Some(computes) = too_many else { return is_due && self.exceeds_limits() };
        let name = &self.threads[self.hw.thread].name;
        self.broken_rule.get_or_insert_with(|| {
            in_host(|| {
                format!(
                    "thread {name:?} makes no progress: it has computed {computes} times, last at {site}, without an \
                     access to memory, a wait or an end"
                )
            })
        });
        true
    }

    /// Returns true if storing `value` releases a lock that threads spin for in a queue. The word must then
    /// stay unchanged: the following wake-up hands the lock to the first of them. A wake-up without such a
    /// store hands nothing over.
    #[inline]
    pub(crate) fn hands_over(&mut self, address: usize, value: u64) -> bool {
        !self.lock_queues.is_empty() && self.begin_handover(address, value)
    }

    fn begin_handover(&mut self, address: usize, value: u64) -> bool {
        let place = self.hw.place(address);
        let Some(first) = self.lock_queues.first(place) else { return false };
        let frees = matches!(
            self.threads[first].waits_for(),
            Some(Wait::LockQueue { free, .. }) if u64::from(free) == value
        );
        if frees {
            self.lock_queues.pop(place);
            self.threads[self.hw.thread].hands_lock_to = Some(first);
        }
        frees
    }

    /// Ends the spinning of the thread that was the first in a lock's queue.
    pub(super) fn hand_lock_to(&mut self, thread: usize) {
        self.threads[thread].become_runnable();
        let cpu = self.sched.cpu_of(thread);
        let transfer = self.hw.memory.latency(cpu, self.hw.cpu);
        self.hw.agenda.step_at(cpu, self.hw.now + transfer);
    }

    /// Records that the running thread has taken a lock. Under [`Profile::InKernel`] the holder of a lock
    /// keeps its CPU: waiters spin, and the next in line would spin on the CPU that the holder needs.
    #[inline]
    pub(crate) fn lock_is_taken(&mut self, address: usize, data: &'static str, taken_at: Site) {
        if self.settings.profile == Profile::InKernel {
            let held = HeldLock { address, data, taken_at };
            in_host(|| self.threads[self.hw.thread].held_locks.push(held));
        }
    }

    #[inline]
    pub(crate) fn lock_is_freed(&mut self, address: usize) {
        let held = &mut self.threads[self.hw.thread].held_locks;
        if let Some(at) = held.iter().rposition(|lock| lock.address == address) {
            held.remove(at);
        }
    }

    /// Reports that the running thread may leave its CPU (the kernel's `might_sleep`). This breaks a rule if
    /// it holds a lock.
    pub(super) fn might_sleep(&mut self, does: &str, site: Site) {
        let thread = &self.threads[self.hw.thread];
        let Some(lock) = thread.held_locks.last() else { return };
        let broken = || {
            format!(
                "thread {:?} {does} at {site} and holds the lock over {} that it took at {}: \
                 waiters for that lock spin, and may keep the CPU from it forever \
                 (costs in-kernel)",
                thread.name, lock.data, lock.taken_at
            )
        };
        if self.broken_rule.is_none() {
            self.broken_rule = Some(in_host(broken));
        }
    }

    /// Returns true if the running thread must yield now.
    pub(super) fn must_leave(&self) -> bool {
        self.hw.now >= self.sched.preempts_at(self.hw.cpu)
    }

    /// Returns true if the running thread must be preempted at a preemption point.
    pub(super) fn leaves_at_point(&self) -> bool {
        self.settings.profile == Profile::InKernel
            && self.threads[self.hw.thread].held_locks.is_empty()
            && self.must_leave()
    }

    /// Returns true once the run must end.
    pub(super) fn is_to_stop(&self) -> bool {
        self.settings.stop.as_ref().is_some_and(|stop| stop.load(Relaxed))
    }

    /// Lets the running thread spin for a turn. Returns how it pauses, if it does.
    pub(super) fn spin(&mut self) -> Option<Pause> {
        if !self.settings.at_waits && self.is_to_stop() {
            // A thread that computes for hours, while nothing else happens, yields to the engine, which ends
            // the run.
            return Some(Pause::NotNext);
        }
        self.hw.spin();
        self.faults.thread_spins(self.hw.thread);
        if self.settings.at_waits {
            self.looks_around(1);
            return Some(Pause::Yields);
        }
        self.hw.sleep_over_spins().map(|until| Pause::Spins { until })
    }

    /// Returns true if a thread's checks need not be simulated individually.
    pub(super) fn may_sleep_over_looks(&self) -> bool {
        !self.faults.is_active() && !self.settings.at_waits && !self.hw.has_uniform_memory()
    }

    /// Called after a failed turn of checks that began at `since`. If `left` turns like this one are to
    /// follow, returns until when the CPU may sleep.
    pub(super) fn sleep_over_looks(&mut self, since: Ps, left: u32) -> Option<Ps> {
        let until = self.hw.sleep_over_looks(since, left)?;
        Some(until.min(self.sched.preempts_at(self.hw.cpu)).max(self.hw.now))
    }

    /// Called when the running thread checks again, after its CPU slept. Returns how many turns had ended by
    /// then.
    pub(super) fn go_on_looking(&mut self) -> u64 {
        let thread = &mut self.threads[self.hw.thread];
        if std::mem::take(&mut thread.is_interrupted) {
            self.hw.now += self.hw.noise.interruption();
        }
        std::mem::take(&mut thread.turns_over)
    }

    /// Records that the running thread yields without waiting.
    pub(super) fn looks_around(&mut self, times: u32) {
        let now = self.hw.now;
        let hand = self.hand.as_mut().filter(|_| self.hw.thread == FIRST);
        let is_in_vain = hand.is_some_and(|hand| hand.looks_in_vain(times, now));
        if is_in_vain && self.broken_rule.is_none() {
            self.broken_rule = Some(in_host(|| {
                "the test's own thread repeatedly checks something that does not change: in a test by \
                 hand, nothing runs and no time passes before it calls tick, run_until_idle or advance, or waits"
                    .to_owned()
            }));
        }
    }

    /// Returns true while the running thread may not begin an item.
    pub(super) fn is_held_by_hand(&self) -> bool {
        let thread = self.hw.thread;
        let (does, first) = (&self.threads[thread], &self.threads[FIRST]);
        self.hand.as_ref().is_some_and(|hand| hand.holds(thread, does, first))
    }

    /// Begins the item of the function `name` on the running thread. If it `is_void`, the thread only removes
    /// it from a queue.
    pub(super) fn begin_item(&mut self, name: &'static str, is_void: bool) {
        let number = self.hw.thread;
        let thread = &mut self.threads[number];
        if !is_void {
            self.progress.note(self.hw.trace.simulated());
            self.items.note_begun();
            if let Some(hand) = self.hand.as_mut().filter(|_| thread.item().is_none()) {
                hand.item_begins();
            }
        }
        in_host(|| thread.items.push(name));
        if let Some(pulse) = &self.settings.pulse {
            pulse.turn(number, Some(name));
        }
    }

    /// Hands out a line that CPUs wait for. Ends the current event.
    pub(super) fn hand_out_line(&mut self, slot: usize, time: Ps) {
        if let Some((cpu, outcome)) = self.hw.hand_out_line(slot, time)
            && let Some(thread) = self.sched.current(cpu)
        {
            self.threads[thread].granted = Some(outcome);
        }
    }
}
