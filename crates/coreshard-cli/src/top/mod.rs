//! `coreshard top`: a running process's queues and pools.

mod fit;
mod rates;
mod screen;
mod sheets;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use coreshard::insight::{InsightClient, Snapshot};
use terminal_size::{Width, terminal_size};

use crate::common::{JsonArgs, bail_input, whole};
use rates::Rates;
use screen::Screen;

/// Keys and columns; shown after the options.
const NOTES: &str = "\
The process must call coreshard::serve_insight() (feature `insight` of the crate
coreshard). Only the user who runs the process can connect.

Keys: q quit, Tab other table, Left/Right sort by another column, r reverse,
Up/Down scroll, p pause, ? describe the columns

Examples:
  coreshard top 4711                    a screen, refreshed every second
  coreshard top 4711 --once --json      one snapshot for a script";

/// The arguments of `coreshard top`.
#[derive(Debug, ClapArgs)]
#[command(after_help = NOTES, mut_arg("json", |json| json.requires("once")))]
pub(crate) struct Args {
    /// Process ID
    #[arg(value_name = "PID", required_unless_present = "socket", conflicts_with = "socket",
          value_parser = process)]
    pid: Option<u32>,

    /// Socket that the process serves, if not the default one
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Seconds between updates
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// Column to sort tables by, largest first
    #[arg(long, value_name = "COLUMN", value_parser = sheets::column)]
    sort: Option<&'static str>,

    /// Print once and exit; without rates, which need two readings
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    json: JsonArgs,
}

fn process(text: &str) -> Result<u32, String> {
    whole::<u32, 1, { u32::MAX as u64 }>(text)
        .map_err(|_| format!("expected a process ID from 1 to {}", u32::MAX))
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("expected 0.1 to 3600 seconds".to_owned())
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let client = match (&args.socket, args.pid) {
        (Some(path), _) => InsightClient::at(path),
        (None, Some(pid)) => InsightClient::of_process(pid)?,
        (None, None) => unreachable!("clap requires one of the two"),
    };
    let first = client.snapshot()?;
    if args.once {
        return args.json.open()?.print(&first, || text(args, &first));
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        bail_input!(
            "standard input or output is not a terminal: use --once, or --once --json in scripts"
        );
    }
    screen::run(&client, Screen::new(first, args.interval, args.sort))
}

fn text(args: &Args, snapshot: &Snapshot) -> String {
    // Files and pipes have no width.
    let width = terminal_size().map_or(usize::MAX, |(Width(columns), _)| usize::from(columns));
    let mut text = sheets::head(snapshot) + "\n";
    for mut sheet in sheets::of(snapshot, &Rates::unknown()) {
        sheet.sort_by(args.sort.unwrap_or(sheet.usual_order), true);
        text.push('\n');
        for line in sheet.lines(width, None) {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}
