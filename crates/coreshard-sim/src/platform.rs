//! The simulated machine as a [`Platform`].
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::io;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use coreshard_platform::{
    AffinityError, AtomicInt, ByteAtomics, Fields, LocalKey, NodeMemory, NodeMemoryError,
    Placement, Platform, SpawnError, ThreadHandle, ThreadId, ThreadSpec, Time, WaitOutcome,
};
use coreshard_topology::{CpuId, CpuSet, NodeId};

use crate::atomic::{SimAtomic, SimCell};
use crate::engine::{self, SimState};
use crate::machine::NS;
use crate::memory::Access;
use crate::profile::Profile;
use crate::space::{PAGE_BYTES, SimAlloc, in_arena, in_host, release_memory};

/// The machine of the [`Simulation`](crate::Simulation) that runs the calling code.
///
/// Outside a simulation, atomics and data behave like the host's at no cost, so that results of a run can be
/// inspected and dropped. Everything else panics, since there is no machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sim;

/// A virtual thread.
#[derive(Debug)]
pub struct SimThread {
    number: usize,
}

impl ThreadHandle for SimThread {
    #[track_caller]
    fn join(self) {
        engine::join(self.number, Location::caller());
    }
}

impl Sim {
    /// Lets the running thread compute for `duration` without accessing memory.
    #[track_caller]
    pub fn compute(duration: Duration) {
        let sim = engine::expect_sim("a thread computes");
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / NS);
        engine::compute(sim, ns.saturating_mul(NS), Location::caller());
    }

    /// Reports that the program has got ahead, so that its retries are no livelock.
    ///
    /// A program whose threads run forever calls it whenever it has finished something. Does nothing outside a
    /// simulation.
    pub fn progress() {
        engine::with_current(SimState::note_progress);
    }

    /// Returns true on a host thread that runs simulated code.
    #[inline]
    #[must_use]
    pub fn is_running() -> bool {
        engine::current().is_some()
    }

    /// Marks a point at which other threads may continue, in any [`Switching`](crate::Switching) mode.
    ///
    /// Does nothing outside a simulation.
    pub fn preemption_point() {
        engine::switch_point();
    }

    /// Lets up to `items` work items begin, and virtual time pass for `duration`, in a simulation [by
    /// hand](crate::Simulation::by_hand), on its first thread.
    ///
    /// Returns the number of begun items once no thread can continue before that moment.
    ///
    /// # Panics
    /// On any other thread, and in a simulation that is not by hand.
    pub fn let_run(items: u64, duration: Duration) -> u64 {
        engine::let_run(items, duration)
    }

    /// Ends a simulation by hand: from now on all items run, and time passes by itself.
    ///
    /// Does nothing in other simulations.
    ///
    /// # Panics
    /// Outside a simulation.
    pub fn end_by_hand() {
        engine::expect("a run by hand ends", SimState::end_by_hand);
    }

    /// Returns the virtual time since the simulation's start, at no cost.
    ///
    /// # Panics
    /// Outside a simulation.
    #[must_use]
    pub fn virtual_time() -> Duration {
        Duration::from_nanos(engine::expect("the time is read", |sim| sim.hw.now / NS))
    }

    /// Forwards [`Platform::item_is_queued`], for platforms that wrap this one.
    pub fn item_is_queued() {
        engine::with_current(|sim| sim.items.note_queued());
    }

    /// Forwards [`Platform::item_begins`], for platforms that wrap this one.
    pub fn item_begins(name: &'static str, is_void: impl Fn() -> bool) {
        engine::item_begins(name, is_void);
    }

    /// Forwards [`Platform::item_is_over`], for platforms that wrap this one.
    pub fn item_is_over() {
        engine::item_is_over();
    }

    /// Forwards [`Platform::item_is_taken`], for platforms that wrap this one.
    pub fn item_is_taken() {
        engine::with_current(|sim| sim.items.note_taken());
    }

    /// Forwards [`Platform::item_panicked`], for platforms that wrap this one.
    pub fn item_panicked(queue: &str, panic: &str) {
        engine::with_current(|sim| in_host(|| sim.items.note_panic(queue, panic)));
    }

    /// Returns panics of items since the last call that had no handler, with the queue's name.
    ///
    /// They are then omitted from the run's [`Summary`](crate::Summary).
    #[must_use]
    pub fn take_unheard_panics() -> Vec<String> {
        engine::with_current(|sim| sim.items.take_panics()).unwrap_or_default()
    }

    /// Returns the number of accepted items that have not begun.
    #[must_use]
    pub fn queued_items() -> u64 {
        engine::with_current(|sim| sim.items.queued()).unwrap_or(0)
    }

    /// Calls code that is not part of the simulated program, such as a progress bar.
    ///
    /// Its allocations do not come from the program's memory, so it does not affect the run. It must not use
    /// the simulated machine.
    pub fn outside<R>(call: impl FnOnce() -> R) -> R {
        in_host(call)
    }

    /// Starts a SCHED_FIFO thread.
    ///
    /// It runs before all fair threads, and before FIFO threads of lower priority.
    ///
    /// # Errors
    /// As [`Platform::spawn`], and for a priority outside 1 to 99.
    pub fn spawn_fifo(
        spec: ThreadSpec,
        priority: u8,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<SimThread, SpawnError> {
        if !(1..=99).contains(&priority) {
            let problem = format!("invalid SCHED_FIFO priority {priority}: expected 1 to 99");
            let reason = io::Error::new(io::ErrorKind::InvalidInput, problem);
            return Err(SpawnError::refused(spec.name, reason));
        }
        Self::spawn_at(spec, priority, body)
    }

    pub(crate) fn spawn_at(
        spec: ThreadSpec,
        priority: u8,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<SimThread, SpawnError> {
        Ok(SimThread { number: engine::spawn(spec, priority, body)? })
    }
}

impl Platform for Sim {
    type AtomicU32 = SimAtomic<atomic::AtomicU32>;
    type AtomicU64 = SimAtomic<atomic::AtomicU64>;
    type AtomicPtr<T> = SimAtomic<atomic::AtomicPtr<T>>;
    type Cell<T> = SimCell<T>;
    type Thread = SimThread;

    fn current_cpu() -> CpuId {
        let sim = engine::expect_sim("a thread asks for its CPU");
        engine::charge(sim, |costs| costs.l1_hit);
        engine::with(sim, |sim| sim.cpu_id())
    }

    fn spawn(spec: ThreadSpec, body: Box<dyn FnOnce() + Send>) -> Result<SimThread, SpawnError> {
        Ok(SimThread { number: engine::spawn(spec, 0, body)? })
    }

    #[track_caller]
    fn wait(word: &Self::AtomicU32, expected: u32, timeout: Option<Duration>) -> WaitOutcome {
        engine::wait(word.native(), expected, timeout, Location::caller())
    }

    fn wake_one(word: *const Self::AtomicU32) {
        engine::wake(word.addr(), 1);
    }

    fn wake_all(word: *const Self::AtomicU32) {
        engine::wake(word.addr(), usize::MAX);
    }

    fn now() -> Time {
        let sim = engine::expect_sim("a thread reads the clock");
        engine::preemption_point(sim);
        engine::charge(sim, |costs| costs.clock_read);
        Time::from_ns(engine::with(sim, SimState::read_clock) / NS)
    }

    fn rough_ns() -> u64 {
        let sim = engine::expect_sim("a thread reads the cycle counter");
        engine::charge(sim, |costs| costs.l1_hit);
        engine::with(sim, SimState::read_clock) / NS
    }

    #[track_caller]
    fn sleep(duration: Duration) {
        engine::sleep(duration, Location::caller());
    }

    fn spin_hint() {
        engine::spin_hint();
    }

    fn watch(looks: u32, done: impl FnMut() -> bool) -> bool {
        engine::watch(looks, done)
    }

    fn this_thread() -> ThreadId {
        engine::expect("a thread asks for its name", |sim| sim.thread_id())
    }

    fn cpu_time_of(thread: ThreadId) -> Option<Duration> {
        engine::cpu_time_of(thread)
    }

    fn is_waiting(thread: ThreadId) -> bool {
        engine::is_waiting(thread)
    }

    fn idlers_may_spin() -> bool {
        engine::with_current(|sim| sim.idlers_may_spin()).unwrap_or(true)
    }

    fn checks_rules() -> bool {
        true
    }

    fn queue_for_lock(word: &Self::AtomicU32, free: u32, contended: u32) -> bool {
        if engine::with_current(|sim| sim.profile()) != Some(Profile::InKernel) {
            return false;
        }
        let site = Location::caller();
        // As long as there is a queue, the lock is handed along it, and is never free.
        while word.swap(contended, Ordering::Acquire) != free {
            if engine::spin_in_queue(word.native(), free, contended, site) {
                break;
            }
        }
        true
    }

    #[track_caller]
    fn lock_is_taken<T>(word: *const Self::AtomicU32) {
        let (data, site) = (std::any::type_name::<T>(), Location::caller());
        engine::with_current(|sim| sim.lock_is_taken(word.addr(), data, site));
    }

    fn lock_is_freed(word: *const Self::AtomicU32) {
        engine::with_current(|sim| sim.lock_is_freed(word.addr()));
    }

    #[track_caller]
    fn yield_now() {
        engine::yield_now(Location::caller());
    }

    #[track_caller]
    fn set_affinity(cpus: &CpuSet) -> Result<(), AffinityError> {
        engine::set_affinity(cpus, Location::caller())
    }

    fn allocate(bytes: usize, node: Option<NodeId>) -> Result<NodeMemory, NodeMemoryError> {
        let sim = engine::expect_sim("memory is allocated");
        if engine::with(sim, |sim| sim.call_fails(engine::Call::Memory)) {
            return Err(NodeMemoryError::new(bytes, io::ErrorKind::OutOfMemory.into()));
        }
        let pages = bytes.max(1).checked_next_multiple_of(PAGE_BYTES);
        let layout = pages.and_then(|bytes| Layout::from_size_align(bytes, PAGE_BYTES).ok());
        // SAFETY: the arena belongs to the running simulation; the layout's size is not zero.
        let block = layout.and_then(|layout| unsafe {
            let arena = engine::with(sim, |sim| sim.arena());
            NonNull::new(in_arena(arena, || SimAlloc.alloc_zeroed(layout)))
        });
        let (Some(layout), Some(start)) = (layout, block) else {
            return Err(NodeMemoryError::new(bytes, io::ErrorKind::OutOfMemory.into()));
        };
        let address = start.as_ptr().addr();
        let placed = engine::with(sim, |sim| sim.renew(address, layout.size(), node));
        let placement = match node {
            None => Placement::Unasked,
            Some(asked) if placed => Placement::OnNode(asked),
            Some(asked) => Placement::Unverified {
                asked,
                reason: io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the simulated machine has no such node",
                ),
            },
        };
        // SAFETY: the block is zeroed, has the given length and no other owner, and `release_memory` frees
        // exactly such a block.
        Ok(unsafe { NodeMemory::adopt(start, layout.size(), placement, release_memory) })
    }

    fn local(key: LocalKey) -> *mut () {
        engine::with_current(|sim| *sim.local(key)).unwrap_or(std::ptr::null_mut())
    }

    fn set_local(key: LocalKey, value: *mut ()) {
        engine::expect("a thread sets a local value", |sim| *sim.local(key) = value);
    }

    fn begin_reading() -> *const () {
        engine::with_current(SimState::begin_reading);
        std::ptr::null()
    }

    fn end_reading(_thread: *const ()) {
        engine::with_current(SimState::end_reading);
    }

    fn try_grace_period() -> bool {
        engine::with_current(SimState::try_grace_period).unwrap_or(false)
    }

    fn touch_read<T>(data: *const T) {
        touch(data.addr(), size_of::<T>(), Access::Load);
    }

    fn touch_write<T>(data: *const T) {
        touch(data.addr(), size_of::<T>(), Access::Store);
    }

    /// If stores are awaited one after the other, the holder already has the data that it reads. Otherwise it
    /// waits for that data. Several lines are fetched at once, so they take as long as one.
    fn touch_locked<T>(data: *const T) {
        const LINE_BYTES: usize = 64;
        if size_of::<T>() > LINE_BYTES
            && engine::with_current(|sim| sim.stores_run_ahead()) == Some(true)
        {
            touch(data.addr() + LINE_BYTES, 1, Access::Load);
        }
        touch(data.addr(), size_of::<T>(), Access::Store);
    }

    fn describe<T: Fields>(value: *const T) {
        engine::with_current(|sim| sim.describe::<T>(value.addr()));
    }

    fn measured(measured: bool) {
        engine::with_current(|sim| sim.measure(measured));
    }

    /// Outside the simulation's arena, whose addresses it would keep reserved.
    fn leak<T: 'static>(make: impl FnOnce() -> T) -> &'static T {
        in_host(|| Box::leak(Box::new(make())))
    }
}

impl ByteAtomics for Sim {
    type AtomicU8 = SimAtomic<atomic::AtomicU8>;

    /// Executes a locked instruction on the thread's own stack, as compilers do for a fence on x86-64. It
    /// waits until the earlier stores are complete, and does not contend with other CPUs.
    fn fence() {
        let own = 0_u32;
        touch((&raw const own).addr(), size_of::<u32>(), Access::ReadModifyWrite);
    }
}

#[track_caller]
fn touch(address: usize, bytes: usize, kind: Access) {
    if bytes > 0 {
        engine::access(address, bytes, kind, Location::caller());
    }
}
