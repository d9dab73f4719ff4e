//! The options that say which kernel is booted, on which machine, and with which command.

use std::path::PathBuf;
use std::time::Duration;

use super::boot::Boot;
use super::image;
use super::initramfs::{self, Contents};
use super::machine::Guest;
use super::modules;
use crate::common::{MachineArgs, bail_input, whole};

/// A kernel, its machine and its command.
#[derive(Debug, clap::Args)]
pub(super) struct GuestArgs {
    /// The kernel's image, such as /boot/vmlinuz-VERSION
    #[arg(long, value_name = "FILE")]
    pub(super) image: PathBuf,

    #[command(flatten)]
    machine: MachineArgs,

    /// Put this program into the guest's /bin, with the libraries it needs; may be given again
    #[arg(long, value_name = "FILE")]
    program: Vec<PathBuf>,

    /// Load this module before the command: a file, or a name below --modules, with parameters behind it
    /// ("null_blk nr_devices=2"); may be given again
    #[arg(long, value_name = "MODULE")]
    module: Vec<String>,

    /// The folder of the kernel's modules, such as /lib/modules/VERSION
    #[arg(long, value_name = "FOLDER")]
    modules: Option<PathBuf>,

    /// Further parameters of the kernel
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,

    /// The guest's memory in bytes; without it, 1 GiB and 48 MiB for each CPU
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    memory: Option<u64>,

    /// End the guest after this time, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    time_limit: u64,

    /// The command, and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required = true)]
    pub(super) command: Vec<String>,
}

/// From what a kernel boots with to what an emulated machine can have.
fn memory(text: &str) -> Result<u64, String> {
    whole::<u64, { 256 << 20 }, { 1 << 40 }>(text)
}

fn seconds(text: &str) -> Result<u64, String> {
    whole::<u64, 1, 31_536_000>(text)
}

impl GuestArgs {
    /// Returns the machine, ready for the emulator.
    pub(super) fn guest(&self) -> anyhow::Result<Guest> {
        if !self.machine.is_given() {
            bail_input!(
                "expected --machine, such as --machine grace or --machine \"pack:1 l3:2 core:8 pu:2\""
            );
        }
        Guest::of(&self.machine.read()?.whole, self.memory)
    }

    /// Assembles everything that is booted.
    pub(super) fn boot<'a>(
        &'a self,
        guest: &'a Guest,
        options: &[&str],
    ) -> anyhow::Result<Boot<'a>> {
        image::version(&self.image)?;
        let modules = modules::read(&self.module, self.modules.as_deref())?;
        let contents = Contents {
            programs: &self.program,
            modules: &modules,
            command: &self.command,
            options,
        };
        Ok(Boot {
            image: &self.image,
            guest,
            initramfs: initramfs::assemble(&contents)?,
            parameters: &self.append,
            limit: Duration::from_secs(self.time_limit),
            counts_instructions: false,
        })
    }
}
