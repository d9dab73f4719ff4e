//! Reads a machine's file: TOML, like the presets.

use std::collections::BTreeMap;

use coreshard_topology::Topology;
use coreshard_topology::input::{MACHINE_BYTES, plain, quoted};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::costs::{
    Arbitration, BusyCores, Costs, IdleState, KEYS, MAX_CPUS, NS, Need, Ps, VARIATION_AT_PERCENT,
    Variation,
};
use super::error::MachineError;
use super::{contradictions, derived};

/// The known sizes of a cache line, in bytes; the first is the default.
const LINE_BYTES: [usize; 2] = [64, 128];

/// The longest cost: a second. It keeps sums of costs far from overflow.
const LONGEST_NS: f64 = 1e9;

/// The greatest factor of a cost.
const MOST_VARIATION: f64 = 100.0;

/// The content of a machine's file.
pub(super) struct MachineFile {
    pub(super) topology: Topology,
    pub(super) costs: Costs,
    pub(super) line_bytes: usize,
    /// One-way latencies by requester and owner, if they were measured pair by pair.
    pub(super) matrix: Option<Vec<Ps>>,
    /// The source of the number, by key.
    pub(super) sources: BTreeMap<String, String>,
}

type Table<'a> = DeTable<'a>;
type Value<'a> = Spanned<DeValue<'a>>;
type Result<T> = std::result::Result<T, MachineError>;

/// Returns a number, whole or not.
fn number(value: &Value<'_>) -> Option<f64> {
    match value.get_ref() {
        DeValue::Integer(number) => number.as_str().parse().ok(),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    }
}

struct MachineReader<'a> {
    name: &'a str,
    text: &'a str,
}

/// A table among the costs.
struct Section<'a> {
    reader: &'a MachineReader<'a>,
    /// The name in messages, alone and before a key.
    name: &'a str,
    prefix: &'a str,
    table: &'a Table<'a>,
    at: usize,
}

impl<'a> Section<'a> {
    /// Returns the value of a key, which is required.
    fn need(&self, key: &str) -> Result<&'a Value<'a>> {
        let missing = || self.reader.wrong(self.at, format!("{} has no {key}", self.name));
        self.table.get(key).ok_or_else(missing)
    }

    /// Reads the value of a key, if it is present.
    fn read<T: Default>(
        &self,
        key: &str,
        read: impl FnOnce(&str, &Value<'_>) -> Result<T>,
    ) -> Result<T> {
        let read = |value| read(&format!("{}.{key}", self.prefix), value);
        self.table.get(key).map_or(Ok(T::default()), read)
    }

    fn ns(&self, key: &str) -> Result<Ps> {
        self.read(key, |key, value| self.reader.ns(key, value))
    }

    fn flag(&self, key: &str) -> Result<bool> {
        self.read(key, |key, value| {
            let wrong = || self.reader.unlike(key, value, "expected true or false");
            value.get_ref().as_bool().ok_or_else(wrong)
        })
    }

    /// Reads a whole number up to `most`.
    fn count(&self, key: &str, most: u64) -> Result<u64> {
        self.read(key, |key, value| {
            let count = value.get_ref().as_integer().and_then(|count| count.as_str().parse().ok());
            count.filter(|count| *count <= most).ok_or_else(|| {
                let allowed = format!("expected a whole number from 0 to {most}");
                self.reader.unlike(key, value, &allowed)
            })
        })
    }

    fn source(&self) -> Result<String> {
        self.reader.text(self.table, "source", self.name, self.at).map(str::to_owned)
    }
}

impl MachineReader<'_> {
    fn wrong(&self, byte: usize, problem: String) -> MachineError {
        let before = self.text.get(..byte).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        MachineError::new(self.name, Some(line), problem)
    }

    /// Returns the error for a value that is not `allowed`.
    fn unlike(&self, key: &str, value: &Value<'_>, allowed: &str) -> MachineError {
        let given = plain(self.text.get(value.span()).unwrap_or_default());
        self.wrong(value.span().start, format!("{key} is {given}; {allowed}"))
    }

