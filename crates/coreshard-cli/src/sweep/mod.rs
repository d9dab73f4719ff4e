//! `coreshard sweep`: a study of many simulated runs, for an engine that a site has. There is no scheduler here.
//!
//! A folder has the study and a file for each run that is over. A run is told by its number alone, and a file appears under
//! its name when it is whole: so any engine may run any of them in any order, twice too, and one that is killed is run again.

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
In Python, coreshard.sweep.with_dask(\"study\", client) runs it on Dask's workers.";

/// The options of `coreshard sweep`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: SweepCommand,
}

#[derive(Debug, Subcommand)]
enum SweepCommand {
    /// Make a study's folder: its runs are machines × scopes × shard sizes × wake-ups × intakes × seeds
    Plan(Box<PlanArgs>),
    /// Run some of a study's runs, unless they have their results: what each job of an engine calls
    Run(RunArgs),
    /// Tell how many runs have their results, and which are missing
    Status(StatusArgs),
    /// Write jobs.toml, a job file of HyperQueue with a task for each run that is missing
    Hyperqueue(FolderArgs),
    /// Write results.jsonl, a line for each run, in the study's order, once all have their results
    Gather(FolderArgs),
}

#[derive(Debug, clap::Args)]
struct FolderArgs {
    /// The study's folder
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

    /// Numbers of runs, from 0 on
    #[arg(required = true, value_name = "RUN", value_parser = whole::<u64, 0, { study::MOST_RUNS }>)]
    runs: Vec<u64>,
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    #[command(flatten)]
    folder: FolderArgs,

    /// Print the numbers of the missing runs alone, one a line
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
            // A wrong number among them is found before the first is run.
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
    args.json.open()?.print(&status, || format!("{there} of {runs} runs have their results\n"))
}

fn written(path: &std::path::Path) -> anyhow::Result<()> {
    output::print(&format!("{}\n", input::path(path)))
}
