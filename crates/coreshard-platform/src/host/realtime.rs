//! Fixed priorities, locked memory and priority inheritance on Linux.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{io, ptr};

use super::limits::{CAP_IPC_LOCK, CAP_SYS_NICE, field_of, has_capability, rt_runtime, soft_limit};
use super::{Host, HostThread, cause, cpu, generation, thread};
use crate::{
    InheritError, LockedMemory, MemoryLockError, Policy, PolicyError, RealTime, RealTimeLimits,
    SpawnError, ThreadId, ThreadSpec, Throttle, Time,
};

const SCHED_DEADLINE: u32 = 6;
const SCHED_FLAG_RESET_ON_FORK: u64 = 1;
/// futex(2), since Linux 5.14: like FUTEX_LOCK_PI, but with the monotonic clock.
const FUTEX_LOCK_PI2: i32 = 13;

/// How much of a new thread's stack is touched if its bounds cannot be read: less than any stack.
const FALLBACK_BYTES: usize = 16 << 10;

/// sched_setattr(2).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

impl SchedAttr {
    /// `resets` says whether threads and processes that the thread starts begin at normal priority.
    fn of(policy: Policy, resets: bool) -> Self {
        let flags = if resets { SCHED_FLAG_RESET_ON_FORK } else { 0 };
        let plain = Self { size: size_of::<Self>() as u32, flags, ..Self::default() };
        let fixed = |policy: i32, priority: u8| Self {
            policy: policy.unsigned_abs(),
            priority: priority.into(),
            ..plain
        };
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        match policy {
            Policy::Normal => fixed(libc::SCHED_OTHER, 0),
            Policy::Fifo(priority) => fixed(libc::SCHED_FIFO, priority),
            Policy::RoundRobin(priority) => fixed(libc::SCHED_RR, priority),
            Policy::Deadline { runtime, period } => Self {
                policy: SCHED_DEADLINE,
                runtime_ns: ns(runtime),
                deadline_ns: ns(period),
                period_ns: ns(period),
                ..plain
            },
        }
    }

    fn resets(&self) -> bool {
        self.flags & SCHED_FLAG_RESET_ON_FORK != 0
    }

    fn policy(&self) -> Policy {
        let priority = u8::try_from(self.priority).unwrap_or(0);
        match self.policy as i32 {
            libc::SCHED_FIFO => Policy::Fifo(priority),
            libc::SCHED_RR => Policy::RoundRobin(priority),
            _ if self.policy == SCHED_DEADLINE => Policy::Deadline {
                runtime: Duration::from_nanos(self.runtime_ns),
                period: Duration::from_nanos(self.period_ns),
            },
            _ => Policy::Normal,
        }
    }
}

/// Returns the policy of a thread of this process. Thread 0 is the calling thread.
fn policy_of(thread: u32) -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    let bytes = size_of::<SchedAttr>();
    // SAFETY: the structure is live and has the given length.
    let rc = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attr, bytes, 0) };
    if rc == 0 { Ok(attr) } else { Err(io::Error::last_os_error()) }
}

fn set_policy(thread: u32, policy: Policy, resets: bool) -> Result<(), PolicyError> {
    let attr = SchedAttr::of(policy, resets);
    let rc = match policy {
        // The older call, which leaves the nice value unchanged.
        Policy::Normal => {
            let parameter = [0_i32];
            // SAFETY: the parameter is live; on Linux it is one integer.
            unsafe {
                let resets = if resets { libc::SCHED_RESET_ON_FORK } else { 0 };
                let policy = libc::SCHED_OTHER | resets;
                libc::syscall(libc::SYS_sched_setscheduler, thread, policy, parameter.as_ptr())
            }
        }
        // SAFETY: the structure is live and states its own size.
        _ => unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attr, 0) },
    };
    let refused = |reason: io::Error| {
        let cause = cause::of_policy(policy, reason.raw_os_error(), ThreadId(thread));
        PolicyError::refused(policy, reason, cause)
    };
    if rc != 0 {
        return Err(refused(io::Error::last_os_error()));
    }
    let found = policy_of(thread).map_err(refused)?;
    if found.policy() == policy && found.resets() == resets {
        return Ok(());
    }
    Err(PolicyError::read_back(policy, found.policy()))
}

