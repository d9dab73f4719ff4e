//! The event loop, and one turn of a CPU: which thread it runs, and until when.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

use coreshard_platform::ThreadSpec;
use corosensei::CoroutineResult;

use super::hand::Quiet;
use super::hardware::Event;
use super::settings::Settings;
use super::state::{EnterGuard, Pause, SimState, with_current};
use super::threads::FIRST;
use super::view::{SimError, Stuck, View};
use crate::machine::{Machine, NS, Ps, ps};
use crate::profile::Profile;
use crate::space::{Arena, in_arena};

/// The schedule does not wait for a thread whose next turn is later than this.
const SOON: Ps = 100_000 * NS;

/// Observes a run from outside: how, how often, and when next.
pub(super) struct Watch<'a> {
    pub(super) next: Ps,
    pub(super) every: Ps,
    /// Returns an error if a rule is broken.
    pub(super) look: &'a mut (dyn FnMut(&View<'_>) -> Result<(), String> + 'a),
}

/// A running simulation. Dropping it ends it.
pub(super) struct RunningSimulation {
    sim: *mut SimState,
    arena: NonNull<Arena>,
}

impl RunningSimulation {
    pub(super) fn new(machine: &Machine, arena: NonNull<Arena>, settings: Settings) -> Self {
        Self { sim: Box::into_raw(Box::new(SimState::new(machine, arena, settings))), arena }
    }

    pub(super) fn sim(&mut self) -> &mut SimState {
        // SAFETY: created by `Box::into_raw`, and freed by `drop`; no coroutine runs.
        unsafe { &mut *self.sim }
    }

    /// Runs to the end. Returns when the first thread finished, in nanoseconds.
    pub(super) fn run(
        &mut self,
        program: impl FnOnce(),
        mut watch: Option<Watch<'_>>,
    ) -> Result<u64, SimError> {
        let mut end = None;
        let program: Box<dyn FnOnce() + '_> = Box::new(|| {
            program();
            end = with_current(|sim| {
                let end = sim.hw.now;
                sim.end_by_hand();
                end
            });
        });
        // SAFETY: the closure is run, or forgotten, before this function's caller continues: `drop` forgets
        // all coroutines. It stays on this host thread.
        let program: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(program) };
        let sim = self.sim();
        let spec = ThreadSpec { name: "main".to_owned(), ..ThreadSpec::default() };
        let root = sim
            .new_thread(spec, 0, program)
            .map_err(|error| SimError::Setup(io::Error::other(error.to_string())))?;
        sim.wake(root, 0);
        let mut settles_until = None;
        while !is_over(self.sim(), &mut settles_until) {
            let sim = self.sim();
            look_by_hand(sim)?;
            let Some((time, what)) = sim.hw.agenda.begin() else {
                return Err(SimError::Deadlock(Stuck::of(sim)));
            };
            check(sim, time, watch.as_mut())?;
            match what {
                Event::Timer(thread) => {
                    sim.timer(thread, time);
                    sim.hw.agenda.end();
                }
                Event::Tick(cpu) => {
                    sim.sched.tick(&mut sim.hw, cpu, time);
                    sim.hw.agenda.end();
                }
                Event::Offline => sim.some_cpu_goes_offline(time),
                Event::Online(cpu) => {
                    sim.hw.agenda.end_background();
                    sim.sched.come_online(&mut sim.hw, cpu, time);
                }
                Event::Line(slot) => sim.hand_out_line(slot, time),
                // SAFETY: the simulation lives, and the reference to it is not used any more.
                Event::Cpu(cpu) => unsafe { step(self.sim, cpu, time) },
            }
            let sim = self.sim();
            if let Some(rule) = sim.broken_rule.take() {
                return Err(SimError::Broken { rule, stuck: Stuck::of(sim) });
            }
        }
        Ok(end.unwrap_or(0) / NS)
    }
}

impl Drop for RunningSimulation {
    fn drop(&mut self) {
        // SAFETY: created by `Box::into_raw` in `new`, and freed only here.
        let mut sim = unsafe { Box::from_raw(self.sim) };
        for body in sim.threads.bodies() {
            // SAFETY: the stack's values are leaked; nothing resumes it.
            unsafe { body.force_reset() };
        }
        drop(sim);
        // SAFETY: the simulation's own reference, dropped once.
        unsafe { Arena::end_simulation(self.arena) };
    }
}

