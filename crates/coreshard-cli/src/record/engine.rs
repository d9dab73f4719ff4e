//! The engines: small libraries in C, which the command carries as sources, and builds when they are first needed with the
//! compiler that is here.
//!
//! They lie in the user's cache folder, under a name made of their source and the compiler's flags, so that a new version of
//! the command never uses an old one's.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow, bail};

use crate::failure::bad_input;

const TSAN: &str = concat!(
    include_str!("../../../../recorders/common/spool.h"),
    include_str!("../../../../recorders/tsan/accesses.c"),
    include_str!("../../../../recorders/tsan/threads.c"),
    include_str!("../../../../recorders/tsan/memory.c"),
);

/// What sees a program's accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Engine {
    /// Calls that the compiler puts before each access; see --flags
    Tsan,
    /// QEMU's user emulation: any program as it is, much slower
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

/// A language that flags are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Language {
    /// For gcc; for clang, add -fno-sanitize-link-runtime
    C,
    /// For g++; for clang++, add -fno-sanitize-link-runtime
    #[value(name = "c++")]
    Cpp,
    /// For RUSTFLAGS of a nightly compiler, with -Zbuild-std where the standard library is to be seen, too
    Rust,
}

/// The flags for a language, in one line.
pub(super) fn flags(language: Language) -> anyhow::Result<String> {
    let library = built("coreshard_tsan", TSAN)?;
    let folder = library.parent().context("a file has a folder")?.display().to_string();
    Ok(match language {
        // -ltsan, which GCC adds by itself, finds ours first.
        Language::C | Language::Cpp => {
            format!("-g -fsanitize=thread -L{folder} -Wl,-rpath,{folder} -lcoreshard_tsan")
        }
        Language::Rust => format!(
            "-g -Zsanitizer=thread -Zexternal-clangrt -Cunsafe-allow-abi-mismatch=sanitizer \
             -Clink-arg=-L{folder} -Clink-arg=-Wl,-rpath,{folder} -Clink-arg=-Wl,--no-as-needed \
             -Clink-arg=-lcoreshard_tsan"
        ),
    })
}

/// The command that runs a program under an engine.
pub(super) fn command(engine: Engine, program: &[String]) -> anyhow::Result<Command> {
    match engine {
        Engine::Tsan => {
            let mut command = Command::new(&program[0]);
            command.args(&program[1..]);
            Ok(command)
        }
        Engine::Qemu => bail!("the engine qemu is not there yet"),
    }
}

/// The library of this name, built from this source where it was not yet.
fn built(name: &str, source: &str) -> anyhow::Result<PathBuf> {
    const FLAGS: [&str; 9] = [
        "-std=gnu11",
        "-O2",
        "-g",
        "-fPIC",
        "-shared",
        "-fno-builtin",
        "-fno-sanitize=all",
        "-ftls-model=initial-exec",
        "-pthread",
    ];
    let compiler =
        std::env::var("CC").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "cc".to_owned());
    let key = hash(&[source, &FLAGS.join(" "), &compiler, std::env::consts::ARCH]);
    let folder = cache()?.join(format!("recorders-{key:016x}"));
    let library = folder.join(format!("lib{name}.so"));
    if library.exists() {
        return Ok(library);
    }
    private_folder(&folder)?;
    // Built beside its place, so that nobody finds half of it.
    let half = folder.join(format!(".{}-{name}", std::process::id()));
    let mut compile = Command::new(&compiler)
        .args(FLAGS)
        .arg(format!("-Wl,-soname,lib{name}.so"))
        .args(["-x", "c", "-", "-o"])
        .arg(&half)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            anyhow!("{compiler}, which is to build the recorder, does not start: {error}")
        })?;
    if let Some(mut stdin) = compile.stdin.take() {
        stdin.write_all(source.as_bytes())?;
    }
    let done = compile.wait_with_output()?;
    if !done.status.success() {
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        bail!(
            "{compiler} did not build the recorder: {}",
            coreshard_topology::input::sentence(&told)
        );
    }
    fs::rename(&half, &library)?;
    if name == "coreshard_tsan" {
        // What GCC looks for by itself.
        match std::os::unix::fs::symlink(&library, folder.join("libtsan.so")) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error.into());
            }
            _ => {}
        }
    }
    Ok(library)
}

/// The user's folder for what can be made again.
fn cache() -> anyhow::Result<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let folder = folder
        .ok_or_else(|| bad_input(anyhow!("neither XDG_CACHE_HOME nor HOME names a folder")))?;
    Ok(folder.join("coreshard"))
}

/// Code is loaded from it: nobody else may write there.
fn private_folder(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot make {}", coreshard_topology::input::path(folder)))
}

/// Fowler, Noll and Vo's, 64 bits: the same in every version of the command.
fn hash(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
