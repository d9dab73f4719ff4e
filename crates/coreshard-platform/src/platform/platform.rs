//! The trait that every runtime is generic over.

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use coreshard_topology::{CpuId, CpuSet, NodeId};

use crate::{
    AffinityError, AtomicInt, AtomicPointer, DataCell, Fields, LocalKey, NodeMemory,
    NodeMemoryError, SpawnError, ThreadHandle, ThreadId, ThreadSpec, Time,
};

/// A machine to run on.
///
/// Implementors are zero-sized types: a runtime names its platform as a type parameter and calls associated
/// functions, so nothing is dispatched at run time.
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

    /// Whether the platform wants to be notified when a work item is [queued](Self::item_is_queued), begins
    /// and finishes. True for platforms that test programs.
    const WATCHES_ITEMS: bool = false;

    /// Returns the CPU that the calling thread runs on.
    ///
    /// The thread may have moved by the time the caller uses the result, so it is a hint about place and
    /// never a proof of exclusion.
    fn current_cpu() -> CpuId;

    /// Starts a thread. Returns once it runs with every attribute of `spec`, read back.
    ///
    /// # Errors
    /// If the thread cannot be created, or its affinity or nice value cannot be set. No thread is left behind
    /// then.
    fn spawn(spec: ThreadSpec, body: Box<dyn FnOnce() + Send>) -> Result<Self::Thread, SpawnError>;

    /// Sleeps while `word` holds `expected`, until a wake-up or for `timeout`.
    ///
    /// May return early without a reason, so callers must check the word again.
    fn wait(word: &Self::AtomicU32, expected: u32, timeout: Option<Duration>) -> WaitOutcome;

    /// Wakes one thread that sleeps on `word`, if any.
    ///
    /// Does not read that address, so it may be called after the word has been freed.
    fn wake_one(word: *const Self::AtomicU32);

    /// Wakes every thread that sleeps on `word`.
    fn wake_all(word: *const Self::AtomicU32);

    /// Returns the time of the monotonic clock.
    fn now() -> Time;

    /// Returns a rough time in nanoseconds since an unspecified moment, in a few instructions.
    ///
    /// It may run at half or twice the true speed. Use it for differences of less than a second on one
    /// thread, to the order of magnitude.
    #[inline]
    fn rough_ns() -> u64 {
        Self::now().as_ns()
    }

    /// Sleeps for `duration`.
    fn sleep(duration: Duration);

    /// Tells the CPU that the caller spins.
    fn spin_hint();

    /// Checks up to `looks` times whether `done` returns true, and spins before each check.
    ///
    /// Returns true as soon as it does, and false after the last failed check.
    ///
    /// `done` must depend only on the words that it reads: a platform that knows that none of them has
    /// changed may skip a check.
    #[inline]
    fn watch(looks: u32, mut done: impl FnMut() -> bool) -> bool {
        (0..looks).any(|_| {
            Self::spin_hint();
            done()
        })
    }

    /// Lets another thread run on this CPU.
    fn yield_now();

    /// Restricts the calling thread to `cpus`, and reads the result back.
    ///
    /// # Errors
    /// If the machine refuses, or reports other CPUs than requested.
    fn set_affinity(cpus: &CpuSet) -> Result<(), AffinityError>;

    /// Restricts another thread of this process to `cpus`.
    ///
    /// Allocates nothing. Returns false if the machine refuses, or if the platform cannot do this.
    fn set_affinity_of(_thread: ThreadId, _cpus: impl Iterator<Item = CpuId>) -> bool {
        false
    }

    /// Returns the CPUs that this process may use: the CPUs that its main thread was left with when it was started
    /// (taskset, a cpuset) and by its own calls.
    ///
    /// Returns `None` if there is no limit, or if the platform cannot tell.
    ///
    /// A runtime uses no other CPUs unless the program names them.
    fn process_cpus() -> Option<CpuSet> {
        None
    }

    /// Returns zeroed and touched memory on `node`, or on any node if it is `None`.
    ///
    /// # Errors
    /// If no memory is available at all. Memory on another node is no error: [`NodeMemory::placement`] says
    /// where it lies.
    fn allocate(bytes: usize, node: Option<NodeId>) -> Result<NodeMemory, NodeMemoryError>;

    /// Returns the calling thread's pointer under `key`; null until it is set.
    fn local(key: LocalKey) -> *mut ();

    /// Sets the calling thread's pointer under `key`.
    fn set_local(key: LocalKey, value: *mut ());

    /// Calls `end` on the calling thread when that thread ends, with the thread's pointers as they are then.
    ///
    /// Also called if the thread ends the process, at whatever point. On the main thread, and on a platform
    /// that does not report the end of threads, `end` is dropped without being called.
    fn at_thread_end(end: Box<dyn FnOnce()>) {
        drop(end);
    }

    /// Returns whether an idle thread may spin for work before it sleeps.
    ///
    /// False on a platform that models a kernel's worker threads, which sleep at once.
    #[inline(always)]
    fn idlers_may_spin() -> bool {
        true
    }

    /// Takes a contended lock on a platform whose locks are queues of spinning CPUs, like a kernel's: sets
    /// the word to `contended` once it is `free`, first come first served.
    ///
    /// Returns false and does nothing on a platform whose waiters sleep on the word.
    #[inline(always)]
    fn queue_for_lock(_word: &Self::AtomicU32, _free: u32, _contended: u32) -> bool {
        false
    }

    /// Reports that the calling thread holds a lock over a `T` from now on.
    ///
    /// On a platform where lock holders keep their CPU, as in a kernel, the platform enforces that. Does
    /// nothing on others.
    #[inline(always)]
    #[track_caller]
    fn lock_is_taken<T>(_word: *const Self::AtomicU32) {}

    /// Reports that the calling thread has released a lock. Does not read that address.
    #[inline(always)]
    fn lock_is_freed(_word: *const Self::AtomicU32) {}

    /// Prefetches a line that will be written soon, in exclusive state. A hint: any address is permitted.
    #[inline(always)]
    fn prefetch_write<T>(_place: *const T) {}

    /// Returns the calling thread's id, for [`Platform::cpu_time_of`].
    fn this_thread() -> ThreadId {
        ThreadId(0)
    }

    /// Returns the CPU time that a thread of this process has used so far.
    ///
    /// Returns `None` if the thread has ended, or if the platform cannot tell. In the second case, running
    /// and waiting threads cannot be told apart.
    fn cpu_time_of(_thread: ThreadId) -> Option<Duration> {
        None
    }

    /// Returns true if a thread of this process is waiting (sleep, lock, I/O), so neither running nor ready
    /// to run.
    fn is_waiting(_thread: ThreadId) -> bool {
        false
    }

    /// Returns whether runtimes check their invariants wherever these must hold, for example whenever a lock
    /// is about to be released.
    ///
    /// This costs time, but accesses nothing that the platform models.
    #[inline(always)]
    fn checks_rules() -> bool {
        cfg!(any(debug_assertions, loom))
    }

    /// Calls `hook` in every process that is forked from this one, as long as the hook lives.
    ///
    /// Does nothing on a platform without processes.
    fn on_fork(_hook: Weak<dyn ForkHook>) {}

    /// Returns the number of forks between this process and the first one that called this function or added
    /// a hook.
    ///
    /// Objects created under another number have their threads in another process.
    #[inline(always)]
    fn process_generation() -> u32 {
        0
    }

    /// Begins a read-side section on the calling thread.
    ///
    /// Callers use [`Reading`](crate::Reading) instead. Memory that such threads may read is freed only after
    /// a [grace period](Self::try_grace_period). The result is passed to [`end_reading`](Self::end_reading).
    #[inline(always)]
    fn begin_reading() -> *const () {
        std::ptr::null()
    }

    /// Ends the section that returned `thread`, on the same thread.
    #[inline(always)]
    fn end_reading(_thread: *const ()) {}

    /// Returns true if every read-side section that had begun before this call has ended.
    ///
    /// Returns false if one is still active, or if the platform cannot tell: nothing may be freed now, and
    /// the caller may try again later. Does not block.
    fn try_grace_period() -> bool {
        false
    }

    /// Reports that a work item was accepted.
    #[inline(always)]
    fn item_is_queued() {}

    /// Reports that the calling thread is about to run the item of the function `name`.
    ///
    /// It runs when this call returns, unless `_is_void` is true by then: the item was cancelled, or another
    /// thread has run it. The platform may make the thread wait.
    #[inline(always)]
    fn item_begins(_name: &'static str, _is_void: impl Fn() -> bool) {}

    /// Reports that the item which the calling thread [began](Self::item_begins) last has finished.
    #[inline(always)]
    fn item_is_over() {}

    /// Reports that an accepted item will not be taken from its queue: it was cancelled, handed back, or is
    /// run by a thread that waits for it.
    #[inline(always)]
    fn item_is_taken() {}

    /// Reports that an item panicked and that no handler receives the panic.
    #[inline(always)]
    fn item_panicked(_queue: &str, _panic: &str) {}

    /// Reports a read of plain data to a platform that models memory. Does nothing on the host.
    #[inline(always)]
    #[track_caller]
    fn touch_read<T>(_data: *const T) {}

    /// Reports a write of plain data to a platform that models memory. Does nothing on the host.
    #[inline(always)]
    #[track_caller]
    fn touch_write<T>(_data: *const T) {}

    /// Reports the accesses that a new lock holder makes to the protected data: it reads a part of it before
    /// it proceeds, and writes it.
    ///
    /// For platforms that model memory; does nothing on the host.
    #[inline(always)]
    #[track_caller]
    fn touch_locked<T>(_data: *const T) {}

    /// Names the fields of a value that is at its final address, for a platform that reports which field of
    /// which struct lies on a line.
    ///
    /// Does nothing on the host.
    #[inline(always)]
    fn describe<T: Fields>(_value: *const T) {}

    /// Starts measuring the program, for a platform that reports how memory was used; a benchmark excludes
    /// its setup and teardown this way.
    ///
    /// With false, the calling thread is no longer measured. If that thread started the measurement, it ends
    /// for all threads. Does nothing on the host.
    #[inline(always)]
    fn measured(_measured: bool) {}

    /// Returns a value that lives as long as the process.
    ///
    /// A platform whose programs end before the process does allocates it apart from their memory, which is
    /// released as a whole.
    fn leak<T: 'static>(make: impl FnOnce() -> T) -> &'static T {
        Box::leak(Box::new(make()))
    }
}

/// A platform on which code may publish single bytes with plain stores, and order them with fences.
///
/// Separate from [`Platform`], since few structures need it. A byte that one CPU writes beside the bytes of other CPUs
/// needs no locked instruction, but then only a fence can order it before a later load.
pub trait ByteAtomics: Platform {
    /// An 8-bit atomic.
    type AtomicU8: AtomicInt<u8>;

    /// Orders all accesses before it before all accesses after it, including a store before a later load, as
    /// [`std::sync::atomic::fence`] with `SeqCst` does.
    #[track_caller]
    fn fence();
}

/// A hook that is called when its process was forked.
pub trait ForkHook: Send + Sync {
    /// Runs in the child, on its only thread, before `fork` returns there.
    ///
    /// It must take no lock, since the holder may be a thread that the child does not have.
    fn forked(&self);
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// A wake-up, another value in the word, or a spurious return.
    Returned,
    /// The timeout expired.
    TimedOut,
}
