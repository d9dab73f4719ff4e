//! `coreshard bench kernel`.

use std::num::{NonZeroU64, NonZeroUsize};

use anyhow::Context;
use coreshard_bench::kernel::{KernelBench, KernelCase, KernelProgram, KernelRun, measurements};
use coreshard_report::kernel as report;
use coreshard_results::KernelResults;
use coreshard_sim::{Profile, Sim, Simulation};
use coreshard_topology::ShardSize;

use crate::common::{
    DEFAULT_SEEDS, MachineArgs, PageArgs, SETTLE, bad_input, bail_input, each_with_each_seed, few,
    interrupted, many, output, seed, seeds, unless_interrupted, whole,
};

/// The options of `coreshard bench kernel`.
#[derive(Debug, clap::Args)]
pub(super) struct KernelArgs {
    /// Program to run: workqueue, cpumask, scsi, cpupri, nfs
    #[arg(value_parser = program)]
    program: KernelProgram,

    /// Compare only the states before and after this patch
    #[arg(long, value_name = "NAME")]
    patch: Option<String>,

    /// Settings to compare, such as affinity scopes [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    settings: Vec<String>,

    /// Threads, one for each of the first CPUs [default: all CPUs]
    #[arg(long, value_name = "N", value_parser = few)]
    threads: Option<NonZeroUsize>,

    /// Operations per thread
    #[arg(long, value_name = "N", default_value = "200", value_parser = many::<NonZeroU64>)]
    operations: NonZeroU64,

    /// Number of seeds; figures are medians over seeds, with quartiles
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEEDS, value_parser = whole::<u64, 1, 1_000>)]
    seeds: u64,

    /// First seed
    #[arg(long, value_name = "N", default_value = "0", value_parser = seed)]
    seed: u64,

    /// Target number of cores in a cache shard
    #[arg(long, value_name = "N", default_value_t = ShardSize::DEFAULT.cores(),
          value_parser = whole::<usize, 1, 65_536>)]
    shard_size: usize,

    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    output: PageArgs,
}

fn program(name: &str) -> Result<KernelProgram, String> {
    KernelProgram::named(name).ok_or_else(|| {
        let names: Vec<_> = KernelProgram::ALL.iter().map(ToString::to_string).collect();
        format!("expected one of {}", names.join(", "))
    })
}

impl KernelArgs {
    fn cases(&self) -> anyhow::Result<Vec<KernelCase>> {
        let all = KernelBench::cases(self.program);
        let known = |name: &str, of: fn(&KernelCase) -> &str, what: &str| {
            if all.iter().any(|case| of(case) == name) {
                return Ok(());
            }
            let mut names: Vec<&str> = all.iter().map(of).collect();
            names.sort_unstable();
            names.dedup();
            let given = coreshard_topology::input::quoted(name);
            bail_input!("invalid {what} {given} of {}: expected {}", self.program, names.join(", "))
        };
        self.settings.iter().try_for_each(|it| known(it, |case| &case.setting, "setting"))?;
        if let Some(patch) = &self.patch {
            known(patch, |case| &case.variant, "patch")?;
        }
        let wanted = |case: &KernelCase| {
            let setting = self.settings.is_empty() || self.settings.contains(&case.setting);
            let variant = match &self.patch {
                None => true,
                Some(patch) => case.variant == *patch || case.variant == KernelCase::BEFORE,
            };
            setting && variant
        };
        Ok(all.into_iter().filter(wanted).collect())
    }
}

pub(super) fn run(args: &KernelArgs) -> anyhow::Result<()> {
    let machine = args.machine.simulated()?;
    let machine = machine
        .context("bench kernel runs on simulated machines: expected --machine")
        .map_err(bad_input)?;
    let cases = args.cases()?;
    let bench = KernelBench {
        threads: args.threads,
        operations: args.operations.get(),
        shard_size: ShardSize::new(args.shard_size),
    };
    let output = args.output.open()?;
    let place = args.machine.bench_machine(&machine);
    let cpus = place.usable.len();
    if let Some(threads) = args.threads.filter(|threads| threads.get() > cpus) {
        bail_input!("invalid number of threads {threads}: expected 1 to {cpus}");
    }
    let seeds = seeds(args.seed, args.seeds)?;
    let runs = each_with_each_seed(&cases, &seeds, |case, seed| {
        let simulation =
            Simulation::new(&machine).seed(seed).profile(Profile::InKernel).settle(SETTLE);
        let run = unless_interrupted(simulation, || bench.run::<Sim>(&place, case))?;
        Some(run.map(|run| run.value))
    })?;
    let Some(runs) = runs else { return Err(interrupted("interrupted before all runs finished")) };
    let runs: Vec<KernelRun> =
        runs.into_iter().map(|run| Ok(run??)).collect::<anyhow::Result<_>>()?;
    let by_case: Vec<_> = cases.iter().zip(runs.chunks(seeds.len())).collect();
    let mut notes = vec![format!(
        "simulated: costs in-kernel, seeds {} to {}; medians and quartiles",
        args.seed,
        args.seed + (args.seeds - 1)
    )];
    notes.extend(bench.notes(&place, &cases)?);
    let results = KernelResults {
        machine: place.name.clone(),
        platform: place.platform.clone(),
        program: args.program.to_string(),
        threads: bench.threads_on(&place),
        operations_per_thread: bench.operations,
        notes,
        seeds,
        results: measurements(&by_case),
    };
    output.write(&results, report::text(&results, output::columns()), || report::page(&results))
}
