//! `coreshard sweep`: a study of many simulated runs, for an existing job engine. It contains no scheduler.
//!
//! A folder holds the study and a file for each finished run. A run is identified by its number, and its file appears
//! complete. An engine may therefore execute runs in any order and more than once, and repeat killed runs.

mod folder;
mod hyperqueue;
mod study;

use std::path::PathBuf;

use clap::Subcommand;
use coreshard_topology::input;

use crate::common::{JsonArgs, output, whole};
use folder::Folder;
use study::{Study, StudyArgs};

/// Shown after the options.
const NOTES: &str = "\
Examples:
  coreshard sweep plan study --machines grace --shard-sizes 4,8,16
  coreshard sweep hyperqueue study    then: hq job submit-file study/jobs.toml
  coreshard sweep status study --missing | xargs -r -n 8 coreshard sweep run study
  coreshard sweep gather study        writes study/results.jsonl
In Python, coreshard.sweep.with_dask(\"study\", client) runs a study on Dask.";

/// The options of `coreshard sweep`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: SweepCommand,
}

#[derive(Debug, Subcommand)]
enum SweepCommand {
    /// Create a study: machines × scopes × shard sizes × wake-ups × intakes × seeds
    Plan(Box<PlanArgs>),
    /// Execute the given runs of a study that have no results yet; engines call this
    Run(RunArgs),
    /// Show how many runs have results, and which are missing
    Status(StatusArgs),
    /// Write jobs.toml, a HyperQueue job file with a task for each missing run
    Hyperqueue(FolderArgs),
    /// Write results.jsonl, one line per run in the study's order, once all have results
    Gather(FolderArgs),
}

#[derive(Debug, clap::Args)]
struct FolderArgs {
    /// Folder of the study
    folder: PathBuf,
}

#[derive(Debug, clap::Args)]
struct PlanArgs {
    #[command(flatten)]
    folder: FolderArgs,

    #[command(flatten)]
    study: StudyArgs,
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    #[command(flatten)]
    folder: FolderArgs,

    /// Numbers of runs, from 0
    #[arg(required = true, value_name = "RUN", value_parser = whole::<u64, 0, { study::MOST_RUNS }>)]
    runs: Vec<u64>,
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    #[command(flatten)]
    folder: FolderArgs,

    /// Print only the numbers of missing runs, one per line
    #[arg(long, conflicts_with = "json")]
    missing: bool,

    #[command(flatten)]
    json: JsonArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        SweepCommand::Plan(args) => {
            let study = Study::new(&args.study)?;
            Folder::plan(&args.folder.folder, &study)?;
            output::print(&format!("{} runs\n", study.runs()))
        }
        SweepCommand::Run(args) => {
            let folder = Folder::open(&args.folder.folder)?;
            let runs = args.runs.iter().map(|number| folder.study().run(*number));
            // Reject a wrong number before the first run.
            for run in runs.collect::<anyhow::Result<Vec<_>>>()? {
                output::print(&format!("{run}: {}\n", folder.run(&run)?))?;
            }
            Ok(())
        }
        SweepCommand::Status(args) => status(args),
        SweepCommand::Hyperqueue(args) => {
            written(&hyperqueue::write(&Folder::open(&args.folder)?)?)
        }
        SweepCommand::Gather(args) => written(&Folder::open(&args.folder)?.gather()?),
    }
}

fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let folder = Folder::open(&args.folder.folder)?;
    let (runs, missing) = (folder.study().runs(), folder.missing());
    if args.missing {
        return output::print(
            &missing.iter().map(|number| format!("{number}\n")).collect::<String>(),
        );
    }
    let there = runs - missing.len() as u64;
    let status = serde_json::json!({ "runs": runs, "missing": missing });
    args.json.open()?.print(&status, || format!("{there} of {runs} runs have results\n"))
}

fn written(path: &std::path::Path) -> anyhow::Result<()> {
    output::print(&format!("{}\n", input::path(path)))
}
