//! The kernel's operations on threads: waiting, waking, starting and ending.
#![allow(unsafe_code)]

use std::time::Duration;

use coreshard_platform::{AffinityError, SpawnError, ThreadSpec, user};
use coreshard_topology::CpuSet;
use corosensei::Coroutine;

use super::faults::{Call, refusal};
use super::hardware::Event;
use super::scheduler::Leaves;
use super::state::{SimState, current, in_turn, with};
use super::threads::{FIRST, ThreadState, Wait};
use super::waited_at::WaitedAt;
use crate::machine::{Ps, ps};
use crate::space::in_host;

impl SimState {
    /// Begins a wait of the running thread, for `timeout` at most.
    pub(super) fn begin_wait(&mut self, wait: Wait, timeout: Option<Duration>) {
        let (number, since) = (self.hw.thread, self.hw.now);
        let thread = &mut self.threads[number];
        thread.begin_wait(wait, since);
        // Other threads wait only for work, and always at the same place.
        if self.settings.record_waits && (number == FIRST || !thread.items.is_empty()) {
            thread.waited_at = Some(WaitedAt::here());
        }
        if let Some(hand) = &mut self.hand {
            hand.note_wait();
        }
        if let Some(timeout) = timeout {
            self.set_timer(number, since + ps(timeout));
        }
    }

    /// Makes a thread runnable at `at`. Returns when the waker has finished.
    pub(super) fn wake(&mut self, thread: usize, at: Ps) -> Ps {
        self.threads[thread].become_runnable();
        self.sched.wake(&mut self.hw, thread, at)
    }

    /// Wakes a thread that sleeps on a word. It becomes runnable later if faults delay its wake-up.
    pub(super) fn wake_sleeper(&mut self, thread: usize) {
        match self.faults.wakeup_delay(self.hw.now) {
            Some(delay) => {
                self.threads[thread].become_woken();
                self.set_timer(thread, self.hw.now + delay);
            }
            None => self.hw.now = self.wake(thread, self.hw.now),
        }
    }

    /// Sets a thread's timer to `deadline`, or keeps an earlier one.
    pub(super) fn set_timer(&mut self, thread: usize, deadline: Ps) {
        if self.threads[thread].set_deadline(deadline) {
            self.hw.agenda.push(deadline, Event::Timer(thread));
        }
    }

    /// Handles a timer's event: the time of a thread has run out, or the timer is stale.
    pub(super) fn timer(&mut self, thread: usize, time: Ps) {
        let Some(deadline) = self.threads[thread].take_timer(time) else { return };
        if deadline > time {
            return self.set_timer(thread, deadline);
        }
        if let Some(place) = self.threads[thread].time_out() {
            self.futexes.remove(place, thread);
        }
        // The timer's interrupt arrives at the thread's CPU, so none is sent.
        let running = std::mem::replace(&mut self.hw.cpu, self.sched.cpu_of(thread));
        self.wake(thread, time);
        self.hw.cpu = running;
    }

    /// Sets the running thread's CPUs. Returns true if it may stay on its CPU.
    pub(super) fn set_affinity(&mut self, cpus: &CpuSet) -> Result<bool, AffinityError> {
        if self.call_fails(Call::Affinity) {
            return Err(AffinityError::refused(cpus.clone(), refusal()));
        }
        self.sched.set_affinity(self.hw.thread, cpus, self.hw.cpu)
    }

    /// Starts a thread for the running one, unless that fails.
    pub(super) fn spawn(
        &mut self,
        spec: ThreadSpec,
        fifo_priority: u8,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<usize, SpawnError> {
        let by_first = self.hw.thread == FIRST;
        let is_spared =
            self.settings.spares_start.is_some_and(|spares| spares(&spec.name, by_first));
        let started = match self.faults.refuse_start(&spec, is_spared, self.hw.now) {
            Some((delay, error)) => {
                self.hw.now += delay;
                Err(error)
            }
            None => self.new_thread(spec, fifo_priority, body),
        };
        let thread = started.inspect_err(|_| self.faults.note_failed_start(self.hw.now))?;
        self.hw.now = self.wake(thread, self.hw.now);
        Ok(thread)
    }

    /// Creates a thread that is woken later.
    pub(super) fn new_thread(
        &mut self,
        mut spec: ThreadSpec,
        fifo_priority: u8,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<usize, SpawnError> {
        self.note_progress();
        let task = self
            .sched
            .new_task(&mut spec, fifo_priority, &self.hw)
            .map_err(|error| SpawnError::affinity(spec.name.clone(), error))?;
        // SAFETY: the arena lives as long as the simulation, and this is its only user now.
        let stack = unsafe { &mut *self.arena() }.stack();
        let stack = stack.map_err(|reason| SpawnError::refused(spec.name.clone(), reason))?;
        let number = self.threads.len();
        let body = Coroutine::with_stack(stack, move |suspender, ()| {
            let sim = current().expect("a coroutine is resumed inside its simulation");
            with(sim, |sim| {
                sim.suspender = suspender;
                sim.threads[number].suspender = suspender;
            });
            // The panic hook has reported a panic. It ends only this thread, as on the host.
            if let Err(thrown) = user::call(body) {
                drop(thrown);
                with(sim, |sim| sim.panicked += 1);
            }
            // The thread's end must not be visible before its time.
            in_turn(sim);
        });
        if let Some(pulse) = &self.settings.pulse {
            pulse.thread_is_new(&spec.name);
        }
        self.sched.add(task);
        self.threads.add(spec.name, body);
        Ok(number)
    }

    /// Handles the end of a CPU's thread.
    pub(super) fn finish_thread(&mut self, number: usize) {
        self.note_progress();
        let (body, joiners) = self.threads.finish(number);
        // SAFETY: as in `new_thread`.
        unsafe { &mut *self.arena() }.take_stack_back(body.into_stack());
        for joiner in joiners {
            self.hw.now = self.wake(joiner, self.hw.now);
        }
    }

    /// Takes the current thread off its CPU. It stays runnable if its state says so.
    pub(super) fn switch_out(&mut self, cpu: usize, now: Ps) {
        let thread = self.sched.current(cpu);
        let leaves = match thread.map(|thread| self.threads[thread].state()) {
            None | Some(ThreadState::Over) => Leaves::Over,
            Some(ThreadState::Runnable) => Leaves::Runnable,
            Some(ThreadState::Waiting { .. }) => Leaves::Waiting,
        };
        self.sched.switch_out(&mut self.hw, cpu, now, leaves);
    }

    /// Takes a random CPU offline. Ends the current event.
    pub(super) fn some_cpu_goes_offline(&mut self, now: Ps) {
        let online = self.sched.online_cpus();
        let next = self.faults.next_offline();
        if online.len() > 1 {
            let (which, duration) = self.faults.offline(online.len());
            let cpu = online[which];
            self.hw.agenda.push_background(now + duration, Event::Online(cpu));
            self.sched.go_offline(&mut self.hw, cpu, now);
        }
        match next {
            Some(next) => self.hw.agenda.end_with(now + next, Event::Offline),
            None => self.hw.agenda.end_background(),
        }
    }

    /// Ends the run by hand: threads that were held back continue, and the program runs normally.
    pub(crate) fn end_by_hand(&mut self) {
        let Some(hand) = self.hand.take() else { return };
        let now = self.hw.now;
        in_host(|| {
            for thread in hand.into_held() {
                self.wake(thread, now);
            }
        });
    }
}
