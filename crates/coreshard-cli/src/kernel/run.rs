//! `coreshard kernel run`: boots a kernel and runs a command in it.

use std::process::{Command, ExitCode};

use super::boot::{self, Follower};
use super::channel::Channel;
use super::guest_args::GuestArgs;

const EXAMPLES: &str = "\
Examples:
  coreshard kernel run --image /boot/vmlinuz-6.12 --machine grace nproc
  coreshard kernel run --image vmlinuz --machine \"pack:2 numa:1 l3:1 core:8 pu:1\" \\
    --modules /lib/modules/6.12 --module \"null_blk nr_devices=1\" ./load";

/// The options of `coreshard kernel run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    guest: GuestArgs,
}

/// Takes no part.
struct Nothing;

impl Follower for Nothing {
    fn prepare(&mut self, _: &mut Command) -> anyhow::Result<()> {
        Ok(())
    }

    fn ready(&mut self, _: &Channel) -> anyhow::Result<()> {
        Ok(())
    }

    fn turn(&mut self, _: bool) -> anyhow::Result<bool> {
        Ok(false)
    }
}

/// Runs the subcommand; its status is the guest's command's.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let guest = args.guest.guest()?;
    let ready = args.guest.boot(&guest, &[])?;
    Ok(ExitCode::from(boot::boot(&ready, &mut Nothing)?))
}
