//! The current CPU and the clocks.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use coreshard_topology::CpuId;

use crate::{ThreadId, Time};

/// Returns the current CPU. glibc (since 2.35) and musl read it from the rseq area or the vDSO, without a
/// system call.
#[inline(always)]
pub(super) fn current() -> CpuId {
    // SAFETY: takes no arguments and accesses no memory of this program.
    let cpu = unsafe { libc::sched_getcpu() };
    // Only kernels without the call return −1. CPU 0 always exists, and the current CPU is only a hint.
    CpuId(u32::try_from(cpu).unwrap_or(0))
}

/// Prefetches the line at `place` for writing. A prefetch never faults, whatever the address.
#[inline(always)]
pub(super) fn prefetch_write(place: *const u8) {
    // Written in assembly: the compiler's intrinsic fetches for reading unless it knows that the CPU supports
    // this instruction. x86-64 CPUs that lack it execute it as a no-op.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch affects only caches, and does not fault.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}

/// Returns the calling thread's stack pointer.
///
/// The address of a local variable is no substitute: under an address sanitizer, locals may lie elsewhere.
#[inline]
#[must_use]
pub fn stack_pointer() -> usize {
    let pointer: usize;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: only reads a register.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        let here = 0_u8;
        pointer = (&raw const here).addr();
    }
    pointer
}

fn try_clock(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec that the kernel fills.
    let rc = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let read = || Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32);
    (rc == 0).then(read)
}

/// Reads the state letter of proc_pid_stat(5). It follows the name, which is in parentheses and may contain
/// any character.
///
/// Allocates nothing: a watchdog must not wait for an allocator's lock whose holder is starved by the very
/// thread that the watchdog is looking for.
pub(super) fn is_waiting(ThreadId(thread): ThreadId) -> bool {
    // The standard library also keeps short paths on the stack.
    let mut path = [0; 40];
    let room = path.len();
    let mut rest = &mut path[..];
    if write!(rest, "/proc/self/task/{thread}/stat").is_err() {
        return false;
    }
    let written = room - rest.len();
    // Number, name (15 bytes; up to 64 for kernel threads) and state.
    let mut stat = [0; 128];
    let path = std::str::from_utf8(&path[..written]).unwrap_or_default();
    let read = File::open(path).and_then(|mut file| file.read(&mut stat));
    let Some(stat) = read.ok().map(|bytes| &stat[..bytes]) else { return false };
    let name_ends = stat.iter().rposition(|byte| *byte == b')');
    let state = name_ends.and_then(|at| stat[at + 1..].trim_ascii_start().first());
    matches!(state, Some(b'S' | b'D'))
}

fn read_clock(clock: libc::clockid_t) -> Duration {
    try_clock(clock).expect("every Linux has the monotonic clock and the caller's CPU clock")
}

pub(super) fn this_thread() -> ThreadId {
    // SAFETY: takes no arguments and accesses no memory of this program.
    ThreadId(unsafe { libc::gettid() }.unsigned_abs())
}

/// Reads another thread's CPU clock. Thread ids are encoded in clock ids as pthread_getcpuclockid(3) does,
/// but from an id that may be stale. A stale id has no clock.
pub(super) fn cpu_time_of(ThreadId(thread): ThreadId) -> Option<Duration> {
    const CPUCLOCK_SCHED: i32 = 2;
    const CPUCLOCK_PERTHREAD: i32 = 4;
    let thread = i32::try_from(thread).ok()?;
    try_clock(!thread << 3 | CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED)
}

pub(super) fn monotonic_now() -> Time {
    let since_boot = read_clock(libc::CLOCK_MONOTONIC);
    Time::from_ns(since_boot.as_secs() * 1_000_000_000 + u64::from(since_boot.subsec_nanos()))
}

/// Implements [`Platform::rough_ns`](crate::Platform::rough_ns).
#[inline(always)]
pub(super) fn rough_ns() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // The counter runs at 1 to 5 GHz.
        // SAFETY: every x86-64 CPU has the instruction. A process that may not use it cannot read the clock
        // from user space either.
        unsafe { std::arch::x86_64::_rdtsc() / 2 }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        monotonic_now().as_ns()
    }
}

/// Returns the CPU time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns how long the calling thread has been runnable without a CPU; `None` if the kernel does not count it.
pub fn thread_cpu_wait() -> Option<Duration> {
    let mut counts = [0; 128];
    let mut file = File::open("/proc/thread-self/schedstat").ok()?;
    let read = file.read(&mut counts).ok()?;
    let text = std::str::from_utf8(&counts[..read]).ok()?;
    // Time on a CPU, time in a run queue, and time slices.
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Measures the CPU time of the whole process, all threads together.
#[derive(Clone, Copy, Debug)]
pub struct CpuClock {
    started: Duration,
}

impl CpuClock {
    /// Starts a measurement at zero.
    pub fn start() -> Self {
        Self { started: read_clock(libc::CLOCK_PROCESS_CPUTIME_ID) }
    }

    /// Returns the CPU time used since the start.
    pub fn elapsed(&self) -> Duration {
        read_clock(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_cpu_is_one_that_this_thread_may_use() {
        let allowed = crate::affinity().unwrap();
        assert!(allowed.contains(current()), "{} not in {allowed}", current());
    }

    #[test]
    fn a_threads_cpu_time_is_told_to_others_while_it_lives() {
        let (say, hear) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            while thread_cpu_time() < Duration::from_millis(2) {}
            say.send(this_thread()).unwrap();
            stopped.recv().unwrap_err();
        });
        let id = hear.recv().unwrap();
        assert!(cpu_time_of(id).unwrap() >= Duration::from_millis(1));
        // The thread is about to wait for the channel.
        while !is_waiting(id) {
            std::thread::yield_now();
        }
        assert!(!is_waiting(this_thread()), "this thread is running");
        drop(stop);
        thread.join().unwrap();
        assert_eq!(cpu_time_of(ThreadId(u32::MAX)), None);
        assert!(!is_waiting(ThreadId(u32::MAX)));
    }

    #[test]
    fn the_clock_does_not_run_backwards() {
        let earlier = monotonic_now();
        assert!(monotonic_now() >= earlier);
    }

    #[test]
    fn work_uses_cpu_time_and_sleep_does_not() {
        let clock = CpuClock::start();
        let mut n = 0_u64;
        while clock.elapsed() < Duration::from_millis(2) {
            n = std::hint::black_box(n + 1);
        }
        assert!(n > 0);
    }
}