/// Returns true when the program has returned, and no remaining thread runs or wakes soon enough.
fn is_over(sim: &SimState, settles_until: &mut Option<Ps>) -> bool {
    let alive = sim.threads.alive();
    if !sim.threads[FIRST].is_over() || alive > 0 && sim.hw.agenda.has_busy_cpus() {
        return false;
    }
    let settles_until =
        *settles_until.get_or_insert(sim.last_time.saturating_add(ps(sim.settings.settle)));
    let soon = sim.hw.agenda.first_time().is_some_and(|time| time < settles_until);
    alive == 0 || !(sim.hw.agenda.has_timers() && soon)
}

/// If the run is by hand, between two events: lets the first thread continue, or an item begin, if nothing
/// else can.
fn look_by_hand(sim: &mut SimState) -> Result<(), SimError> {
    let Some(hand) = &mut sim.hand else { return Ok(()) };
    let until = hand.until();
    let (first, next) = (&sim.threads[FIRST], sim.hw.agenda.first_time());
    let may_go_on = sim.hw.agenda.has_busy_cpus() || next.is_some_and(|next| next <= until);
    if first.is_over() || may_go_on {
        return Ok(());
    }
    sim.hw.now = sim.hw.now.max(until);
    sim.last_time = sim.last_time.max(until);
    match hand.when_quiet(first) {
        Quiet::FirstGoesOn => sim.wake(FIRST, until),
        Quiet::ItemBegins(thread) => sim.wake(thread, sim.hw.now),
        Quiet::InVain if next.is_none() => return Err(SimError::Deadlock(Stuck::of(sim))),
        Quiet::InVain => {
            let rule = "the test's own thread waits for what cannot come now: no item is left to run, and virtual \
                        time passes by advance alone"
                .to_owned();
            return Err(SimError::Broken { rule, stuck: Stuck::of(sim) });
        }
    };
    Ok(())
}

/// Checks at the beginning of an event at this time whether the run may continue.
fn check(sim: &mut SimState, time: Ps, watch: Option<&mut Watch<'_>>) -> Result<(), SimError> {
    if sim.hw.agenda.is_idle() {
        return Err(SimError::Deadlock(Stuck::of(sim)));
    }
    // Not a separate event, which would affect the run.
    if let Some(watch) = watch.filter(|watch| time >= watch.next) {
        watch.next = time + watch.every;
        sim.last_time = sim.last_time.max(time);
        if let Err(rule) = (watch.look)(&View { sim, now_ns: time / NS }) {
            return Err(SimError::Broken { rule, stuck: Stuck::of(sim) });
        }
    }
    if sim.is_to_stop() {
        // Stopped now, so that the threads can be unwound.
        sim.settings.stop = None;
        return Err(SimError::Stopped);
    }
    if time > ps(sim.settings.time_limit) {
        return Err(SimError::TimeLimit(Stuck::of(sim)));
    }
    if sim.resumes > sim.settings.turn_limit {
        let turns = sim.settings.turn_limit;
        let rule = format!("the simulated program did not finish within {turns} turns");
        return Err(SimError::Broken { rule, stuck: Stuck::of(sim) });
    }
    Ok(())
}

/// Returns until when the schedule holds back the thread whose turn it is.
fn held_back(sim: &mut SimState, cpu: usize, now: Ps) -> Option<Ps> {
    let thread = sim.sched.current(cpu)?;
    let others = (0..sim.hw.agenda.cpus()).filter_map(|other| {
        // A spinning thread cannot continue before another does, and a computing one will not for long.
        let soon = sim.hw.agenda.next_step(other).is_some_and(|step| step < now + SOON);
        let can = other != cpu && soon && !sim.hw.spinning.is_asleep(other);
        if can { sim.sched.current_or_next(other) } else { None }
    });
    sim.faults.held_back_until(thread, cpu, now, others)
}

/// Lets the running CPU take its next thread, or become idle. Ends the current event.
fn take_next(sim: &mut SimState, cpu: usize) {
    let now = sim.hw.now;
    sim.switch_out(cpu, now);
    match sim.sched.switch_in(&mut sim.hw, cpu, now) {
        Some(begin) => sim.hw.agenda.step_on(cpu, begin),
        None => sim.hw.agenda.end(),
    }
}

