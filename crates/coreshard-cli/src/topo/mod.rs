//! `coreshard topo`: shows a machine and the pods of each affinity scope.

mod boxes;
mod svg;
mod table;
mod view;

use crate::common::{JsonArgs, MachineArgs, output, whole};
use view::View;

/// Explains `--machine`, which many commands have.
const NOTES: &str = "\
--machine, in any command, takes one of:
  a preset       such as grace, epyc-9654-2s, or pocket, a small machine
  a description  in hwloc's syntax: \"pack:2 numa:1 l3:1 core:8 pu:2\"
  a file         .toml of coreshard calibrate, or .xml of lstopo
  a folder       with the sys folder, and optionally the proc folder, of a
                 recorded machine
Without it, most commands use this machine. Benchmarks simulate the machine,
except that bench queue lays it over the real CPUs unless --sim is given.";

/// The options of `coreshard topo`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    #[command(flatten)]
    machine: MachineArgs,

    /// Target number of cores in a cache shard [default: 8]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = whole::<usize, 1, 65_536>)]
    shard_size: Option<usize>,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Text
    Table,
    /// A drawing
    Svg,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let view = View::new(args.machine.read()?, args.shard_size)?;
    if args.json.is_stdout() || args.format != Format::Table {
        for note in &view.notes {
            output::warn(&format!("note: {note}"));
        }
    }
    let text = || match args.format {
        Format::Table => table::render(&view, output::columns()),
        Format::Svg => svg::render(&view),
    };
    args.json.open()?.print(&view.json(), text)
}
