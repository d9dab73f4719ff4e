//! The functions of the crate `rayon-core`, on an executor that the program gives. Put in its place
//! (`[patch.crates-io]`), it lets the crate `rayon` with all its iterators, and whoever uses that, run elsewhere
//! unchanged.
//!
//! What iterators need is here: `join`, `join_context`, `spawn`, `current_num_threads`, `current_thread_index`,
//! `yield_now`, `yield_local`, and `ThreadPool` with those. There is one pool, the process's: every
//! `ThreadPool` is a handle to it. Scopes call their items at once, and a broadcast has one receiver; no iterator
//! uses either.
//!
//! Coreshard is no dependency of this crate, but is given at run time: its crates use `indexmap`, whose feature `rayon`
//! some programs turn on, so that the two would depend on one another.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// What the calls come down to. Each closure is called at most once.
pub trait Executor: Sync {
    /// CPUs that may be used: so many workers are active.
    fn threads(&self) -> usize;
    /// The number of the worker that calls this, if it is one.
    fn worker(&self) -> Option<usize>;
    /// Calls `work` on a worker, and waits for it.
    fn install(&self, work: &mut (dyn FnMut() + Send));
    /// Calls both, at once where another worker has time.
    fn join(&self, a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send));
    /// Calls `work` on a worker, some time.
    fn queue(&self, work: Box<dyn FnOnce() + Send>);
    /// The caller, a worker, waits for something in a loop.
    fn give_place(&self);
}

static EXECUTOR: OnceLock<Box<dyn Executor + Send>> = OnceLock::new();

/// All that follows runs on `executor`.
///
/// # Panics
/// If there is one already.
pub fn run_on(executor: impl Executor + Send + 'static) {
    assert!(EXECUTOR.set(Box::new(executor)).is_ok(), "there is an executor already");
}

fn executor() -> &'static dyn Executor {
    &**EXECUTOR.get().expect("the program gives an executor before it uses one")
}

/// Calls `work` on a worker. True: it was brought there from outside.
fn on_worker<R: Send>(work: impl FnOnce(bool) -> R + Send) -> R {
    if executor().worker().is_some() {
        return work(false);
    }
    let (mut work, mut result) = (Some(work), None);
    executor().install(&mut || result = work.take().map(|work| work(true)));
    result.expect("it was called")
}

fn join_on_worker<RA: Send, RB: Send>(
    a: impl FnOnce() -> RA + Send,
    b: impl FnOnce() -> RB + Send,
) -> (RA, RB) {
    let (mut a, mut b) = (Some(a), Some(b));
    let (mut result_a, mut result_b) = (None, None);
    executor().join(&mut || result_a = a.take().map(|a| a()), &mut || {
        result_b = b.take().map(|b| b());
    });
    (result_a.expect("it was called"), result_b.expect("it was called"))
}

pub fn max_num_threads() -> usize {
    1 << 16
}

pub fn current_num_threads() -> usize {
    executor().threads()
}

pub fn current_thread_index() -> Option<usize> {
    executor().worker()
}

pub fn current_thread_has_pending_tasks() -> Option<bool> {
    executor().worker().map(|_| false)
}

/// Whether a call was moved to another thread.
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    not_send: PhantomData<*mut ()>,
}

impl FnContext {
    fn new(migrated: bool) -> Self {
        Self { migrated, not_send: PhantomData }
    }

    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

pub fn join<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    on_worker(|_| join_on_worker(oper_a, oper_b))
}

pub fn join_context<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    on_worker(|injected| {
        let here = executor().worker();
        join_on_worker(
            || oper_a(FnContext::new(injected)),
            || oper_b(FnContext::new(injected || executor().worker() != here)),
        )
    })
}

pub fn spawn<F: FnOnce() + Send + 'static>(func: F) {
    executor().queue(Box::new(func));
}

pub fn spawn_fifo<F: FnOnce() + Send + 'static>(func: F) {
    spawn(func);
}

/// What a yield found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    Executed,
    Idle,
}

fn give_place() -> Option<Yield> {
    executor().worker()?;
    executor().give_place();
    Some(Yield::Idle)
}

pub fn yield_now() -> Option<Yield> {
    give_place()
}

pub fn yield_local() -> Option<Yield> {
    give_place()
}

/// Items are called at once.
pub struct Scope<'scope>(PhantomData<fn(&'scope ()) -> &'scope ()>);
/// Items are called at once.
pub struct ScopeFifo<'scope>(PhantomData<fn(&'scope ()) -> &'scope ()>);

impl<'scope> Scope<'scope> {
    pub fn spawn<BODY: FnOnce(&Scope<'scope>) + Send + 'scope>(&self, body: BODY) {
        body(self);
    }

    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        body(self, BroadcastContext(PhantomData));
    }
}

impl<'scope> ScopeFifo<'scope> {
    pub fn spawn_fifo<BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope>(&self, body: BODY) {
        body(self);
    }

    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        body(self, BroadcastContext(PhantomData));
    }
}

pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    on_worker(|_| op(&Scope(PhantomData)))
}

pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    on_worker(|_| op(&ScopeFifo(PhantomData)))
}

pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    op(&Scope(PhantomData))
}

pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    op(&ScopeFifo(PhantomData))
}

/// Of the one receiver.
pub struct BroadcastContext<'a>(PhantomData<&'a mut dyn Fn()>);

impl BroadcastContext<'_> {
    pub fn index(&self) -> usize {
        0
    }

    pub fn num_threads(&self) -> usize {
        1
    }
}

pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    vec![on_worker(|_| op(BroadcastContext(PhantomData)))]
}

pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    spawn(move || op(BroadcastContext(PhantomData)));
}

/// There is one pool, so this is never made.
#[derive(Debug)]
pub struct ThreadPoolBuildError;

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no pool")
    }
}

impl Error for ThreadPoolBuildError {}

/// Nobody can take threads over.
#[derive(Debug)]
pub struct ThreadBuilder(());

/// What it is told is for a pool of threads; the queue has its own rules.
#[derive(Debug, Default)]
pub struct ThreadPoolBuilder(());

impl ThreadPoolBuilder {
    pub fn new() -> Self {
        Self(())
    }

    #[must_use]
    pub fn num_threads(self, _num_threads: usize) -> Self {
        self
    }

    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        Ok(ThreadPool(()))
    }

    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        Ok(())
    }
}

/// A handle to the one pool.
#[derive(Debug)]
pub struct ThreadPool(());

impl ThreadPool {
    pub fn install<OP: FnOnce() -> R + Send, R: Send>(&self, op: OP) -> R {
        on_worker(|_| op())
    }

    pub fn current_num_threads(&self) -> usize {
        current_num_threads()
    }

    pub fn spawn<OP: FnOnce() + Send + 'static>(&self, op: OP) {
        spawn(op);
    }
}