/// Begins the turn of a CPU. Returns the thread that it runs now; `None` if there is none, and the event has
/// ended.
fn begin_turn(sim: &mut SimState, cpu: usize, time: Ps) -> Option<usize> {
    let Some(slept) = sim.hw.begin_step(cpu, time) else {
        sim.hw.agenda.end();
        return None;
    };
    sim.last_time = sim.last_time.max(time);
    if let Some(slept) = slept
        && let Some(thread) = sim.sched.current(cpu)
    {
        sim.threads[thread].turns_over = slept.turns;
        sim.threads[thread].is_interrupted |= slept.is_interrupted;
    }
    let late = held_back(sim, cpu, time);
    if let Some(later) = late.or_else(|| sim.faults.stall().map(|stall| time + stall)) {
        sim.hw.agenda.step_on(cpu, later);
        return None;
    }
    let preemptible = sim.settings.profile == Profile::Futex;
    let stays = sim.sched.current(cpu).is_some()
        && !(preemptible && sim.must_leave() && !sim.sched.goes_on(cpu, time));
    if !stays {
        sim.switch_out(cpu, time);
        match sim.sched.switch_in(&mut sim.hw, cpu, time) {
            Some(begin) if begin < sim.hw.agenda.next_time() => sim.hw.now = begin,
            Some(begin) => {
                sim.hw.agenda.step_on(cpu, begin);
                return None;
            }
            None => {
                sim.hw.agenda.end();
                return None;
            }
        }
    }
    let number = sim.sched.current(cpu).expect("a continuing CPU has a thread");
    let leaves = if preemptible { sim.sched.preempts_at(cpu) } else { Ps::MAX };
    let limit = leaves.min(sim.hw.now.saturating_add(sim.faults.turn()));
    sim.hw.begin_turn(number, limit);
    let thread = &sim.threads[number];
    if let Some(pulse) = &sim.settings.pulse {
        pulse.turn(number, thread.item());
    }
    sim.resumes += 1;
    sim.suspender = thread.suspender;
    Some(number)
}

/// Runs a CPU's thread until it pauses.
///
/// # Safety
/// The simulation must be live, without any reference to it.
unsafe fn step(sim: *mut SimState, cpu: usize, time: Ps) {
    // SAFETY: by this function's contract; the reference ends before the coroutine is resumed.
    let c = unsafe { &mut *sim };
    let Some(number) = begin_turn(c, cpu, time) else { return };
    let arena = c.arena();
    // Boxed, so its address is stable when threads are added.
    let body: *mut _ =
        &mut **c.threads[number].body.as_mut().expect("a thread that runs has a body");
    let result = {
        let _inside = EnterGuard::new(sim);
        // SAFETY: the arena and the coroutine live; nothing else resumes the coroutine.
        unsafe { in_arena(arena, || (*body).resume(())) }
    };
    // SAFETY: the coroutine is suspended or finished, so this is the only reference again.
    end_turn(unsafe { &mut *sim }, cpu, number, result);
}

/// Handles a pause of a CPU's thread.
fn end_turn(sim: &mut SimState, cpu: usize, thread: usize, result: CoroutineResult<(), ()>) {
    let CoroutineResult::Yield(()) = result else {
        sim.hw.wait_for_loaded();
        sim.hw.end_turn();
        sim.finish_thread(thread);
        return take_next(sim, cpu);
    };
    sim.hw.end_turn();
    let now = sim.hw.now;
    match sim.pause {
        // If it must make room for another thread, it does so at its next turn, not before its time.
        Pause::NotNext => sim.hw.agenda.step_on(cpu, now),
        Pause::Spins { until } => {
            sim.hw.agenda.step_on(cpu, until);
            // It may continue sooner.
            sim.hw.agenda.set_clock(cpu, now);
        }
        // The CPU that hands the lock over, or the line's arbiter, starts this CPU again.
        Pause::SpinsInQueue | Pause::AwaitsLine => sim.hw.agenda.end(),
        Pause::Preempted if sim.sched.goes_on(cpu, now) => sim.hw.agenda.step_on(cpu, now),
        Pause::Yields if sim.sched.yields_to_none(cpu, now) => {
            let takes = sim.hw.noise.call(sim.hw.costs.look_for_others());
            sim.hw.agenda.step_on(cpu, now + takes);
        }
        Pause::Waits | Pause::Yields | Pause::Preempted | Pause::Moves => take_next(sim, cpu),
    }
}
