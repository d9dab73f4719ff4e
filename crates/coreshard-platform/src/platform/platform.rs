//! The trait that every runtime is generic over.

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use coreshard_topology::{CpuId, CpuSet, NodeId};

use crate::{
    AffinityError, AtomicInt, AtomicPointer, DataCell, Fields, LocalKey, NodeMemory,
    NodeMemoryError, SpawnError, ThreadHandle, ThreadId, ThreadSpec, ThreadUsage, Time,
};

/// A machine to run on.
///
/// Implementors are zero-sized types: a runtime names its platform as a type parameter and calls
/// associated functions, so nothing is looked up at run time.
pub trait Platform: fmt::Debug + Sized + Send + Sync + 'static {
    /// A 32-bit atomic; also the word that [`Platform::wait`] sleeps on.
    type AtomicU32: AtomicInt<u32>;
    /// A 64-bit atomic.
    type AtomicU64: AtomicInt<u64>;
    /// An atomic pointer.
    type AtomicPtr<T>: AtomicPointer<T>;
    /// Plain data published by a protocol of atomics.
    type Cell<T>: DataCell<T>;
    /// A thread that was started here.
    type Thread: ThreadHandle;

    /// Whether it is told of work items: that one is [queued](Self::item_is_queued), begins, is over. A platform on
    /// which programs are tested is.
    const WATCHES_ITEMS: bool = false;

    /// The CPU that the calling thread runs on at this moment. It may have moved when the caller
    /// looks at the answer, so the answer is a hint about place, never a proof of exclusion.
    fn current_cpu() -> CpuId;

    /// Starts a thread and returns when it runs with all that `spec` asks for, read back.
    ///
    /// # Errors
    /// If the thread cannot be made, or its affinity or nice value cannot be had: then no
    /// thread is left behind.
    fn spawn(spec: ThreadSpec, body: Box<dyn FnOnce() + Send>) -> Result<Self::Thread, SpawnError>;

    /// Sleeps while `word` holds `expected`, until a wake-up or for `timeout`. May return early
    /// for no reason at all: callers look at the word again.
    fn wait(word: &Self::AtomicU32, expected: u32, timeout: Option<Duration>) -> WaitOutcome;

    /// Wakes one thread that sleeps on `word`, if there is one. Reads nothing at that address, so
    /// it may be called after the word's owner is done with it.
    fn wake_one(word: *const Self::AtomicU32);

    /// Wakes every thread that sleeps on `word`.
    fn wake_all(word: *const Self::AtomicU32);

    /// The monotonic clock.
    fn now() -> Time;

    /// The time as far as a few instructions tell it: nanoseconds that may be half or twice as long as they should,
    /// since an unknown moment. For differences of less than a second on one thread, to the order of magnitude.
    #[inline]
    fn rough_ns() -> u64 {
        Self::now().as_ns()
    }

    /// Sleeps for `duration`.
    fn sleep(duration: Duration);

    /// Tells the CPU that the caller spins.
    fn spin_hint();

    /// Looks up to `looks` times whether it is `done`, and spins before each look. True as soon as it is; false after the last look
    /// in vain.
    ///
    /// What `done` says follows from the words that it reads: a platform that knows that none of them has changed since may do
    /// without a look.
    #[inline]
    fn watch(looks: u32, mut done: impl FnMut() -> bool) -> bool {
        (0..looks).any(|_| {
            Self::spin_hint();
            done()
        })
    }

    /// Lets another thread run on this CPU.
    fn yield_now();

    /// Asks that the calling thread run on `cpus` only, and reads the answer back.
    ///
    /// # Errors
    /// If the machine refuses, or answers with other CPUs than were asked for.
    fn set_affinity(cpus: &CpuSet) -> Result<(), AffinityError>;

    /// Asks that another thread of this process run on `cpus` only. Allocates nothing. False if
    /// the machine refuses, or the platform cannot.
    fn set_affinity_of(_thread: ThreadId, _cpus: impl Iterator<Item = CpuId>) -> bool {
        false
    }

    /// Returns the CPUs that this process may use: those that are left to its main thread by what started
    /// the process (taskset, a cpuset) and by the thread itself. `None` if nothing limits them, or the
    /// platform cannot tell.
    ///
    /// A runtime uses no others unless the program names them.
    fn process_cpus() -> Option<CpuSet> {
        None
    }

    /// Memory on `node`, zeroed and touched, or anywhere if the node is unknown.
    ///
    /// # Errors
    /// If no memory can be had at all. Memory that is there but not on the node is no error:
    /// [`NodeMemory::placement`] says what was reached.
    fn allocate(bytes: usize, node: Option<NodeId>) -> Result<NodeMemory, NodeMemoryError>;

    /// The calling thread's pointer under `key`; null until it is set.
    fn local(key: LocalKey) -> *mut ();

    /// Sets the calling thread's pointer under `key`.
    fn set_local(key: LocalKey, value: *mut ());

    /// Calls `end` on the calling thread when that ends, with its pointers under all keys as they are then; or when that ends the
    /// process, wherever it is at. Dropped, and never called, on the main thread, and on a platform whose threads tell nobody of
    /// their end.
    fn at_thread_end(end: Box<dyn FnOnce()>) {
        drop(end);
    }

    /// Whether a thread that finds nothing to do may look for work for a while before it sleeps.
    /// False on a platform that stands for a kernel's worker threads, which sleep at once.
    #[inline(always)]
    fn idlers_may_spin() -> bool {
        true
    }

    /// Takes a held lock's word the way of a platform whose locks are queues of spinning CPUs, as
    /// a kernel's are: sets it to `contended` when it was `free`, first come first served. False,
    /// and nothing done, on a platform where waiters sleep on the word.
    #[inline(always)]
    fn queue_for_lock(_word: &Self::AtomicU32, _free: u32, _contended: u32) -> bool {
        false
    }

    /// Says that the calling thread holds a lock over a `T` from here on. A platform on which whoever
    /// holds a lock keeps its CPU, as in a kernel, sees to it; on all others it is empty.
    #[inline(always)]
    #[track_caller]
    fn lock_is_taken<T>(_word: *const Self::AtomicU32) {}

    /// Says that the calling thread has freed a lock. Reads nothing at that address.
    #[inline(always)]
    fn lock_is_freed(_word: *const Self::AtomicU32) {}

    /// Asks the CPU to fetch a line that will be written soon, for itself alone. A hint: the
    /// address may be anything.
    #[inline(always)]
    fn prefetch_write<T>(_place: *const T) {}

    /// Names the calling thread to [`Platform::cpu_time_of`].
    fn this_thread() -> ThreadId {
        ThreadId(0)
    }

    /// The CPU time that a thread of this process has used so far; `None` if the thread is
    /// gone, or the platform cannot tell: then nobody can tell a thread that runs from one that
    /// waits.
    fn cpu_time_of(_thread: ThreadId) -> Option<Duration> {
        None
    }

    /// How the calling thread has used its time; `None` if the platform cannot tell.
    fn own_usage() -> Option<ThreadUsage> {
        None
    }

    /// True if a thread of this process waits for something (sleep, lock, I/O) at this moment, and
    /// is neither running nor ready to run.
    fn is_waiting(_thread: ThreadId) -> bool {
        false
    }

    /// Whether runtimes look at their own rules wherever these must hold: each time that a lock is about to
    /// be freed, for one. It costs time, but touches nothing that the platform models.
    #[inline(always)]
    fn checks_rules() -> bool {
        cfg!(any(debug_assertions, loom))
    }

    /// Has `hook` told in every process that is forked from this one, as long as it lives. A
    /// platform without processes tells nobody.
    fn on_fork(_hook: Weak<dyn ForkHook>) {}

    /// How many forks lie between the process that first asked (or hooked) and this one. What was
    /// made under another number has its threads in another process.
    #[inline(always)]
    fn process_generation() -> u32 {
        0
    }

    /// The calling thread is inside a read-side section from here on; see [`Reading`](crate::Reading), which
    /// is what callers use. Whoever takes away what such threads may be looking at frees it after a
    /// [grace period](Self::try_grace_period). What comes back is for [`end_reading`](Self::end_reading).
    #[inline(always)]
    fn begin_reading() -> *const () {
        std::ptr::null()
    }

    /// The section that has given `thread` ends, on the same thread.
    #[inline(always)]
    fn end_reading(_thread: *const ()) {}

    /// True if every read-side section that had begun before this call has ended. False if one goes on, or
    /// the platform cannot tell: then nothing is to be freed now, and it may be asked again later. Waits
    /// for nobody.
    fn try_grace_period() -> bool {
        false
    }

    /// A work item was accepted.
    #[inline(always)]
    fn item_is_queued() {}

    /// The calling thread is about to run the item of the function `name`, and does so when this has returned,
    /// unless that is void by then: it was cancelled, or somebody else has run it. The platform may have it wait.
    #[inline(always)]
    fn item_begins(_name: &'static str, _is_void: impl Fn() -> bool) {}

    /// What the calling thread was [told to begin](Self::item_begins) last is over.
    #[inline(always)]
    fn item_is_over() {}

    /// An accepted item will not be begun by whoever comes by its place: it was cancelled, was handed back, or is
    /// run by whoever waits for it.
    #[inline(always)]
    fn item_is_taken() {}

    /// An item panicked, and nobody asked to hear of it.
    #[inline(always)]
    fn item_panicked(_queue: &str, _panic: &str) {}

    /// Reports a read of plain data to a platform that models memory. Empty on the host.
    #[inline(always)]
    #[track_caller]
    fn touch_read<T>(_data: *const T) {}

    /// Reports a write of plain data to a platform that models memory. Empty on the host.
    #[inline(always)]
    #[track_caller]
    fn touch_write<T>(_data: *const T) {}

    /// Reports what whoever has just taken a lock does to the data that it protects, to a platform that models memory: it reads
    /// some of that before it goes on, and writes it. Empty on the host.
    #[inline(always)]
    #[track_caller]
    fn touch_locked<T>(_data: *const T) {}

    /// Names the fields of a value that has come to its final place, for a platform that reports
    /// which field of which struct lies on a line. Empty on the host.
    #[inline(always)]
    fn describe<T: Fields>(_value: *const T) {}

    /// From here on the program is measured, for a platform that reports what memory was used for: what a benchmark
    /// does before and after is no part of that. With false the calling thread is not any more; if it is the one that
    /// said true, nobody is. Empty on the host.
    #[inline(always)]
    fn measured(_measured: bool) {}

    /// A value for the rest of the process. A platform whose programs end before the process does keeps it
    /// apart from their memory, which is given back whole.
    fn leak<T: 'static>(make: impl FnOnce() -> T) -> &'static T {
        Box::leak(Box::new(make()))
    }
}

/// A platform whose code may publish single bytes with plain stores, and order them with fences.
///
/// Apart from [`Platform`], since few structures need it: a byte that one CPU writes beside those of
/// others costs no locked instruction, but then only a fence can order it before a later load.
pub trait ByteAtomics: Platform {
    /// An 8-bit atomic.
    type AtomicU8: AtomicInt<u8>;

    /// Orders everything before it before everything after it, a store before a later load
    /// included, as [`std::sync::atomic::fence`] with `SeqCst` does.
    #[track_caller]
    fn fence();
}

/// Told when its process was forked.
pub trait ForkHook: Send + Sync {
    /// Called in the child, on its only thread, before `fork` returns there. Locks may be held by
    /// threads that are no more: none may be taken.
    fn forked(&self);
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// Woken, or the word did not hold the expected value, or for no reason.
    Returned,
    /// The time ran out.
    TimedOut,
}
