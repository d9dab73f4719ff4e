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
pub(crate) struct Library {
    name: &'static str,
    source: &'static str,
    /// Defines and flags in addition to the common ones.
    flags: &'static [&'static str],
    product: Product,
}

/// The kind of file that the compiler makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Product {
    /// A library that is loaded into another program.
    Shared,
    /// A program that needs no library.
    Static,
    /// A program for this machine.
    Program,
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
    product: Product::Shared,
};

const PLUGIN_SOURCE: &str = source!(
    "common/events.h",
    "common/spool.h",
    "common/next.h",
    "qemu/api.h",
    "qemu/places.c",
    "qemu/accesses.c",
    "qemu/system.c",
    "qemu/shapes.c",
    "qemu/plugin.c"
);

const KERNEL_SOURCE: &str = source!(
    "common/events.h",
    "common/spool.h",
    "common/next.h",
    "qemu/api.h",
    "qemu/places.c",
    "qemu/shapes.c",
    "qemu/kernel.c"
);

/// The plugin for QEMU up to version 8.
pub(super) const PLUGIN_1: Library = plugin("coreshard_qemu", PLUGIN_SOURCE, VERSION_1);

/// The plugin for QEMU from version 9 on.
pub(super) const PLUGIN_2: Library = plugin("coreshard_qemu", PLUGIN_SOURCE, VERSION_2);

/// The recorder of kernels, a plugin for QEMU's system emulation up to version 8.
pub(crate) const KERNEL_1: Library = plugin("coreshard_kernel", KERNEL_SOURCE, VERSION_1);

/// The recorder of kernels, for QEMU from version 9 on.
pub(crate) const KERNEL_2: Library = plugin("coreshard_kernel", KERNEL_SOURCE, VERSION_2);

const VERSION_1: &[&str] = &["-DPLUGIN_VERSION=1"];
const VERSION_2: &[&str] = &["-DPLUGIN_VERSION=2"];

const fn plugin(
    name: &'static str,
    source: &'static str,
    flags: &'static [&'static str],
) -> Library {
    Library { name, source, flags, product: Product::Shared }
}

/// The first program of a booted kernel.
pub(crate) const INIT: Library = Library {
    name: "coreshard_init",
    source: source!("kernel/init.c"),
    flags: &[],
    product: Product::Static,
};

/// Runs a program at its own pace.
pub(super) const PACE: Library = Library {
    name: "coreshard_pace",
    source: source!("pace/pace.c"),
    flags: &[],
    product: Product::Program,
};

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
    product: Product::Shared,
};

/// Returns the compiler for this machine.
pub(crate) fn compiler() -> String {
    std::env::var("CC").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "cc".to_owned())
}

/// Returns the path of the library, and builds it first if it is missing.
pub(crate) fn built(library: &Library, compiler: &str) -> anyhow::Result<PathBuf> {
    let Library { name, source, flags, product } = library;
    const SHARED: [&str; 10] = [
        "-std=gnu11",
        "-O2",
        "-g",
        "-fPIC",
        "-shared",
        "-fno-builtin",
        // C++ exceptions may unwind through these functions.
        "-fexceptions",
        "-fno-sanitize=all",
        "-ftls-model=initial-exec",
        "-pthread",
    ];
    const STATIC: [&str; 3] = ["-std=gnu11", "-O2", "-static"];
    let (common, file, soname) = match product {
        Product::Shared => {
            (&SHARED[..], format!("lib{name}.so"), Some(format!("-Wl,-soname,lib{name}.so")))
        }
        Product::Static => (&STATIC[..], (*name).to_owned(), None),
        Product::Program => (&STATIC[..2], (*name).to_owned(), None),
    };
    let parts = [source, &*common.join(" "), &flags.join(" "), compiler, std::env::consts::ARCH];
    // The hash is the same in every version of the command.
    let key = sum_of(parts.iter().flat_map(|part| part.bytes().chain([0])).map(u64::from));
    let folder = cache()?.join(format!("recorders-{key:016x}"));
    let library = folder.join(file);
    if library.exists() {
        return Ok(library);
    }
    private_folder(&folder)?;
    // Built under another name and renamed, so that no process loads an incomplete library.
    let half = folder.join(format!(".{}-{name}", std::process::id()));
    let mut compile = Command::new(compiler)
        .args(common)
        .args(*flags)
        .args(soname)
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
