//! What the supervisor does: it replaces the threads of demoted tasks, joins threads that have ended, and
//! shuts the executor down. Others only call it, and do not wait:
//!
//! 1. *No thread joins itself.* The supervisor joins all threads but its own, and runs no user's code. Its own
//!    is joined by whoever drops the executor, unless that is one of the executor's threads (each knows by a
//!    thread-local pointer): then by nobody.
//! 2. *A shutdown starts no thread.* The supervisor is there from the beginning.
//! 3. What is to be done is in the state that it reads: a thread that has ended, a demoted task, the
//!    shutdown. `calls` is advanced *after* that was written, and the supervisor reads it *before* the state;
//!    so it reads the state again, or its futex wait returns at once.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

use coreshard_platform::{AtomicInt, LocalKey, LockedMemory, Policy, RealTime, ThreadSpec};

use super::cpu::CpuState;
use super::priority_thread::{RunningTask, ThreadSlot};
use super::shared::Shared;
use crate::error::RtError;
use crate::level::{Level, Priority};

/// How soon it tries again: to start a thread that could not be had, and to see the last tasks done.
const RETRY: Duration = Duration::from_millis(10);
const SHUTDOWN_POLL: Duration = Duration::from_millis(1);

/// On each thread of the executor: reports its end.
struct ExitGuard<P: RealTime> {
    shared: Arc<Shared<P>>,
    number: u64,
}

impl<P: RealTime> Drop for ExitGuard<P> {
    fn drop(&mut self) {
        let supervisor = &self.shared.supervisor;
        supervisor.threads.lock().ended.push(self.number);
        supervisor.call();
    }
}

impl<P: RealTime> Shared<P> {
    /// Starts a thread, which the supervisor joins when it ends.
    pub(super) fn start_thread(
        self: &Arc<Self>,
        name: String,
        position: Option<usize>,
        policy: Policy,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<(), RtError> {
        let affinity = position.map(|position| [self.cpus[position].id].into_iter().collect());
        let spec = ThreadSpec {
            name,
            affinity,
            stack_bytes: Some(self.options.stack_bytes),
            ..ThreadSpec::default()
        };
        let number = {
            let mut threads = self.supervisor.threads.lock();
            threads.next += 1;
            threads.next
        };
        let shared = Arc::clone(self);
        let body = move || {
            P::set_local(LocalKey::Executor, shared.identity());
            let _guard = ExitGuard { shared, number };
            body();
        };
        let thread = P::spawn_as(spec, policy, Box::new(body)).map_err(RtError::thread)?;
        let has_ended = {
            let mut threads = self.supervisor.threads.lock();
            threads.running.insert(number, thread);
            threads.ended.contains(&number)
        };
        if has_ended {
            self.supervisor.call();
        }
        Ok(())
    }

    /// Starts the supervisor, above or beside all tasks, as far as that is granted.
    pub(super) fn start_supervisor(
        self: &Arc<Self>,
        memory: Option<LockedMemory>,
    ) -> Result<P::Thread, RtError> {
        let spec = ThreadSpec { name: "rt-supervisor".to_owned(), ..ThreadSpec::default() };
        let shared = Arc::clone(self);
        let body = move || shared.supervise(memory);
        P::spawn_as(spec, self.highest_policy(), Box::new(body)).map_err(RtError::thread)
    }

    /// Whether the calling thread is one of this executor's.
    pub(super) fn is_own_thread(&self) -> bool {
        P::local(LocalKey::Executor) == self.identity()
    }

    fn identity(&self) -> *mut () {
        (&raw const *self).cast_mut().cast()
    }

    /// The supervisor's body. The memory is unlocked at its end.
    fn supervise(self: Arc<Self>, memory: Option<LockedMemory>) {
        let supervisor = &self.supervisor;
        let mut is_shutting_down = false;
        loop {
            // Acquire pairs with the Release of `call`.
            let seen = supervisor.calls.load(Acquire);
            supervisor.join_ended();
            let is_short = self.replace_threads();
            let mut timeout = is_short.then_some(RETRY);
            // Acquire pairs with the Release of `end`: what the executor's users did is seen.
            if supervisor.ends.load(Acquire) != 0 {
                if !is_shutting_down {
                    self.begin_shutdown();
                    is_shutting_down = true;
                }
                if self.task_counts.all_finished() {
                    break;
                }
                timeout = Some(SHUTDOWN_POLL);
            }
            P::wait(&supervisor.calls, seen, timeout);
        }
        self.ends.fetch_or(1, AcqRel);
        P::wake_all(&raw const self.ends);
        for cpu in &*self.cpus {
            let slots: Vec<_> = cpu.lock().threads.iter_mut().flat_map(std::mem::take).collect();
            slots.iter().for_each(|slot| slot.thread.exit());
        }
        supervisor.join_all();
        drop(memory);
    }

    /// From here on nothing is accepted any more.
    fn begin_shutdown(&self) {
        self.timers.end();
        self.stop_periodics();
        // What waits for a CPU that is offline gets it now.
        (0..self.cpus.len()).for_each(|position| self.bring_online(position));
    }

    /// Replaces each thread that runs a demoted task by a fresh one, so that its CPU goes on. True where
    /// one cannot be had now.
    fn replace_threads(self: &Arc<Self>) -> bool {
        let mut is_short = false;
        for (position, cpu) in self.cpus.iter().enumerate() {
            // Relaxed: it was set under the CPU's lock, which is taken next.
            let is_needed = cpu.needs_supervisor.load(Relaxed) != 0
                && cpu.needs_supervisor.swap(0, Relaxed) != 0;
            if is_needed && !self.replace_threads_at(position) {
                cpu.needs_supervisor.store(1, Relaxed);
                is_short = true;
            }
        }
        is_short
    }

    fn replace_threads_at(self: &Arc<Self>, position: usize) -> bool {
        let mut all = true;
        loop {
            let Some((priority, id)) = self.cpus[position].lock().demoted() else { break };
            let Ok(fresh) = self.new_thread(position, priority) else {
                all = false;
                break;
            };
            let mut state = self.cpus[position].lock();
            let level = priority.level();
            let is_task = |running: RunningTask| running.id == id;
            let mut slots = state.threads[level.index()].iter_mut();
            match slots.find(|slot| slot.running.is_some_and(is_task)) {
                Some(slot) => {
                    // The old one exits after its task.
                    *slot = ThreadSlot::new(fresh);
                    state.leave(level);
                    state.publish();
                }
                None => {
                    // It was over just then, and its thread stays.
                    drop(state);
                    fresh.exit();
                }
            }
        }
        self.take_waiting(position);
        all
    }
}

impl<P: RealTime> CpuState<P> {
    /// A task that the watchdog has demoted, and whose thread was not replaced yet.
    fn demoted(&self) -> Option<(Priority, u64)> {
        let levels = self.threads.iter().enumerate();
        let slots = levels.flat_map(|(level, slots)| slots.iter().map(move |slot| (level, slot)));
        let mut demoted = slots.filter_map(|(level, slot)| {
            let running = slot.running.filter(|running| running.demoted)?;
            Some((Priority::of(Level::from_index(level))?, running.id))
        });
        demoted.next()
    }
}
