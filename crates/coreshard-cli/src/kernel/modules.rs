//! Kernel modules: found by name below a folder such as `/usr/lib/modules/VERSION`, unpacked, and ordered so that each comes
//! after those it depends on.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow};
use coreshard_topology::input;

use crate::common::{bad_input, bail_input};

/// A module's file: the largest have some 20 MiB with their symbols.
const MOST_MODULE_BYTES: u64 = 1 << 30;
/// Folders within one another.
const MOST_DEPTH: usize = 16;

/// A module to load.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) name: String,
    pub(super) content: Vec<u8>,
    pub(super) parameters: String,
}

/// Reads the modules that were asked for, each a file or a name followed by parameters, and those that they depend on.
pub(super) fn read(asked: &[String], folder: Option<&Path>) -> anyhow::Result<Vec<Module>> {
    let mut reading = Reading { folder, found: None, there: HashSet::new(), modules: Vec::new() };
    for text in asked {
        let (file, parameters) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        reading.add(file, parameters.trim(), &mut Vec::new())?;
    }
    Ok(reading.modules)
}

struct Reading<'a> {
    folder: Option<&'a Path>,
    /// The modules below the folder, by name.
    found: Option<HashMap<String, PathBuf>>,
    there: HashSet<String>,
    modules: Vec<Module>,
}

impl Reading<'_> {
    fn add(&mut self, file: &str, parameters: &str, above: &mut Vec<String>) -> anyhow::Result<()> {
        let path = match file.contains('/') || file.contains(".ko") {
            true => PathBuf::from(file),
            false => self.named(file, above.last())?,
        };
        let name = name_of(&path);
        if above.contains(&name) || !self.there.insert(name.clone()) {
            return Ok(());
        }
        let content = unpacked(&path)?;
        if !content.starts_with(b"\x7fELF") {
            bail_input!("{}: expected a kernel module (.ko)", input::path(&path));
        }
        above.push(name.clone());
        for needed in needs(&content) {
            self.add(&needed, "", above)?;
        }
        above.pop();
        self.modules.push(Module { name, content, parameters: parameters.to_owned() });
        Ok(())
    }

    fn named(&mut self, name: &str, needed_by: Option<&String>) -> anyhow::Result<PathBuf> {
        let by = needed_by.map(|by| format!(", which {by} needs")).unwrap_or_default();
        let Some(folder) = self.folder else {
            bail_input!(
                "module {}{by}: give its file, or the folder of the kernel's modules with --modules",
                input::quoted(name)
            );
        };
        if self.found.is_none() {
            let mut found = HashMap::new();
            collect(folder, 0, &mut found)?;
            self.found = Some(found);
        }
        let found = self.found.as_ref().and_then(|found| found.get(&plain(name)));
        match found {
            Some(path) => Ok(path.clone()),
            // Built into the kernel.
            None if needed_by.is_some() => bail_input!(
                "module {}{by} is not below {}",
                input::quoted(name),
                input::path(folder)
            ),
            None => bail_input!(
                "module {} is not below {}; it may be built into the kernel",
                input::quoted(name),
                input::path(folder)
            ),
        }
    }
}

/// A module's name: the kernel has no hyphens in them.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    plain(name.split(".ko").next().unwrap_or_default())
}

fn collect(
    folder: &Path,
    depth: usize,
    found: &mut HashMap<String, PathBuf>,
) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder);
    let entries =
        entries.map_err(|error| bad_input(anyhow!("{}: {error}", input::path(folder))))?;
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        let path = entry.path();
        if kind.is_dir() && depth < MOST_DEPTH {
            collect(&path, depth + 1, found)?;
        } else if kind.is_file() && path.to_string_lossy().contains(".ko") {
            found.entry(name_of(&path)).or_insert(path);
        }
    }
    Ok(())
}

/// A module's content; packed ones are unpacked by the program that packs them.
fn unpacked(path: &Path) -> anyhow::Result<Vec<u8>> {
    let program = match path.extension().and_then(|ending| ending.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return input::bytes(path, MOST_MODULE_BYTES).map_err(bad_input),
    };
    let file = input::regular(path).map_err(bad_input)?;
    let told = Command::new(program).arg("-dc").stdin(Stdio::from(file)).output();
    let told = told.with_context(|| {
        format!("{program}, which unpacks {}, does not start", input::path(path))
    })?;
    if !told.status.success() {
        let why = String::from_utf8_lossy(&told.stderr).into_owned();
        bail_input!("{}: {program}: {}", input::path(path), input::sentence(&why));
    }
    Ok(told.stdout)
}

/// The modules that a module's information says it depends on.
fn needs(content: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = content.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let list = content[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let list = String::from_utf8_lossy(list);
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(depends: &str) -> Vec<u8> {
        format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0").into_bytes()
    }

    #[test]
    fn a_module_comes_after_those_that_it_depends_on() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("kernel/drivers");
        std::fs::create_dir_all(&inner).unwrap();
        for (name, depends) in
            [("top.ko", "middle-one,base"), ("middle_one.ko", "base"), ("base.ko", "")]
        {
            std::fs::write(inner.join(name), module(depends)).unwrap();
        }
        let found = read(&["top a=1 b=2".to_owned()], Some(folder.path())).unwrap();
        let told: Vec<_> =
            found.iter().map(|its| (its.name.as_str(), its.parameters.as_str())).collect();
        assert_eq!(told, [("base", ""), ("middle_one", ""), ("top", "a=1 b=2")]);
    }

    #[test]
    fn absent_modules_are_named_with_what_needs_them() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("top.ko"), module("gone")).unwrap();
        let error =
            |asked: &str, folder| format!("{:#}", read(&[asked.to_owned()], folder).unwrap_err());
        assert!(error("top", Some(folder.path())).contains("\"gone\", which top needs"));
        assert!(error("other", Some(folder.path())).contains("may be built into the kernel"));
        assert!(error("top", None).contains("--modules"));
        let text = folder.path().join("text.ko");
        std::fs::write(&text, "no module").unwrap();
        assert!(error(text.to_str().unwrap(), None).contains("expected a kernel module"));
    }
}
