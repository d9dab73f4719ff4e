//! The lines that cost time, and the code that used them, after the report of `perf c2c`.
//!
//! Loads are recorded if they missed, stores always, and a read-modify-write as both. *HITM* is perf's word
//! for a load that found the line modified in another CPU's cache: local within a package, remote between
//! packages. If the program says which part of it is measured
//! ([`Platform::measured`](coreshard_platform::Platform::measured)), only that part counts.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::fields::FieldNames;
use super::function::{Chains, Site, source_of};
use super::summary::{LineReport, LineRow, LineSummary};
use crate::cpu_mask::CpuMask;
use crate::machine::{Machine, NS, Ps};
use crate::memory::{Access, LineSource, Outcome, Place};

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    hitm_remote: u64,
    hitm_local: u64,
    stores: u64,
    store_hits: u64,
    loads: u64,
    load_ps: Ps,
    hitm_remote_ps: Ps,
    hitm_local_ps: Ps,
    records: u64,
    cost_ps: Ps,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.hitm_remote += other.hitm_remote;
        self.hitm_local += other.hitm_local;
        self.stores += other.stores;
        self.store_hits += other.store_hits;
        self.loads += other.loads;
        self.load_ps += other.load_ps;
        self.hitm_remote_ps += other.hitm_remote_ps;
        self.hitm_local_ps += other.hitm_local_ps;
        self.records += other.records;
        self.cost_ps += other.cost_ps;
    }
}

/// The accesses of an address from a place in the source.
struct Row {
    place: Place,
    /// By number, since addresses of sites differ between runs.
    site: usize,
    /// The call path of the first of these accesses.
    chain: usize,
    /// The name of the data that was here before the memory had another use, if it has.
    was: Option<String>,
    counts: Counts,
    cpus: CpuMask,
}

/// An access to record.
pub(crate) struct Recorded<'a> {
    pub(crate) cpu: usize,
    pub(crate) thread: usize,
    pub(crate) place: Place,
    pub(crate) access: Access,
    pub(crate) outcome: &'a Outcome,
    pub(crate) latency: Ps,
    pub(crate) site: Site,
}

/// The number of bytes whose rows share a list: no line is shorter.
const CHUNK_BYTES: u64 = 64;

/// The accesses of each address from each place in the source.
#[derive(Default)]
pub(super) struct LineCounts {
    /// The number of CPUs in the machine.
    cpus: usize,
    /// By chunk.
    rows: HashMap<u64, Vec<Row>>,
    /// The number of a site, by its address.
    sites: HashMap<*const std::panic::Location<'static>, usize>,
    /// File and line, by number.
    sources: Vec<String>,
    chains: Chains,
    window: Window,
}

/// The part of a run that counts.
#[derive(Default)]
enum Window {
    /// Everything: the program does not say.
    #[default]
    Whole,
    /// All threads but these, since this one began the measurement.
    Open {
        by: usize,
        done: HashSet<usize>,
    },
    Shut,
}

impl Window {
    fn counts(&self, thread: usize) -> bool {
        match self {
            Self::Whole => true,
            Self::Open { done, .. } => done.is_empty() || !done.contains(&thread),
            Self::Shut => false,
        }
    }
}

impl LineCounts {
    pub(super) fn new(cpus: usize) -> Self {
        Self { cpus, ..Self::default() }
    }

    /// Starts or ends a measurement. From the first start on, only measured accesses count. An end applies to
    /// the calling thread, or to all threads if it is the one that started.
    pub(super) fn measure(&mut self, thread: usize, measured: bool) {
        match &mut self.window {
            window if measured => {
                if matches!(window, Window::Whole) {
                    self.rows.clear();
                }
                *window = Window::Open { by: thread, done: HashSet::new() };
            }
            Window::Open { by, done } if *by != thread => drop(done.insert(thread)),
            window => *window = Window::Shut,
        }
    }

    pub(super) fn record(&mut self, recorded: &Recorded<'_>) {
        let Recorded { cpu, thread, place, access, outcome, latency, site } = *recorded;
        let hit = outcome.source == LineSource::Hit;
        if hit && access == Access::Load || !self.window.counts(thread) {
            return;
        }
        let sources = &mut self.sources;
        let number = *self.sites.entry(site).or_insert_with(|| {
            sources.push(source_of(site));
            sources.len() - 1
        });
        let rows = self.rows.entry(place.0 / CHUNK_BYTES).or_default();
        let known = rows
            .iter()
            .position(|row| row.place == place && row.site == number && row.was.is_none());
        let row = known.unwrap_or_else(|| {
            let chain = self.chains.number_of(site);
            let (counts, cpus) = (Counts::default(), CpuMask::of(self.cpus, |_| false));
            rows.push(Row { place, site: number, chain, was: None, counts, cpus });
            rows.len() - 1
        });
        let Row { counts, cpus, .. } = &mut rows[row];
        cpus.insert(cpu);
        counts.records += 1;
        if !hit {
            counts.cost_ps += latency;
        }
        if access != Access::Store && !hit {
            counts.loads += 1;
            counts.load_ps += latency;
            match outcome.source {
                LineSource::ModifiedRemote => {
                    counts.hitm_remote += 1;
                    counts.hitm_remote_ps += latency;
                }
                LineSource::ModifiedLocal => {
                    counts.hitm_local += 1;
                    counts.hitm_local_ps += latency;
                }
                _ => {}
            }
        }
        if access != Access::Load {
            counts.stores += 1;
            counts.store_hits += u64::from(hit);
        }
    }

