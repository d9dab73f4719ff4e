//! Real time: fixed-priority tasks, periodic tasks, and a mutex with priority inheritance.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use coreshard::rt::{
    Executor, InheritMutex, LockError, Periodic, PeriodicHandle, Priority, RtError, TaskHandle,
};
use coreshard::{ProcessGeneration, Topology};

use crate::error::{Failure, Outcome, guard, guard_done, guard_pointer};
use crate::fork::CsFunction;
use crate::given::{Argument, free, function as given_function, given, number, taken};
use crate::queue::cpus;

/// Runs fixed-priority tasks. Made by `cs_rt_executor`, freed by `cs_rt_executor_free`.
pub struct CsRtExecutor {
    executor: Executor,
    lacking: c_int,
}

/// A spawned task, freed by `cs_rt_join`.
pub struct CsRtTask {
    handle: TaskHandle<()>,
    number: u64,
    made_in: ProcessGeneration,
}

thread_local! {
    /// The number of the task that this thread runs; 0 for none.
    static INSIDE: Cell<u64> = const { Cell::new(0) };
}

/// A periodic task, freed by `cs_rt_stop`.
pub struct CsRtPeriodic {
    handle: PeriodicHandle,
}

/// A mutex with priority inheritance, unlocked by the thread that has locked it.
pub struct CsRtMutex {
    mutex: InheritMutex<()>,
    /// The guard of the holder, used only by it.
    guard: UnsafeCell<Option<ManuallyDrop<Guard>>>,
}

type Guard = coreshard::rt::InheritGuard<'static, ()>;

/// Statistics of a periodic task.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CsRtPeriodicStats {
    pub activations: u64,
    /// Activations that finished after their deadline.
    pub late: u64,
    /// Skipped activations.
    pub skipped: u64,
}

impl From<RtError> for Failure {
    fn from(error: RtError) -> Self {
        Self::new(if error.is_forked() { libc::ECHILD } else { libc::EPERM }, error.to_string())
    }
}

fn priority(given: c_int) -> Outcome<Priority> {
    let number = u8::try_from(given).unwrap_or(0);
    Priority::new(number).map_err(|error| {
        Failure::invalid(if number == 0 {
            format!("invalid priority {given}: expected 1 to 99")
        } else {
            error.to_string()
        })
    })
}

/// Creates an executor on the CPUs in `mask` ("2-5"; null for all CPUs that the process may use). If `degraded` is not
/// 0, it works without permissions that the machine does not grant, and `cs_rt_lacking` returns their number. Otherwise
/// a missing permission is an error. Returns null, and sets errno, on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_rt_executor(mask: *const c_char, degraded: c_int) -> *mut CsRtExecutor {
    guard_pointer(|| {
        let machine = Topology::host();
        let machine = machine.map_err(|error| Failure::new(libc::ENODEV, error.to_string()))?;
        let mut builder = Executor::builder(&machine);
        if let Some(mask) = cpus(mask)? {
            builder = builder.cpus(mask);
        }
        if degraded == 0 {
            return Ok(Box::new(CsRtExecutor { executor: builder.build()?, lacking: 0 }));
        }
        let (executor, lacking) = builder.build_degraded()?;
        Ok(Box::new(CsRtExecutor { executor, lacking: number(lacking.len()) }))
    })
}

/// Returns how many permissions the machine did not grant.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_rt_lacking(executor: *const CsRtExecutor) -> c_int {
    guard(|| Ok(executor_of(executor)?.lacking))
}

/// Runs accepted tasks, and ends the threads. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_rt_executor_free(executor: *mut CsRtExecutor) {
    free(executor);
}

fn executor_of<'call>(executor: *const CsRtExecutor) -> Outcome<&'call CsRtExecutor> {
    given(executor, "executor")
}

/// Calls a function at a priority (1 to 99), on the CPU with the least important work. Returns null, and sets errno, on
/// failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_rt_spawn(
    executor: *mut CsRtExecutor,
    priority_of: c_int,
    function: CsFunction,
    argument: *mut c_void,
) -> *mut CsRtTask {
    guard_pointer(|| {
        let function = given_function(function)?;
        let argument = Argument(argument);
        static TASKS: AtomicU64 = AtomicU64::new(1);
        let number = TASKS.fetch_add(1, Relaxed);
        let task = move || {
            // A task runs on one thread until it ends, and no other task inside it.
            INSIDE.set(number);
            // SAFETY: by the header's contract.
            unsafe { function(argument.get()) };
            INSIDE.set(0);
        };
        let handle = executor_of(executor)?.executor.spawn(priority(priority_of)?, task)?;
        Ok(Box::new(CsRtTask { handle, number, made_in: ProcessGeneration::current() }))
    })
}

