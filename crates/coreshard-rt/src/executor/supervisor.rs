//! The supervisor's state: how it is notified, and the threads that it joins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, LocalKey, Lock, Policy, RealTime, ThreadHandle, ThreadSpec};
use coreshard_topology::CpuId;

use crate::error::RtError;

pub(super) struct Supervisor<P: RealTime> {
    stack_bytes: usize,
    /// Advanced by each notification; the supervisor sleeps on it.
    calls: P::AtomicU32,
    /// 1 once the executor was dropped.
    ends: P::AtomicU32,
    threads: Lock<P, ThreadTable<P>>,
}

/// The executor's threads, without the supervisor's.
struct ThreadTable<P: RealTime> {
    next: u64,
    /// Threads by number, until they are joined.
    running: BTreeMap<u64, P::Thread>,
    /// The numbers of threads that have ended and are not joined. A number may be listed before its thread is
    /// in `running`.
    ended: Vec<u64>,
}

/// Reports the end of a thread of the executor.
struct ExitGuard<P: RealTime> {
    supervisor: Arc<Supervisor<P>>,
    number: u64,
}

impl<P: RealTime> Drop for ExitGuard<P> {
    fn drop(&mut self) {
        self.supervisor.threads.lock().ended.push(self.number);
        self.supervisor.notify();
    }
}

impl<P: RealTime> Supervisor<P> {
    pub(super) fn new(stack_bytes: usize) -> Arc<Self> {
        let threads = ThreadTable { next: 0, running: BTreeMap::new(), ended: Vec::new() };
        Arc::new(Self {
            stack_bytes,
            calls: P::AtomicU32::new(0),
            ends: P::AtomicU32::new(0),
            threads: Lock::new(threads),
        })
    }

    /// Starts a thread, which the supervisor joins when it ends.
    pub(super) fn start_thread(
        self: &Arc<Self>,
        name: String,
        cpu: Option<CpuId>,
        policy: Policy,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), RtError> {
        let spec = ThreadSpec {
            name,
            affinity: cpu.map(|cpu| [cpu].into_iter().collect()),
            stack_bytes: Some(self.stack_bytes),
            ..ThreadSpec::default()
        };
        let number = {
            let mut threads = self.threads.lock();
            threads.next += 1;
            threads.next
        };
        let supervisor = Arc::clone(self);
        let body = move || {
            P::set_local(LocalKey::Executor, supervisor.identity());
            let _guard = ExitGuard { supervisor, number };
            body();
        };
        let thread = P::spawn_as(spec, policy, Box::new(body))?;
        let has_ended = {
            let mut threads = self.threads.lock();
            threads.running.insert(number, thread);
            threads.ended.contains(&number)
        };
        if has_ended {
            self.notify();
        }
        Ok(())
    }

    /// Returns whether the calling thread belongs to this executor.
    pub(super) fn is_own_thread(&self) -> bool {
        P::local(LocalKey::Executor) == self.identity()
    }

    fn identity(&self) -> *mut () {
        (&raw const *self).cast_mut().cast()
    }

    /// Wakes the supervisor. Never waits.
    pub(super) fn notify(&self) {
        // Release pairs with the Acquire of `calls`: a thread that sees the call sees all writes before it.
        self.calls.fetch_add(1, Release);
        P::wake_all(&raw const self.calls);
    }

    /// Makes the supervisor shut the executor down.
    pub(super) fn end(&self) {
        self.ends.store(1, Release);
        self.notify();
    }

    /// Returns the number of the last call. Must be read before the state that the calls refer to.
    pub(super) fn calls(&self) -> u32 {
        // Acquire pairs with the Release of `notify`.
        self.calls.load(Acquire)
    }

    /// Returns whether the executor was dropped.
    pub(super) fn ends(&self) -> bool {
        // Acquire pairs with the Release of `end`: writes of the executor's users are visible.
        self.ends.load(Acquire) != 0
    }

    /// Sleeps until a call after the one that was `seen`.
    pub(super) fn wait_for_call(&self, seen: u32, timeout: Option<Duration>) {
        P::wait(&self.calls, seen, timeout);
    }

    /// Joins the threads that have ended.
    pub(super) fn join_ended(&self) {
        let mut handles = Vec::new();
        {
            let mut threads = self.threads.lock();
            let ThreadTable { running, ended, .. } = &mut *threads;
            ended.retain(|number| {
                let thread = running.remove(number);
                // Its starter will store the handle, and notify again.
                let is_starting = thread.is_none();
                handles.extend(thread);
                is_starting
            });
        }
        handles.into_iter().for_each(ThreadHandle::join);
    }

    /// Joins all threads, which were told to exit and start no others.
    pub(super) fn join_all(&self) {
        let running = std::mem::take(&mut self.threads.lock().running);
        running.into_values().for_each(ThreadHandle::join);
    }
}
