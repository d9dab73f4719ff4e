//! The keeper: a thread that does what others may not wait for.
//!
//! It starts threads on behalf of the watchdog, joins those that have ended, and ends the executor.
//! Everybody else only tells it:
//!
//! 1. *Nobody joins himself.* The keeper joins all threads but itself, as they end. It runs no code of a
//!    user's. Its own thread is joined by whoever drops the executor, unless that is one of the executor's
//!    threads (each knows it by a thread-local pointer, until it is gone): then by nobody.
//! 2. *Whatever ends an executor starts no thread.* The keeper is there from the beginning.
//! 3. What is to be done is in the state that it looks at: a thread that has ended, a CPU that lacks a
//!    lane, the end. `calls` is advanced *after* that was written, and the keeper reads it *before* it
//!    looks; so it looks again, or sleeps on a number that is no longer there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{
    AtomicInt, LocalKey, Lock, LockedMemory, Policy, RealTime, ThreadHandle, ThreadSpec,
};

use super::Shared;
use super::cpu::{CpuState, Place, Running};
use crate::error::RtError;
use crate::level::{Level, Priority};

/// How long it waits before it looks again: for a thread that could not be had, and for the last tasks.
const RETRY: Duration = Duration::from_millis(10);
const LOOK_FOR_THE_END: Duration = Duration::from_millis(1);

pub(super) struct Keeper<P: RealTime> {
    /// Advanced with everything that it is told; it sleeps on this.
    calls: P::AtomicU32,
    /// 1 once the executor was dropped.
    ends: P::AtomicU32,
    threads: Lock<P, Threads<P>>,
}

/// The executor's threads, without the keeper.
struct Threads<P: RealTime> {
    next: u64,
    /// By number, from the start of each until it is joined.
    running: BTreeMap<u64, P::Thread>,
    /// Those that are at their end and not joined. One may be named here before it is there.
    ended: Vec<u64>,
}

impl<P: RealTime> Keeper<P> {
    pub(super) fn new() -> Self {
        let threads = Threads { next: 0, running: BTreeMap::new(), ended: Vec::new() };
        Self {
            calls: P::AtomicU32::new(0),
            ends: P::AtomicU32::new(0),
            threads: Lock::new(threads),
        }
    }

    /// Tells the keeper that there is something to do. Never waits.
    pub(super) fn call(&self) {
        // Release pairs with the Acquire in `keep`: who sees the call sees what it is about.
        self.calls.fetch_add(1, Release);
        P::wake_all(&raw const self.calls);
    }

    /// Tells the keeper to end the executor.
    pub(super) fn end(&self) {
        self.ends.store(1, Release);
        self.call();
    }

    /// Joins the threads that are at their end.
    fn join_ended(&self) {
        let ended: Vec<P::Thread> = {
            let mut threads = self.threads.lock();
            let Threads { running, ended, .. } = &mut *threads;
            let mut handles = Vec::new();
            ended.retain(|number| match running.remove(number) {
                Some(thread) => {
                    handles.push(thread);
                    false
                }
                // Whoever starts it has not got its handle yet, and will call.
                None => true,
            });
            handles
        };
        ended.into_iter().for_each(ThreadHandle::join);
    }

    /// Joins all threads, which were told to end, and start no others.
    fn join_all(&self) {
        let running = std::mem::take(&mut self.threads.lock().running);
        running.into_values().for_each(ThreadHandle::join);
    }
}

/// On a thread of the executor's: says that it is at its end, when it is.
struct Leaves<P: RealTime> {
    shared: Arc<Shared<P>>,
    number: u64,
}

impl<P: RealTime> Drop for Leaves<P> {
    fn drop(&mut self) {
        let keeper = &self.shared.keeper;
        keeper.threads.lock().ended.push(self.number);
        keeper.call();
    }
}

