//! The threads of each CPU over time, for the Perfetto viewer.

use coreshard_topology::CpuId;
use serde_json::json;

use crate::machine::{NS, Ps};

/// An uninterrupted run of a thread on a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) cpu: usize,
    pub(crate) thread: usize,
    pub(crate) start: Ps,
    pub(crate) end: Ps,
}

/// The threads of each CPU over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    spans: Vec<Span>,
    threads: Vec<String>,
    cpus: Vec<CpuId>,
}

impl Timeline {
    pub(super) fn new(spans: Vec<Span>, threads: Vec<String>, cpus: Vec<CpuId>) -> Self {
        Self { spans, threads, cpus }
    }

    /// Returns how many times a thread was on a CPU.
    #[must_use]
    pub fn spans(&self) -> usize {
        self.spans.len()
    }

    /// Returns the timeline in the Trace Event Format, JSON, which ui.perfetto.dev and chrome://tracing open.
    ///
    /// It has a track per CPU, and a slice for each time that a thread was on it. Times are microseconds of
    /// virtual time.
    #[must_use]
    pub fn to_trace_json(&self) -> String {
        let us = |ps: Ps| ps as f64 / (NS * 1_000) as f64;
        let tracks = self.cpus.iter().map(|cpu| {
            json!({
                "ph": "M", "name": "thread_name", "pid": 1, "tid": cpu.0,
                "args": { "name": format!("CPU {cpu}") }
            })
        });
        let slices = self.spans.iter().map(|span| {
            json!({
                "ph": "X", "name": self.threads[span.thread], "pid": 1,
                "tid": self.cpus[span.cpu].0, "ts": us(span.start), "dur": us(span.end - span.start),
                "args": { "thread": span.thread }
            })
        });
        let events: Vec<_> = tracks.chain(slices).collect();
        json!({ "traceEvents": events, "displayTimeUnit": "ns" }).to_string()
    }
}
