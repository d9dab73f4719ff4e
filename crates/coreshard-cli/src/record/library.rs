//! The recorders: small libraries in C, which the command carries as sources, and builds when they are first needed with the
//! compiler that is here.
//!
//! They lie in the user's cache folder, under a name made of their source and the compiler's flags, so that a new version of
//! the command never uses an old one's.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{bad_input, sum_of};
use anyhow::{Context, anyhow, bail};

// By a link, which a package of this crate has the files for.
macro_rules! source {
    ($($name:literal),*) => { concat!($(include_str!(concat!("../../recorders/", $name))),*) };
}

/// A recorder's library.
pub(super) struct Library {
    name: &'static str,
    source: &'static str,
    /// What the compiler's defines and other flags are besides those of all.
    flags: &'static [&'static str],
}

/// Beneath the calls that compilers put before each access.
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

/// Within QEMU up to version 8.
pub(super) const PLUGIN_1: Library =
    Library { name: "coreshard_qemu", source: PLUGIN_SOURCE, flags: &["-DPLUGIN_VERSION=1"] };

/// Within QEMU from version 9 on.
pub(super) const PLUGIN_2: Library =
    Library { name: "coreshard_qemu", source: PLUGIN_SOURCE, flags: &["-DPLUGIN_VERSION=2"] };

/// Within the program that QEMU runs.
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

/// The compiler of this machine's programs.
pub(super) fn compiler() -> String {
    std::env::var("CC").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "cc".to_owned())
}

/// Where the library is, which is built where it was not yet.
pub(super) fn built(library: &Library, compiler: &str) -> anyhow::Result<PathBuf> {
    let Library { name, source, flags } = library;
    const FLAGS: [&str; 10] = [
        "-std=gnu11",
        "-O2",
        "-g",
        "-fPIC",
        "-shared",
        "-fno-builtin",
        // C++ may leave by one through a function of ours.
        "-fexceptions",
        "-fno-sanitize=all",
        "-ftls-model=initial-exec",
        "-pthread",
    ];
    let parts = [source, &*FLAGS.join(" "), &flags.join(" "), compiler, std::env::consts::ARCH];
    // The same in every version of the command.
    let key = sum_of(parts.iter().flat_map(|part| part.bytes().chain([0])).map(u64::from));
    let folder = cache()?.join(format!("recorders-{key:016x}"));
    let library = folder.join(format!("lib{name}.so"));
    if library.exists() {
        return Ok(library);
    }
    private_folder(&folder)?;
    // Built beside its place, so that nobody finds half of it.
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
    if *name == TSAN.name {
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
