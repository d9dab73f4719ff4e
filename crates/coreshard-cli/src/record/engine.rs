//! The engines, which observe a program's accesses, and the commands that run a program with them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use coreshard_topology::input;
use coreshard_trace::ProgramFile;

use super::library::{self, Library};
use crate::common::{bad_input, bail_input, output};

/// An engine that observes a program's accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Engine {
    /// Calls that the compiler inserts before each access; see --flags
    Tsan,
    /// QEMU's user emulation, for unmodified programs; much slower
    Qemu,
}

impl Engine {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tsan => "tsan",
            Self::Qemu => "qemu",
        }
    }
}

/// A language with compiler flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Language {
    /// gcc; with clang, add -fno-sanitize-link-runtime
    C,
    /// g++; with clang++, add -fno-sanitize-link-runtime
    #[value(name = "c++")]
    Cpp,
    /// RUSTFLAGS for a nightly compiler; add -Zbuild-std to also record the standard library
    Rust,
}

/// Returns the flags for a language in one line.
pub(super) fn flags(language: Language) -> anyhow::Result<String> {
    let library = library::built(&library::TSAN, &library::compiler())?;
    let folder = library.parent().context("a file has a folder")?.display().to_string();
    Ok(match language {
        // GCC adds -ltsan, for which it finds our library first.
        Language::C | Language::Cpp => {
            format!("-g -fsanitize=thread -L{folder} -Wl,-rpath,{folder} -lcoreshard_tsan")
        }
        // It must come first. Functions of libraries linked before it would be called instead.
        Language::Rust => format!(
            "-g -Cstrip=none -Zsanitizer=thread -Zexternal-clangrt -Cunsafe-allow-abi-mismatch=sanitizer \
             -Zpre-link-arg=-L{folder} -Zpre-link-arg=-Wl,-rpath,{folder} -Zpre-link-arg=-Wl,--no-as-needed \
             -Zpre-link-arg=-lcoreshard_tsan"
        ),
    })
}

/// Returns the requested engine, or else the one that the program was built for.
pub(super) fn chosen(asked: Option<Engine>, program: &[String]) -> anyhow::Result<Engine> {
    if let Some(engine) = asked {
        return Ok(engine);
    }
    let kind = kind_of(&found_or_error(&program[0])?)?;
    if kind.is_built_for_recording() {
        return Ok(Engine::Tsan);
    }
    let (name, emulator) = (input::quoted(&program[0]), emulator_of(&kind));
    if let Err(error) = plugin_for(&emulator) {
        return Err(bad_input(anyhow!(
            "{name} was not built for recording, and cannot be emulated: {error:#}; install QEMU, or compile the program with \
             the flags that coreshard record --flags prints"
        )));
    }
    output::warn(&format!(
        "note: {name} was not built for recording (coreshard record --flags), so it is emulated, which is slower"
    ));
    Ok(Engine::Qemu)
}

pub(super) fn found_or_error(program: &str) -> anyhow::Result<PathBuf> {
    let absent = || anyhow!("cannot find the program {}, also not in PATH", input::quoted(program));
    found(program).ok_or_else(|| bad_input(absent()))
}

pub(super) fn kind_of(path: &Path) -> anyhow::Result<ProgramFile> {
    ProgramFile::open(path).map_err(|error| {
        bad_input(anyhow!(
            "{error}; of a script, name the program that interprets it, or give --engine tsan if it starts a program that was \
             built for recording"
        ))
    })
}

fn emulator_of(program: &ProgramFile) -> String {
    format!("qemu-{}", program.architecture())
}

/// A program with its recorder.
pub(super) struct RecordedCommand {
    pub(super) command: Command,
    /// The architecture of the program.
    pub(super) architecture: &'static str,
}

/// Returns the command that runs a program with an engine.
pub(super) fn command(engine: Engine, program: &[String]) -> anyhow::Result<RecordedCommand> {
    match engine {
        Engine::Tsan => {
            let mut command = Command::new(&program[0]);
            command.args(&program[1..]);
            Ok(RecordedCommand { command, architecture: std::env::consts::ARCH })
        }
        Engine::Qemu => emulated(program),
    }
}

/// Returns the command that runs a program in QEMU's user emulation with our plugin and, if it can be built, the
/// library in the emulated program.
fn emulated(program: &[String]) -> anyhow::Result<RecordedCommand> {
    let path = found_or_error(&program[0])?;
    let kind = kind_of(&path)?;
    let (architecture, emulator) = (kind.architecture(), emulator_of(&kind));
    let plugin = library::built(plugin_for(&emulator)?, &library::compiler())?;
    let mut command = Command::new(&emulator);
    command.arg("-plugin").arg(plugin);
    // Child processes of the program must not use the spool.
    command.args(["-U", "CORESHARD_SPOOL"]);
    let is_ours = architecture == std::env::consts::ARCH;
    let system = PathBuf::from(format!("/usr/{architecture}-linux-gnu"));
    if !is_ours && std::env::var_os("QEMU_LD_PREFIX").is_none() && system.is_dir() {
        command.arg("-L").arg(system);
    }
    if kind.is_dynamic() {
        let compiler = match is_ours {
            true => library::compiler(),
            false => format!("{architecture}-linux-gnu-gcc"),
        };
        match library::built(&library::GUEST, &compiler) {
            Ok(guest) => {
                let before = std::env::var("LD_PRELOAD").unwrap_or_default();
                let all = format!("LD_PRELOAD={}:{before}", guest.display());
                command.arg("-E").arg(all.trim_end_matches(':'));
            }
            Err(error) => output::warn(&format!("note: {error:#}")),
        }
    }
    command.arg(path).args(&program[1..]);
    Ok(RecordedCommand { command, architecture })
}

/// Returns the plugin for the installed version of QEMU. Version 9 changed the interface for an instruction's bytes.
fn plugin_for(emulator: &str) -> anyhow::Result<&'static Library> {
    let told = Command::new(emulator).arg("--version").output().map_err(|error| {
        bad_input(anyhow!(
            "{emulator} does not start: {error}; in Debian it is in the package qemu-user (apt-get install qemu-user)"
        ))
    })?;
    let help = Command::new(emulator).arg("--help").output().map(|help| help.stdout);
    if !String::from_utf8_lossy(&help.unwrap_or_default()).contains("-plugin") {
        bail_input!(
            "{emulator} is built without plugins, as Debian's is from release 13 on; one built with --enable-plugins is needed \
             in PATH, or the other engine"
        );
    }
    let told = String::from_utf8_lossy(&told.stdout);
    let major = told.split("version ").nth(1).and_then(|rest| rest.split('.').next()?.parse().ok());
    match major {
        Some(0..=6) | None => bail!(
            "unknown version of {emulator}: {}; expected version 7 or later, with plugins",
            input::quoted(told.lines().next().unwrap_or_default())
        ),
        Some(7..=8) => Ok(&library::PLUGIN_1),
        Some(9u32..) => Ok(&library::PLUGIN_2),
    }
}

/// Returns the file that a shell would run for this name.
pub(super) fn found(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).is_file().then(|| PathBuf::from(name));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}
