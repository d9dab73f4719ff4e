//! Boots a guest: starts the emulator, prints its console, follows its states, and returns its command's status.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use coreshard_platform::ends_with_parent;
use coreshard_topology::input;
use rustix::process::{Pid, Signal, kill_process};

use super::channel::{Channel, GuestState};
use super::guest_file;
use super::machine::Guest;
use crate::common::{
    bad_input, bail_input, interrupted, listen_for_interrupts, output, was_interrupted,
};

/// The emulator, from Debian's package qemu-system-x86.
pub(super) const EMULATOR: &str = "qemu-system-x86_64";

/// Parameters of every kernel that is booted. Without `lpj`, more virtual CPUs than real ones measure their delay loops for
/// minutes. Without `tsc=reliable`, the kernel finds that their clocks differ, and reads one that all share. Without
/// `nokaslr`, symbols would have other addresses in each boot. Without `slab_nomerge`, caches of objects of equal size are
/// one, with the name of the first.
const PARAMETERS: &str = "console=ttyS0 panic=-1 quiet lpj=10000000 tsc=reliable nokaslr nowatchdog nosoftlockup \
                          mitigations=off slab_nomerge rcupdate.rcu_cpu_stall_suppress=1";
/// Makes the guest's clock count instructions, 8 ns each, and skip the time in which all CPUs are idle. Otherwise recording
/// slows a guest down a hundredfold while its clock goes on, and most of what it does is to serve the clock's interrupts.
const INSTRUCTION_CLOCK: &str = "shift=3,sleep=off";
/// Boots of a kernel that panics each time.
const MOST_BOOTS: u32 = 3;
/// How often a guest's state is looked at.
const PAUSE: Duration = Duration::from_millis(2);
/// How long the emulator may take to end after the guest's command.
const LAST_SECONDS: u64 = 60;
/// Of a line of the console.
const MOST_LINE_BYTES: u64 = 1 << 16;

/// A guest, ready to be booted.
#[derive(Debug)]
pub(super) struct Boot<'a> {
    pub(super) image: &'a Path,
    pub(super) guest: &'a Guest,
    pub(super) initramfs: Vec<u8>,
    /// Further parameters of the kernel.
    pub(super) parameters: &'a str,
    /// How long the guest may run.
    pub(super) limit: Duration,
    /// Whether the guest's clock counts instructions. All virtual CPUs then have one thread.
    pub(super) counts_instructions: bool,
}

/// What takes part while a guest runs.
pub(super) trait Follower {
    /// Adds to the emulator's command.
    fn prepare(&mut self, command: &mut Command) -> anyhow::Result<()>;
    /// The guest is up, and its command has not begun.
    fn ready(&mut self, channel: &Channel) -> anyhow::Result<()>;
    /// Is called again and again; returns false if there was nothing to do.
    fn turn(&mut self, has_ended: bool) -> anyhow::Result<bool>;
}

/// Ends the emulator with the command.
struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The console's lines that matter later.
#[derive(Debug, Default)]
struct Said {
    panic: Option<String>,
    /// The last line.
    last: String,
}

/// How a boot ended.
enum Outcome {
    /// The command has ended, with this status.
    Status(u8),
    /// The kernel panicked before the command began.
    EarlyPanic(String),
}

/// Boots the guest, and returns its command's status.
///
/// Kernels panicked now and then while they booted in an emulator with several threads (see [`threads_of`]). So a kernel that
/// panics before the command begins is booted again.
pub(super) fn boot(boot: &Boot<'_>, follower: &mut dyn Follower) -> anyhow::Result<u8> {
    listen_for_interrupts()?;
    let threads = if boot.counts_instructions { SINGLE } else { threads_of(version()?) };
    for left in (0..MOST_BOOTS).rev() {
        match once(boot, threads, follower)? {
            Outcome::Status(status) => return Ok(status),
            Outcome::EarlyPanic(panic) if left > 0 => output::warn(&format!(
                "note: the kernel panicked while it booted ({}), so it is booted again",
                input::sentence(&panic)
            )),
            Outcome::EarlyPanic(panic) => bail_input!(
                "the kernel panicked while it booted, {MOST_BOOTS} times; the last time: {}",
                input::sentence(&panic)
            ),
        }
    }
    unreachable!("the last boot returns");
}

