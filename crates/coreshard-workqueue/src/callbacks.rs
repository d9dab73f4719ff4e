//! Users' code that a thread of the library owes a call, and must not wait for: a handler of trouble, another
//! executor's waker, the destructor of an item that is not to run, the last handle of a queue, whose drop waits.
//!
//! It is not called by who owes it (the timekeeper, the monitor), for whom all others wait: such code may
//! block, for ever too. It is called by threads of its own, one of which is enough until one does not come
//! back: who owes looks every few milliseconds while something waits here, and where nothing was begun since
//! the last look, one thread more takes over, up to a limit. So code that blocks costs a thread, and delays
//! others by two looks at most.
//!
//! Rules:
//!
//! 1. The list and the counts are under the lock; nothing is called or dropped under it.
//! 2. A thread that finds nothing sleeps on the event, counted as idle, and ends after [`IDLE_TIME`]; it
//!    looks at the list once more under the lock before it ends. Who adds something notifies the event after.
//! 3. Where a thread cannot be started, the list is left as it is, and the next look tries again. Where there is none at all,
//!    whoever looks calls the wakers itself: they seldom block, and whom they wake would wait for ever.
//!    What else is left at the end of it all, since no thread could be had, is called by whoever ends it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Lock, Platform, ThreadSpec, Time};

use crate::base::event::Event;
use crate::insight::diagnostic::{say, say_panic};

/// Between two looks, while something waits to be called.
pub(crate) const PATIENCE: Duration = Duration::from_millis(2);

/// How long a thread waits for something to call before it ends.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// Users' code to be run.
pub(crate) enum Callback {
    /// Another executor's code.
    Wake(Waker),
    /// What something leaves behind; a panic comes back.
    Call(Box<dyn FnOnce() -> Result<(), Thrown> + Send>),
}

impl Callback {
    pub(crate) fn new(call: impl FnOnce() -> Result<(), Thrown> + Send + 'static) -> Self {
        Self::Call(Box::new(call))
    }

    fn call(self) -> Result<(), Thrown> {
        match self {
            Self::Wake(waker) => user::wake(waker),
            Self::Call(call) => user::call(call).and_then(|outcome| outcome),
        }
    }

    fn call_and_report(self) {
        say_panic(self.call(), "a handler, waker or destructor panicked");
    }
}

/// What is to be called, and the threads that do.
pub(crate) struct Callbacks<P: Platform> {
    state: Lock<P, CallbackList>,
    /// Something was added, or all is over.
    changed: Event<P>,
    threads: Threads,
    /// In which process, as [`Platform::process_generation`] counts them.
    process_generation: u32,
}

/// The threads that call.
#[derive(Clone, Copy)]
pub(crate) struct Threads {
    pub(crate) name: &'static str,
    /// As many may be stuck in users' code; the others wait for one to come back.
    pub(crate) most: usize,
}

struct CallbackList {
    waiting: VecDeque<Callback>,
    threads: usize,
    idle: usize,
    /// Callbacks that were begun.
    begun: u64,
    /// While something waits: since when a look has seen none begun, and how many were begun then.
    stuck: Option<(Time, u64)>,
    stopping: bool,
}

impl CallbackList {
    fn take(&mut self) -> Option<Callback> {
        let next = self.waiting.pop_front()?;
        self.begun += 1;
        Some(next)
    }
}

impl<P: Platform> Callbacks<P> {
    pub(crate) fn new(threads: Threads) -> Self {
        let state = CallbackList {
            waiting: VecDeque::new(),
            threads: 0,
            idle: 0,
            begun: 0,
            stuck: None,
            stopping: false,
        };
        Self {
            state: Lock::new(state),
            changed: Event::new(),
            threads,
            process_generation: P::process_generation(),
        }
    }

    /// Has something called soon, elsewhere.
    pub(crate) fn add(self: &Arc<Self>, callback: Callback) {
        drop(self.offer(callback, usize::MAX));
    }

