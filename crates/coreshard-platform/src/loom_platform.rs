//! A platform for the model checker: loom's atomics and threads, and a futex made of them.
//!
//! Compiled only under `--cfg loom`, for the models of every crate.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::{
    AffinityError, AtomicInt, AtomicPointer, ByteAtomics, DataCell, LocalKey, NodeMemory,
    NodeMemoryError, Platform, SpawnError, ThreadHandle, ThreadSpec, Time, WaitOutcome,
};
use coreshard_topology::{CpuId, CpuSet, NodeId};

/// The model checker's machine: one CPU, a clock that stands still, and timeouts that expire at once.
#[derive(Debug)]
pub struct Loom;

std::thread_local! {
    /// Whether sequentially consistent accesses are treated as acquiring and releasing ones.
    static WEAKENED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    /// How many more threads may start.
    static STARTS_LEFT: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
}

impl Loom {
    /// Checks a model on every interleaving with at most `preemptions` preemptions, or on all interleavings.
    ///
    /// # Panics
    /// If an interleaving breaks the model.
    pub fn check(preemptions: impl Into<Option<usize>>, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions.into();
        builder.max_branches = 10_000;
        builder.check(model);
    }

    /// Checks a model that takes minutes: with at most `quick` preemptions by default, or on all
    /// interleavings that [`check`](Self::check) tries if `CORESHARD_LONG_MODELS` is set.
    ///
    /// # Panics
    /// If an interleaving breaks the model.
    pub fn check_long(
        preemptions: impl Into<Option<usize>>,
        quick: usize,
        model: impl Fn() + Send + Sync + 'static,
    ) {
        let is_long = std::env::var_os("CORESHARD_LONG_MODELS").is_some();
        Self::check(if is_long { preemptions.into() } else { Some(quick) }, model);
    }

    /// Checks a model that treats sequentially consistent accesses to integers as acquiring and releasing ones. loom
    /// never lets a sequentially consistent load see an old value.
    ///
    /// It therefore hides bugs if such a load, or a later one, must also acquire. A model that needs no sequential
    /// consistency reveals them here.
    pub fn weakened<R>(check: impl FnOnce() -> R) -> R {
        struct Restore(bool);
        impl Drop for Restore {
            fn drop(&mut self) {
                WEAKENED.set(self.0);
            }
        }
        // Modelled threads run on the thread that checks them.
        let _restore = Restore(WEAKENED.replace(true));
        check()
    }

    /// Limits how many more threads may start. A model calls this first, in each of its runs.
    pub fn start_at_most(threads: usize) {
        STARTS_LEFT.set(threads);
    }
}

fn taken_for(order: Ordering, weaker: Ordering) -> Ordering {
    if order == Ordering::SeqCst && WEAKENED.get() { weaker } else { order }
}

/// One of loom's atomics.
#[derive(Debug)]
pub struct LoomAtomic<A>(A);

/// The methods that integers and pointers share, by loom's type. `$order` maps an order and a weaker one to
/// the order used.
macro_rules! loom_value {
    ($atomic:ty, $value:ty, $order:expr) => {
        fn new(value: $value) -> Self {
            Self(<$atomic>::new(value))
        }
        fn load(&self, order: Ordering) -> $value {
            self.0.load($order(order, Ordering::Acquire))
        }
        fn store(&self, value: $value, order: Ordering) {
            self.0.store(value, $order(order, Ordering::Release));
        }
        fn swap(&self, value: $value, order: Ordering) -> $value {
            self.0.swap(value, $order(order, Ordering::AcqRel))
        }
        fn compare_exchange(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            let success = $order(success, Ordering::AcqRel);
            self.0.compare_exchange(current, new, success, $order(failure, Ordering::Acquire))
        }
    };
}

macro_rules! loom_int {
    ($atomic:ident, $int:ty) => {
        impl AtomicInt<$int> for LoomAtomic<loom::sync::atomic::$atomic> {
            loom_value!(loom::sync::atomic::$atomic, $int, taken_for);
            fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_add(value, taken_for(order, Ordering::AcqRel))
            }
            fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_sub(value, taken_for(order, Ordering::AcqRel))
            }
            fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_or(value, taken_for(order, Ordering::AcqRel))
            }
            fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_and(value, taken_for(order, Ordering::AcqRel))
            }
        }
    };
}

loom_int!(AtomicU8, u8);
loom_int!(AtomicU32, u32);
loom_int!(AtomicU64, u64);

