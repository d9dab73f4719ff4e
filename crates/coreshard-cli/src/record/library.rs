//! The recorders: small C libraries that the command embeds as sources and builds on first use with the installed
//! compiler.
//!
//! They are kept in the user's cache folder. Their names contain a hash of the source and the compiler's flags, so that
//! a new version of the command never uses an old library.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{bad_input, sum_of};
use anyhow::{Context, anyhow, bail};

// The path is a symbolic link in this crate, so that its package contains the sources.
macro_rules! source {
    ($($name:literal),*) => { concat!($(include_str!(concat!("../../recorders/", $name))),*) };
}

/// A recorder library.
pub(super) struct Library {
    name: &'static str,
    source: &'static str,
    /// Defines and flags in addition to the common ones.
    flags: &'static [&'static str],
}

/// Implements the calls that compilers insert before each access.
pub(super) const TSAN: Library = Library {
    name: "coreshard_tsan",
    source: source!(
        "common/events.h",
        "common/spool.h",
        "common/next.h",
        "tsan/accesses.c",
        "common/joins.c",
        "tsan/threads.c",
        "common/waits.c",
        "common/heap.c",
        "tsan/processes.c",
        "tsan/memory.c"
    ),
    flags: &[],
};

const PLUGIN_SOURCE: &str = source!(
    "common/events.h",
    "common/spool.h",
    "common/next.h",
    "qemu/accesses.c",
    "qemu/system.c",
    "qemu/plugin.c"
);

/// The plugin for QEMU up to version 8.
pub(super) const PLUGIN_1: Library =
    Library { name: "coreshard_qemu", source: PLUGIN_SOURCE, flags: &["-DPLUGIN_VERSION=1"] };

/// The plugin for QEMU from version 9 on.
pub(super) const PLUGIN_2: Library =
    Library { name: "coreshard_qemu", source: PLUGIN_SOURCE, flags: &["-DPLUGIN_VERSION=2"] };

/// The library inside of an emulated program.
pub(super) const GUEST: Library = Library {
    name: "coreshard_guest",
    source: source!(
        "common/events.h",
        "common/next.h",
        "qemu/guest.c",
        "common/joins.c",
        "common/waits.c",
        "common/heap.c",
        "qemu/begin.c"
    ),
    flags: &[],
};

/// Returns the compiler for this machine.
pub(super) fn compiler() -> String {
    std::env::var("CC").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "cc".to_owned())
}

/// Returns the path of the library, and builds it first if it is missing.
pub(super) fn built(library: &Library, compiler: &str) -> anyhow::Result<PathBuf> {
    let Library { name, source, flags } = library;
    const FLAGS: [&str; 10] = [
        "-std=gnu11",
        "-O2",
        "-g",
        "-fPIC",
        "-shared",
        "-fno-builtin",
        // A C++ exception may pass through one of our functions.
        "-fexceptions",
        "-fno-sanitize=all",
        "-ftls-model=initial-exec",
        "-pthread",
    ];
    let parts = [source, &*FLAGS.join(" "), &flags.join(" "), compiler, std::env::consts::ARCH];
    // The hash is the same in every version of the command.
    let key = sum_of(parts.iter().flat_map(|part| part.bytes().chain([0])).map(u64::from));
    let folder = cache()?.join(format!("recorders-{key:016x}"));
    let library = folder.join(format!("lib{name}.so"));
    if library.exists() {
        return Ok(library);
    }
    private_folder(&folder)?;
    // Built under another name and renamed, so that no process loads an incomplete library.
    let half = folder.join(format!(".{}-{name}", std::process::id()));
    let mut compile = Command::new(compiler)
        .args(FLAGS)
        .args(*flags)
        .arg(format!("-Wl,-soname,lib{name}.so"))
        .args(["-x", "c", "-", "-o"])
        .arg(&half)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| anyhow!("cannot start {compiler} to build the recorder: {error}"))?;
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
    if *name == TSAN.name {
        // GCC links this name by default.
        match std::os::unix::fs::symlink(&library, folder.join("libtsan.so")) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error.into());
            }
            _ => {}
        }
    }
    Ok(library)
}

/// Returns the user's cache folder.
fn cache() -> anyhow::Result<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let folder = folder
        .ok_or_else(|| bad_input(anyhow!("neither XDG_CACHE_HOME nor HOME names a folder")))?;
    Ok(folder.join("coreshard"))
}

/// Creates the folder. Code is loaded from it, so no other user may be able to write there.
fn private_folder(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot make {}", coreshard_topology::input::path(folder)))
}
