//! The commands shown on pages, and whether each could run: program, package, target, features and script exist.
//! Options of scripts are not checked. The command's unit tests include this file, since they can parse options.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

/// Programs of others that pages tell to run.
const PROGRAMS: [&str; 10] =
    ["cargo", "chrt", "gcc", "grep", "ls", "mount", "perf", "pip", "python3", "rm"];
/// Folders of scripts.
const SCRIPTS: [&str; 5] = ["ci/", "lab/", "release/", "site/", ".ci/"];

pub(crate) fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The README and the pages in the table of contents, except the generated reference and pages about the past.
pub(crate) fn pages() -> Vec<PathBuf> {
    let docs = root().join("docs");
    let summary = read(&docs.join("SUMMARY.md"));
    let named = summary.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let mut pages: Vec<PathBuf> =
        named.map(|(page, _)| fs::canonicalize(docs.join(page)).unwrap()).collect();
    pages
        .retain(|page| !page.ends_with("reference/commands.md") && !page.ends_with("CHANGELOG.md"));
    pages.push(root().join("README.md"));
    pages
}

/// Whether a line begins as a command does: a program, after words that set the environment.
fn is_command(line: &str, is_alone: bool) -> bool {
    let is_setting = |word: &str| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|it| it.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_'))
    };
    let mut words = line.split_whitespace().skip_while(|word| is_setting(word));
    let Some(program) = words.next() else { return false };
    let argument = words.next();
    // A line of a manifest; a file or a program that is only named.
    if argument.is_some_and(|it| it.starts_with('=')) || (argument.is_none() && !is_alone) {
        return false;
    }
    program == "coreshard"
        || PROGRAMS.contains(&program)
        || SCRIPTS.iter().any(|folder| program.starts_with(folder))
}

/// The commands of a page, in their order: lines of programs for a shell, indented lines, and what stands in backticks.
pub(crate) fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut prose = String::new();
    let (mut fence, mut begun): (Option<String>, String) = (None, String::new());
    for line in text.lines() {
        if let Some(word) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(word.to_owned()) };
            continue;
        }
        let is_code = match fence.as_deref() {
            Some("sh" | "bash" | "console") => true,
            Some(_) => false,
            None => {
                let is_indented = line.starts_with("    ");
                if !is_indented {
                    prose.extend([line, "\n"]);
                }
                is_indented
            }
        };
        let line = line.trim();
        if !is_code || line.starts_with('#') {
            begun.clear();
            continue;
        }
        let line = line.split_once(" # ").map_or(line, |(command, _)| command);
        let line = line.split_once("   #").map_or(line, |(command, _)| command).trim();
        let line = line.strip_prefix("$ ").unwrap_or(line);
        match line.strip_suffix('\\') {
            Some(part) => begun.extend([part, " "]),
            None => {
                begun.push_str(line);
                // What stands in a program for a shell is one, whatever it begins with.
                if fence.is_some() || is_command(&begun, true) {
                    found.push(begun.clone());
                }
                begun.clear();
            }
        }
    }
    // Of other programs, what is whole: `perf stat` names one.
    let inline = prose.split('`').skip(1).step_by(2).filter(|it| is_command(it, false));
    found.extend(
        inline.filter(|it| !it.starts_with("perf ") && !it.starts_with("ls ")).map(str::to_owned),
    );
    found.retain(|command| !command.is_empty());
    found.iter().map(|command| plain(command)).collect()
}

/// One blank between words; and the command by its name, as it is called once it is installed.
fn plain(command: &str) -> String {
    let words: Vec<_> = command.split_whitespace().collect();
    let words = words.join(" ");
    match words.strip_prefix("cargo run --release -- ") {
        Some(rest) => format!("coreshard {rest}"),
        None => words,
    }
}

/// Returns every Markdown file below a folder, except build outputs and downloads.
pub(crate) fn pages_below(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                pages_below(&path, found);
            }
        } else if path.extension().is_some_and(|it| it == "md") {
            found.insert(path);
        }
    }
}