fn once(boot: &Boot<'_>, threads: &str, follower: &mut dyn Follower) -> anyhow::Result<Outcome> {
    boot.guest.clear_memory()?;
    let channel = Channel::new()?;
    let initramfs = guest_file::with("coreshard-initramfs", &boot.initramfs)?;
    let mut command = Command::new(EMULATOR);
    command
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
        .args(["-accel", threads, "-cpu", "max,vendor=GenuineIntel,l3-cache=on,la57=off"])
        .args(["-machine", &boot.guest.machine_option()])
        .args(boot.guest.options())
        .args(channel.options())
        .args(["-serial", "stdio"])
        .arg("-kernel")
        .arg(boot.image)
        .args(["-initrd", &guest_file::path(&initramfs)])
        .args(["-append", format!("{PARAMETERS} {}", boot.parameters).trim_end()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C is for this command, which then ends the emulator.
        .process_group(0);
    if boot.counts_instructions {
        command.args(["-icount", INSTRUCTION_CLOCK]);
    }
    follower.prepare(&mut command)?;
    // SIGKILL and a second Ctrl-C end this command without its destructors.
    ends_with_parent(&mut command);
    let mut child = Emulator(command.spawn().map_err(|error| absent(&error))?);
    let said = Arc::new(Mutex::new(Said::default()));
    let console = child.0.stdout.take().map(|out| print_console(out, Arc::clone(&said)));
    let errors = child.0.stderr.take().map(|err| std::thread::spawn(move || first_words(err)));
    let begun = Instant::now();
    let mut has_ended_since = None;
    let mut is_ready = false;
    let status = loop {
        if was_interrupted() {
            return Err(interrupted("the guest was ended"));
        }
        let state = channel.state()?;
        if state == GuestState::Ready && !is_ready {
            is_ready = true;
            follower.ready(&channel)?;
            channel.go()?;
        }
        let is_busy = follower.turn(false)?;
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        if matches!(state, GuestState::Ended | GuestState::Failed) {
            let is_new = has_ended_since.is_none();
            let since = *has_ended_since.get_or_insert_with(Instant::now);
            if is_new && state == GuestState::Ended {
                // The emulator stops the guest, and the recorder gives its last events.
                kill_process(Pid::from_child(&child.0), Signal::TERM)?;
            } else if since.elapsed().as_secs() > LAST_SECONDS {
                child.0.kill()?;
            }
        } else if begun.elapsed() > boot.limit {
            let state = match state {
                GuestState::Booting | GuestState::Begun => "did not come up",
                _ => "did not end",
            };
            bail_input!(
                "the guest {state} within {} s; a longer time can be given with --time-limit",
                boot.limit.as_secs()
            );
        }
        if !is_busy {
            std::thread::sleep(PAUSE);
        }
    };
    while follower.turn(true)? {}
    if let Some(console) = console {
        let _ = console.join();
    }
    let errors = errors.and_then(|errors| errors.join().ok()).unwrap_or_default();
    let said = said.lock().unwrap_or_else(PoisonError::into_inner);
    match channel.state()? {
        GuestState::Ended => Ok(Outcome::Status(channel.status()?)),
        GuestState::Failed => Err(bad_input(anyhow!("in the guest: {}", channel.failure()?))),
        state => {
            let is_early = matches!(state, GuestState::Booting | GuestState::Begun);
            match said.panic.clone() {
                Some(panic) if is_early => return Ok(Outcome::EarlyPanic(panic)),
                Some(panic) => bail_input!("the kernel panicked: {}", input::sentence(&panic)),
                None => {}
            }
            let why = match errors.trim() {
                "" => input::sentence(&said.last),
                errors => input::sentence(errors),
            };
            let why = if why.is_empty() { "it printed nothing; is the image whole?" } else { &why };
            bail_input!("{EMULATOR} ended ({status}) before the command did: {why}")
        }
    }
}

/// Reads everything, so that the emulator never waits, and returns the first part of it.
fn first_words(mut from: impl Read) -> String {
    let mut first = Vec::new();
    // The emulator's end ends both.
    let _ = std::io::copy(&mut from.by_ref().take(MOST_LINE_BYTES), &mut first);
    let _ = std::io::copy(&mut from, &mut std::io::sink());
    String::from_utf8_lossy(&first).replace('\n', " ")
}

/// Prints the console line by line, and notes a panic.
fn print_console(out: impl Read + Send + 'static, said: Arc<Mutex<Said>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut out = BufReader::new(out);
        let mut line = Vec::new();
        loop {
            line.clear();
            match out.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line).replace('\r', "");
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, what)) = text.split_once("Kernel panic - not syncing: ") {
                said.panic.get_or_insert_with(|| what.trim().to_owned());
            }
            if !text.trim().is_empty() {
                said.last = text.trim().to_owned();
            }
            // The kernel's last word says nothing of the command. A closed pipe does not end the guest.
            if !text.contains("] reboot: Power down") {
                let _ = output::print(&text);
            }
        }
    })
}

fn absent(error: &std::io::Error) -> anyhow::Error {
    bad_input(anyhow!(
        "{EMULATOR} does not start: {error}; in Debian it is in the package qemu-system-x86 (apt-get install qemu-system-x86)"
    ))
}

/// In version 7.2 with a thread for each virtual CPU, three boots ended in a panic (`int3`). The likely cause, not proven: a
/// CPU ran an instruction that another one had just replaced. With one thread for all, none did. That takes about as long if
/// there are more virtual CPUs than real ones.
const fn threads_of(version: u32) -> &'static str {
    if version < 9 { SINGLE } else { "tcg,thread=multi" }
}

const SINGLE: &str = "tcg,thread=single";

/// Returns the emulator's major version.
///
/// # Errors
/// If it is absent or too old.
fn version() -> anyhow::Result<u32> {
    let told = Command::new(EMULATOR).arg("--version").stdin(Stdio::null()).output();
    let told = told.map_err(|error| absent(&error))?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let major = text.split("version ").nth(1).and_then(|rest| rest.split('.').next()?.parse().ok());
    let major = major.filter(|major| *major >= 7).with_context(|| {
        let line = input::quoted(text.lines().next().unwrap_or_default()).to_string();
        format!("{EMULATOR} says {line}; version 7 or later is needed")
    });
    major.map_err(bad_input)
}

/// Returns the emulator's major version.
///
/// # Errors
/// If it is absent or too old, or cannot load plugins.
pub(super) fn version_with_plugins() -> anyhow::Result<u32> {
    let major = version()?;
    let help = Command::new(EMULATOR).arg("--help").stdin(Stdio::null()).output()?;
    if !String::from_utf8_lossy(&help.stdout).contains("-plugin") {
        bail_input!(
            "{EMULATOR} is built without plugins; one built with --enable-plugins is needed"
        );
    }
    Ok(major)
}
