//! The supervisor's state: how it is called, and the threads that it joins.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Release;

use coreshard_platform::{AtomicInt, Lock, RealTime, ThreadHandle};

pub(super) struct Supervisor<P: RealTime> {
    /// Advanced by each call; it sleeps on this.
    pub(super) calls: P::AtomicU32,
    /// 1 once the executor was dropped.
    pub(super) ends: P::AtomicU32,
    pub(super) threads: Lock<P, ThreadTable<P>>,
}

/// The executor's threads, without the supervisor's.
pub(super) struct ThreadTable<P: RealTime> {
    pub(super) next: u64,
    /// By number, until they are joined.
    pub(super) running: BTreeMap<u64, P::Thread>,
    /// Those that have ended and are not joined. A number may be here before its thread is in `running`.
    pub(super) ended: Vec<u64>,
}

impl<P: RealTime> Supervisor<P> {
    pub(super) fn new() -> Self {
        let threads = ThreadTable { next: 0, running: BTreeMap::new(), ended: Vec::new() };
        Self {
            calls: P::AtomicU32::new(0),
            ends: P::AtomicU32::new(0),
            threads: Lock::new(threads),
        }
    }

    /// Wakes the supervisor. Never waits.
    pub(super) fn call(&self) {
        // Release pairs with the Acquire in `supervise`: whoever sees the call sees what was written before it.
        self.calls.fetch_add(1, Release);
        P::wake_all(&raw const self.calls);
    }

    /// Has the supervisor shut the executor down.
    pub(super) fn end(&self) {
        self.ends.store(1, Release);
        self.call();
    }

    /// Joins the threads that have ended.
    pub(super) fn join_ended(&self) {
        let ended: Vec<P::Thread> = {
            let mut threads = self.threads.lock();
            let ThreadTable { running, ended, .. } = &mut *threads;
            let mut handles = Vec::new();
            ended.retain(|number| match running.remove(number) {
                Some(thread) => {
                    handles.push(thread);
                    false
                }
                // Its starter has not stored the handle yet, and will call.
                None => true,
            });
            handles
        };
        ended.into_iter().for_each(ThreadHandle::join);
    }

    /// Joins all threads, which were told to exit, and start no others.
    pub(super) fn join_all(&self) {
        let running = std::mem::take(&mut self.threads.lock().running);
        running.into_values().for_each(ThreadHandle::join);
    }
}
