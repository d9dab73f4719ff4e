//! Which lines cost time, and who used what of them: after the report of `perf c2c`.
//!
//! Loads are recorded where they missed, stores always, and a read-modify-write as both. *HITM*
//! is perf's word for a load that found the line modified in another CPU's cache: local within a
//! package, remote between packages.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Serialize;

use super::fields::FieldNames;
use super::function::function_of;
use crate::machine::{Machine, NS, Ps};
use crate::memory::{Access, Outcome, Place, Source};
use crate::site::Site;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    hitm_remote: u64,
    hitm_local: u64,
    stores: u64,
    store_hits: u64,
    loads: u64,
    load_ps: Ps,
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
        self.records += other.records;
        self.cost_ps += other.cost_ps;
    }
}

/// What was seen of an address, from a place in the source.
struct Row {
    place: Place,
    /// By its number: addresses of sites are not the same in every run.
    site: usize,
    /// What lay here, where that is over: the memory has another use now.
    was: Option<String>,
    counts: Counts,
}

/// So many bytes have their rows in one list: no line is shorter.
const CHUNK_BYTES: u64 = 64;

/// What was seen of each address, from each place in the source.
#[derive(Default)]
pub(super) struct LineCounts {
    /// By chunk.
    rows: HashMap<u64, Vec<Row>>,
    /// By a site's address: its number.
    sites: HashMap<*const std::panic::Location<'static>, usize>,
    functions: Vec<String>,
}

impl LineCounts {
    pub(super) fn record(
        &mut self,
        place: Place,
        access: Access,
        outcome: &Outcome,
        latency: Ps,
        site: Site,
    ) {
        let hit = outcome.source == Source::Hit;
        if hit && access == Access::Load {
            return;
        }
        let functions = &mut self.functions;
        let site = *self.sites.entry(site).or_insert_with(|| {
            functions.push(function_of(site));
            functions.len() - 1
        });
        let rows = self.rows.entry(place.0 / CHUNK_BYTES).or_default();
        let known =
            rows.iter().position(|row| row.place == place && row.site == site && row.was.is_none());
        let row = known.unwrap_or_else(|| {
            rows.push(Row { place, site, was: None, counts: Counts::default() });
            rows.len() - 1
        });
        let counts = &mut rows[row].counts;
        counts.records += 1;
        if !hit {
            counts.cost_ps += latency;
        }
        if access != Access::Store && !hit {
            counts.loads += 1;
            counts.load_ps += latency;
            counts.hitm_remote += u64::from(outcome.source == Source::ModifiedRemote);
            counts.hitm_local += u64::from(outcome.source == Source::ModifiedLocal);
        }
        if access != Access::Load {
            counts.stores += 1;
            counts.store_hits += u64::from(hit);
        }
    }

    /// Memory is given back, and may get another use: what was seen of it so far keeps its names.
    pub(super) fn keep_names(&mut self, start: Place, bytes: usize, names: &FieldNames) {
        let end = start.0 + bytes as u64;
        for chunk in start.0 / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES) {
            let Some(rows) = self.rows.get_mut(&chunk) else { continue };
            let mut at = 0;
            while at < rows.len() {
                let Row { place, site, was: None, counts } = rows[at] else {
                    at += 1;
                    continue;
                };
                if !(start.0..end).contains(&place.0) {
                    at += 1;
                    continue;
                }
                let name = names.name_at(place);
                // It may have been the same thing before: then that one has the counts of both.
                let before = rows.iter_mut().find(|row| {
                    row.place == place && row.site == site && row.was.as_ref() == Some(&name)
                });
                if let Some(before) = before {
                    before.counts.add(&counts);
                    rows.swap_remove(at);
                } else {
                    rows[at].was = Some(name);
                    at += 1;
                }
            }
        }
    }

    pub(super) fn report(
        self,
        line_bytes: usize,
        machine: &Machine,
        names: &FieldNames,
    ) -> LineReport {
        let line_bytes = line_bytes as u64;
        let mut lines: BTreeMap<u64, RowsOfLine<'_>> = BTreeMap::new();
        for Row { place, site, was, counts } in self.rows.into_values().flatten() {
            let line = place.0 / line_bytes * line_bytes;
            let field = was.unwrap_or_else(|| names.name_at(place));
            let key = (place.0 - line, field, self.functions[site].as_str());
            lines.entry(line).or_default().entry(key).or_default().add(&counts);
        }
        let cycle_ps = machine.cycle_ns() * NS as f64;
        let mut report: Vec<_> = lines
            .into_iter()
            .map(|(line, rows)| summarise(line, &rows, cycle_ps))
            // A line that was fetched from memory and stayed is no contention.
            .filter(|line| line.hitm_local + line.hitm_remote > 0)
            .collect();
        report.sort_by(|a, b| b.cost_ns.total_cmp(&a.cost_ns).then(a.line.cmp(&b.line)));
        LineReport { machine: machine.topology().name().to_owned(), line_bytes, lines: report }
    }
}

