//! The machine that a benchmark on real CPUs uses.

use std::path::Path;

use coreshard::Topology;
use coreshard_bench::BenchMachine;
use coreshard_topology::{Usable, input};

use super::lists::counted;
use super::machine::{Machine, MachineArgs};

/// The benchmark's machine, and notes for readers of the results.
pub(crate) struct Site {
    pub(crate) bench_machine: BenchMachine,
    pub(crate) cpu_model: Option<String>,
    pub(crate) notes: Vec<String>,
}

impl Site {
    /// Reads this machine, or lays the chosen one over its CPUs.
    pub(crate) fn new(args: &MachineArgs) -> anyhow::Result<Self> {
        let machine = args.read()?;
        if !args.is_given() {
            return Ok(Self::of(machine));
        }
        let this = Topology::host()?;
        let usable = Usable::host(&this)?;
        let Machine { topology, .. } = machine;
        Ok(Self {
            bench_machine: BenchMachine {
                cpu_quota: usable.quota_cpus(),
                laid_over: Some(usable.cpus().clone()),
                ..BenchMachine::whole(topology.name().to_owned(), "host", topology)
            },
            cpu_model: this.model().map(str::to_owned),
            notes: limits(&usable).into_iter().collect(),
        })
    }

    /// Reads this machine.
    pub(crate) fn here() -> anyhow::Result<Self> {
        Machine::here().map(Self::of)
    }

    fn of(Machine { topology, usable, .. }: Machine) -> Self {
        let cpu_model = topology.model().map(str::to_owned);
        let name = cpu_model.as_deref().unwrap_or_else(|| topology.name());
        let name = format!("{name}, {}", counted(topology.online().len(), "CPU"));
        let mut notes = topology.notes().to_vec();
        notes.extend(usable.as_ref().and_then(limits));
        Self {
            bench_machine: BenchMachine {
                cpu_quota: usable.as_ref().and_then(Usable::quota_cpus),
                ..BenchMachine::whole(name, "host", topology)
            },
            cpu_model,
            notes,
        }
    }
}

/// Describes the usable CPUs if they are not all of them.
fn limits(usable: &Usable) -> Option<String> {
    let (cpus, online) = (usable.cpus(), usable.online());
    (cpus != online)
        .then(|| format!("affinity and cpusets limit this process to CPUs {cpus} of {online}"))
}

/// Reports the load average if it is high: other programs affect the figures.
pub(crate) fn other_load(cpus: usize) -> Option<String> {
    let text = input::text(Path::new("/proc/loadavg"), input::NUMBER_BYTES).ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    (load > 0.25 * cpus as f64).then(|| {
        format!(
            "the machine was busy: its load average was {load} over the preceding minute; see the ranges"
        )
    })
}

/// Returns the kernel's name and release.
pub(crate) fn kernel() -> Option<String> {
    let release = input::text(Path::new("/proc/sys/kernel/osrelease"), input::NUMBER_BYTES).ok()?;
    Some(format!("Linux {}", input::plain(&release)))
}