fn status_bytes(key: &str) -> u64 {
    let kib = field_of("/proc/self/status", key).and_then(|text| text.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn throttle() -> Option<Throttle> {
    let (runtime, period) = rt_runtime()?;
    let [runtime, period] = [u64::try_from(runtime).ok()?, u64::try_from(period).ok()?];
    let [runtime, period] = [runtime, period].map(Duration::from_micros);
    (runtime < period).then_some(Throttle { runtime, period })
}

/// Faults in the calling thread's whole stack.
fn prefault_stack() {
    if populate_stack().is_err() {
        // A kernel before 5.14: touch a part of it.
        use_stack(FALLBACK_BYTES);
    }
}

fn populate_stack() -> io::Result<()> {
    let mut start = ptr::null_mut();
    let mut bytes = 0;
    // SAFETY: the attributes are initialised by the first call and destroyed by the last. The other pointers
    // are live, and the call fills them.
    let rc = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let rc = libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes);
        if rc != 0 {
            return Err(io::Error::from_raw_os_error(rc));
        }
        let rc = libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut bytes);
        libc::pthread_attr_destroy(&raw mut attributes);
        rc
    };
    if rc != 0 {
        return Err(io::Error::from_raw_os_error(rc));
    }
    // SAFETY: the range is this thread's stack, and populating it changes no content.
    let rc = unsafe { libc::madvise(start, bytes, libc::MADV_POPULATE_WRITE) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[inline(never)]
fn use_stack(bytes: usize) {
    // A frame may hold one or two copies of it.
    const STEP: usize = 4 << 10;
    let used = std::hint::black_box([1_u8; STEP]);
    if bytes > STEP {
        use_stack(bytes - STEP);
    }
    std::hint::black_box(&used);
}

thread_local! {
    static HOLDER: Cell<u32> = const { Cell::new(0) };
}

extern "C" fn forget_holder() {
    HOLDER.set(0);
}

#[cold]
fn learn_holder() -> u32 {
    static HEARS: AtomicBool = AtomicBool::new(false);
    generation::register_once(&HEARS, || generation::in_child(forget_holder));
    let ThreadId(id) = cpu::this_thread();
    HOLDER.set(id);
    id
}

/// How many values hold the memory lock, and whether this process had locked its memory itself before.
static MEMORY: Mutex<(usize, bool)> = Mutex::new((0, false));

fn unlock_memory() {
    let mut memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    memory.0 -= 1;
    if memory.0 == 0 && !memory.1 {
        // SAFETY: changes paging, not the content of memory.
        unsafe { libc::munlockall() };
    }
}

fn futex_inheriting(
    word: &AtomicU32,
    operation: i32,
    until: Option<&libc::timespec>,
) -> io::Result<()> {
    loop {
        // SAFETY: the word is a live, aligned 32-bit integer for the whole call (a borrow). The time is null
        // or points to a live timespec.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                0,
                until.map_or(ptr::null(), ptr::from_ref),
            )
        };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            _ if rc == 0 => return Ok(()),
            // EAGAIN means that the holder is about to exit, EINTR a signal: try again.
            Some(libc::EINTR | libc::EAGAIN) => {}
            _ => return Err(error),
        }
    }
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(ns / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

impl RealTime for Host {
    fn spawn_as(
        spec: ThreadSpec,
        policy: Policy,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<HostThread, SpawnError> {
        let prepare = move || {
            set_policy(0, policy, true).map_err(|error| {
                let reason = std::error::Error::source(&error);
                let reason = reason.and_then(|it| it.downcast_ref::<io::Error>());
                let kind = reason.map_or(io::ErrorKind::Other, io::Error::kind);
                io::Error::new(kind, error)
            })?;
            prefault_stack();
            Ok(())
        };
        thread::spawn_prepared(spec, Some(Box::new(prepare)), body)
    }

    fn set_policy(ThreadId(thread): ThreadId, policy: Policy) -> Result<(), PolicyError> {
        set_policy(thread, policy, true)
    }

    fn set_own_policy(policy: Policy) -> Result<(), PolicyError> {
        let resets = policy_of(0).is_ok_and(|attr| attr.resets());
        set_policy(0, policy, resets)
    }

    fn policy() -> Policy {
        // Every thread may read its own policy.
        policy_of(0).map_or(Policy::Normal, |attr| attr.policy())
    }

    fn sleep_to(moment: Time) {
        let until = timespec(moment.as_ns());
        loop {
            // SAFETY: the time is a live timespec, and no remainder is requested.
            let rc = unsafe {
                libc::clock_nanosleep(
                    libc::CLOCK_MONOTONIC,
                    libc::TIMER_ABSTIME,
                    &raw const until,
                    ptr::null_mut(),
                )
            };
            if rc != libc::EINTR {
                return;
            }
        }
    }

    #[inline]
    fn holder_word() -> u32 {
        match HOLDER.get() {
            0 => learn_holder(),
            known => known,
        }
    }

    fn lock_inheriting(word: &AtomicU32, until: Option<Time>) -> Result<(), InheritError> {
        let until = until.map(|until| timespec(until.as_ns()));
        let mut locked = futex_inheriting(word, FUTEX_LOCK_PI2, until.as_ref());
        let is_old = |error: &io::Error| error.raw_os_error() == Some(libc::ENOSYS);
        if until.is_none() && locked.as_ref().is_err_and(is_old) {
            locked = futex_inheriting(word, libc::FUTEX_LOCK_PI, None);
        }
        // The kernel has written the word and ordered everything before. This load makes the order visible to
        // sanitizers, which see only the program. Pairs with the `fetch_or` in `unlock_inheriting`.
        word.load(Acquire);
        locked.map_err(|error| match error.raw_os_error() {
            Some(libc::ETIMEDOUT) => InheritError::TimedOut,
            Some(libc::EDEADLK) => InheritError::WouldDeadlock,
            Some(libc::ESRCH) => InheritError::HolderGone,
            _ => InheritError::Unsupported,
        })
    }

    fn unlock_inheriting(word: &AtomicU32) {
        // Does not change the word. Pairs with the load in `lock_inheriting`.
        word.fetch_or(0, Release);
        // Fails only if the caller does not hold the lock, which its guard excludes.
        let _ = futex_inheriting(word, libc::FUTEX_UNLOCK_PI, None);
    }

    fn real_time_limits() -> RealTimeLimits {
        let unprivileged = soft_limit(libc::RLIMIT_RTPRIO).unwrap_or(99).min(99) as u8;
        let locks_all = has_capability(CAP_IPC_LOCK);
        RealTimeLimits {
            priority: if has_capability(CAP_SYS_NICE) { 99 } else { unprivileged },
            locked_bytes: soft_limit(libc::RLIMIT_MEMLOCK).filter(|_| !locks_all),
            throttle: throttle(),
        }
    }

    fn lock_memory() -> Result<LockedMemory, MemoryLockError> {
        let mut memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.0 == 0 {
            let locked_before = status_bytes("VmLck:") > 0;
            // SAFETY: changes paging, not the content of memory.
            let rc = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
            if rc != 0 {
                let reason = io::Error::last_os_error();
                let limit = Self::real_time_limits().locked_bytes;
                let cause = cause::of_memory_lock(status_bytes("VmSize:"), limit);
                return Err(MemoryLockError::new(reason, cause));
            }
            memory.1 = locked_before;
        }
        memory.0 += 1;
        Ok(LockedMemory::new(Some(unlock_memory)))
    }

    fn page_faults() -> u64 {
        // SAFETY: an all-zero rusage is valid and live, and the kernel fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        usage.ru_minflt.unsigned_abs() + usage.ru_majflt.unsigned_abs()
    }
}

#[cfg(test)]
#[path = "realtime_tests.rs"]
mod tests;
