//! Benchmarks on a simulated machine: the same code, in virtual time.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;

use coreshard_bench::{BenchMachine, Progress};
use coreshard_sim::{Machine, Profile, Run, Sim, Simulation};

use super::progress::Bar;
use crate::machine::MachineArgs;
use crate::number::seed;

/// Threads that look now and then whether they are still needed see within this time that they are not.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);

/// The options of a simulation.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SimArgs {
    /// Simulate the machine, in virtual time; goes without saying where it is not laid over the real CPUs,
    /// which bench queue alone does
    #[arg(long, requires = "machine")]
    pub(crate) sim: bool,

    /// Settles ties between simulated CPUs; equal seeds give equal results [default: 0]
    #[arg(long, value_name = "N", requires = "machine", value_parser = seed)]
    seed: Option<u64>,

    /// Whose costs apply: futex (a program on that machine), or in-kernel (no system calls, locks
    /// are queues of spinning CPUs) [default: futex; with bench block in-kernel]
    #[arg(long, value_name = "PROFILE", requires = "machine")]
    pub(crate) costs: Option<Profile>,
}

impl SimArgs {
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    pub(crate) fn costs(&self) -> Profile {
        self.costs.unwrap_or(Profile::Futex)
    }

    /// The option that needs a simulation and was given, where there is one.
    pub(super) fn given(&self) -> Option<&'static str> {
        self.seed.map(|_| "--seed").or(self.costs.map(|_| "--costs"))
    }

    /// A simulation of the machine with these options.
    pub(crate) fn simulation<'machine>(&self, machine: &'machine Machine) -> Simulation<'machine> {
        Simulation::new(machine).seed(self.seed()).profile(self.costs()).settle(SETTLE)
    }

    /// What a reader must know of a simulated run.
    pub(super) fn note<R>(&self, run: &Run<R>) -> String {
        format!(
            "simulated: costs {}, seed {}, {} ns of virtual time, trace {:016x}",
            self.costs(),
            run.summary.seed,
            run.summary.virtual_ns,
            run.summary.trace_hash
        )
    }
}

/// Shows how far a benchmark has come, from inside the simulation and without a trace in it.
pub(crate) struct Outside(pub(crate) Bar);

impl Progress for Outside {
    fn begin(&mut self, steps: usize) {
        Sim::outside(|| self.0.begin(steps));
    }

    fn step(&mut self, what: &dyn fmt::Display) -> ControlFlow<()> {
        Sim::outside(|| self.0.step(what))
    }
}

/// Shows how far several simulations at once have come.
pub(crate) struct Shared<'bar> {
    pub(crate) bar: &'bar Mutex<Bar>,
    pub(crate) simulations: usize,
}

impl Shared<'_> {
    fn with<R>(&self, act: impl FnOnce(&mut Bar) -> R) -> R {
        Sim::outside(|| act(&mut self.bar.lock().expect("nobody panics with it held")))
    }
}

impl Progress for Shared<'_> {
    fn begin(&mut self, steps: usize) {
        let all = steps * self.simulations;
        self.with(|bar| bar.begin(all));
    }

    fn step(&mut self, what: &dyn fmt::Display) -> ControlFlow<()> {
        self.with(|bar| bar.step(what))
    }
}

/// All of a simulated machine, which was chosen by `args`.
pub(crate) fn bench_machine(args: &MachineArgs, machine: &Machine) -> BenchMachine {
    let topology = machine.topology().clone();
    let name = args.known_as(topology.name());
    BenchMachine::whole(format!("{name}{}", args.remark()), "sim", topology)
}
