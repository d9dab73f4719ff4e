//! This machine, on Linux: standard atomics, futexes, pinned threads, node-local memory.

mod cause;
mod child;
mod cpu;
mod cpu_mask;
#[cfg(feature = "faulty")]
mod faulty;
mod fork;
mod futex;
mod generation;
mod inherited;
mod limits;
mod locals;
mod readers;
mod realtime;
mod thread;

use std::cell::UnsafeCell;
use std::sync::Weak;
use std::sync::atomic::{self, Ordering};
use std::time::Duration;

pub use child::ends_with_parent;
use coreshard_topology::{CpuId, CpuSet, NodeId};
pub use cpu::{CpuClock, stack_pointer, thread_cpu_time, thread_cpu_wait};
#[cfg(feature = "faulty")]
pub use faulty::{Faults, Faulty, Start};
pub use inherited::ChildCommand;
pub use limits::is_privileged;
pub use thread::{HostThread, affinity, set_affinity};

use crate::{
    AffinityError, ByteAtomics, DataCell, ForkHook, LocalKey, NodeMemory, NodeMemoryError,
    Platform, SpawnError, ThreadId, ThreadSpec, Time, WaitOutcome,
};

/// Memory up to this size that may lie on any node comes from the program's allocator.
const HEAP_BYTES: usize = 16 << 10;

/// This machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host;

/// Implements [`Platform`] by this machine, for a type whose threads are started by `$spawn`.
macro_rules! platform_of_this_machine {
    ($platform:ty, $spawn:path) => {
        impl Platform for $platform {
            type AtomicU32 = atomic::AtomicU32;
            type AtomicU64 = atomic::AtomicU64;
            type AtomicPtr<T> = atomic::AtomicPtr<T>;
            type Cell<T> = HostCell<T>;
            type Thread = HostThread;

            #[inline(always)]
            fn current_cpu() -> CpuId {
                cpu::current()
            }

            fn spawn(
                spec: ThreadSpec,
                body: Box<dyn FnOnce() + Send>,
            ) -> Result<Self::Thread, SpawnError> {
                $spawn(spec, body)
            }

            fn wait(
                word: &Self::AtomicU32,
                expected: u32,
                timeout: Option<Duration>,
            ) -> WaitOutcome {
                futex::wait(word, expected, timeout)
            }

            fn wake_one(word: *const Self::AtomicU32) {
                futex::wake(word, 1);
            }

            fn wake_all(word: *const Self::AtomicU32) {
                futex::wake(word, i32::MAX);
            }

            fn now() -> Time {
                cpu::monotonic_now()
            }

            #[inline(always)]
            fn rough_ns() -> u64 {
                cpu::rough_ns()
            }

            fn sleep(duration: Duration) {
                std::thread::sleep(duration);
            }

            #[inline(always)]
            fn spin_hint() {
                std::hint::spin_loop();
            }

            fn yield_now() {
                std::thread::yield_now();
            }

            fn set_affinity_of(thread: ThreadId, cpus: impl Iterator<Item = CpuId>) -> bool {
                cpu_mask::set_affinity_of(thread, cpus)
            }

            fn set_affinity(cpus: &CpuSet) -> Result<(), AffinityError> {
                set_affinity(cpus)
            }

            fn process_cpus() -> Option<CpuSet> {
                cpu_mask::affinity_of(std::process::id() as libc::pid_t).ok()
            }

            fn allocate(bytes: usize, node: Option<NodeId>) -> Result<NodeMemory, NodeMemoryError> {
                // Small memory that may lie anywhere: mapping and unmapping it on all CPUs takes longer than
                // most uses of it.
                if node.is_none() && bytes <= HEAP_BYTES {
                    return NodeMemory::on_heap(bytes);
                }
                NodeMemory::allocate(bytes, node)
            }

            #[inline(always)]
            fn prefetch_write<T>(place: *const T) {
                cpu::prefetch_write(place.cast());
            }

            fn this_thread() -> ThreadId {
                cpu::this_thread()
            }

            fn cpu_time_of(thread: ThreadId) -> Option<Duration> {
                cpu::cpu_time_of(thread)
            }

            fn is_waiting(thread: ThreadId) -> bool {
                cpu::is_waiting(thread)
            }

            fn on_fork(hook: Weak<dyn ForkHook>) {
                fork::hook(hook);
            }

            #[inline(always)]
            fn process_generation() -> u32 {
                match generation::known() {
                    Some(generation) => generation,
                    None => first_generation(),
                }
            }

            #[inline(always)]
            fn begin_reading() -> *const () {
                readers::begin()
            }

            #[inline(always)]
            fn end_reading(thread: *const ()) {
                readers::end(thread);
            }

            fn try_grace_period() -> bool {
                readers::try_grace_period()
            }

            #[inline(always)]
            fn local(key: LocalKey) -> *mut () {
                locals::get(key)
            }

            fn at_thread_end(end: Box<dyn FnOnce()>) {
                locals::at_thread_end(end);
            }

            #[inline(always)]
            fn set_local(key: LocalKey, value: *mut ()) {
                locals::set(key, value);
            }
        }
    };
}

platform_of_this_machine!(Host, thread::spawn);
#[cfg(feature = "faulty")]
platform_of_this_machine!(Faulty, faulty::spawn);

/// The host's [`DataCell`]: a plain [`UnsafeCell`].
#[repr(transparent)]
#[derive(Debug)]
pub struct HostCell<T>(UnsafeCell<T>);

impl<T> DataCell<T> for HostCell<T> {
    #[inline(always)]
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
    #[inline(always)]
    fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }
    #[inline(always)]
    fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Returns the process's generation. The first call registers the fork handlers.
#[cold]
fn first_generation() -> u32 {
    fork::hear_of_forks();
    generation::current()
}

impl ByteAtomics for Host {
    type AtomicU8 = atomic::AtomicU8;

    #[inline(always)]
    fn fence() {
        atomic::fence(Ordering::SeqCst);
    }
}