/// Returns every Markdown file for readers, except pages about the past, generated pages and inputs.
pub(crate) fn markdown() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    pages_below(&root(), &mut found);
    let without = ["CHANGELOG.md", "docs", "fuzz/corpus", "fuzz/crashes", "lab/journal"]
        .map(|it| root().join(it));
    found.retain(|page| !without.iter().any(|it| page.starts_with(it)));
    found.extend(pages());
    found
}

/// Every command that they show, with the page.
pub(crate) fn everywhere() -> Vec<(PathBuf, String)> {
    let of_page = |page: PathBuf| {
        let commands = commands(&read(&page));
        commands.into_iter().map(move |command| (page.clone(), command))
    };
    markdown().into_iter().flat_map(of_page).collect()
}

/// The words of each program that a shell would start, in their order, without quotes, settings and redirections.
pub(crate) fn programs(command: &str) -> Vec<Vec<String>> {
    let (mut programs, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let (mut quote, mut is_word) = (None, false);
    for letter in command.chars().chain([';']) {
        match (quote, letter) {
            (Some(end), letter) if letter == end => quote = None,
            (Some(_), letter) => word.push(letter),
            (None, '\'' | '"') => (quote, is_word) = (Some(letter), true),
            (None, ' ' | ';' | '|' | '&') => {
                if is_word || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                    is_word = false;
                }
                if letter != ' ' && !words.is_empty() {
                    programs.push(std::mem::take(&mut words));
                }
            }
            (None, letter) => word.push(letter),
        }
    }
    let is_setting = |word: &String| {
        let is_part = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
        word.split_once('=').is_some_and(|(name, _)| name.chars().all(is_part))
    };
    for words in &mut programs {
        if let Some(at) = words.iter().position(|word| word.starts_with(['>', '<'])) {
            words.truncate(at);
        }
        while words.first().is_some_and(is_setting) {
            words.remove(0);
        }
        // Programs that start another one: their options and numbers are dropped.
        while let Some("time" | "sudo" | "env" | "nice" | "chrt" | "timeout") =
            words.first().map(String::as_str)
        {
            words.remove(0);
            let is_of_it = |it: &&String| it.starts_with('-') || it.parse::<f64>().is_ok();
            let count = words.iter().take_while(is_of_it).count();
            words.drain(..count);
        }
    }
    programs.retain(|words| !words.is_empty());
    programs
}

/// What cargo says of the workspace with this manifest, without looking further than its own packages.
fn metadata(manifest: &Path) -> Result<Value, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = command.arg("--manifest-path").arg(manifest).output();
    let output = output.map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{}: {error}", manifest.display()))
}

fn list<'value>(value: &'value Value, key: &str) -> impl Iterator<Item = &'value Value> {
    value[key].as_array().into_iter().flatten()
}

