//! `coreshard replay`: replays a recording on a simulated machine.

mod page;
mod picture;
mod table;
mod verdict;

pub(crate) use table::time;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::common::{JsonArgs, MachineArgs, bad_input, bail_input, few, output, shell_word};
use anyhow::anyhow;
use coreshard_sim::{Machine, Placement};
use coreshard_topology::{CpuSet, input};
use coreshard_trace::{EarlyUnlock, Recording, ReplayOptions, replay};

/// The placement of a recording's threads on a machine, for all commands that replay.
#[derive(Debug, clap::Args)]
pub(crate) struct PlacementArgs {
    /// CPUs of the threads: spread (as far apart as possible), compact, or a list such as 0-7,64
    #[arg(long, value_name = "PLACEMENT", default_value = "spread", value_parser = placement)]
    placement: Placement,

    /// Number of threads that share a CPU
    #[arg(long, value_name = "N", default_value = "1", value_parser = few)]
    threads_per_cpu: NonZeroUsize,
}

impl PlacementArgs {
    /// Formats the options that are not the default ones.
    fn again(&self) -> String {
        let placement = match &self.placement {
            Placement::Spread => String::new(),
            Placement::Compact => " --placement compact".to_owned(),
            Placement::List(list) => {
                let cpus: Vec<_> = list.iter().map(|cpu| cpu.0.to_string()).collect();
                format!(" --placement {}", cpus.join(","))
            }
        };
        match self.threads_per_cpu.get() {
            1 => placement,
            threads => format!("{placement} --threads-per-cpu {threads}"),
        }
    }

    /// Returns the options for a machine, which must have all listed CPUs.
    pub(crate) fn options_on(
        &self,
        machine: &Machine,
        most_lines: usize,
    ) -> anyhow::Result<ReplayOptions> {
        let cpus = machine.topology().cpus();
        if let Placement::List(list) = &self.placement
            && let Some(missing) = list.iter().find(|id| cpus.iter().all(|cpu| cpu.id != **id))
        {
            bail_input!(
                "invalid --placement: {} has no CPU {}",
                machine.topology().name(),
                missing.0
            );
        }
        Ok(ReplayOptions {
            placement: self.placement.clone(),
            threads_per_cpu: self.threads_per_cpu.get(),
            most_lines,
            ..ReplayOptions::default()
        })
    }
}

fn placement(text: &str) -> Result<Placement, String> {
    match text {
        "spread" => Ok(Placement::Spread),
        "compact" => Ok(Placement::Compact),
        list => match list.parse::<CpuSet>() {
            Ok(cpus) if !cpus.is_empty() => Ok(Placement::List(cpus.iter().collect())),
            _ => Err("expected spread, compact or a list of CPUs such as 0-7,64".to_owned()),
        },
    }
}

/// The default number of lines.
const LINES: usize = 10;

/// The options of `coreshard replay`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("machine", |machine| machine.required(true)))]
pub(crate) struct Args {
    /// Recording to replay
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    placement: PlacementArgs,

    /// Number of lines to show, the costliest first [default: 10, except lines that cost less than a hundredth of the
    /// first]
    #[arg(long, value_name = "N", value_parser = few)]
    lines: Option<NonZeroUsize>,

    /// Show each line's words in the columns of `coreshard c2c`
    #[arg(long)]
    c2c: bool,

    /// Predict the effect of a field on its own line; [] is any index; may be repeated: cpupri.pri_to_cpu[].mask
    #[arg(long, value_name = "FIELD")]
    apart: Vec<String>,

    /// Release the locks in an object before a function is called: worker_pool:try_to_wake_up
    #[arg(long, value_name = "OBJECT:FUNCTION", value_parser = early_unlock)]
    unlock_before: Option<EarlyUnlock>,

    #[command(flatten)]
    json: JsonArgs,

    /// Write an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Draw each object of the verdict: its costliest line now and with the best layout, coloured by thread
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Args {
    /// Formats the machine and the placement as options.
    fn options_again(&self) -> String {
        format!(" --machine {}{}", shell_word(self.machine.name()), self.placement.again())
    }
}

fn early_unlock(text: &str) -> Result<EarlyUnlock, String> {
    match text.split_once(':') {
        Some((object, function)) if !object.is_empty() && !function.is_empty() => {
            Ok(EarlyUnlock { object: object.to_owned(), function: function.to_owned() })
        }
        _ => {
            Err("expected an object and a function, such as worker_pool:try_to_wake_up".to_owned())
        }
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let machine = args.machine.must_be_simulated()?;
    let recording = open(&args.file)?;
    let others = [args.html.as_deref(), args.svg.as_deref()];
    let (json, [html, svg]) = args.json.open_beside(others)?;
    json.is_not(&args.file)?;
    [&html, &svg].into_iter().flatten().try_for_each(|other| other.is_not(&args.file))?;
    let (threads, cpus) = (recording.threads().len(), machine.topology().cpus().len());
    if threads > cpus * args.placement.threads_per_cpu.get() {
        output::warn(&format!("note: {threads} threads share {cpus} CPUs"));
    }
    let most_lines = args.lines.map_or(LINES, NonZeroUsize::get);
    let mut options = args.placement.options_on(&machine, most_lines)?;
    options.early_unlock.clone_from(&args.unlock_before);
    options.apart.clone_from(&args.apart);
    let report = replay(&recording, &machine, &options)
        .map_err(|error| bad_input(anyhow!("{}: {error}", input::path(&args.file))))?;
    let unknown = report.apart.iter().flat_map(|its| &its.unknown);
    let unknown: Vec<_> = unknown.map(|field| input::quoted(field).to_string()).collect();
    if !unknown.is_empty() {
        bail_input!(
            "invalid --apart {}: expected fields of objects on the costliest lines",
            unknown.join(", ")
        );
    }
    if let Some(file) = html {
        file.write(|out| out.write_all(page::page(&report, &recording).as_bytes()))?;
    }
    match (svg, picture::picture(&report)) {
        (Some(file), Some(drawn)) => file.write(|out| out.write_all(drawn.as_bytes()))?,
        (Some(_), None) => output::warn("note: no object to draw, so --svg writes no file"),
        (None, _) => {}
    }
    let next = verdict::next_command(&report, &args.file, &args.options_again());
    let shown = table::Shown { is_c2c: args.c2c, all_lines: args.lines.is_some() };
    json.print(&report, || {
        let mut lines = verdict::verdict(&report, &recording);
        lines.extend(next.map(|command| format!("next: {command}")));
        lines.join("\n") + "\n\n" + &table::report(&report, &recording, shown)
    })
}

/// Opens a recording.
pub(crate) fn open(path: &Path) -> anyhow::Result<Recording> {
    Recording::open(path).map_err(|error| bad_input(anyhow!("{}: {error}", input::path(path))))
}
