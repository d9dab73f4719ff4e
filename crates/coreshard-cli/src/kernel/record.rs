//! `coreshard kernel record`: boots a kernel, runs a command in it, and records the kernel's memory accesses meanwhile.

use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use coreshard_topology::input;
use coreshard_trace::{
    About, Ending, GuestMemory, KERNEL_ENGINE, KernelNames, KernelSymbols, KernelTypes, Lack,
    RecordingWriter, Spool,
};

use super::boot::{self, Boot, Follower};
use super::channel::Channel;
use super::guest_args::GuestArgs;
use super::machine::Guest;
use super::{guest_file, image};
use crate::common::{Destination, ForceArgs, Growing, bad_input, bail_input, output, whole};
use crate::record::{library, slices};
use slices::{Slices, Windows};

const EXAMPLES: &str = "\
Examples:
  coreshard kernel record --image /boot/vmlinuz-6.12 --machine grace -o k.trace ./load
  coreshard replay k.trace --machine xeon-hcc-2s";

/// The options of `coreshard kernel record`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Where the recording goes
    #[arg(short, long, value_name = "FILE", default_value = "coreshard.trace")]
    output: PathBuf,

    /// Record between the marks that the program makes itself, and not all the time that it runs
    #[arg(long)]
    marked: bool,

    /// Largest size of the file, at least 64 MiB: when half of it is used, time slices are recorded, first a tenth of the time
    /// and then less; the guest runs on
    #[arg(long, value_name = "BYTES", default_value = "1073741824", value_parser = file_size)]
    max_size: u64,

    /// Largest memory for recording, at least 64 MiB; a CPU waits while all of it is used
    #[arg(long, value_name = "BYTES", default_value = "1073741824", value_parser = recording_memory)]
    max_memory: u64,

    /// The kernel's file with debug information (vmlinux), whose types replays use; without it they use the kernel's BTF
    #[arg(long, value_name = "FILE")]
    debug_file: Option<PathBuf>,

    #[command(flatten)]
    force: ForceArgs,

    #[command(flatten)]
    guest: GuestArgs,
}

fn recording_memory(text: &str) -> Result<u64, String> {
    whole::<u64, { Spool::LEAST_BYTES }, { Spool::MOST_BYTES }>(text)
}

/// Room in the file for names: a kernel's symbols and types have some 5 MiB when they are packed.
const NAMES_BYTES: u64 = 16 << 20;

fn file_size(text: &str) -> Result<u64, String> {
    whole::<u64, { 4 * NAMES_BYTES }, { 1 << 50 }>(text)
}

/// Where kernels for x86-64 map all memory, with four levels of page tables and without randomization.
const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;

/// Takes the guest's events, and writes them.
struct Recorder {
    spool: Spool,
    writer: RecordingWriter<BufWriter<Growing>>,
    slices: Slices,
    window: u32,
    most_bytes: u64,
    memory_bytes: u64,
    is_full: bool,
    raw_bytes: u64,
    begun: Instant,
    hooks: File,
    plugin: PathBuf,
    symbols: Option<KernelSymbols>,
    /// Types of the kernel and of its modules, by name.
    types: Vec<(String, Vec<u8>)>,
    names: KernelNames,
    /// A chunk of the emulator's own that cannot be read.
    damage: Option<String>,
}

impl Follower for Recorder {
    fn prepare(&mut self, command: &mut Command) -> anyhow::Result<()> {
        // A spool is for one process.
        self.spool = Spool::new(self.memory_bytes, self.most_bytes)
            .context("no memory for the guest's events")?;
        self.spool.set_window(self.window)?;
        command
            .arg("-plugin")
            .arg(&self.plugin)
            .env("CORESHARD_SPOOL", self.spool.path())
            .env("CORESHARD_HOOKS", guest_file::path(&self.hooks));
        Ok(())
    }