    /// As [`Self::add`], unless `most` wait already: then it comes back.
    pub(crate) fn offer(self: &Arc<Self>, callback: Callback, most: usize) -> Result<(), Callback> {
        let mut state = self.state.lock();
        if state.waiting.len() >= most {
            return Err(callback);
        }
        state.waiting.push_back(callback);
        let (has_idle, has_none) = (state.idle > 0, state.threads == 0);
        state.threads += usize::from(has_none);
        drop(state);
        if has_idle {
            self.changed.notify();
        } else if has_none {
            self.start_thread();
        }
        Ok(())
    }

    /// Sees to it that something gets on. True if something waits: then the caller looks again, after
    /// [`PATIENCE`] or a little more.
    pub(crate) fn look(self: &Arc<Self>) -> bool {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            state.stuck = None;
            return false;
        }
        let now = P::now();
        let begun = state.begun;
        let starts = match state.stuck {
            Some((since, then)) if then == begun && now - since < PATIENCE => return true,
            // Idle ones were notified, and are on their way.
            Some((_, then)) if then == begun => {
                state.idle == 0 && state.threads < self.threads.most
            }
            _ => false,
        };
        state.stuck = Some((now, begun));
        state.threads += usize::from(starts);
        drop(state);
        if starts && !self.start_thread() {
            self.call_wakers();
        }
        true
    }

    /// No thread is there, and none can be had: calls the wakers that wait.
    #[cold]
    fn call_wakers(&self) {
        let next = || {
            let mut state = self.state.lock();
            let is_waker = |callback: &Callback| matches!(callback, Callback::Wake(_));
            let place = state.waiting.iter().position(is_waker).filter(|_| state.threads == 0)?;
            state.begun += 1;
            state.waiting.remove(place)
        };
        while let Some(waker) = next() {
            waker.call_and_report();
        }
    }

    /// The threads end when nothing is left to call.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.changed.notify();
    }

    /// After [`Self::stop`] or [`Self::finish`]: threads wait for more again.
    pub(crate) fn resume(&self) {
        self.state.lock().stopping = false;
    }

    /// As [`Self::stop`], by the last who looks: what waits since no thread could be had is called here.
    /// Nobody else would, and what it holds would never be freed.
    pub(crate) fn finish(&self) {
        let left = || {
            let mut state = self.state.lock();
            if state.threads == 0 { state.take() } else { None }
        };
        while let Some(callback) = left() {
            callback.call_and_report();
        }
        self.stop();
    }

    /// Starts a thread that was counted. False if it cannot be had.
    fn start_thread(self: &Arc<Self>) -> bool {
        let callbacks = Arc::clone(self);
        let spec = ThreadSpec { name: self.threads.name.to_owned(), ..ThreadSpec::default() };
        let started = P::spawn(spec, Box::new(move || callbacks.run()));
        if let Err(error) = &started {
            self.state.lock().threads -= 1;
            say(|| tracing::warn!(%error, "handlers, wakers and destructors wait for a thread"));
        }
        started.is_ok()
    }

    fn run(&self) {
        while let Some(callback) = self.next() {
            callback.call_and_report();
        }
    }

    /// The next to be called; `None` for the thread's end, which is counted.
    fn next(&self) -> Option<Callback> {
        loop {
            let mut state = self.state.lock();
            if let Some(next) = state.take() {
                return Some(next);
            }
            if state.stopping {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            drop(state);
            let deadline = P::now() + IDLE_TIME;
            let something = || {
                let state = self.state.lock();
                !state.waiting.is_empty() || state.stopping
            };
            let has_something = self.changed.wait_until(Some(deadline), something);
            let mut state = self.state.lock();
            state.idle -= 1;
            if !has_something && state.waiting.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

impl<P: Platform> Drop for Callbacks<P> {
    fn drop(&mut self) {
        // Nobody else is here; in a forked process somebody may have been who is no more. What is called
        // adds nothing to the list: it would hold on to this.
        let left = self.state.try_lock().map(|mut state| std::mem::take(&mut state.waiting));
        if P::process_generation() == self.process_generation {
            left.into_iter().flatten().for_each(Callback::call_and_report);
        } else {
            // The other process's to be called.
            std::mem::forget(left);
        }
    }
}
