//! A queue that polls when a test says so, and a future that tells what becomes of it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};

use coreshard::{Task, Workqueue};
use judges::{Counter, Dropped, queue, wait_until};

/// The behaviour of a [`Part`] in its `n`th poll, counted from 1.
pub(crate) type Script = fn(usize) -> Poll<()>;

/// A queue of one worker, with what becomes of the futures on it.
pub(crate) struct Stage {
    pub(crate) queue: Workqueue,
    /// Polls that have begun, futures and outputs that were dropped, payloads that the handler got.
    pub(crate) polls: Counter,
    pub(crate) futures: Counter,
    pub(crate) outputs: Counter,
    pub(crate) panics: Counter,
    /// Lets a poll wait in its middle.
    gate: Gate,
    waker: Arc<Mutex<Option<Waker>>>,
    /// Polls that were asked for before.
    asked: u64,
}

#[derive(Clone)]
struct Gate {
    /// A poll tells that it has begun, and waits for a word to go on.
    begun: mpsc::Sender<()>,
    go_on: Arc<Mutex<mpsc::Receiver<()>>>,
}

/// The output of a future.
#[derive(Debug)]
pub(crate) struct Output {
    _dropped: Dropped,
}

pub(crate) struct Part {
    script: Script,
    polled: usize,
    polls: Counter,
    outputs: Counter,
    _dropped: Dropped,
    gate: Option<Gate>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Future for Part {
    type Output = Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Output> {
        self.polled += 1;
        *self.waker.lock().unwrap() = Some(context.waker().clone());
        self.polls.add_one();
        if let Some(gate) = &self.gate {
            let _ = gate.begun.send(());
            let _ = gate.go_on.lock().unwrap().recv();
        }
        (self.script)(self.polled).map(|()| Output { _dropped: self.outputs.on_drop() })
    }
}

/// The test's end of the gate.
pub(crate) struct Director {
    begun: mpsc::Receiver<()>,
    go_on: mpsc::Sender<()>,
}

impl Director {
    /// Waits until a poll has begun: it is in its middle now.
    pub(crate) fn wait_until_begun(&self) {
        self.begun.recv().expect("a poll begins");
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        self.go_on.send(()).expect("a poll waits");
    }
}

impl Stage {
    /// A stage whose polls do not stop in their middle.
    pub(crate) fn new() -> Self {
        Self::with_director().0
    }

    pub(crate) fn with_director() -> (Self, Director) {
        let panics = Counter::new();
        let told = panics.clone();
        let queue = queue(1, |builder| builder.panic_handler(move |_| told.add_one()));
        let (begun, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let stage = Self {
            queue,
            polls: Counter::new(),
            futures: Counter::new(),
            outputs: Counter::new(),
            panics,
            gate: Gate { begun, go_on: Arc::new(Mutex::new(goes_on)) },
            waker: Arc::default(),
            asked: 0,
        };
        (stage, Director { begun: begins, go_on })
    }

    /// Spawns a future that does what `script` says, and is polled when it can be.
    pub(crate) fn spawn(&mut self, script: Script) -> Task<Output> {
        self.spawn_part(script, None)
    }

    /// As above; each poll stops in its middle, until the director says so.
    pub(crate) fn spawn_directed(&mut self, script: Script) -> Task<Output> {
        let gate = self.gate.clone();
        self.spawn_part(script, Some(gate))
    }

    fn spawn_part(&mut self, script: Script, gate: Option<Gate>) -> Task<Output> {
        let part = Part {
            script,
            polled: 0,
            polls: self.polls.clone(),
            outputs: self.outputs.clone(),
            _dropped: self.futures.on_drop(),
            gate,
            waker: Arc::clone(&self.waker),
        };
        self.asked = self.queue.stats().queued + 1;
        self.queue.spawn(part).expect("the queue is open")
    }

    /// No poll begins until [`run`](Self::run).
    pub(crate) fn hold(&self) {
        self.queue.freeze().expect("it can be frozen");
    }

    /// Releases the waiting polls, and waits until they have finished.
    pub(crate) fn run(&self) {
        self.queue.thaw().expect("it can be thawed");
        self.settle();
    }

    /// Waits until nothing is polled, or waits for it.
    pub(crate) fn settle(&self) {
        self.queue.flush().expect("this is none of its items");
    }

    /// The waker of the latest poll.
    pub(crate) fn waker(&self) -> Waker {
        wait_until(|| self.waker.lock().unwrap().is_some());
        self.waker.lock().unwrap().take().expect("it was seen")
    }

    /// Forgets the waker of the latest poll.
    pub(crate) fn drop_waker(&self) {
        drop(self.waker());
    }

    /// How often a poll was asked for after the first.
    pub(crate) fn scheduled(&self) -> u64 {
        self.queue.stats().queued - self.asked
    }

    /// Like [`Self::assert`], after another thread's pending operation.
    #[track_caller]
    pub(crate) fn assert_soon(&self, polls: usize, futures: usize, outputs: usize) {
        let counts = || (self.polls.get(), self.futures.get(), self.outputs.get());
        wait_until(|| counts() == (polls, futures, outputs));
    }

    /// Polls, dropped futures, dropped outputs.
    #[track_caller]
    pub(crate) fn assert(&self, polls: usize, futures: usize, outputs: usize) {
        let now = (self.polls.get(), self.futures.get(), self.outputs.get());
        assert_eq!(now, (polls, futures, outputs), "polls, dropped futures, dropped outputs");
    }
}

/// Ends at its first poll.
pub(crate) const READY: Script = |_| Poll::Ready(());

/// Never ends.
pub(crate) const PENDING: Script = |_| Poll::Pending;

/// Panics at its first poll.
pub(crate) const PANIC: Script = |_| panic!("the future panics");

/// Ends at its second poll.
pub(crate) const READY_AT_SECOND: Script =
    |polled| if polled == 2 { Poll::Ready(()) } else { Poll::Pending };

/// Panics at its second poll.
pub(crate) const PANIC_AT_SECOND: Script = |polled| {
    assert!(polled < 2, "the future panics");
    Poll::Pending
};
