//! What a job's threads found, added up.

use std::collections::BTreeMap;

use coreshard_results::{Direction, Latency, Percentile};

use super::bins::Bins;

/// The percentiles that fio reports, in hundredths of a per cent.
const PERCENTILES: [u32; 17] = [
    100, 500, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 9500, 9900, 9950, 9990, 9995,
    9999,
];

/// As fio's `iopsavgtime`.
pub(super) const WINDOW_NS: u64 = 500_000_000;

/// Times of one kind. Percentiles are known to 1 in 64, as fio's; mean and deviation are exact.
pub(super) struct Times {
    bins: Bins,
    sum: f64,
    squares: f64,
    min: u64,
    max: u64,
}

impl Times {
    pub(super) fn new() -> Self {
        Self { bins: Bins::new(), sum: 0.0, squares: 0.0, min: u64::MAX, max: 0 }
    }

    #[inline]
    pub(super) fn record(&mut self, ns: u64) {
        self.bins.record(ns);
        self.sum += ns as f64;
        self.squares += ns as f64 * ns as f64;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    fn add(&mut self, other: &Self) {
        self.bins.add(&other.bins);
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub(super) fn sum_ns(&self) -> f64 {
        self.sum
    }

    fn latency(&self, with_percentiles: bool) -> Latency {
        let count = self.bins.total();
        if count == 0 {
            return Latency::default();
        }
        let mean = self.sum / count as f64;
        let stddev = (self.squares / count as f64 - mean * mean).max(0.0).sqrt();
        let wanted = if with_percentiles { &PERCENTILES[..] } else { &[] };
        let parts = wanted.iter().map(|hundredths| f64::from(*hundredths) / 10_000.0);
        let values = self.bins.quantiles(parts);
        let percentile = wanted.iter().zip(values).map(|(hundredths, value)| {
            (Percentile { hundredths: *hundredths }, value.clamp(self.min, self.max))
        });
        Latency {
            min: self.min,
            max: self.max,
            mean,
            stddev,
            count,
            percentile: percentile.collect(),
            bins: if with_percentiles { self.bins.iter().collect() } else { BTreeMap::new() },
        }
    }
}

/// Reads or writes of one thread, or of all.
pub(super) struct DirectionTally {
    pub(super) slat: Times,
    pub(super) clat: Times,
    pub(super) lat: Times,
    pub(super) ios: u64,
    pub(super) bytes: u64,
    pub(super) short: u64,
    /// Requests in each half second since the start.
    pub(super) windows: Vec<u64>,
}

impl DirectionTally {
    pub(super) fn new() -> Self {
        Self {
            slat: Times::new(),
            clat: Times::new(),
            lat: Times::new(),
            ios: 0,
            bytes: 0,
            short: 0,
            windows: Vec::new(),
        }
    }

    /// A request that took `slat` until it was submitted, and was over `lat` after it began,
    /// `since_start` after the job began.
    #[inline]
    pub(super) fn record(&mut self, slat_ns: u64, lat_ns: u64, bytes: usize, window: usize) {
        self.slat.record(slat_ns);
        self.clat.record(lat_ns - slat_ns);
        self.lat.record(lat_ns);
        self.ios += 1;
        self.bytes += bytes as u64;
        if self.windows.len() <= window {
            self.windows.resize(window + 1, 0);
        }
        self.windows[window] += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.slat.add(&other.slat);
        self.clat.add(&other.clat);
        self.lat.add(&other.lat);
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.short += other.short;
        if self.windows.len() < other.windows.len() {
            self.windows.resize(other.windows.len(), 0);
        }
        for (sum, count) in self.windows.iter_mut().zip(&other.windows) {
            *sum += count;
        }
    }

    pub(super) fn direction(&self, elapsed_ns: u64) -> Direction {
        if self.ios == 0 {
            return Direction::default();
        }
        let seconds = elapsed_ns as f64 / 1e9;
        // The last window is whole by chance alone, and a job shorter than one has none.
        let whole = (elapsed_ns / WINDOW_NS) as usize;
        let windows = &self.windows[..whole.min(self.windows.len())];
        let per_second: Vec<f64> =
            windows.iter().map(|ios| *ios as f64 * 1e9 / WINDOW_NS as f64).collect();
        let iops = self.ios as f64 / seconds;
        let per_second = if per_second.is_empty() { vec![iops] } else { per_second };
        let count = per_second.len() as f64;
        let mean = per_second.iter().sum::<f64>() / count;
        let variance = per_second.iter().map(|ios| (ios - mean).powi(2)).sum::<f64>() / count;
        let (min, max) = per_second
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(min, max), ios| (min.min(*ios), max.max(*ios)));
        let kib = self.bytes as f64 / self.ios as f64 / 1024.0;
        let bw_bytes = (self.bytes as f64 / seconds) as u64;
        Direction {
            io_bytes: self.bytes,
            io_kbytes: self.bytes / 1024,
            bw_bytes,
            bw: bw_bytes / 1024,
            iops,
            runtime: elapsed_ns / 1_000_000,
            total_ios: self.ios,
            short_ios: self.short,
            drop_ios: 0,
            slat_ns: self.slat.latency(false),
            clat_ns: self.clat.latency(true),
            lat_ns: self.lat.latency(true),
            bw_min: (min * kib) as u64,
            bw_max: (max * kib) as u64,
            bw_mean: mean * kib,
            bw_dev: variance.sqrt() * kib,
            bw_samples: per_second.len() as u64,
            iops_min: min as u64,
            iops_max: max as u64,
            iops_mean: mean,
            iops_stddev: variance.sqrt(),
            iops_samples: per_second.len() as u64,
        }
    }
}