    /// Called when memory is freed and may get another use: its accesses so far keep their names.
    pub(super) fn keep_names(&mut self, start: Place, bytes: usize, names: &FieldNames) {
        let end = start.0 + bytes as u64;
        for chunk in start.0 / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES) {
            let Some(rows) = self.rows.get_mut(&chunk) else { continue };
            let mut at = 0;
            while at < rows.len() {
                let Row { place, site, ref was, .. } = rows[at];
                if was.is_some() || !(start.0..end).contains(&place.0) {
                    at += 1;
                    continue;
                }
                let name = names.name_at(place);
                // The same data may have been here before; then the rows are merged.
                let before = rows.iter().position(|row| {
                    row.place == place && row.site == site && row.was.as_ref() == Some(&name)
                });
                if let Some(before) = before {
                    let (counts, cpus) = (rows[at].counts, std::mem::take(&mut rows[at].cpus));
                    rows[before].counts.add(&counts);
                    rows[before].cpus.add_all(&cpus);
                    rows.swap_remove(at);
                } else {
                    rows[at].was = Some(name);
                    at += 1;
                }
            }
        }
    }

    /// Creates the report. `node_of` returns a line's home.
    pub(super) fn report(
        self,
        machine: &Machine,
        names: &FieldNames,
        mut node_of: impl FnMut(Place) -> Option<u32>,
    ) -> LineReport {
        let line_bytes = machine.line_bytes() as u64;
        let mut lines: BTreeMap<u64, RowsOfLine<'_>> = BTreeMap::new();
        for Row { place, site, chain, was, counts, cpus } in self.rows.into_values().flatten() {
            let line = place.0 / line_bytes * line_bytes;
            let field = was.unwrap_or_else(|| names.name_at(place));
            let chain = self.chains.get(chain);
            let key = (place.0 - line, field, chain.function.as_str(), self.sources[site].as_str());
            let seen = lines.entry(line).or_default().entry(key).or_default();
            seen.counts.add(&counts);
            seen.cpus.add_all(&cpus);
            for caller in &chain.callers {
                if !seen.callers.contains(&caller.as_str()) {
                    seen.callers.push(caller);
                }
            }
        }
        let cycle_ps = machine.cycle_ns() * NS as f64;
        let mut report: Vec<_> = lines
            .into_iter()
            .map(|(line, rows)| summarise(line, node_of(Place(line)), &rows, cycle_ps))
            // A line that was fetched from memory and stayed is not contended.
            .filter(|line| line.hitm_local + line.hitm_remote > 0)
            .collect();
        report.sort_by(|a, b| b.cost_ns.total_cmp(&a.cost_ns).then(a.line.cmp(&b.line)));
        LineReport { machine: machine.topology().name().to_owned(), line_bytes, lines: report }
    }
}

/// By offset, field, function and place in the source.
type RowsOfLine<'a> = BTreeMap<(u64, String, &'a str, &'a str), Seen<'a>>;

#[derive(Default)]
struct Seen<'a> {
    counts: Counts,
    cpus: CpuMask,
    callers: Vec<&'a str>,
}

fn summarise(line: u64, node: Option<u32>, rows: &RowsOfLine<'_>, cycle_ps: f64) -> LineSummary {
    let mut total = Counts::default();
    let mut cpus = CpuMask::default();
    for seen in rows.values() {
        total.add(&seen.counts);
        cpus.add_all(&seen.cpus);
    }
    let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 * 100.0 / of as f64 };
    let cycles = |ps: Ps, of: u64| if of == 0 { 0.0 } else { ps as f64 / cycle_ps / of as f64 };
    let mut fields = Vec::new();
    let rows = rows
        .iter()
        .map(|((offset, field, function, source), Seen { counts, cpus, callers })| {
            if !fields.contains(field) {
                fields.push(field.clone());
            }
            let misses = counts.stores - counts.store_hits;
            LineRow {
                line,
                node,
                offset: *offset,
                field: field.clone(),
                function: (*function).to_owned(),
                source: (*source).to_owned(),
                callers: callers.iter().map(|caller| (*caller).to_owned()).collect(),
                hitm_remote: share(counts.hitm_remote, total.hitm_remote),
                hitm_local: share(counts.hitm_local, total.hitm_local),
                stores: share(counts.stores, total.stores),
                store_hits: share(counts.store_hits, total.store_hits),
                store_misses: share(misses, total.stores - total.store_hits),
                load_cycles_mean: cycles(counts.load_ps, counts.loads),
                hitm_remote_cycles_mean: cycles(counts.hitm_remote_ps, counts.hitm_remote),
                hitm_local_cycles_mean: cycles(counts.hitm_local_ps, counts.hitm_local),
                cpus: cpus.len(),
                records: counts.records,
            }
        })
        .collect();
    LineSummary {
        line,
        node,
        fields,
        hitm_remote: total.hitm_remote,
        hitm_local: total.hitm_local,
        stores: total.stores,
        store_hits: total.store_hits,
        cpus: cpus.len(),
        records: total.records,
        cost_ns: total.cost_ps as f64 / NS as f64,
        rows,
    }
}