    fn ready(&mut self, channel: &Channel) -> anyhow::Result<()> {
        let files = channel.files()?;
        let text = files.iter().find(|(name, _)| name == "kallsyms");
        let text = text.map(|(_, content)| String::from_utf8_lossy(content)).unwrap_or_default();
        let symbols = KernelSymbols::parse(&text).map_err(|why| {
            bad_input(anyhow!(
                "{why}; a kernel with CONFIG_KALLSYMS_ALL is needed, as distributions' are"
            ))
        })?;
        write_hooks(&self.hooks, &symbols)?;
        self.symbols = Some(symbols);
        let types = files
            .into_iter()
            .filter_map(|(name, content)| Some((name.strip_prefix("btf/")?.to_owned(), content)));
        self.types = types.collect();
        self.begun = Instant::now();
        Ok(())
    }

    fn turn(&mut self, has_ended: bool) -> anyhow::Result<bool> {
        // Events in the spool will be written, and packed as well as those before them.
        let written = self.writer.written_bytes();
        let packed = (written as f64 / self.raw_bytes as f64).min(1.0);
        let waiting = (self.spool.waiting_bytes() as f64 * packed) as u64;
        let open = self.slices.window(self.begun.elapsed(), written + waiting);
        let wanted = if self.is_full { 0 } else { open };
        if wanted != self.window {
            self.window = wanted;
            self.spool.set_window(wanted)?;
        }
        let Self { spool, writer, is_full, most_bytes, raw_bytes, names, damage, .. } = self;
        let taken = spool.take(has_ended, |chunk| {
            let bytes = chunk.events.len() as u64;
            *is_full |= writer.written_bytes() + bytes > *most_bytes;
            *raw_bytes += bytes;
            if *is_full {
                return Ok(());
            }
            if let Err(error) = names.note(chunk.thread, chunk.events) {
                damage.get_or_insert_with(|| error.to_string());
            }
            writer.chunk(chunk.thread, chunk.order, chunk.events)
        });
        Ok(taken.context("cannot write the recording")? > 0)
    }
}

/// The first bytes of the plugin's table of functions; recorders/qemu/kernel.c has the same.
const HOOKS_MAGIC: u64 = 0x3153_4b4f_4f48_5343;
const MOST_HOOKS: usize = 4_096;
const HOOKS_BYTES: u64 = 24 + MOST_HOOKS as u64 * 24;

fn write_hooks(file: &File, symbols: &KernelSymbols) -> anyhow::Result<()> {
    let hooks = symbols.hooks();
    let hooks = &hooks[..hooks.len().min(MOST_HOOKS)];
    let words = hooks.iter().flat_map(|hook| [hook.start, hook.end, hook.kind.number()]);
    let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    file.write_all_at(&bytes, 24)?;
    file.write_all_at(&(hooks.len() as u64).to_ne_bytes(), 16)?;
    Ok(())
}

/// Runs the subcommand; its status is the guest's command's.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.force.apply();
    let place = Destination::open(&args.output)?;
    place.is_not(&args.guest.image)?;
    let debug_file = args.debug_file.as_deref().map(debug_file).transpose()?;
    let plugin = match boot::version_with_plugins()? {
        7..=8 => &library::KERNEL_1,
        _ => &library::KERNEL_2,
    };
    let plugin = library::built(plugin, &library::compiler())?;
    let guest = args.guest.guest()?;
    let options: &[&str] = if args.marked { &["symbols"] } else { &["symbols", "window"] };
    let counts_instructions = image::can_count_instructions(&image::version(&args.guest.image)?);
    if !counts_instructions {
        output::warn(
            "note: this kernel is older than 6.5, so its clock runs on while recording slows it down: more of what is \
             recorded are clock interrupts",
        );
    }
    let ready = Boot { counts_instructions, ..args.guest.boot(&guest, options)? };
    let hooks = guest_file::new("coreshard-hooks", HOOKS_BYTES)?;
    hooks.write_all_at(&HOOKS_MAGIC.to_ne_bytes(), 0)?;
    hooks.write_all_at(&DIRECT_MAP.to_ne_bytes(), 8)?;
    let about = About {
        command: args.guest.command.iter().map(|word| input::plain(word)).take(100).collect(),
        engine: KERNEL_ENGINE.to_owned(),
        architecture: "x86_64".to_owned(),
        counts_instructions: true,
        ..About::default()
    };
    let file = BufWriter::with_capacity(1 << 20, place.grow()?);
    let writer = RecordingWriter::new(file, &about).context("cannot write the recording")?;
    let windows = Windows { from_ms: 0, to_ms: None, sample_ms: None };
    let most_bytes = args.max_size - NAMES_BYTES;
    let mut recorder = Recorder {
        spool: Spool::new(args.max_memory, most_bytes)
            .context("no memory for the guest's events")?,
        writer,
        slices: Slices::new(windows, most_bytes),
        window: 0,
        most_bytes,
        memory_bytes: args.max_memory,
        is_full: false,
        raw_bytes: 0,
        begun: Instant::now(),
        hooks,
        plugin,
        symbols: None,
        types: Vec::new(),
        names: KernelNames::default(),
        damage: None,
    };
    let status = boot::boot(&ready, &mut recorder)
        .inspect_err(|_| output::warn("note: no recording was written"))?;
    let ran = recorder.begun.elapsed();
    recorder.put_names(&guest, debug_file)?;
    finish(recorder, args.marked, status, ran)?;
    Ok(ExitCode::from(status))
}

