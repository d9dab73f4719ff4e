//! The kernel's own algorithms as benchmark programs, with each upstream patch as a variant, and Coreshard's
//! structures beside them: the kernel before the patch, with the patch, and Coreshard.
//!
//! They are written from documented behaviour, for a simulated machine with the costs of a kernel
//! (`Profile::InKernel`). They also run on real machines.

mod measurements;
mod run;
mod updates;
mod workqueue;

use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};

use coreshard_platform::{Platform, RealTime};
use coreshard_rt::Rung;
use coreshard_topology::{Scope, ShardSize};
use coreshard_workqueue::{Intake, Wake};

use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Unwatched;
use crate::queue::QueueBench;
use crate::rt::IndexBench;
pub use measurements::measurements;
pub use run::KernelRun;
use run::WorkqueueRun;
use updates::{MaskLayout, ScsiLayout};
use workqueue::{ActiveCount, Kick};

/// A program that models a part of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelProgram {
    /// The unbound workqueue, as `lib/test_workqueue.c` measures it.
    Workqueue,
    /// A mask of CPUs. Each CPU sets and clears its bit.
    Cpumask,
    /// The counters of each request of a SCSI device.
    Scsi,
    /// The index of the CPUs' priorities: each CPU sets its own, and searches for the lowest.
    Cpupri,
    /// A server whose items compute. Some items block.
    Nfs,
}

impl KernelProgram {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Workqueue, Self::Cpumask, Self::Scsi, Self::Cpupri, Self::Nfs];
}

impl KernelProgram {
    const NAMES: [(&'static str, Self); 5] = [
        ("workqueue", Self::Workqueue),
        ("cpumask", Self::Cpumask),
        ("scsi", Self::Scsi),
        ("cpupri", Self::Cpupri),
        ("nfs", Self::Nfs),
    ];

    /// Returns the program with this name.
    ///
    /// ```
    /// use coreshard_bench::kernel::KernelProgram;
    ///
    /// assert_eq!(KernelProgram::named("cpupri"), Some(KernelProgram::Cpupri));
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(its, _)| *its == name).map(|(_, program)| *program)
    }
}

impl fmt::Display for KernelProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMES.iter().find(|(_, program)| program == self);
        f.pad(named.map_or("", |(name, _)| name))
    }
}

/// A measured case: a setting of a program, before a patch, with it, or with Coreshard's structure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelCase {
    /// The program.
    pub program: KernelProgram,
    /// The setting, such as the affinity scope.
    pub setting: String,
    /// `kernel`, a patch's name, or `coreshard`.
    pub variant: String,
}

impl KernelCase {
    /// The variant that all others of a setting are compared with.
    pub const BEFORE: &'static str = "kernel";
}

impl fmt::Display for KernelCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} · {} · {}", self.program, self.setting, self.variant)
    }
}

/// The options of a run.
#[derive(Clone, Copy, Debug)]
pub struct KernelBench {
    /// Concurrent threads; by default one for each CPU.
    pub threads: Option<NonZeroUsize>,
    /// Operations of each thread.
    pub operations: u64,
    /// The wanted size of a cache shard.
    pub shard_size: ShardSize,
}

impl Default for KernelBench {
    fn default() -> Self {
        Self { threads: None, operations: 200, shard_size: ShardSize::DEFAULT }
    }
}

/// The variants' names, by setting. The first is the state before the patch.
const WORKQUEUE: &[&str] = &["kernel", "deferred-wake", "per-pool-count", "coreshard"];
const CPUMASK: &[&str] = &["kernel", "per-node", "per-llc", "bytes"];
const SCSI: &[&str] = &["kernel", "padding", "no-shared-count", "per-cpu"];
const CPUPRI: &[&str] = &["kernel", "padding", "split", "coreshard"];
const NFS: &[&str] = &["kernel", "deferred-wake"];

impl KernelBench {
    /// Returns the cases of a program, in the order of reports.
    ///
    /// ```
    /// use coreshard_bench::kernel::{KernelBench, KernelProgram};
    ///
    /// let cases = KernelBench::cases(KernelProgram::Cpupri);
    /// assert_eq!(cases[1].to_string(), "cpupri · all CPUs · padding");
    /// ```
    #[must_use]
    pub fn cases(program: KernelProgram) -> Vec<KernelCase> {
        let scopes = || Scope::ALL.iter().map(ToString::to_string).collect();
        let one = |name: &str| vec![name.to_owned()];
        let (settings, variants): (Vec<String>, _) = match program {
            KernelProgram::Workqueue => (scopes(), WORKQUEUE),
            KernelProgram::Cpumask => (one("all CPUs"), CPUMASK),
            KernelProgram::Scsi => (vec!["one device".to_owned(), "four devices".to_owned()], SCSI),
            KernelProgram::Cpupri => (one("all CPUs"), CPUPRI),
            KernelProgram::Nfs => (scopes(), NFS),
        };
        let case = |setting: &String, variant: &str| KernelCase {
            program,
            setting: setting.clone(),
            variant: variant.to_owned(),
        };
        settings.iter().flat_map(|it| variants.iter().map(|name| case(it, name))).collect()
    }

    /// Returns the number of threads on a machine.
    #[must_use]
    pub fn threads_on(&self, machine: &BenchMachine) -> usize {
        let cpus = machine.usable.len();
        self.threads.map_or(cpus, NonZeroUsize::get).min(cpus)
    }