    /// Returns a table that may only have these keys.
    fn section<'v>(
        &'v self,
        (name, prefix): (&'v str, &'v str),
        value: &'v Value<'_>,
        keys: &[&str],
    ) -> Result<Section<'v>> {
        let at = value.span().start;
        let Some(table) = value.get_ref().as_table() else {
            return Err(
                self.wrong(at, format!("{name} is invalid: expected a table with ns and source"))
            );
        };
        match table.keys().find(|key| !keys.contains(&key.get_ref().as_ref())) {
            None => Ok(Section { reader: self, name, prefix, table, at }),
            Some(other) => {
                let given = quoted(other.get_ref());
                let problem = format!(
                    "{name} has an unknown key {given}: expected one of {}",
                    keys.join(", ")
                );
                Err(self.wrong(other.span().start, problem))
            }
        }
    }

    /// Reads a cost: finite, not negative, at most a second.
    fn ns(&self, key: &str, value: &Value<'_>) -> Result<Ps> {
        match number(value) {
            Some(ns) if (0.0..=LONGEST_NS).contains(&ns) => Ok((ns * NS as f64).round() as Ps),
            Some(_) => {
                let allowed = format!("expected 0 to {LONGEST_NS} nanoseconds");
                Err(self.unlike(key, value, &allowed))
            }
            None => Err(self.unlike(key, value, "expected a number (nanoseconds)")),
        }
    }

    fn text<'v>(&self, table: &'v Table<'_>, key: &str, name: &str, at: usize) -> Result<&'v str> {
        let Some(value) = table.get(key) else {
            return Err(self.wrong(at, format!("{name} has no {key}: expected a text")));
        };
        value.get_ref().as_str().filter(|text| !text.trim().is_empty()).ok_or_else(|| {
            self.unlike(&format!("{key} of {name}"), value, "expected a text that is not empty")
        })
    }

    /// Reads the number of a cost's table, and its source.
    fn cost(&self, key: &str, value: &Value<'_>) -> Result<(Ps, String)> {
        let section = self.section((key, key), value, &["ns", "source"])?;
        section.need("ns")?;
        let source = section.source()?;
        Ok((section.ns("ns")?, source))
    }

    fn idle(&self, value: &Value<'_>) -> Result<(Vec<IdleState>, String)> {
        let not_a_list = |value: &Value<'_>| {
            let problem = "idle is invalid: expected a list of tables ([[costs.idle]])";
            self.wrong(value.span().start, problem.into())
        };
        let states = value.get_ref().as_array().ok_or_else(|| not_a_list(value))?;
        let mut idle: Vec<IdleState> = Vec::new();
        let mut sources = Vec::new();
        for value in states.iter() {
            value.get_ref().as_table().ok_or_else(|| not_a_list(value))?;
            let keys = ["after_ns", "exit_ns", "polls", "source"];
            let section = self.section(("an idle state", "idle"), value, &keys)?;
            section.need("after_ns")?;
            section.need("exit_ns")?;
            let (after, exit) = (section.ns("after_ns")?, section.ns("exit_ns")?);
            let polls = section.flag("polls")?;
            sources.push(section.source()?);
            if idle.last().is_some_and(|last| last.after >= after || last.exit > exit) {
                let problem = "idle states must be given shallow ones first: each with a larger \
                               after_ns, and no smaller exit_ns, than the one before";
                return Err(self.wrong(section.at, problem.into()));
            }
            idle.push(IdleState { after, exit, polls });
        }
        Ok((idle, sources.join("; ")))
    }

    /// Reads how contended lines change hands: a separate table, with one source.
    fn arbitration(&self, value: &Value<'_>) -> Result<(Arbitration, String)> {
        const KEYS: [&str; 11] = [
            "hold_ns",
            "locked_ns",
            "request_ns",
            "reach_ns",
            "far_atomic_ns",
            "loads_take_dirty_lines",
            "load_and_store_exclusive",
            "pair_prefetch",
            "misses_at_once",
            "work_ahead_ns",
            "source",
        ];
        let section = self.section(("arbitration", "arbitration"), value, &KEYS)?;
        let arbitration = Arbitration {
            hold: section.ns("hold_ns")?,
            locked: section.ns("locked_ns")?,
            request: section.ns("request_ns")?,
            reach: section.ns("reach_ns")?,
            far_atomic: section.ns("far_atomic_ns")?,
            loads_take: section.flag("loads_take_dirty_lines")?,
            exclusives: section.flag("load_and_store_exclusive")?,
            pair_prefetch: section.flag("pair_prefetch")?,
            misses_at_once: section.count("misses_at_once", 64)?,
            work_ahead: section.ns("work_ahead_ns")?,
        };
        Ok((arbitration, section.source()?))
    }

    /// Reads how fast busy cores compute: a separate table, with one source.
    fn cores(&self, value: &Value<'_>) -> Result<(BusyCores, String)> {
        let keys = ["all_core_clock", "smt_share", "source"];
        let section = self.section(("cores", "cores"), value, &keys)?;
        let share = |key: &str| {
            let Some(value) = section.table.get(key) else { return Ok(1_000) };
            let allowed = "expected a share of the speed alone, from 0.1 to 1";
            number(value)
                .filter(|share| (0.1..=1.0).contains(share))
                .map(|share| (share * 1_000.0).round() as u64)
                .ok_or_else(|| self.unlike(&format!("cores.{key}"), value, allowed))
        };
        let cores =
            BusyCores { all_core_clock: share("all_core_clock")?, smt_share: share("smt_share")? };
        Ok((cores, section.source()?))
    }

    /// Reads the variation of costs: a separate table, with one source.
    fn variation(&self, value: &Value<'_>) -> Result<(Variation, String)> {
        let keys = ["calls", "exits", "interrupted_every_ns", "interrupted_for_ns", "source"];
        let section = self.section(("variation", "variation"), value, &keys)?;
        // Either all of them are measured, or none.
        let is_typical = keys[..4].iter().all(|key| !section.table.contains_key(*key));
        if is_typical {
            return Ok((derived::VARIATION, section.source()?));
        }
        keys[..4].iter().try_for_each(|key| section.need(key).map(drop))?;
        let variation = Variation {
            calls: section.read("calls", |key, value| self.factors(key, value))?,
            exits: section.read("exits", |key, value| self.factors(key, value))?,
            interrupted_every: section.ns("interrupted_every_ns")?,
            interrupted_for: section.ns("interrupted_for_ns")?,
        };
        // Otherwise no CPU would make progress.
        let every = variation.interrupted_every;
        if every > 0 && variation.interrupted_for > every / 2 {
            let problem = "variation.interrupted_for_ns is more than half of interrupted_every_ns";
            let at = section.need("interrupted_for_ns")?.span().start;
            return Err(self.wrong(at, problem.to_owned()));
        }
        Ok((variation, section.source()?))
    }

    /// Reads factors at rising percentiles, which must not decrease; in thousandths.
    fn factors<const N: usize>(&self, key: &str, value: &Value<'_>) -> Result<[u64; N]> {
        let list = value.get_ref().as_array();
        let factors: Option<Vec<f64>> = list.and_then(|list| list.iter().map(number).collect());
        factors
            .filter(|all| all.iter().all(|it| (0.1..=MOST_VARIATION).contains(it)))
            .filter(|all| all.is_sorted())
            .and_then(|all| <[f64; N]>::try_from(all).ok())
            .map(|all| all.map(|factor| (factor * 1_000.0).round() as u64))
            .ok_or_else(|| {
                let shares = VARIATION_AT_PERCENT.map(|share| share.to_string()).join(", ");
                let allowed = format!(
                    "{key} is invalid: expected a list of {N} factors of a cost, from 0.1 to {MOST_VARIATION} and none smaller than the \
                     one before: at {shares} % of all times"
                );
                self.wrong(value.span().start, allowed)
            })
    }

    fn matrix(&self, value: &Value<'_>, cpus: usize) -> Result<(Vec<Ps>, String)> {
        let section =
            self.section(("latency_matrix", "latency_matrix"), value, &["ns", "source"])?;
        let rows = section.table.get("ns").and_then(|rows| rows.get_ref().as_array());
        let rows = rows.ok_or_else(|| {
            let problem = "latency_matrix has no ns: expected a list of rows";
            self.wrong(section.at, problem.into())
        })?;
        let size = |found: usize, what: &str, at| {
            let problem =
                format!("latency_matrix has {found} {what}; this machine has {cpus} CPUs");
            if found == cpus { Ok(()) } else { Err(self.wrong(at, problem)) }
        };
        size(rows.len(), "rows", section.at)?;
        let mut matrix = Vec::with_capacity(cpus * cpus);
        for (number, row) in rows.iter().enumerate() {
            let at = row.span().start;
            let columns = row.get_ref().as_array().ok_or_else(|| {
                self.wrong(
                    at,
                    format!("row {number} of latency_matrix is invalid: expected a list"),
                )
            })?;
            size(columns.len(), &format!("numbers in row {number}"), at)?;
            for (column, value) in columns.iter().enumerate() {
                let key = format!("latency_matrix, row {number}, column {column},");
                let latency = self.ns(&key, value)?;
                let problem = match (latency == 0, number == column) {
                    (true, false) => {
                        format!("{key} is 0: expected a positive distance of two CPUs")
                    }
                    (false, true) => format!("{key} is not 0: expected 0 from a CPU to itself"),
                    _ => {
                        matrix.push(latency);
                        continue;
                    }
                };
                return Err(self.wrong(value.span().start, problem));
            }
        }
        Ok((matrix, section.source()?))
    }

    fn read(&self, topology: Option<Topology>) -> Result<MachineFile> {
        let whole = |problem| MachineError::new(self.name, None, problem);
        if self.text.len() as u64 > MACHINE_BYTES {
            let problem = format!("its text is too long: expected at most {MACHINE_BYTES} bytes");
            return Err(whole(problem));
        }
        let root = DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            let message = plain(error.message());
            let problem = match self.text.get(span.clone()).filter(|text| !text.trim().is_empty()) {
                Some(text) => format!("{message}: {}", quoted(text)),
                None => message,
            };
            self.wrong(span.start, problem)
        })?;
        let root = root.get_ref();
        for key in root.keys() {
            if !["title", "synthetic", "source", "costs"].contains(&key.get_ref().as_ref()) {
                let problem = format!(
                    "unknown key {} of a machine's file: expected title, synthetic, source or the \
                     table costs",
                    quoted(key.get_ref())
                );
                return Err(self.wrong(key.span().start, problem));
            }
        }
        let topology = match topology {
            Some(topology) => topology,
            None => {
                let synthetic = self.text(root, "synthetic", "the machine", 0)?;
                Topology::from_synthetic(synthetic)
                    .map_err(|error| MachineError::of_topology(self.name, error))?
            }
        };
        // Before anything is allocated for each pair of them.
        let cpus = topology.cpus().len();
        if cpus > MAX_CPUS {
            return Err(whole(format!("it has {cpus} CPUs: expected at most {MAX_CPUS}")));
        }
        let Some((key, table)) = root.get_key_value("costs") else {
            return Err(whole("it has no table [costs], so it cannot be simulated".into()));
        };
        let header = key.span().start;
        let Some(table) = table.get_ref().as_table() else {
            return Err(self.wrong(header, "costs is invalid: expected a table".into()));
        };
        let mut file = MachineFile {
            topology,
            costs: Costs::default(),
            line_bytes: LINE_BYTES[0],
            matrix: None,
            sources: BTreeMap::new(),
        };
        self.costs(table, &mut file)?;
        let lacks = |(key, need): (&str, Need)| {
            let by_matrix = file.matrix.is_some() && key.starts_with("latency_");
            needed(need, &file.topology) && !by_matrix && !file.sources.contains_key(key)
        };
        if let Some((key, ..)) = KEYS.iter().find(|(key, need, _)| lacks((key, *need))) {
            return Err(
                self.wrong(header, format!("[costs] has no {key}, which this machine requires"))
            );
        }
        let MachineFile { topology, costs, sources, .. } = &mut file;
        if let Some(key) = derived::complete(topology, costs, sources) {
            return Err(
                self.wrong(header, format!("[costs] has no {key}, which this machine requires"))
            );
        }
        if file.costs.idle.is_empty() {
            let problem = "[costs] has no idle: expected at least one [[costs.idle]]";
            return Err(self.wrong(header, problem.into()));
        }
        let given = |key: &str| file.sources.contains_key(key);
        match contradictions::of(&file.costs, file.matrix.as_deref(), given) {
            None => Ok(file),
            Some((key, problem)) => {
                Err(self.wrong(place_of(table, key).unwrap_or(header), problem))
            }
        }
    }

    fn costs(&self, table: &Table<'_>, file: &mut MachineFile) -> Result<()> {
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            let source;
            match name {
                "line_bytes" => {
                    let found = value.get_ref().as_integer();
                    let found = found.and_then(|bytes| bytes.as_str().parse().ok());
                    file.line_bytes = found
                        .filter(|bytes| LINE_BYTES.contains(bytes))
                        .ok_or_else(|| self.unlike(name, value, "expected 64 or 128"))?;
                    continue;
                }
                "idle" => (file.costs.idle, source) = self.idle(value)?,
                "arbitration" => {
                    let read = self.arbitration(value)?;
                    (file.costs.arbitration, source) = (Some(read.0), read.1);
                }
                "variation" => {
                    let read = self.variation(value)?;
                    (file.costs.variation, source) = (Some(read.0), read.1);
                }
                "cores" => {
                    let read = self.cores(value)?;
                    (file.costs.cores, source) = (Some(read.0), read.1);
                }
                "latency_matrix" => {
                    let read = self.matrix(value, file.topology.cpus().len())?;
                    (file.matrix, source) = (Some(read.0), read.1);
                }
                _ => {
                    let Some((_, _, place)) = KEYS.iter().find(|(known, ..)| *known == name) else {
                        let known: Vec<_> = KEYS.iter().map(|(known, ..)| *known).collect();
                        let problem = format!(
                            "unknown cost {}: expected line_bytes, idle, arbitration, \
                             variation, cores, latency_matrix, {}",
                            quoted(name),
                            known.join(", ")
                        );
                        return Err(self.wrong(key.span().start, problem));
                    };
                    (*place(&mut file.costs), source) = self.cost(name, value)?;
                }
            }
            file.sources.insert(name.to_owned(), source);
        }
        Ok(())
    }
}

/// Returns the position of a cost's key, or of a key in its tables.
fn place_of(costs: &Table<'_>, key: &str) -> Option<usize> {
    let mut tables = costs.values().filter_map(|value| value.get_ref().as_table());
    let within = || tables.find_map(|table| table.get_key_value(key));
    costs.get_key_value(key).or_else(within).map(|(key, _)| key.span().start)
}

fn needed(need: Need, topology: &Topology) -> bool {
    match need {
        Need::Always => true,
        Need::Never => false,
        Need::Smt => topology.cores() < topology.cpus().len(),
        Need::SeveralLlcs => topology.llcs() > topology.packages(),
        Need::SeveralPackages => topology.packages() > 1,
    }
}

/// Reads a machine's file. `topology` is its topology, if that is already known.
pub(super) fn read(name: &str, text: &str, topology: Option<Topology>) -> Result<MachineFile> {
    MachineReader { name, text }.read(topology)
}
