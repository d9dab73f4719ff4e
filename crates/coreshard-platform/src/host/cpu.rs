//! The current CPU and the clocks.
#![allow(unsafe_code)]

use std::time::Duration;

use coreshard_topology::CpuId;

use crate::Time;

/// glibc (since 2.35) and musl answer without a system call: from the thread's rseq area or the
/// vDSO.
#[inline(always)]
pub(super) fn current() -> CpuId {
    // SAFETY: takes no arguments and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    // −1 is answered only by kernels without the call; CPU 0 exists everywhere, and the current
    // CPU is a hint about place in any case.
    CpuId(u32::try_from(cpu).unwrap_or(0))
}

/// Fetches the line at `place` for writing. A prefetch never faults, whatever the address.
#[inline(always)]
pub(super) fn prefetch_write(place: *const u8) {
    // Written out, since the compiler's intrinsic fetches for reading where it does not know
    // that the CPU has this one. x86-64 CPUs without it take it for a no-op.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect but on caches, and does not fault.
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

fn read_clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec for the kernel to fill.
    let rc = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(rc, 0, "clock {clock} exists on every Linux");
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

pub(super) fn monotonic_now() -> Time {
    let since_boot = read_clock(libc::CLOCK_MONOTONIC);
    Time::from_ns(since_boot.as_secs() * 1_000_000_000 + u64::from(since_boot.subsec_nanos()))
}

/// The CPU time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Measures CPU time of the whole process, all threads together.
#[derive(Clone, Copy, Debug)]
pub struct CpuClock {
    started: Duration,
}

impl CpuClock {
    /// Starts at zero.
    pub fn start() -> Self {
        Self { started: read_clock(libc::CLOCK_PROCESS_CPUTIME_ID) }
    }

    /// CPU time used since the start.
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
