//! The cost of a wake-up on this machine. It is measured at each wake-up, since it depends on the kernel, on the virtual
//! machine, and on how deeply idle CPUs sleep.

use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform, fields};

/// The cost of a wake-up, in nanoseconds as [`Platform::rough_ns`] counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakeCost {
    /// How long the call takes the waker.
    waker_ns: u32,
    /// Time from the call until the woken worker runs.
    latency_ns: u32,
}

impl WakeCost {
    /// Assumed before the first wake-up: a server with idle states, on bare metal.
    pub(crate) const ASSUMED: Self = Self { waker_ns: 2_000, latency_ns: 20_000 };

    #[inline]
    pub(crate) const fn latency_ns(self) -> u64 {
        self.latency_ns as u64
    }

    /// At least 1.
    #[inline]
    pub(crate) const fn waker_ns(self) -> u64 {
        self.waker_ns as u64
    }

    /// How many workers a waker can wake before the first of them runs and can wake others itself.
    pub(crate) fn fan_out(self) -> u32 {
        (self.latency_ns / self.waker_ns).max(1)
    }

    /// How many workers one waker should wake for `work_ns` of work that can be divided among them.
    ///
    /// With k more workers, each does `work / k`, and waking one more costs the waker's time: the sum is
    /// least at the square root of their ratio. Work that ends before a woken worker runs is worth no wake-up. More than
    /// [`fan_out`](Self::fan_out) are left to several wakers.
    pub(crate) fn workers_for(self, work_ns: u64) -> u32 {
        if work_ns < 2 * self.latency_ns() {
            return 0;
        }
        (work_ns / self.waker_ns()).isqrt().min(u32::MAX.into()) as u32
    }

    /// How many sleepers a producer should wake besides the first, if it wakes one for each part of this much work.
    ///
    /// With k parts, `k * part` has arrived when the k-th is woken: by [`workers_for`](Self::workers_for), k = `part / waker`.
    pub(crate) fn runner_ups(self, part_ns: u64) -> u32 {
        (part_ns / self.waker_ns()).clamp(1, self.fan_out().into()) as u32
    }

    fn to_bits(self) -> u64 {
        u64::from(self.waker_ns) << 32 | u64::from(self.latency_ns)
    }

    fn of_bits(bits: u64) -> Self {
        Self { waker_ns: (bits >> 32) as u32, latency_ns: bits as u32 }
    }
}

/// How many wake-ups of a pool's workers took a system call, and their cost. Kept on a cache line that wakers write anyway.
pub(in crate::pool) struct WakeMeter<P: Platform> {
    count: P::AtomicU64,
    /// A [`WakeCost`]. Relaxed: it is an estimate, and a lost update does no harm.
    cost: P::AtomicU64,
    /// How many workers each of the last two loops was worth, 16 bits each. Relaxed: an estimate.
    loops: P::AtomicU32,
}
fields!(WakeMeter<P: Platform> { count, cost, loops });

impl<P: Platform> WakeMeter<P> {
    pub(in crate::pool) fn new() -> Self {
        Self {
            count: P::AtomicU64::new(0),
            cost: P::AtomicU64::new(WakeCost::ASSUMED.to_bits()),
            loops: P::AtomicU32::new(0),
        }
    }

    pub(in crate::pool) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    pub(in crate::pool) fn cost(&self) -> WakeCost {
        WakeCost::of_bits(self.cost.load(Relaxed))
    }

    /// How many workers the next loop is likely worth: the number that both of the last two were worth.
    pub(in crate::pool) fn loop_workers(&self) -> u32 {
        let loops = self.loops.load(Relaxed);
        (loops >> 16).min(loops & 0xffff)
    }

    /// Records how many workers a loop turned out to be worth.
    pub(in crate::pool) fn learn_loop(&self, workers: u32) {
        let before = self.loops.load(Relaxed);
        let after = before << 16 | workers.min(0xffff);
        if after != before {
            self.loops.store(after, Relaxed);
        }
    }

    /// Records a wake-up that took a system call, and how long that took its caller.
    pub(in crate::pool) fn woke(&self, took_ns: u64) {
        self.count.fetch_add(1, Relaxed);
        self.learn(|cost| WakeCost { waker_ns: nearer(cost.waker_ns, took_ns), ..cost });
    }

    /// Records that a woken worker runs, and how long after the call.
    pub(in crate::pool) fn came(&self, after_ns: u64) {
        self.learn(|cost| WakeCost { latency_ns: nearer(cost.latency_ns, after_ns), ..cost });
    }

    fn learn(&self, change: impl FnOnce(WakeCost) -> WakeCost) {
        // A model has no clock.
        if !cfg!(loom) {
            self.cost.store(change(self.cost()).to_bits(), Relaxed);
        }
    }
}

/// The running median: a sixteenth up or down for each sample, so that an outlier counts no more than any other sample.
fn nearer(median_ns: u32, sample_ns: u64) -> u32 {
    let step = (median_ns / 16).max(1);
    if sample_ns > median_ns.into() { median_ns.saturating_add(step) } else { median_ns - step }
        .max(100)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{WakeCost, nearer};

    const COST: WakeCost = WakeCost { waker_ns: 2_000, latency_ns: 40_000 };

    #[test]
    fn short_work_wakes_none_and_long_work_as_many_as_come_before_the_first_runs() {
        assert_eq!(COST.workers_for(79_999), 0);
        assert_eq!(COST.workers_for(80_000), 6);
        assert_eq!(COST.workers_for(200_000), 10);
        assert_eq!(COST.workers_for(8_000_000_000), 2_000);
        assert_eq!(COST.fan_out(), 20);
    }

    #[test]
    fn the_median_follows_the_samples_and_not_the_ones_far_out() {
        let mut median_ns = 20_000;
        for at in 0..1_000_u64 {
            let sample_ns = if at % 10 == 0 { 4_000_000 } else { 50_000 };
            median_ns = nearer(median_ns, sample_ns);
        }
        assert!((45_000..60_000).contains(&median_ns), "{median_ns}");
        for _ in 0..1_000 {
            median_ns = nearer(median_ns, 0);
        }
        assert_eq!(median_ns, 100);
    }
}
