//! The measuring code of every cell: the clock, what the process used, its allocations, samples of
//! latencies, and work of a known length. All Rust peers are measured by this code; the programs in
//! `foreign/` follow it line by line.

mod allocations;
mod samples;
mod usage;
mod work;

pub(crate) use allocations::{Counting, allocations_during};
pub(crate) use samples::Samples;
pub(crate) use usage::{Usage, cpu_ns_of_other_threads, peak_rss_bytes, threads};
pub(crate) use work::{calibrate_rounds_per_ms, spin};

/// Nanoseconds of the monotonic clock.
#[inline]
pub(crate) fn now_ns() -> u64 {
    usage::clock_ns(libc::CLOCK_MONOTONIC)
}

/// The cost of two clock readings with nothing in between. It is subtracted from the time of a call,
/// which may be shorter.
pub(crate) fn clock_cost_ns() -> u64 {
    let cost_ns = || {
        let before_ns = now_ns();
        now_ns() - before_ns
    };
    (0..1_000).map(|_| cost_ns()).min().expect("there are tries")
}

/// A value alone on its cache lines: two, since processors fetch neighbours.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);
