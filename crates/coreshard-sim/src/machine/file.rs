//! Reading a machine's file: TOML, as of the presets.

use std::collections::BTreeMap;

use coreshard_topology::Topology;
use coreshard_topology::input::{MACHINE_BYTES, plain, quoted};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::contradictions;
use super::costs::{
    Arbitration, Costs, IdleState, KEYS, Need, SchedulerCosts, VARIATION_AT_PERCENT, Variation,
};
use super::error::{MachineError, MachineErrorKind};
use super::limits::{DEFAULT_LINE_BYTES, LINE_BYTES, MAX_CPUS};
use super::time::{NS, Ps};

/// No cost is longer: a second. It keeps sums of costs far from overflow.
const LONGEST_NS: f64 = 1e9;

/// Nothing takes more of its cost than so many times.
const MOST_VARIATION: f64 = 100.0;

/// What a machine's file holds.
pub(super) struct MachineFile {
    pub(super) topology: Topology,
    pub(super) costs: Costs,
    pub(super) line_bytes: usize,
    /// One-way latencies by requester and owner, where they were measured pair by pair.
    pub(super) matrix: Option<Vec<Ps>>,
    /// By key: where the number is from.
    pub(super) sources: BTreeMap<String, String>,
}

struct MachineReader<'a> {
    name: &'a str,
    text: &'a str,
}

type Table<'a> = DeTable<'a>;
type Value<'a> = Spanned<DeValue<'a>>;

/// A number, whole or not.
fn number(value: &Value<'_>) -> Option<f64> {
    match value.get_ref() {
        DeValue::Integer(number) => number.as_str().parse().ok(),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    }
}