/// By offset, field and function.
type RowsOfLine<'counts> = BTreeMap<(u64, String, &'counts str), Counts>;

fn summarise(line: u64, rows: &RowsOfLine<'_>, cycle_ps: f64) -> LineSummary {
    let mut total = Counts::default();
    rows.values().for_each(|counts| total.add(counts));
    let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 * 100.0 / of as f64 };
    let mut fields = Vec::new();
    let rows = rows
        .iter()
        .map(|((offset, field, function), counts)| {
            if !fields.contains(field) {
                fields.push(field.clone());
            }
            LineRow {
                line,
                offset: *offset,
                field: field.clone(),
                function: (*function).to_owned(),
                hitm_remote: share(counts.hitm_remote, total.hitm_remote),
                hitm_local: share(counts.hitm_local, total.hitm_local),
                stores: share(counts.stores, total.stores),
                load_cycles_mean: if counts.loads == 0 {
                    0.0
                } else {
                    counts.load_ps as f64 / cycle_ps / counts.loads as f64
                },
                records: counts.records,
            }
        })
        .collect();
    LineSummary {
        line,
        fields,
        hitm_remote: total.hitm_remote,
        hitm_local: total.hitm_local,
        stores: total.stores,
        store_hits: total.store_hits,
        records: total.records,
        cost_ns: total.cost_ps as f64 / NS as f64,
        rows,
    }
}

/// The lines that CPUs took from one another, the costliest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineReport {
    /// The machine's name.
    pub machine: String,
    /// The size of a line in bytes.
    pub line_bytes: u64,
    /// The lines, by what waiting for them cost, the costliest first.
    pub lines: Vec<LineSummary>,
}

/// A line that CPUs took from one another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineSummary {
    /// Its address, counted from the start of the simulation's memory.
    pub line: u64,
    /// The fields on it that were used, in the order of their addresses.
    pub fields: Vec<String>,
    /// Loads that found it modified by a CPU of another package.
    pub hitm_remote: u64,
    /// Loads that found it modified by another CPU of the package.
    pub hitm_local: u64,
    /// Stores.
    pub stores: u64,
    /// Stores that found the line where they needed it.
    pub store_hits: u64,
    /// Accesses that were recorded.
    pub records: u64,
    /// What all accesses waited for the line, in nanoseconds.
    pub cost_ns: f64,
    /// What was done at which offset, from where.
    pub rows: Vec<LineRow>,
}

/// What one function did at one offset of a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineRow {
    /// The line's address, counted from the start of the simulation's memory.
    pub line: u64,
    /// The offset in the line, in bytes.
    pub offset: u64,
    /// The field there, as `Struct.field`; the address where nobody has described it.
    pub field: String,
    /// The function.
    pub function: String,
    /// Its share of the line's remote HITM, in percent.
    pub hitm_remote: f64,
    /// Its share of the line's local HITM, in percent.
    pub hitm_local: f64,
    /// Its share of the line's stores, in percent.
    pub stores: f64,
    /// What a load that missed took, in cycles, on average.
    pub load_cycles_mean: f64,
    /// Accesses that were recorded.
    pub records: u64,
}

impl LineReport {
    /// All rows of all lines, in order.
    pub fn rows(&self) -> impl Iterator<Item = &LineRow> {
        self.lines.iter().flat_map(|line| &line.rows)
    }

    /// The rows as a JSON array.
    #[must_use]
    pub fn rows_json(&self) -> String {
        let rows: Vec<_> = self.rows().collect();
        serde_json::to_string_pretty(&rows).expect("rows of numbers and texts are valid JSON")
    }
}

impl fmt::Display for LineReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.lines.iter().enumerate() {
            writeln!(
                f,
                "line {number}  {:#x}  HITM remote {} local {}  stores {}  waited {:.0} ns  {}",
                line.line,
                line.hitm_remote,
                line.hitm_local,
                line.stores,
                line.cost_ns,
                line.fields.join(", "),
            )?;
            writeln!(
                f,
                "  {:>8} {:>8} {:>8} {:>6} {:>10} {:>9}  field  function",
                "rmt hitm", "lcl hitm", "stores", "offset", "cycles/load", "records"
            )?;
            for row in &line.rows {
                writeln!(
                    f,
                    "  {:>7.2}% {:>7.2}% {:>7.2}% {:>#6x} {:>11.0} {:>9}  {}  {}",
                    row.hitm_remote,
                    row.hitm_local,
                    row.stores,
                    row.offset,
                    row.load_cycles_mean,
                    row.records,
                    row.field,
                    row.function,
                )?;
            }
        }
        Ok(())
    }
}
