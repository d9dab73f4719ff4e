//! Benchmarks on a simulated machine: the same code, in virtual time.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;

use coreshard_bench::{BenchMachine, Progress, QueueBench};
use coreshard_results::QueueResults;
use coreshard_sim::{Machine, Profile, Sim, Simulation};

use crate::bench::progress::Bar;
use crate::failure::bad_input;
use crate::machine::MachineArgs;
use crate::number::seed;

/// Items of a producer and runs, where nothing else is asked for. Virtual time has no noise to
/// average out, and a simulated item takes about ten times a real one.
pub(crate) const ITEMS: u64 = 300;
pub(crate) const RUNS: NonZeroUsize = NonZeroUsize::new(3).expect("3 is not 0");

/// The options of a simulation.
#[derive(Debug, clap::Args)]
pub(crate) struct SimArgs {
    /// Simulate the machine, a preset's name or a file (.toml), instead of laying it over this
    /// one's CPUs
    #[arg(long, requires = "machine")]
    pub(crate) sim: bool,

    /// Settles ties between simulated CPUs; equal seeds give equal results
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sim", value_parser = seed)]
    pub(crate) seed: u64,

    /// Whose costs apply: futex (a program on that machine), or in-kernel (no system calls, locks
    /// are queues of spinning CPUs)
    #[arg(long, value_name = "PROFILE", default_value_t = Profile::Futex, requires = "sim")]
    pub(crate) costs: Profile,
}

/// Shows how far a benchmark has come, from inside the simulation and without a trace in it.
pub(super) struct Outside(pub(super) Bar);

impl Progress for Outside {
    fn begin(&mut self, steps: usize) {
        Sim::outside(|| self.0.begin(steps));
    }

    fn step(&mut self, what: &dyn fmt::Display) -> ControlFlow<()> {
        Sim::outside(|| self.0.step(what))
    }
}

/// All of a machine.
pub(crate) fn bench_machine(machine: &Machine) -> BenchMachine {
    let topology = machine.topology().clone();
    BenchMachine {
        name: topology.name().to_owned(),
        platform: "sim".to_owned(),
        usable: topology.online().clone(),
        cpu_quota: None,
        laid_over: None,
        topology,
    }
}

/// The machine of a preset's name, or of a file (.toml), or the small one for searches.
pub(crate) fn machine(name: &str) -> anyhow::Result<Machine> {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|extension| extension == "toml");
    if name == "pocket" {
        return Ok(Machine::pocket());
    }
    let machine = if is_file { Machine::from_file(path) } else { Machine::named(name) };
    machine.map_err(bad_input)
}

impl SimArgs {
    /// The machine that was asked for.
    pub(crate) fn machine(&self, args: &MachineArgs) -> anyhow::Result<Machine> {
        machine(args.machine.as_deref().unwrap_or_default())
    }

    /// Runs a benchmark on the machine.
    pub(super) fn run(
        &self,
        machine: &Machine,
        bench: &QueueBench,
        counts: Option<&[usize]>,
        bar: Bar,
    ) -> anyhow::Result<QueueResults> {
        let bench_machine = bench_machine(machine);
        let simulation = Simulation::new(machine).seed(self.seed).profile(self.costs);
        let run = simulation.run(|| match counts {
            None => bench.run::<Sim>(&bench_machine, &mut Outside(bar)),
            Some(counts) => bench.run_scaling::<Sim>(&bench_machine, counts, &mut Outside(bar)),
        });
        let run = run?;
        let mut results = run.value.map_err(bad_input)?;
        results.cpu_model = machine.topology().model().map(str::to_owned);
        results.notes.insert(
            0,
            format!(
                "simulated: costs {}, seed {}, {} ns of virtual time, trace {:016x}",
                self.costs, self.seed, run.summary.virtual_ns, run.summary.trace_hash
            ),
        );
        Ok(results)
    }
}