/// Waits until a task has finished, and frees its handle. -ECHILD if it never finishes, since this process was forked;
/// -EDEADLK inside the task, without effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_rt_join(task: *mut CsRtTask) -> c_int {
    guard_done(|| {
        if given(task, "task")?.number == INSIDE.get() {
            let message = "a task cannot wait for its own end: join it from another thread";
            return Err(Failure::new(libc::EDEADLK, message));
        }
        let CsRtTask { handle, made_in, .. } = *taken(task, "task")?;
        handle.join().map_err(|panic| {
            let errno = if made_in.is_current() { libc::ENOTRECOVERABLE } else { libc::ECHILD };
            Failure::new(errno, panic.to_string())
        })
    })
}

/// Calls a function every `period_ns` nanoseconds, at a priority. Missed activations are skipped. Returns null, and
/// sets errno, on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_rt_periodic(
    executor: *mut CsRtExecutor,
    period_ns: u64,
    priority_of: c_int,
    function: CsFunction,
    argument: *mut c_void,
) -> *mut CsRtPeriodic {
    guard_pointer(|| {
        let function = given_function(function)?;
        let argument = Argument(argument);
        let every = Periodic::every(Duration::from_nanos(period_ns), priority(priority_of)?);
        // SAFETY: by the header's contract.
        let body = move |_: &coreshard::rt::Activation| unsafe { function(argument.get()) };
        let handle = executor_of(executor)?.executor.periodic(every, body)?;
        Ok(Box::new(CsRtPeriodic { handle }))
    })
}

/// Stops a periodic task, waits until it has finished, fills in its statistics (`stats` may be null), and frees its
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_rt_stop(
    periodic: *mut CsRtPeriodic,
    stats: *mut CsRtPeriodicStats,
) -> c_int {
    guard_done(|| {
        let done = taken(periodic, "periodic task")?.handle.stop();
        // SAFETY: C says that there is room, or it is null.
        if let Some(stats) = unsafe { stats.as_mut() } {
            *stats = CsRtPeriodicStats {
                activations: done.activations,
                late: done.late,
                skipped: done.skipped,
            };
        }
        Ok(())
    })
}

/// Creates an unlocked mutex.
#[unsafe(no_mangle)]
pub extern "C" fn cs_rt_mutex() -> *mut CsRtMutex {
    guard_pointer(|| {
        Ok(Box::new(CsRtMutex { mutex: InheritMutex::new(()), guard: UnsafeCell::new(None) }))
    })
}

/// Frees an unlocked mutex. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_rt_mutex_free(mutex: *mut CsRtMutex) {
    free(mutex);
}

/// Locks a mutex. The holder inherits the priority of the most important waiting thread. -EDEADLK if the caller holds
/// it, or in case of a deadlock; -EOWNERDEAD if its holder exited.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_rt_mutex_lock(mutex: *mut CsRtMutex) -> c_int {
    acquire(mutex, |mutex| mutex.lock())
}

/// Locks a mutex if it is free; -EBUSY otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_rt_mutex_trylock(mutex: *mut CsRtMutex) -> c_int {
    acquire(mutex, |mutex| mutex.try_lock())
}

fn acquire(
    mutex: *mut CsRtMutex,
    lock: impl FnOnce(&'static InheritMutex<()>) -> Result<Guard, LockError<Guard>>,
) -> c_int {
    guard_done(|| {
        // The mutex exists while it is locked.
        let mutex: &'static CsRtMutex = given(mutex, "mutex")?;
        let taken = match lock(&mutex.mutex) {
            Ok(taken) | Err(LockError::Poisoned(taken)) => taken,
            Err(error) => {
                let errno = match &error {
                    LockError::Held => libc::EBUSY,
                    LockError::WouldDeadlock => libc::EDEADLK,
                    LockError::HolderGone => libc::EOWNERDEAD,
                    _ => libc::EOPNOTSUPP,
                };
                return Err(Failure::new(errno, error.to_string()));
            }
        };
        // SAFETY: this thread holds the mutex, so no other thread accesses the guard.
        unsafe { *mutex.guard.get() = Some(ManuallyDrop::new(taken)) };
        Ok(())
    })
}

/// Unlocks a mutex that the calling thread holds. It passes to the most important waiting thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_rt_mutex_unlock(mutex: *mut CsRtMutex) -> c_int {
    guard_done(|| {
        let mutex = given(mutex, "mutex")?;
        // SAFETY: C guarantees that the caller holds it, so no other thread accesses the guard.
        let taken = unsafe { (*mutex.guard.get()).take() }.map(ManuallyDrop::into_inner);
        taken.map(drop).ok_or_else(|| Failure::new(libc::EPERM, "the mutex is not held"))
    })
}
