//! Common parts of the ported test suites: a deadline for each test, machines with any number of workers, and the few
//! functions that a future needs outside a runtime.
//!
//! Every test runs its body in [`judge`], so that a hang is a failure with the test's name. docs/JUDGES.md lists the
//! suites, the ported tests, the omitted ones, and the reasons.

mod channel;

use std::fs;
use std::future::poll_fn;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Scope as Scoped, ScopedJoinHandle, Thread};
use std::time::{Duration, Instant};

pub use channel::{Receiver, Sender, channel, unbounded};
use coreshard::{Builder, Runtime, RuntimeBuilder, Scope, Topology, Workqueue};

/// Runs a test's body on a separate thread.
///
/// # Panics
/// With the body's panic, or if it has not finished within a minute. In that case its thread is left behind.
#[track_caller]
pub fn judge<F: FnOnce() + Send + 'static>(body: F) {
    const LIMIT: Duration = Duration::from_secs(60);
    let (alive, over) = mpsc::channel::<()>();
    let name = thread::current().name().unwrap_or("judge").to_owned();
    let thread = thread::Builder::new().name(name).spawn(move || {
        let _alive = alive;
        body();
    });
    let thread = thread.expect("a thread can be started");
    if over.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
        panic!("it hangs: not over after {LIMIT:?}");
    }
    if let Err(thrown) = thread.join() {
        panic::resume_unwind(thrown);
    }
}

/// Like [`judge`], but in a separate process, for tests that end the process on failure.
///
/// # Panics
/// If a signal ends that process, or its body panics.
pub fn judge_alone<F: FnOnce() + Send + 'static>(body: F) {
    const ALONE: &str = "JUDGED_ALONE";
    let name = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let (_crate, test) = name.split_once("::").expect("a test lies in its crate");
    if std::env::var_os(ALONE).is_some() {
        return judge(body);
    }
    let program = std::env::current_exe().expect("this program has a path");
    let child = Command::new("sh")
        .args(["-c", "ulimit -c 0; exec \"$0\" --include-ignored --exact \"$1\""])
        .arg(program)
        .arg(test)
        .env(ALONE, "1")
        .output()
        .expect("a child can be started");
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{name}, alone: {}\n{said}", child.status);
}

/// What `body` throws, as text; `None` if it throws nothing.
pub fn thrown<R>(body: impl FnOnce() -> R) -> Option<String> {
    let payload = panic::catch_unwind(AssertUnwindSafe(body)).err()?;
    Some(text_of(payload.as_ref()))
}

/// Returns the panic message.
pub fn text_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Returns a runtime on a machine of one package with `workers` CPUs, laid over the available CPUs. A queue on it may
/// have this many running workers, regardless of the machine that the tests run on.
pub fn machine(workers: usize) -> RuntimeBuilder {
    let topology = Topology::from_synthetic(&format!("package:1 l3:1 core:{workers} pu:1"));
    let real = coreshard::runtime().expect("this machine can be read").usable();
    Runtime::builder(topology.expect("the text is right")).laid_over(real)
}

/// A runtime as [`machine`] says, and nothing else.
pub fn runtime(workers: usize) -> Runtime {
    machine(workers).build().expect("the machine has CPUs")
}

/// Creates a queue with one exclusive pool of `workers` workers.
pub fn pool(workers: usize) -> Workqueue {
    queue(workers, |builder| builder)
}

/// Creates a queue with one exclusive pool of `workers` workers and the settings of `more`.
pub fn queue(workers: usize, more: impl FnOnce(Builder<'_>) -> Builder<'_>) -> Workqueue {
    let runtime = runtime(workers);
    let builder = runtime.workqueue().name("judged").scope(Scope::System);
    more(builder).build().expect("workers can be had")
}

/// A queue as most have it: on this machine, with the defaults.
pub fn default_queue() -> Workqueue {
    let builder = coreshard::workqueue().expect("this machine can be read");
    builder.name("judged").build().expect("workers can be had")
}

/// Polls until a condition holds. [`judge`] has the deadline.
pub fn wait_until(holds: impl Fn() -> bool) {
    while !holds() {
        thread::sleep(Duration::from_micros(200));
    }
}

/// Waits for the others at a barrier; inside an item, another worker takes its place meanwhile.
pub fn meet(barrier: &Barrier) {
    coreshard::blocking(|| barrier.wait());
}

/// Starts a thread that will wait inside `body`. Returns when it sleeps there or has ended. For some waits nothing else
/// shows that they have begun.
///
/// # Panics
/// If /proc has no information about threads.
pub fn spawn_waiting<'scope, R: Send + 'scope>(
    threads: &'scope Scoped<'scope, '_>,
    body: impl FnOnce() -> R + Send + 'scope,
) -> ScopedJoinHandle<'scope, R> {
    let (tell, told) = mpsc::channel();
    let waiting = threads.spawn(move || {
        tell.send(fs::read_link("/proc/thread-self").expect("it names this thread")).unwrap();
        body()
    });
    let status = Path::new("/proc").join(told.recv().unwrap()).join("stat");
    // The name, which may have any letters, is in brackets.
    let sleeps = || {
        fs::read_to_string(&status)
            .is_ok_and(|stat| stat.rsplit(") ").next().unwrap().starts_with('S'))
    };
    wait_until(|| sleeps() || waiting.is_finished());
    waiting
}

/// Sleeps; for tests that say in milliseconds what is to happen before what.
pub fn sleep_ms(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

/// So many milliseconds.
pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// What `body` yields, and how long it took.
pub fn timed<R>(body: impl FnOnce() -> R) -> (R, Duration) {
    let begin = Instant::now();
    let result = body();
    (result, begin.elapsed())
}

/// A counter that its clones share.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicUsize>);

impl Counter {
    /// At zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more.
    pub fn add_one(&self) {
        self.next();
    }

    /// Increments the count and returns the previous value.
    pub fn next(&self) -> usize {
        self.0.fetch_add(1, SeqCst)
    }

    /// One less.
    pub fn take_one(&self) {
        self.0.fetch_sub(1, SeqCst);
    }

    /// Returns the current value.
    pub fn get(&self) -> usize {
        self.0.load(SeqCst)
    }

    /// Waits until it is at least `count`.
    pub fn wait_for(&self, count: usize) {
        wait_until(|| self.get() >= count);
    }

    /// A value whose drop counts.
    pub fn on_drop(&self) -> Dropped {
        Dropped(self.clone())
    }

    /// How many clones there are, this one included.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

/// Counts when it is dropped.
#[derive(Debug)]
pub struct Dropped(Counter);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add_one();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Polls a future once with a waker that does nothing.
pub fn poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A future that is never ready and keeps no waker.
pub fn pending<T>() -> std::future::Pending<T> {
    std::future::pending()
}

/// Both results, however the futures wait for one another.
pub async fn both<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> (A, B) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut a, mut b) = (None, None);
    poll_fn(|context| {
        if a.is_none()
            && let Poll::Ready(value) = first.as_mut().poll(context)
        {
            a = Some(value);
        }
        if b.is_none()
            && let Poll::Ready(value) = second.as_mut().poll(context)
        {
            b = Some(value);
        }
        match (a.take(), b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (left, right) => {
                (a, b) = (left, right);
                Poll::Pending
            }
        }
    })
    .await
}

/// The future's result, or `None` if it takes longer: the future first, then the clock.
pub async fn timeout<T>(
    runtime: &Runtime,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = pin!(future);
    let mut sleep = runtime.sleep(limit).expect("a timekeeper can be had");
    poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        Pin::new(&mut sleep).poll(context).map(|()| None)
    })
    .await
}