impl MachineReader<'_> {
    fn wrong(&self, byte: usize, problem: String) -> MachineError {
        let before = self.text.get(..byte).unwrap_or(self.text);
        MachineError::at(self.name, before.matches('\n').count() + 1, problem)
    }

    fn table<'v>(&self, key: &str, value: &'v Value<'_>) -> Result<&'v Table<'v>, MachineError> {
        value.get_ref().as_table().ok_or_else(|| {
            self.wrong(value.span().start, format!("{key} must be a table with ns and source"))
        })
    }

    /// A cost: finite, not negative, at most a second.
    fn ns(&self, key: &str, value: &Value<'_>) -> Result<Ps, MachineError> {
        match number(value) {
            Some(ns) if (0.0..=LONGEST_NS).contains(&ns) => Ok((ns * NS as f64).round() as Ps),
            Some(_) => {
                let problem = format!(
                    "{key} is {}; allowed are 0 to {LONGEST_NS} nanoseconds",
                    self.given(value)
                );
                Err(self.wrong(value.span().start, problem))
            }
            None => {
                let problem =
                    format!("{key} is {}; it must be a number (nanoseconds)", self.given(value));
                Err(self.wrong(value.span().start, problem))
            }
        }
    }

    /// A value as the file has it.
    fn given(&self, value: &Value<'_>) -> String {
        plain(self.text.get(value.span()).unwrap_or_default())
    }

    fn text<'v>(
        &self,
        table: &'v Table<'_>,
        key: &str,
        name: &str,
        at: usize,
    ) -> Result<&'v str, MachineError> {
        let Some(value) = table.get(key) else {
            return Err(self.wrong(at, format!("{name} has no {key}, which must be a text")));
        };
        value.get_ref().as_str().filter(|text| !text.trim().is_empty()).ok_or_else(|| {
            let problem = format!(
                "{key} of {name} is {}; it must be a text that is not empty",
                self.given(value)
            );
            self.wrong(value.span().start, problem)
        })
    }

    /// The number of a cost's table, and its source.
    fn cost(&self, key: &str, value: &Value<'_>) -> Result<(Ps, String), MachineError> {
        let at = value.span().start;
        let table = self.table(key, value)?;
        let ns = table.get("ns").ok_or_else(|| self.wrong(at, format!("{key} has no ns")))?;
        for (other, place) in table.iter().map(|(other, _)| (other.get_ref(), other.span())) {
            if !["ns", "source"].contains(&other.as_ref()) {
                let problem =
                    format!("{key} has a key {}; allowed are ns and source", quoted(other));
                return Err(self.wrong(place.start, problem));
            }
        }
        let source = self.text(table, "source", key, at)?.to_owned();
        Ok((self.ns(&format!("{key}.ns"), ns)?, source))
    }

    fn idle(&self, value: &Value<'_>) -> Result<(Vec<IdleState>, String), MachineError> {
        let at = value.span().start;
        let wrong = |at| self.wrong(at, "idle must be a list of tables ([[costs.idle]])".into());
        let states = value.get_ref().as_array().ok_or_else(|| wrong(at))?;
        let mut idle: Vec<IdleState> = Vec::new();
        let mut sources = Vec::new();
        for state in states.iter() {
            let at = state.span().start;
            let table = state.get_ref().as_table().ok_or_else(|| wrong(at))?;
            self.known(table, "an idle state", &["after_ns", "exit_ns", "polls", "source"])?;
            let field = |key: &str| {
                let value = table.get(key);
                let value =
                    value.ok_or_else(|| self.wrong(at, format!("an idle state has no {key}")))?;
                self.ns(&format!("idle.{key}"), value)
            };
            let polls = match table.get("polls") {
                None => false,
                Some(value) => value.get_ref().as_bool().ok_or_else(|| {
                    let problem =
                        format!("idle.polls is {}; it must be true or false", self.given(value));
                    self.wrong(value.span().start, problem)
                })?,
            };
            let state = IdleState { after: field("after_ns")?, exit: field("exit_ns")?, polls };
            sources.push(self.text(table, "source", "an idle state", at)?.to_owned());
            let deeper =
                idle.last().is_none_or(|last| last.after < state.after && last.exit <= state.exit);
            if !deeper {
                let problem = "idle states must be given shallow ones first: each with a larger \
                               after_ns, and no smaller exit_ns, than the one before";
                return Err(self.wrong(at, problem.into()));
            }
            idle.push(state);
        }
        Ok((idle, sources.join("; ")))
    }

    /// How contended lines change hands: a table of its own, with one source.
    fn arbitration(&self, value: &Value<'_>) -> Result<(Arbitration, String), MachineError> {
        const KEYS: [&str; 13] = [
            "hold_ns",
            "locked_ns",
            "request_ns",
            "fresh_request_ns",
            "spin_exit_ns",
            "reach_ns",
            "far_atomic_ns",
            "loads_take_dirty_lines",
            "load_and_store_exclusive",
            "pair_prefetch",
            "misses_at_once",
            "stores_ahead",
            "source",
        ];
        let at = value.span().start;
        let table = self.table("arbitration", value)?;
        self.known(table, "arbitration", &KEYS)?;
        let ns = |key: &str| {
            table.get(key).map_or(Ok(0), |value| self.ns(&format!("arbitration.{key}"), value))
        };
        let flag = |key: &str| {
            table.get(key).map_or(Ok(false), |value| {
                value.get_ref().as_bool().ok_or_else(|| {
                    let problem = format!(
                        "arbitration.{key} is {}; it must be true or false",
                        self.given(value)
                    );
                    self.wrong(value.span().start, problem)
                })
            })
        };
        let stores_ahead = table
            .get("stores_ahead")
            .map_or(Ok(0), |value| self.count("arbitration.stores_ahead", value, 4_096))?;
        let misses_at_once = table
            .get("misses_at_once")
            .map_or(Ok(0), |value| self.count("arbitration.misses_at_once", value, 64))?;
        let arbitration = Arbitration {
            hold: ns("hold_ns")?,
            locked: ns("locked_ns")?,
            request: ns("request_ns")?,
            fresh_request: ns("fresh_request_ns")?,
            spin_exit: ns("spin_exit_ns")?,
            reach: ns("reach_ns")?,
            far_atomic: ns("far_atomic_ns")?,
            loads_take: flag("loads_take_dirty_lines")?,
            exclusives: flag("load_and_store_exclusive")?,
            pair_prefetch: flag("pair_prefetch")?,
            misses_at_once,
            stores_ahead,
        };
        Ok((arbitration, self.text(table, "source", "arbitration", at)?.to_owned()))
    }

    /// How threads are woken and switched: a table of its own, with one source.
    fn scheduler(&self, value: &Value<'_>) -> Result<(SchedulerCosts, String), MachineError> {
        const KEYS: [&str; 6] = [
            "wake_lines",
            "scan_ns",
            "kernel_switch_ns",
            "kernel_compute_ns",
            "interrupt_to_host_ns",
            "source",
        ];
        let at = value.span().start;
        let table = self.table("scheduler", value)?;
        self.known(table, "scheduler", &KEYS)?;
        let need = |key: &str| {
            table.get(key).ok_or_else(|| self.wrong(at, format!("scheduler has no {key}")))
        };
        let costs = SchedulerCosts {
            wake_lines: self.count("scheduler.wake_lines", need("wake_lines")?, 64)?,
            scan: self.ns("scheduler.scan_ns", need("scan_ns")?)?,
            kernel_switch: self.ns("scheduler.kernel_switch_ns", need("kernel_switch_ns")?)?,
            kernel_compute: self.ns("scheduler.kernel_compute_ns", need("kernel_compute_ns")?)?,
            interrupt_to_host: table
                .get("interrupt_to_host_ns")
                .map_or(Ok(0), |value| self.ns("scheduler.interrupt_to_host_ns", value))?,
        };
        Ok((costs, self.text(table, "source", "scheduler", at)?.to_owned()))
    }

    /// By how much costs vary: a table of its own, with one source.
    fn variation(&self, value: &Value<'_>) -> Result<(Variation, String), MachineError> {
        const KEYS: [&str; 5] =
            ["calls", "exits", "interrupted_every_ns", "interrupted_for_ns", "source"];
        let at = value.span().start;
        let table = self.table("variation", value)?;
        self.known(table, "variation", &KEYS)?;
        let need = |key: &str| {
            table.get(key).ok_or_else(|| self.wrong(at, format!("variation has no {key}")))
        };
        let ns = |key: &str| self.ns(&format!("variation.{key}"), need(key)?);
        let variation = Variation {
            calls: self.factors("variation.calls", need("calls")?)?,
            exits: self.factors("variation.exits", need("exits")?)?,
            interrupted_every: ns("interrupted_every_ns")?,
            interrupted_for: ns("interrupted_for_ns")?,
        };
        // Else no CPU would come to anything.
        if variation.interrupted_every > 0
            && variation.interrupted_for > variation.interrupted_every / 2
        {
            let problem = "variation.interrupted_for_ns is more than half of interrupted_every_ns";
            let at = need("interrupted_for_ns")?.span().start;
            return Err(self.wrong(at, problem.to_owned()));
        }
        Ok((variation, self.text(table, "source", "variation", at)?.to_owned()))
    }

    /// Factors at growing shares of all times, which do not become smaller; in thousandths.
    fn factors<const N: usize>(
        &self,
        key: &str,
        value: &Value<'_>,
    ) -> Result<[u64; N], MachineError> {
        let problem = || {
            let shares = VARIATION_AT_PERCENT.map(|share| share.to_string()).join(", ");
            let allowed = format!(
                "{key} must be a list of {N} factors of a cost, from 0.1 to {MOST_VARIATION} and none smaller than the one \
                 before: at {shares} % of all times"
            );
            self.wrong(value.span().start, allowed)
        };
        let cells = value.get_ref().as_array().ok_or_else(problem)?;
        let factors: Option<Vec<f64>> = cells.iter().map(number).collect();
        let factors = factors
            .filter(|all| all.iter().all(|it| (0.1..=MOST_VARIATION).contains(it)))
            .filter(|all| all.is_sorted())
            .ok_or_else(problem)?;
        let thousandths: Vec<u64> =
            factors.iter().map(|factor| (factor * 1_000.0).round() as u64).collect();
        thousandths.try_into().map_err(|_| problem())
    }

    /// A whole number.
    fn count(&self, key: &str, value: &Value<'_>, most: u64) -> Result<u64, MachineError> {
        let count = value.get_ref().as_integer().and_then(|count| count.as_str().parse().ok());
        count.filter(|count| *count <= most).ok_or_else(|| {
            let problem = format!(
                "{key} is {}; it must be a whole number from 0 to {most}",
                self.given(value)
            );
            self.wrong(value.span().start, problem)
        })
    }

    /// Fails where a table has another key than these.
    fn known(&self, table: &Table<'_>, name: &str, keys: &[&str]) -> Result<(), MachineError> {
        match table.keys().find(|key| !keys.contains(&key.get_ref().as_ref())) {
            None => Ok(()),
            Some(other) => {
                let given = quoted(other.get_ref());
                let problem = format!("{name} has a key {given}; allowed are {}", keys.join(", "));
                Err(self.wrong(other.span().start, problem))
            }
        }
    }

    fn matrix(&self, value: &Value<'_>, cpus: usize) -> Result<(Vec<Ps>, String), MachineError> {
        let at = value.span().start;
        let table = self.table("latency_matrix", value)?;
        let rows = table.get("ns").and_then(|rows| rows.get_ref().as_array());
        let rows = rows.ok_or_else(|| {
            self.wrong(at, "latency_matrix has no ns, which must be a list of rows".into())
        })?;
        let size = |found: usize, what: &str, at| {
            let problem =
                format!("latency_matrix has {found} {what}; this machine has {cpus} CPUs");
            if found == cpus { Ok(()) } else { Err(self.wrong(at, problem)) }
        };
        size(rows.len(), "rows", at)?;
        let mut matrix = Vec::with_capacity(cpus * cpus);
        for (number, row) in rows.iter().enumerate() {
            let at = row.span().start;
            let cells = row.get_ref().as_array().ok_or_else(|| {
                self.wrong(at, format!("row {number} of latency_matrix must be a list"))
            })?;
            size(cells.len(), &format!("numbers in row {number}"), at)?;
            for (column, cell) in cells.iter().enumerate() {
                let key = format!("latency_matrix, row {number}, column {column},");
                let latency = self.ns(&key, cell)?;
                if latency == 0 && number != column {
                    let problem = format!("{key} is 0; two CPUs are some time apart");
                    return Err(self.wrong(cell.span().start, problem));
                }
                if latency != 0 && number == column {
                    let problem = format!("{key} is not 0; a CPU is no way from itself");
                    return Err(self.wrong(cell.span().start, problem));
                }
                matrix.push(latency);
            }
        }
        Ok((matrix, self.text(table, "source", "latency_matrix", at)?.to_owned()))
    }

    fn line_bytes(&self, value: &Value<'_>) -> Result<usize, MachineError> {
        let found = value.get_ref().as_integer().and_then(|bytes| bytes.as_str().parse().ok());
        found.filter(|bytes| LINE_BYTES.contains(bytes)).ok_or_else(|| {
            let problem = format!("line_bytes is {}; it must be 64 or 128", self.given(value));
            self.wrong(value.span().start, problem)
        })
    }

    fn read(&self, topology: Option<Topology>) -> Result<MachineFile, MachineError> {
        if self.text.len() as u64 > MACHINE_BYTES {
            let problem = format!("its text has more than {MACHINE_BYTES} bytes, the most allowed");
            return Err(MachineError::new(self.name, MachineErrorKind::Problem(problem)));
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
                    "{} is no key of a machine's file; there are title, synthetic, source and the \
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
                Topology::from_synthetic(synthetic).map_err(|error| {
                    MachineError::new(self.name, MachineErrorKind::Topology(error))
                })?
            }
        };
        // Before anything is made for each pair of them.
        let cpus = topology.cpus().len();
        if cpus > MAX_CPUS {
            let problem = format!("it has {cpus} CPUs; at most {MAX_CPUS} can be simulated");
            return Err(MachineError::new(self.name, MachineErrorKind::Problem(problem)));
        }
        let Some((key, table)) = root.get_key_value("costs") else {
            return Err(MachineError::new(
                self.name,
                MachineErrorKind::Problem(
                    "there is no table [costs], so it cannot be simulated".into(),
                ),
            ));
        };
        let header = key.span().start;
        let mut file = MachineFile {
            topology,
            costs: Costs::default(),
            line_bytes: DEFAULT_LINE_BYTES,
            matrix: None,
            sources: BTreeMap::new(),
        };
        let table = self.table("costs", table)?;
        self.costs(table, &mut file)?;
        for (key, need, _) in KEYS {
            let by_matrix = file.matrix.is_some() && key.starts_with("latency_");
            if needed(*need, &file.topology) && !by_matrix && !file.sources.contains_key(*key) {
                let problem = format!("[costs] has no {key}: this machine needs one");
                return Err(self.wrong(header, problem));
            }
        }
        if file.costs.idle.is_empty() {
            let problem = "[costs] has no idle: give at least one [[costs.idle]]".to_owned();
            return Err(self.wrong(header, problem));
        }
        let given = |key: &str| file.sources.contains_key(key);
        match contradictions::of(&file.costs, file.matrix.as_deref(), given) {
            None => Ok(file),
            Some(found) => {
                Err(self.wrong(line_of(table, found.key).unwrap_or(header), found.problem))
            }
        }
    }

    fn costs(&self, table: &Table<'_>, file: &mut MachineFile) -> Result<(), MachineError> {
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            let source = match name {
                "line_bytes" => {
                    file.line_bytes = self.line_bytes(value)?;
                    continue;
                }
                "idle" => {
                    let (idle, source) = self.idle(value)?;
                    file.costs.idle = idle;
                    source
                }
                "arbitration" => {
                    let (arbitration, source) = self.arbitration(value)?;
                    file.costs.arbitration = Some(arbitration);
                    source
                }
                "scheduler" => {
                    let (scheduler, source) = self.scheduler(value)?;
                    file.costs.scheduler = Some(scheduler);
                    source
                }
                "variation" => {
                    let (variation, source) = self.variation(value)?;
                    file.costs.variation = Some(variation);
                    source
                }
                "latency_matrix" => {
                    let (matrix, source) = self.matrix(value, file.topology.cpus().len())?;
                    file.matrix = Some(matrix);
                    source
                }
                _ => {
                    let Some((_, _, place)) = KEYS.iter().find(|(known, ..)| *known == name) else {
                        let known: Vec<_> = KEYS.iter().map(|(known, ..)| *known).collect();
                        let problem = format!(
                            "{} is no cost; there are line_bytes, idle, arbitration, \
                             scheduler, variation, latency_matrix, {}",
                            quoted(name),
                            known.join(", ")
                        );
                        return Err(self.wrong(key.span().start, problem));
                    };
                    let (ps, source) = self.cost(name, value)?;
                    *place(&mut file.costs) = ps;
                    source
                }
            };
            file.sources.insert(name.to_owned(), source);
        }
        Ok(())
    }
}

/// Where a cost's key is, or a key of the tables among them.
fn line_of(costs: &Table<'_>, key: &str) -> Option<usize> {
    let within = || {
        let tables = costs.values().filter_map(|value| value.get_ref().as_table());
        tables.into_iter().find_map(|table| table.get_key_value(key))
    };
    costs.get_key_value(key).or_else(within).map(|(key, _)| key.span().start)
}

fn needed(need: Need, topology: &Topology) -> bool {
    match need {
        Need::Always => true,
        Need::Never => false,
        Need::Smt => topology.cores() < topology.cpus().len(),
        Need::SeveralLlcs => topology.llcs() > topology.packages(),
        Need::SeveralPackages => topology.packages() > 1,
        Need::SeveralNodes => topology.nodes() > 1,
    }
}

/// Reads a machine's file; its topology is `topology` where that is known already.
pub(super) fn read(
    name: &str,
    text: &str,
    topology: Option<Topology>,
) -> Result<MachineFile, MachineError> {
    MachineReader { name, text }.read(topology)
}