/// Pointers are never weakened.
fn as_it_is(order: Ordering, _weaker: Ordering) -> Ordering {
    order
}

impl<T> AtomicPointer<T> for LoomAtomic<loom::sync::atomic::AtomicPtr<T>> {
    loom_value!(loom::sync::atomic::AtomicPtr<T>, *mut T, as_it_is);
}

/// A cell whose concurrent uses loom reports.
#[derive(Debug)]
pub struct LoomCell<T>(loom::cell::UnsafeCell<T>);

impl<T> DataCell<T> for LoomCell<T> {
    fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }
    fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        self.0.with(read)
    }
    fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(write)
    }
}

/// A modelled thread.
#[derive(Debug)]
pub struct LoomThread(loom::thread::JoinHandle<()>);

impl ThreadHandle for LoomThread {
    fn join(self) {
        self.0.join().expect("a modelled thread does not panic");
    }
}

loom::lazy_static! {
    /// The kernel's side of the futex: the lock makes checking the word and sleeping one step.
    static ref SLEEPERS: (loom::sync::Mutex<()>, loom::sync::Condvar) =
        (loom::sync::Mutex::new(()), loom::sync::Condvar::new());
}

loom::thread_local! {
    static LOCALS: std::cell::Cell<[*mut (); LocalKey::COUNT]> =
        std::cell::Cell::new([std::ptr::null_mut(); LocalKey::COUNT]);
}

impl Platform for Loom {
    type AtomicU32 = LoomAtomic<loom::sync::atomic::AtomicU32>;
    type AtomicU64 = LoomAtomic<loom::sync::atomic::AtomicU64>;
    type AtomicPtr<T> = LoomAtomic<loom::sync::atomic::AtomicPtr<T>>;
    type Cell<T> = LoomCell<T>;
    type Thread = LoomThread;

    fn current_cpu() -> CpuId {
        CpuId(0)
    }

    fn spawn(spec: ThreadSpec, body: Box<dyn FnOnce() + Send>) -> Result<Self::Thread, SpawnError> {
        let Some(left) = STARTS_LEFT.get().checked_sub(1) else {
            // A kernel may take time to refuse; other threads run meanwhile.
            loom::thread::yield_now();
            return Err(SpawnError::refused(spec.name, std::io::ErrorKind::WouldBlock.into()));
        };
        STARTS_LEFT.set(left);
        Ok(LoomThread(loom::thread::spawn(body)))
    }

    /// Models a timeout as expiring at once, the earliest possible moment.
    fn wait(word: &Self::AtomicU32, expected: u32, timeout: Option<Duration>) -> WaitOutcome {
        let asleep = SLEEPERS.0.lock().unwrap();
        if word.load(Ordering::Relaxed) != expected {
            return WaitOutcome::Returned;
        }
        if timeout.is_some() {
            return WaitOutcome::TimedOut;
        }
        drop(SLEEPERS.1.wait(asleep).unwrap());
        WaitOutcome::Returned
    }

    fn wake_one(word: *const Self::AtomicU32) {
        // All words share one condition variable, so every sleeper must check.
        Self::wake_all(word);
    }

    fn wake_all(_word: *const Self::AtomicU32) {
        let _asleep = SLEEPERS.0.lock().unwrap();
        SLEEPERS.1.notify_all();
    }

    fn now() -> Time {
        Time::from_ns(0)
    }

    fn sleep(_duration: Duration) {
        loom::thread::yield_now();
    }

    fn spin_hint() {
        loom::thread::yield_now();
    }

    fn yield_now() {
        loom::thread::yield_now();
    }

    fn set_affinity(_cpus: &CpuSet) -> Result<(), AffinityError> {
        Ok(())
    }

    fn allocate(bytes: usize, node: Option<NodeId>) -> Result<NodeMemory, NodeMemoryError> {
        NodeMemory::allocate(bytes, node)
    }

    fn local(key: LocalKey) -> *mut () {
        LOCALS.with(std::cell::Cell::get)[key as usize]
    }

    fn set_local(key: LocalKey, value: *mut ()) {
        LOCALS.with(|slots| {
            let mut all = slots.get();
            all[key as usize] = value;
            slots.set(all);
        });
    }
}

impl ByteAtomics for Loom {
    type AtomicU8 = LoomAtomic<loom::sync::atomic::AtomicU8>;

    fn fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