impl<P: RealTime> Shared<P> {
    /// Starts a thread, which the keeper joins when it ends.
    pub(super) fn start_thread(
        self: &Arc<Self>,
        name: String,
        place: Option<usize>,
        policy: Policy,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<(), RtError> {
        let affinity = place.map(|place| [self.cpus[place].id].into_iter().collect());
        let spec = ThreadSpec {
            name,
            affinity,
            stack_bytes: Some(self.options.stack_bytes),
            ..ThreadSpec::default()
        };
        let number = {
            let mut threads = self.keeper.threads.lock();
            threads.next += 1;
            threads.next
        };
        let shared = Arc::clone(self);
        let body = move || {
            P::set_local(LocalKey::Executor, shared.identity());
            let _leaves = Leaves { shared, number };
            body();
        };
        let thread = P::spawn_as(spec, policy, Box::new(body)).map_err(RtError::thread)?;
        let has_ended = {
            let mut threads = self.keeper.threads.lock();
            threads.running.insert(number, thread);
            threads.ended.contains(&number)
        };
        if has_ended {
            self.keeper.call();
        }
        Ok(())
    }

    /// Starts the keeper, above or beside all tasks, as far as that is granted.
    pub(super) fn start_keeper(
        self: &Arc<Self>,
        memory: Option<LockedMemory>,
    ) -> Result<P::Thread, RtError> {
        let spec = ThreadSpec { name: "rt-keeper".to_owned(), ..ThreadSpec::default() };
        let shared = Arc::clone(self);
        let body = move || shared.keep(memory);
        P::spawn_as(spec, self.highest_policy(), Box::new(body)).map_err(RtError::thread)
    }

    /// Whether the calling thread is one of this executor's.
    pub(super) fn is_own_thread(&self) -> bool {
        P::local(LocalKey::Executor) == self.identity()
    }

    fn identity(&self) -> *mut () {
        (&raw const *self).cast_mut().cast()
    }

    /// The keeper's life. The memory is unlocked at the end of it.
    fn keep(self: Arc<Self>, memory: Option<LockedMemory>) {
        let keeper = &self.keeper;
        let mut is_told = false;
        loop {
            // Acquire pairs with the Release of `call`.
            let seen = keeper.calls.load(Acquire);
            keeper.join_ended();
            let is_short = self.replace_lanes();
            let mut timeout = is_short.then_some(RETRY);
            // Acquire pairs with the Release of `end`: what the executor's users did is seen.
            if keeper.ends.load(Acquire) != 0 {
                if !is_told {
                    self.tell_the_end();
                    is_told = true;
                }
                if self.tally.is_quiet() {
                    break;
                }
                timeout = Some(LOOK_FOR_THE_END);
            }
            P::wait(&keeper.calls, seen, timeout);
        }
        self.ends.fetch_or(1, AcqRel);
        P::wake_all(&raw const self.ends);
        for cpu in &*self.cpus {
            let lanes: Vec<_> = cpu.lock().lanes.iter_mut().flat_map(std::mem::take).collect();
            lanes.iter().for_each(|place| place.lane.end());
        }
        keeper.join_all();
        drop(memory);
    }

    /// From here on nothing begins but what was accepted.
    fn tell_the_end(&self) {
        self.timers.end();
        self.stop_periodics();
        // What waits for a CPU that was taken out gets it back now.
        (0..self.cpus.len()).for_each(|place| self.bring_online(place));
    }

    /// Puts a fresh lane in the place of each that runs a demoted task, so that its CPU goes on. True
    /// where one cannot be had now.
    fn replace_lanes(self: &Arc<Self>) -> bool {
        let mut is_short = false;
        for (place, cpu) in self.cpus.iter().enumerate() {
            // It was set under the CPU's lock, which is taken next: what it is about is seen there.
            let is_needed =
                cpu.needs_keeper.load(Relaxed) != 0 && cpu.needs_keeper.swap(0, Relaxed) != 0;
            if is_needed && !self.replace_lanes_at(place) {
                cpu.needs_keeper.store(1, Relaxed);
                is_short = true;
            }
        }
        is_short
    }

    fn replace_lanes_at(self: &Arc<Self>, place: usize) -> bool {
        let mut all = true;
        loop {
            let Some((priority, id)) = self.cpus[place].lock().demoted() else { break };
            let Ok(fresh) = self.new_lane(place, priority) else {
                all = false;
                break;
            };
            let mut state = self.cpus[place].lock();
            let level = priority.level();
            let is_task = |running: Running| running.id == id;
            let mut lanes = state.lanes[level.index()].iter_mut();
            match lanes.find(|place| place.running.is_some_and(is_task)) {
                Some(place_of_task) => {
                    // The old one goes home after its task.
                    *place_of_task = Place::new(fresh);
                    state.leave(level);
                    state.publish();
                }
                None => {
                    // It was over just then, and its lane is one as before.
                    drop(state);
                    fresh.end();
                }
            }
        }
        self.take_waiting(place);
        all
    }
}

impl<P: RealTime> CpuState<P> {
    /// A task that the watchdog has demoted, and that still has its lane's place.
    fn demoted(&self) -> Option<(Priority, u64)> {
        let levels = self.lanes.iter().enumerate();
        let lanes = levels.flat_map(|(level, lanes)| lanes.iter().map(move |lane| (level, lane)));
        let mut demoted = lanes.filter_map(|(level, lane)| {
            let running = lane.running.filter(|running| running.demoted)?;
            Some((Priority::of(Level::from_index(level))?, running.id))
        });
        demoted.next()
    }
}
