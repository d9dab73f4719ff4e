//! The sums of the measurements of a job's threads.

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

/// Times of one kind. Percentiles are accurate to 1 in 64, like fio's; mean and deviation are exact.
struct Times {
    bins: Bins,
    sum: f64,
    squares: f64,
    min: u64,
    max: u64,
}

impl Times {
    fn new() -> Self {
        Self { bins: Bins::new(), sum: 0.0, squares: 0.0, min: u64::MAX, max: 0 }
    }

    #[inline]
    fn record(&mut self, ns: u64) {
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
    /// The times until submission, from there until completion, and both together.
    times: [Times; 3],
    ios: u64,
    bytes: u64,
    short: u64,
    /// The number of requests in each half second since the start.
    windows: Vec<u64>,
}

impl DirectionTally {
    pub(super) fn new() -> Self {
        let times = [(); 3].map(|()| Times::new());
        Self { times, ios: 0, bytes: 0, short: 0, windows: Vec::new() }
    }

    /// Counts a request of `bytes`, submitted after `slat_ns` and completed after `lat_ns`, in the half
    /// second `window`.
    #[inline]
    pub(super) fn record(&mut self, slat_ns: u64, lat_ns: u64, bytes: usize, window: usize) {
        let [slat, clat, lat] = &mut self.times;
        slat.record(slat_ns);
        clat.record(lat_ns - slat_ns);
        lat.record(lat_ns);
        self.ios += 1;
        self.bytes += bytes as u64;
        if self.windows.len() <= window {
            self.windows.resize(window + 1, 0);
        }
        self.windows[window] += 1;
    }

    /// Counts requests that transferred less than requested.
    #[inline]
    pub(super) fn record_short(&mut self, requests: u64) {
        self.short += requests;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.times.iter_mut().zip(&other.times).for_each(|(own, its)| own.add(its));
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.short += other.short;
        if self.windows.len() < other.windows.len() {
            self.windows.resize(other.windows.len(), 0);
        }
        self.windows.iter_mut().zip(&other.windows).for_each(|(sum, count)| *sum += count);
    }

    pub(super) fn ios(&self) -> u64 {
        self.ios
    }

    /// Returns the sum of the latencies of all requests.
    pub(super) fn latency_ns(&self) -> f64 {
        self.times[2].sum
    }

    pub(super) fn direction(&self, elapsed_ns: u64) -> Direction {
        if self.ios == 0 {
            return Direction::default();
        }
        let seconds = elapsed_ns as f64 / 1e9;
        let iops = self.ios as f64 / seconds;
        // The last window is usually incomplete, and a job shorter than one has none.
        let whole = self.windows.len().min((elapsed_ns / WINDOW_NS) as usize);
        let windows = self.windows[..whole].iter();
        let mut rates: Vec<f64> = windows.map(|ios| *ios as f64 * 1e9 / WINDOW_NS as f64).collect();
        if rates.is_empty() {
            rates.push(iops);
        }
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let variance = rates.iter().map(|ios| (ios - mean).powi(2)).sum::<f64>();
        let deviation = (variance / rates.len() as f64).sqrt();
        let min = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let max = rates.iter().copied().fold(0.0, f64::max);
        let kib = self.bytes as f64 / self.ios as f64 / 1024.0;
        let bw_bytes = (self.bytes as f64 / seconds) as u64;
        let [slat, clat, lat] = &self.times;
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
            slat_ns: slat.latency(false),
            clat_ns: clat.latency(true),
            lat_ns: lat.latency(true),
            bw_min: (min * kib) as u64,
            bw_max: (max * kib) as u64,
            bw_mean: mean * kib,
            bw_dev: deviation * kib,
            bw_samples: rates.len() as u64,
            iops_min: min as u64,
            iops_max: max as u64,
            iops_mean: mean,
            iops_stddev: deviation,
            iops_samples: rates.len() as u64,
        }
    }
}