/// Whether cargo would find what the words name: the manifest, the packages, the targets and the features.
fn resolve_cargo(words: &[String]) -> Result<(), String> {
    let own: Vec<&str> =
        words.iter().map(String::as_str).take_while(|word| *word != "--").collect();
    let values = |names: &[&str]| -> Vec<String> {
        let mut found = Vec::new();
        for (at, word) in own.iter().enumerate() {
            if names.contains(word) {
                found.extend(own.get(at + 1).map(|it| (*it).to_owned()));
            } else if let Some((name, value)) = word.split_once('=')
                && names.contains(&name)
            {
                found.push(value.to_owned());
            }
        }
        found
    };
    // Options of cargo itself stand in front of the verb, some with a value of their own.
    let takes_value = |it: &str| ["--config", "--color", "-C", "-Z"].contains(&it);
    let mut front = own.iter().skip(1);
    let verb = loop {
        match front.next() {
            None => return Ok(()),
            Some(word) if takes_value(word) => _ = front.next(),
            Some(word) if word.starts_with(['-', '+']) => {}
            Some(word) => break *word,
        }
    };
    if ["add", "audit", "deny", "fmt", "fuzz", "init", "install", "metadata", "tree", "update"]
        .contains(&verb)
    {
        return Ok(());
    }
    if !["bench", "build", "check", "clippy", "doc", "package", "run", "test"].contains(&verb) {
        return Err(format!("cargo has no command {verb}"));
    }
    let manifest = values(&["--manifest-path"]).pop().unwrap_or_else(|| "Cargo.toml".to_owned());
    let path = root().join(&manifest);
    if !path.is_file() {
        return Err(format!("there is no {manifest}"));
    }
    let metadata = metadata(&path)?;
    let packages: Vec<&Value> = list(&metadata, "packages").collect();
    let mut chosen = Vec::new();
    for name in values(&["-p", "--package"]) {
        let package = packages.iter().find(|it| it["name"] == name.as_str());
        chosen.push(*package.ok_or_else(|| format!("{manifest} has no package {name}"))?);
    }
    if chosen.is_empty() {
        let default: Vec<&Value> = match verb {
            "run" => list(&metadata, "workspace_default_members").collect(),
            _ => list(&metadata, "workspace_members").collect(),
        };
        chosen = packages.into_iter().filter(|it| default.contains(&&it["id"])).collect();
    }
    let has_target = |kind: &str, name: &str| {
        let mut targets = chosen.iter().flat_map(|package| list(package, "targets"));
        targets.any(|it| it["name"] == name && list(it, "kind").any(|it| it == kind))
    };
    for kind in ["bin", "example", "test", "bench"] {
        for name in values(&[&format!("--{kind}")]) {
            if !has_target(kind, &name) {
                return Err(format!("no package here has the {kind} {name}"));
            }
        }
    }
    for features in values(&["--features", "-F"]) {
        for feature in features.split([',', ' ']) {
            let (package, feature) =
                feature.split_once('/').map_or((None, feature), |(it, name)| (Some(it), name));
            let mut packages =
                chosen.iter().filter(|it| package.is_none_or(|name| it["name"] == name));
            if !packages.any(|it| it["features"].get(feature).is_some()) {
                return Err(format!("no package here has the feature {feature}"));
            }
        }
    }
    let names_target = ["--bin", "--example"].iter().any(|it| !values(&[it]).is_empty());
    if verb == "run" && !names_target {
        for package in &chosen {
            let bins = list(package, "targets").filter(|it| list(it, "kind").any(|it| it == "bin"));
            let count = bins.count();
            if count != 1 && package["default_run"].is_null() {
                return Err(format!("{} has {count} programs and no default-run", package["name"]));
            }
        }
    }
    Ok(())
}

/// The scripts that a page names without a command line: a word in backticks that is a path in `ci/`, or ends as
/// scripts do.
pub(crate) fn named_scripts(text: &str) -> Vec<String> {
    let is_script = |it: &&str| {
        let is_named_so = it.starts_with("ci/") || it.ends_with(".sh") || it.ends_with(".py");
        is_named_so && !it.contains([' ', '*', '\n']) && is_of_repository(it)
    };
    text.split('`').filter(is_script).map(str::to_owned).collect()
}

/// Whether a program is a file of the repository by its path, and none that is built.
fn is_of_repository(program: &str) -> bool {
    let program = program.strip_prefix("./").unwrap_or(program);
    let folder = program.split_once('/').map_or("", |(folder, _)| folder);
    let is_built = program.split('/').any(|part| part == "target");
    !is_built && !folder.is_empty() && folder != "." && root().join(folder).is_dir()
}

/// Checks that the words name a program that can be started here: one that cargo finds, or an existing script. Other
/// programs are not checked.
///
/// # Errors
/// The missing part.
pub(crate) fn resolve(words: &[String]) -> Result<(), String> {
    let [program, rest @ ..] = words else { return Ok(()) };
    let script = match program.as_str() {
        "cargo" => return resolve_cargo(words),
        "python3" | "bash" | "sh" => match rest.iter().find(|it| !it.starts_with('-')) {
            Some(script) if is_of_repository(script) => script,
            _ => return Ok(()),
        },
        _ if is_of_repository(program) => program,
        _ => return Ok(()),
    };
    let path = root().join(script);
    let mode = fs::metadata(&path).map_err(|_| format!("there is no {script}"))?;
    let is_started = script == program;
    let is_executable = std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o111 != 0;
    if is_started && !is_executable {
        return Err(format!("{script} cannot be executed"));
    }
    Ok(())
}