    /// Returns notes about the cases: settings that are scopes and have the same pods on a machine.
    ///
    /// ```
    /// use coreshard_bench::BenchMachine;
    /// use coreshard_bench::kernel::{KernelBench, KernelProgram};
    /// use coreshard_topology::Topology;
    ///
    /// let machine = BenchMachine::whole("one cache", "sim", Topology::from_synthetic("l3:1 core:4 pu:1")?);
    /// let bench = KernelBench::default();
    /// let notes = bench.notes(&machine, &KernelBench::cases(KernelProgram::Workqueue))?;
    /// assert!(notes[1].ends_with("cache = numa = system here: 1 pod; they differ by noise alone"), "{notes:?}");
    /// assert!(bench.notes(&machine, &KernelBench::cases(KernelProgram::Scsi))?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the machine has no CPU of a pod.
    pub fn notes(
        &self,
        machine: &BenchMachine,
        cases: &[KernelCase],
    ) -> Result<Vec<String>, BenchError> {
        let mut scopes: Vec<Scope> =
            cases.iter().filter_map(|it| it.setting.parse().ok()).collect();
        scopes.dedup();
        if scopes.is_empty() {
            return Ok(Vec::new());
        }
        let queues = QueueBench { scopes, shard_size: self.shard_size, ..QueueBench::default() };
        queues.same_pods(machine)
    }

    /// Runs a case once.
    ///
    /// # Errors
    /// If its threads cannot be started.
    pub fn run<P: RealTime>(
        &self,
        machine: &BenchMachine,
        case: &KernelCase,
    ) -> Result<KernelRun, BenchError> {
        let threads = self.threads_on(machine);
        let operations = self.operations;
        let variant = case.variant.as_str();
        match case.program {
            KernelProgram::Workqueue | KernelProgram::Nfs if variant == "coreshard" => {
                self.ours::<P>(machine, case)
            }
            KernelProgram::Workqueue | KernelProgram::Nfs => WorkqueueRun {
                scope: case.setting.parse().unwrap_or_default(),
                shard_size: self.shard_size,
                kick: if variant == "deferred-wake" { Kick::Deferred } else { Kick::UnderLock },
                active: match variant {
                    "per-pool-count" => ActiveCount::PerPool,
                    _ => ActiveCount::PerNode,
                },
                serves: case.program == KernelProgram::Nfs,
                producers: threads,
                items: operations,
            }
            .run::<P>(machine),
            KernelProgram::Cpumask => {
                let layout = match variant {
                    "per-node" => MaskLayout::PerNode,
                    "per-llc" => MaskLayout::PerLlc,
                    "bytes" => MaskLayout::Bytes,
                    _ => MaskLayout::Global,
                };
                updates::mask::<P>(machine, layout, threads, operations)
            }
            KernelProgram::Scsi => {
                let layout = match variant {
                    "padding" => ScsiLayout::Padded,
                    "no-shared-count" => ScsiLayout::NoSharedCount,
                    "per-cpu" => ScsiLayout::PerCpu,
                    _ => ScsiLayout::Packed,
                };
                let devices = if case.setting == "four devices" { 4 } else { 1 };
                updates::scsi::<P>(machine, layout, devices, threads, operations)
            }
            KernelProgram::Cpupri => self.index::<P>(machine, variant),
        }
    }

    /// Runs Coreshard's own queue, with its newest variants.
    fn ours<P: Platform>(
        &self,
        machine: &BenchMachine,
        case: &KernelCase,
    ) -> Result<KernelRun, BenchError> {
        let bench = QueueBench {
            scopes: vec![case.setting.parse().unwrap_or_default()],
            wakes: vec![Wake::Coalesced],
            intakes: vec![Intake::LockFree],
            threads: NonZeroUsize::new(self.threads_on(machine)),
            items_per_thread: NonZeroU64::new(self.operations),
            runs: NonZeroUsize::MIN,
            shard_size: self.shard_size,
            ..QueueBench::default()
        };
        let results = bench.run::<P>(machine, &mut Unwatched)?;
        let measurement = results.results.first().cloned().unwrap_or_default();
        Ok(KernelRun {
            ops_per_sec: measurement.items_per_sec,
            percentiles_ns: [measurement.p50_ns, measurement.p90_ns, measurement.p95_ns],
        })
    }

    /// Runs one variant of the priority index.
    fn index<P: RealTime>(
        &self,
        machine: &BenchMachine,
        variant: &str,
    ) -> Result<KernelRun, BenchError> {
        let variant = match variant {
            "padding" => Rung::Padded,
            "split" => Rung::Split,
            "coreshard" => Rung::PerLlc,
            _ => Rung::Packed,
        };
        let bench = IndexBench {
            variants: vec![variant],
            threads: NonZeroUsize::new(self.threads_on(machine)),
            rounds: NonZeroU64::new(self.operations).unwrap_or(NonZeroU64::MIN),
            runs: NonZeroUsize::MIN,
            ..IndexBench::default()
        };
        let results = bench.run::<P>(machine, &mut Unwatched)?;
        let measurement = results.results.first().cloned().unwrap_or_default();
        let find_ns = measurement.find_ns as u64;
        Ok(KernelRun { ops_per_sec: measurement.ops_per_sec, percentiles_ns: [find_ns; 3] })
    }
}