/// The whole path of the kernel's file with debug information.
fn debug_file(path: &Path) -> anyhow::Result<String> {
    let head = input::head_bytes(path, 4).map_err(bad_input)?;
    if head != b"\x7fELF" {
        bail_input!(
            "{}: expected an ELF file with debug information, such as vmlinux",
            input::path(path)
        );
    }
    Ok(std::fs::canonicalize(path)?.to_string_lossy().into_owned())
}

impl Recorder {
    /// Names what was recorded, from the guest's memory.
    fn put_names(&mut self, guest: &Guest, debug_file: Option<String>) -> anyhow::Result<()> {
        let Some(symbols) = &self.symbols else { return Ok(()) };
        let file = |(bytes, file): &(u64, File)| Ok((*bytes, file.try_clone()?));
        let parts: anyhow::Result<_> = guest.memory.iter().map(file).collect();
        let memory = GuestMemory::new(parts?, symbols).map_err(|why| bad_input(anyhow!(why)))?;
        let kernel = self.types.iter().position(|(name, _)| name == "vmlinux");
        let kernel = kernel.map(|at| self.types.swap_remove(at).1);
        let types = kernel.as_ref();
        let types = types.map(|kernel| KernelTypes { kernel, modules: &self.types });
        let named = self.names.name(&memory, symbols, types, guest.cpus, debug_file.as_deref());
        for note in &named.notes {
            output::warn(&format!("note: {note}"));
        }
        if let Some(damage) = &self.damage {
            output::warn(&format!("note: a part of the recording is damaged: {damage}"));
        }
        for (order, part) in named.file.iter().enumerate() {
            self.writer.names(order as u32, part).context("cannot write the recording")?;
        }
        // Behind all that the first CPU did.
        self.writer.chunk(1, u32::MAX, &named.chunk).context("cannot write the recording")
    }
}

fn finish(recorder: Recorder, is_marked: bool, status: u8, ran: Duration) -> anyhow::Result<()> {
    let counts = recorder.spool.counts()?;
    if counts.process == 0 {
        bail_input!("the recorder was not loaded into the emulator, so nothing was recorded");
    }
    let mut lacks: Vec<Lack> = is_marked.then_some(Lack::Windows).into_iter().collect();
    let most_bytes = recorder.most_bytes + NAMES_BYTES;
    lacks.extend(recorder.is_full.then_some(Lack::Size { most_bytes }));
    let (events, threads) = (counts.events_lost, u64::from(counts.threads_lost));
    lacks.extend((events > 0).then_some(Lack::Events { count: events }));
    lacks.extend((threads > 0).then_some(Lack::Threads { count: threads }));
    lacks.extend(recorder.slices.lack(ran));
    if is_marked && recorder.raw_bytes == 0 {
        output::warn(
            "note: the command made no mark, so nothing was recorded; without --marked, all its time is recorded",
        );
    }
    for lack in lacks.iter().filter(|lack| **lack != Lack::Windows) {
        output::warn(&format!("note: the recording lacks {lack}"));
    }
    let ending = Ending {
        status: i32::from(status),
        ran_ms: ran.as_millis() as u64,
        lacks,
        ..Ending::default()
    };
    let out = recorder.writer.finish(&ending).context("cannot write the recording")?;
    let file = out.into_inner().map_err(|error| error.into_error());
    file.context("cannot write the recording")?.finish()?;
    Ok(())
}
