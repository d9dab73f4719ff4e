//! The guest's first file system: its first program, the programs and modules that were asked for, and the command.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow};
use coreshard_topology::input;
use coreshard_trace::ProgramFile;

use super::cpio::Archive;
use super::modules::Module;
use crate::common::{bad_input, bail_input};
use crate::record::library;

/// A program or library.
const MOST_FILE_BYTES: u64 = 1 << 30;
/// Where Debian's package busybox-static puts it.
const BUSYBOX: &str = "/bin/busybox";

/// What goes into the file system.
#[derive(Debug)]
pub(super) struct Contents<'a> {
    /// Files, each with its place in the guest; without a place, in `/bin`.
    pub(super) programs: &'a [PathBuf],
    /// Modules in the order in which they are loaded.
    pub(super) modules: &'a [Module],
    /// The command and its arguments.
    pub(super) command: &'a [String],
    /// Requests to the first program.
    pub(super) options: &'a [&'a str],
}

/// Assembles the archive.
pub(super) fn assemble(contents: &Contents<'_>) -> anyhow::Result<Vec<u8>> {
    let mut archive = Archive::default();
    let init = library::built(&library::INIT, &library::compiler())?;
    archive.file("init", &read(&init)?);
    ["dev", "proc", "sys", "tmp", "etc"].iter().for_each(|folder| archive.folder(folder));
    for program in contents.programs {
        add_program(&mut archive, program)?;
    }
    let command = with_program(&mut archive, contents.command)?;
    for (number, module) in contents.modules.iter().enumerate() {
        archive.file(&module_place(number, module), &module.content);
    }
    let modules = contents.modules.iter().enumerate();
    let modules = modules.flat_map(|(number, module)| {
        [format!("/{}", module_place(number, module)), module.parameters.clone()]
    });
    archive.file("coreshard/modules", &words(modules));
    archive.file("coreshard/command", &words(command));
    archive.file("coreshard/options", &words(contents.options.iter().map(|&it| it.to_owned())));
    Ok(archive.finish())
}

fn module_place(number: usize, module: &Module) -> String {
    format!("coreshard/{number}-{}.ko", module.name)
}

/// Words that end with a zero byte each.
fn words(words: impl IntoIterator<Item = String>) -> Vec<u8> {
    words.into_iter().flat_map(|word| word.into_bytes().into_iter().chain([0])).collect()
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    input::bytes(path, MOST_FILE_BYTES).map_err(bad_input)
}

/// Adds a program to `/bin`, and the libraries that it needs to where they are here.
fn add_program(archive: &mut Archive, path: &Path) -> anyhow::Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| {
        bad_input(anyhow!("{}: expected a file with a name in UTF-8", input::path(path)))
    })?;
    let content = read(path)?;
    if content.starts_with(b"\x7fELF") {
        let program = ProgramFile::open(path).map_err(|error| bad_input(anyhow!(error)))?;
        if program.architecture() != "x86_64" {
            bail_input!(
                "{} is for {}; the guest is x86_64",
                input::path(path),
                program.architecture()
            );
        }
        if program.is_dynamic() {
            for library in libraries_of(path)? {
                let place = library.to_string_lossy().into_owned();
                if !archive.has(&place) {
                    archive.file(&place, &read(&library)?);
                }
            }
        }
    }
    archive.file(&format!("bin/{name}"), &content);
    Ok(format!("/bin/{name}"))
}

/// The libraries of a program that is linked dynamically, and its linker, as `ldd` lists them.
fn libraries_of(path: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let told = Command::new("ldd")
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .context("ldd, which lists a program's libraries, does not start")?;
    let text = String::from_utf8_lossy(&told.stdout);
    if let Some(absent) = text.lines().find(|line| line.contains("not found")) {
        bail_input!("{}: {}", input::path(path), input::sentence(absent));
    }
    let place =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(text.lines().filter_map(place).collect())
}

/// The command as the guest runs it: its program is added if it is a file here, or busybox has it.
fn with_program(archive: &mut Archive, command: &[String]) -> anyhow::Result<Vec<String>> {
    let (program, arguments) = command.split_first().context("a command has a program")?;
    let busybox = Path::new(BUSYBOX);
    let has_busybox = busybox.is_file();
    if has_busybox {
        add_program(archive, busybox)?;
        archive.link("bin/sh", "busybox");
    }
    let with = |first: Vec<String>| first.into_iter().chain(arguments.iter().cloned()).collect();
    if archive.has(program) && program.starts_with('/') {
        return Ok(with(vec![program.clone()]));
    }
    if program.contains('/') {
        return Ok(with(vec![add_program(archive, Path::new(program))?]));
    }
    if archive.has(&format!("bin/{program}")) {
        return Ok(with(vec![program.clone()]));
    }
    if has_busybox && applets(busybox)?.contains(program) {
        return Ok(with(vec!["/bin/busybox".to_owned(), program.clone()]));
    }
    let tip = if has_busybox { "" } else { ", or install busybox-static for the usual tools" };
    bail_input!(
        "{} is not in the guest: name its file, such as ./{program}, or add it with --program{tip}",
        input::quoted(program)
    );
}

fn applets(busybox: &Path) -> anyhow::Result<BTreeSet<String>> {
    let told = Command::new(busybox).arg("--list").stdin(Stdio::null()).output();
    let told = told.with_context(|| format!("{} does not start", input::path(busybox)))?;
    Ok(String::from_utf8_lossy(&told.stdout).lines().map(str::to_owned).collect())
}
