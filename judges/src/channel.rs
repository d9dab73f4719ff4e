//! A channel between tasks: what most programs bring along from another crate.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Puts values in; clones are for further senders. When the last one goes, receivers are told.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// Takes values out, first in, first out; clones are for further receivers.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    capacity: usize,
}

#[derive(Debug)]
struct State<T> {
    values: VecDeque<T>,
    senders: usize,
    receivers: usize,
    /// Wakers of waiting senders and receivers.
    wakers: Vec<Waker>,
}

/// Creates a channel that holds at most `capacity` values, and at least one.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let state = State { values: VecDeque::new(), senders: 1, receivers: 1, wakers: Vec::new() };
    let shared = Arc::new(Shared { state: Mutex::new(state), capacity: capacity.max(1) });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// A channel without a limit.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    channel(usize::MAX)
}

impl<T> Shared<T> {
    /// Changes the state, and wakes all who wait, outside the lock.
    fn change<R>(&self, change: impl FnOnce(&mut State<T>) -> R) -> R {
        let mut state = self.state.lock().expect("no change panics");
        let result = change(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Asks for a change that may have to wait.
    fn poll<R>(
        &self,
        context: &mut Context<'_>,
        change: impl FnOnce(&mut State<T>) -> Option<R>,
    ) -> Poll<R> {
        let mut state = self.state.lock().expect("no change panics");
        let Some(result) = change(&mut state) else {
            state.wakers.push(context.waker().clone());
            return Poll::Pending;
        };
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        Poll::Ready(result)
    }
}

impl<T> Sender<T> {
    /// Waits for room and adds a value. Returns false if there is no receiver.
    pub async fn send(&self, value: T) -> bool {
        let mut value = Some(value);
        let capacity = self.0.capacity;
        let put = |state: &mut State<T>, value: &mut Option<T>| {
            if state.receivers == 0 {
                return Some(false);
            }
            if state.values.len() >= capacity {
                return None;
            }
            state.values.extend(value.take());
            Some(true)
        };
        poll_fn(|context| self.0.poll(context, |state| put(state, &mut value))).await
    }

    /// As above, for who cannot wait: without a look at the limit.
    pub fn send_now(&self, value: T) {
        self.0.change(|state| state.values.push_back(value));
    }
}

impl<T> Receiver<T> {
    /// Waits for a value; `None` when none is left and none will come.
    pub async fn recv(&self) -> Option<T> {
        let take = |state: &mut State<T>| match state.values.pop_front() {
            Some(value) => Some(Some(value)),
            None if state.senders == 0 => Some(None),
            None => None,
        };
        poll_fn(|context| self.0.poll(context, take)).await
    }

    /// A value, if there is one.
    pub fn try_recv(&self) -> Option<T> {
        self.0.change(|state| state.values.pop_front())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.change(|state| state.senders += 1);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.change(|state| state.receivers += 1);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.change(|state| state.senders -= 1);
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.change(|state| state.receivers -= 1);
    }
}
