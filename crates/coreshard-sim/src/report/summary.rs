//! The report of lines, as plain data and as text.

use std::fmt;

use serde::Serialize;

/// The columns of a report's text.
const COLUMNS: &str = "  rmt hitm lcl hitm   st hit  st miss offset  cyc rmt  cyc lcl cyc load  CPUs  records  field  \
                       function  source  called by";

/// The lines that CPUs took from one another, the costliest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineReport {
    /// The machine's name.
    pub machine: String,
    /// The size of a line in bytes.
    pub line_bytes: u64,
    /// The lines, by the time spent waiting for them, the costliest first.
    pub lines: Vec<LineSummary>,
}

/// A line that CPUs took from one another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineSummary {
    /// Its address, counted from the start of the simulation's memory.
    pub line: u64,
    /// The node of its memory, if it is known.
    pub node: Option<u32>,
    /// The used fields on it, in the order of their addresses.
    pub fields: Vec<String>,
    /// Loads that found it modified by a CPU of another package.
    pub hitm_remote: u64,
    /// Loads that found it modified by another CPU of the same package.
    pub hitm_local: u64,
    /// Stores.
    pub stores: u64,
    /// Stores that hit.
    pub store_hits: u64,
    /// How many CPUs used it.
    pub cpus: usize,
    /// Recorded accesses.
    pub records: u64,
    /// The time that all accesses waited for the line, in nanoseconds.
    pub cost_ns: f64,
    /// The accesses by offset and place.
    pub rows: Vec<LineRow>,
}

/// The accesses of one function at one offset of a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineRow {
    /// The line's address, counted from the start of the simulation's memory.
    pub line: u64,
    /// The node of its memory, if it is known.
    pub node: Option<u32>,
    /// The offset in the line, in bytes.
    pub offset: u64,
    /// The field there, as `Struct.field`; the address if the program has not described it.
    pub field: String,
    /// The function, without type arguments: of functions with equal instructions the compiler keeps one.
    pub function: String,
    /// File and line.
    pub source: String,
    /// The functions that called it the first time, the nearest first.
    pub callers: Vec<String>,
    /// Its share of the line's remote HITM, in percent.
    pub hitm_remote: f64,
    /// Its share of the line's local HITM, in percent.
    pub hitm_local: f64,
    /// Its share of the line's stores, in percent.
    pub stores: f64,
    /// Its share of the stores that hit, in percent.
    pub store_hits: f64,
    /// Its share of the stores that missed, in percent.
    pub store_misses: f64,
    /// The average duration of a load that missed, in cycles.
    pub load_cycles_mean: f64,
    /// The average duration of a remote HITM, in cycles.
    pub hitm_remote_cycles_mean: f64,
    /// The average duration of a local HITM, in cycles.
    pub hitm_local_cycles_mean: f64,
    /// The number of CPUs that made the accesses.
    pub cpus: usize,
    /// Recorded accesses.
    pub records: u64,
}

impl LineReport {
    /// Returns all rows of all lines, in order.
    pub fn rows(&self) -> impl Iterator<Item = &LineRow> {
        self.lines.iter().flat_map(|line| &line.rows)
    }

    /// Returns the rows as a JSON array.
    #[must_use]
    pub fn rows_json(&self) -> String {
        let rows: Vec<_> = self.rows().collect();
        serde_json::to_string_pretty(&rows).expect("rows of numbers and texts are valid JSON")
    }
}

impl fmt::Display for LineReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.lines.iter().enumerate() {
            let node = line.node.map_or_else(|| "unknown".to_owned(), |node| node.to_string());
            writeln!(
                f,
                "line {number}  {:#x}  node {node}  {} CPUs  HITM remote {} local {}  stores hit {} \
                 missed {}  waited {:.0} ns  {}",
                line.line,
                line.cpus,
                line.hitm_remote,
                line.hitm_local,
                line.store_hits,
                line.stores - line.store_hits,
                line.cost_ns,
                line.fields.join(", "),
            )?;
            writeln!(f, "{COLUMNS}")?;
            for row in &line.rows {
                let LineRow { hitm_remote, hitm_local, store_hits, store_misses, offset, .. } = row;
                let LineRow {
                    hitm_remote_cycles_mean: remote, hitm_local_cycles_mean: local, ..
                } = row;
                let LineRow { load_cycles_mean: load, cpus, records, .. } = row;
                let LineRow { field, function, source, callers, .. } = row;
                let callers = callers.join(" < ");
                writeln!(
                    f,
                    "  {hitm_remote:>7.2}% {hitm_local:>7.2}% {store_hits:>7.2}% {store_misses:>7.2}% {offset:>#6x} \
                     {remote:>8.0} {local:>8.0} {load:>8.0} {cpus:>5} {records:>8}  {field}  {function}  {source}  {callers}"
                )?;
            }
        }
        Ok(())
    }
}
