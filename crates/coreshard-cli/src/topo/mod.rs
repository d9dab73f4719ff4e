//! `coreshard topo`: shows a machine and the pods of each affinity scope.

mod boxes;
mod svg;
mod table;
mod view;

use crate::common::{JsonArgs, MachineArgs, output, whole};
use view::View;

/// The options of `coreshard topo`.
#[derive(Debug, clap::Args)]
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
