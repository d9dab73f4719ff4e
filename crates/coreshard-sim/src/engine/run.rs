//! One turn of a CPU: which thread it runs, and until when.
#![allow(unsafe_code)]

use std::ptr;

use corosensei::CoroutineResult;

use super::events::Event;
use super::fault_injector::FaultInjector;
use super::state::{EnterGuard, Pause, SimState};
use crate::machine::{NS, Ps};
use crate::memory::prefetch;
use crate::profile::Profile;
use crate::space::in_arena;

/// A thread whose next turn is later than this is not waited for by the schedule.
const SOON: Ps = 100_000 * NS;

impl SimState {
    /// Until when the schedule holds back the thread whose turn it is.
    fn held_back(&mut self, cpu: usize, now: Ps) -> Option<Ps> {
        let thread = self.cpus[cpu].current?;
        let injector = self.injector.as_mut()?;
        let others = self.cpus.iter().enumerate().filter_map(|(place, other)| {
            // One that spins cannot go on before somebody else does, and one that computes will
            // not for long.
            let soon = other.step_at.is_some_and(|step| step < now + SOON);
            let can = place != cpu && soon && other.spins_on.is_empty();
            if can { other.current_or_next() } else { None }
        });
        injector.held_back_until(thread, cpu, now, others)
    }

    /// The host fetches what the turn after this one needs, while this one runs: with many CPUs it is in no near cache.
    #[inline]
    fn prefetch_next(&self) {
        let Some(Event::Cpu(cpu)) = self.events.after_this() else { return };
        let needs = self.cpus[cpu].needs;
        for line in 0..4 {
            prefetch(ptr::without_provenance::<u8>(needs.stack.wrapping_add(64 * line)));
        }
        self.memory.prefetch(needs.word);
    }

    /// The running CPU takes its next thread, or is idle. Ends the event that is handled.
    fn go_on(&mut self, cpu: usize) {
        match self.switch_in(cpu, self.now) {
            Some(begin) => self.step_on(cpu, begin),
            None => self.events.end(),
        }
    }

    fn step_on(&mut self, cpu: usize, time: Ps) {
        self.cpus[cpu].clock = time;
        self.cpus[cpu].step_at = Some(time);
        self.busy_cpus += 1;
        self.events.end_with(time, Event::Cpu(cpu));
    }
}

/// A CPU goes on: its thread runs until it pauses.
///
/// # Safety
/// The simulation lives, and nobody has a reference to it.
pub(super) unsafe fn step(sim: *mut SimState, cpu: usize, time: Ps) {
    // SAFETY: by this function's contract; the reference ends before the coroutine is resumed.
    let c = unsafe { &mut *sim };
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
    c.end_looking(cpu, time);
    if let Some(until) = c.held_back(cpu, time) {
        return c.step_on(cpu, until);
    }
    if let Some(stall) = c.injector.as_mut().and_then(FaultInjector::stall) {
        return c.step_on(cpu, time + stall);
    }
    c.prefetch_next();
    let preemptible = c.profile == Profile::Futex;
    if c.cpus[cpu].current.is_none() || (preemptible && c.must_leave() && !c.goes_on(cpu, time)) {
        c.switch_out(cpu, time);
        match c.switch_in(cpu, time) {
            None => return c.events.end(),
            Some(begin) if begin >= c.events.next_time() => return c.step_on(cpu, begin),
            Some(begin) => c.now = begin,
        }
    }
    let number = c.cpus[cpu].current.expect("a CPU that goes on has a thread");
    c.thread = number;
    c.spin_detector = c.cpus[cpu].spin_detector;
    let leaves = if preemptible { c.cpus[cpu].preempts_at() } else { Ps::MAX };
    let turn = c.injector.as_mut().map_or(Ps::MAX, FaultInjector::turn);
    c.horizon = c.events.next_time().min(leaves).min(c.now.saturating_add(turn));
    c.accesses_in_turn = 0;
    if c.mode.at_waits {
        c.horizon = Ps::MAX;
    }
    if let Some(pulse) = &c.pulse {
        pulse.turn(number, c.item_of(number));
    }
    c.pauses += 1;
    c.trace_hash = c.trace_hash.rotate_left(7) ^ c.now ^ (number as u64) << 48;
    let (arena, thread) = (c.arena(), &mut c.threads[number]);
    c.suspender = thread.suspender;
    // Boxed, so it stays where it is when threads are added.
    let body: *mut _ = &mut **thread.body.as_mut().expect("a thread that runs has a body");
    let result = {
        let _inside = EnterGuard::new(sim);
        // SAFETY: the arena and the coroutine live; the coroutine is resumed by nobody else.
        unsafe { in_arena(arena, || (*body).resume(())) }
    };
    // SAFETY: the coroutine is suspended or over, so this is the only reference again.
    let c = unsafe { &mut *sim };
    if matches!(result, CoroutineResult::Return(())) {
        c.wait_for_loaded();
    }
    c.cpus[cpu].spin_detector = c.spin_detector;
    c.cpus[cpu].clock = c.now;
    c.cpus[cpu].needs = c.needs;
    match (result, c.pause) {
        (CoroutineResult::Return(()), _) => {
            c.finish_thread(number);
            c.switch_out(cpu, c.now);
            c.go_on(cpu);
        }
        // If it is to make room for another, it does so at its next turn: not before its time.
        (CoroutineResult::Yield(()), Pause::NotNext) => c.step_on(cpu, c.now),
        (CoroutineResult::Yield(()), Pause::Spins { until }) => {
            c.step_on(cpu, until);
            // It may go on sooner.
            c.cpus[cpu].clock = c.now;
        }
        // Whoever hands the lock over, or the line, starts this CPU again.
        (CoroutineResult::Yield(()), Pause::SpinsInQueue | Pause::AwaitsLine) => c.events.end(),
        (CoroutineResult::Yield(()), Pause::Preempted) if c.goes_on(cpu, c.now) => {
            c.step_on(cpu, c.now);
        }
        (CoroutineResult::Yield(()), Pause::Yields) if c.yields_to_nobody(cpu, c.now) => {
            let takes = c.call_takes(c.costs.look_for_others());
            c.step_on(cpu, c.now + takes);
        }
        (CoroutineResult::Yield(()), _) => {
            c.switch_out(cpu, c.now);
            c.go_on(cpu);
        }
    }
}
