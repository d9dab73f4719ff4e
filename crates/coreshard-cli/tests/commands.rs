//! Every command that the site and the README show is run: as it stands and with each `cargo test` where it is quick, at night
//! (`ci/commands.sh`) where it is not. `site/commands.toml` lists what is not run as it stands, and why; nothing in that list is
//! stale, and nothing else is left out.
#![allow(clippy::print_stdout, reason = "how long a command took at night")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;
use std::{env, fs, thread};

use serde::Deserialize;

testing::watch!();

/// Programs of others that pages tell to run.
const PROGRAMS: [&str; 10] =
    ["cargo", "chrt", "gcc", "grep", "ls", "mount", "perf", "pip", "python3", "rm"];
/// Folders of scripts.
const SCRIPTS: [&str; 5] = ["ci/", "lab/", "release/", "site/", ".ci/"];

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The README and the pages of the table of contents, but for what is generated of the options, and what tells of the past.
fn pages() -> Vec<PathBuf> {
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
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut prose = String::new();
    let (mut fence, mut begun): (Option<String>, String) = (None, String::new());
    for line in text.lines() {
        if let Some(word) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(word.to_owned()) };
            continue;
        }
        let is_code = match fence.as_deref() {
            Some("sh" | "console") => true,
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

/// With each number that is a word by itself as `N`: an entry of the list may be about any of them.
fn of_any_count(command: &str) -> String {
    let is_count = |word: &str| word.bytes().all(|it| it.is_ascii_digit());
    let words: Vec<_> =
        command.split(' ').map(|word| if is_count(word) { "N" } else { word }).collect();
    words.join(" ")
}

fn entry_of<'list>(list: &'list BTreeMap<String, Entry>, shown: &str) -> Option<&'list Entry> {
    list.get(shown).or_else(|| list.get(&of_any_count(shown)))
}

/// What is done about a command that is not run as it stands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    shown: String,
    /// In its place, where it has words that stand for others, or would take hours.
    run: Option<String>,
    /// Why it is run at night alone.
    night: Option<String>,
    /// The script that runs it.
    step: Option<String>,
    /// The command of which it is a part, which a script runs: `cargo test` of less.
    part: Option<String>,
    /// Why nobody runs it.
    left: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    command: Vec<Entry>,
}

fn list() -> BTreeMap<String, Entry> {
    let list: List = toml::from_str(&read(&root().join("site/commands.toml"))).unwrap();
    let mut entries = BTreeMap::new();
    for entry in list.command {
        let shown = entry.shown.clone();
        assert!(entries.insert(shown.clone(), entry).is_none(), "{shown} is listed twice");
    }
    entries
}

#[test]
fn the_list_of_what_is_not_run_as_it_stands_is_fresh() {
    let shown: BTreeSet<String> = pages().iter().flat_map(|page| commands(&read(page))).collect();
    assert!(shown.len() > 60, "{}: {shown:#?}", shown.len());
    let list = list();
    let counts: BTreeSet<String> = shown.iter().map(|it| of_any_count(it)).collect();
    let stale: Vec<_> =
        list.keys().filter(|it| !shown.contains(*it) && !counts.contains(*it)).collect();
    assert!(stale.is_empty(), "site/commands.toml lists what no page shows: {stale:#?}");
    let lost: Vec<_> = shown
        .iter()
        .filter(|it| !it.starts_with("coreshard ") && entry_of(&list, it).is_none())
        .collect();
    assert!(lost.is_empty(), "site/commands.toml has no word about {lost:#?}");
    for (shown, entry) in &list {
        let is_run = entry.run.is_some() || entry.night.is_some();
        let ways = [is_run, entry.step.is_some(), entry.part.is_some(), entry.left.is_some()];
        let ways = ways.into_iter().filter(|it| *it).count();
        assert_eq!(ways, 1, "{shown}: one of run (and night), step, part and left");
        let reason = entry.night.as_ref().or(entry.left.as_ref());
        assert!(reason.is_none_or(|it| it.len() > 10), "{shown}: {reason:?} is no reason");
        if let Some(step) = &entry.step {
            // How often a script does it is its own affair.
            let text = of_any_count(&read(&root().join(step)).replace(['\n', ';'], " "));
            let shown = of_any_count(shown);
            assert!(
                text.contains(shown.split(" FILE").next().unwrap()),
                "{step} does not run {shown}"
            );
        }
    }
    for (shown, entry) in &list {
        let Some(whole) = &entry.part else { continue };
        let is_run = list.get(whole).is_some_and(|whole| whole.step.is_some());
        assert!(is_run && whole == "cargo test --workspace", "{shown}: no script runs {whole}");
        let words: Vec<_> = shown.split_whitespace().collect();
        let ["cargo", "test", "-p", package, rest @ ..] = &words[..] else {
            panic!("{shown} is no part of {whole}");
        };
        let folder = ["crates", ""].map(|above| root().join(above).join(package));
        let folder = folder.iter().find(|it| it.join("Cargo.toml").is_file());
        let folder = folder.unwrap_or_else(|| panic!("{shown}: there is no package {package}"));
        match rest {
            [] | ["--doc"] => {}
            ["--test", test, filter @ ..] => {
                let (file, parts) = (format!("tests/{test}.rs"), folder.join("tests").join(test));
                let text = match fs::read_dir(parts) {
                    Ok(parts) => {
                        let parts = parts.map(|part| part.unwrap().path());
                        parts.filter(|part| part.is_file()).map(|part| read(&part)).collect()
                    }
                    Err(_) => read(&folder.join(file)),
                };
                assert!(filter.iter().all(|it| text.contains(it)), "{shown}: no test is called so");
            }
            _ => panic!("{shown}: {rest:?} is not read here"),
        }
    }
    let left = list.values().filter(|entry| entry.left.is_some()).count();
    assert!(left * 4 < shown.len(), "{left} of {} commands are run by nobody", shown.len());
}

/// What is run of a page. The lessons' experiments are run by the test `site`, which looks at what they say.
fn of_page(page: &Path, is_night: bool) -> Vec<String> {
    if page.starts_with(root().join("docs/learn")) {
        return Vec::new();
    }
    let list = list();
    let mut seen = BTreeSet::new();
    let commands = commands(&read(page)).into_iter().filter(|it| seen.insert(it.clone()));
    let commands = commands.filter_map(|shown| match entry_of(&list, &shown) {
        None => (!is_night && shown.starts_with("coreshard ")).then_some(shown),
        Some(entry) if entry.run.is_none() && entry.night.is_none() => None,
        Some(entry) => (entry.night.is_some() == is_night)
            .then(|| entry.run.clone().unwrap_or_else(|| shown.clone())),
    });
    commands.collect()
}

/// In the repository where it is about it, else in a folder of the page's.
fn run(command: &str, folder: &Path) -> Output {
    // At night, what is handed out: this test's own has other features, for other tests.
    let program = env::var_os("CORESHARD_COMMAND");
    let program = program.map_or(PathBuf::from(env!("CARGO_BIN_EXE_coreshard")), PathBuf::from);
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let is_own = command.contains("coreshard ") && !command.contains("target/");
    let place = if is_own && !command.starts_with("cargo") { folder.to_owned() } else { root() };
    let mut shell = Command::new("sh");
    shell.args(["-ec", command]).current_dir(place).env("PATH", path).env("TMP_PAGE", folder);
    // Colours, and what the tests are run with, are none of its matter.
    shell.env_remove("RUSTFLAGS").env("XDG_CACHE_HOME", folder.join("cache"));
    shell.output().unwrap()
}

fn run_all(is_night: bool) -> usize {
    let pages = pages();
    let mut failed = Vec::new();
    let mut count = 0;
    let check = |page: &Path, commands: &[String]| -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        // The program that a page shows, by the name that its commands have for it.
        if let Some((_, rest)) = read(page).split_once("```c\n") {
            let program = rest.split_once("```").unwrap().0;
            fs::write(folder.path().join("device.c"), program).unwrap();
        }
        let wrong = commands.iter().filter_map(|command| {
            let began = Instant::now();
            let output = run(command, folder.path());
            if is_night {
                println!("{:>6.0} s  {command}", began.elapsed().as_secs_f64());
            }
            // Who writes a file may be silent.
            let says = !output.stdout.is_empty() || !output.stderr.is_empty();
            let writes = command.contains(" > ") || command.contains(" -o ");
            let is_well = output.status.success() && (says || writes);
            (!is_well).then(|| {
                format!(
                    "{}: {command}: {}: {}",
                    page.display(),
                    output.status,
                    String::from_utf8_lossy(&output.stderr)
                )
            })
        });
        wrong.collect()
    };
    // What is measured at night is measured by itself; and once, on whichever pages it stands.
    if is_night {
        let mut seen = BTreeSet::new();
        for page in &pages {
            let mut commands = of_page(page, is_night);
            commands.retain(|it| seen.insert(it.clone()));
            count += commands.len();
            failed.extend(check(page, &commands));
        }
    } else {
        thread::scope(|scope| {
            let checks: Vec<_> = pages
                .iter()
                .map(|page| {
                    let commands = of_page(page, is_night);
                    count += commands.len();
                    scope.spawn(move || check(page, &commands))
                })
                .collect();
            for wrong in checks {
                failed.extend(wrong.join().unwrap());
            }
        });
    }
    assert!(failed.is_empty(), "{} of {count}: {failed:#?}", failed.len());
    count
}

#[test]
fn every_quick_command_of_the_site_runs() {
    let count = run_all(false);
    assert!(count > 20, "{count} commands were run");
}

#[test]
#[ignore = "hours: ci/commands.sh runs it at night"]
fn every_slow_command_of_the_site_runs() {
    let count = run_all(true);
    assert!(count > 20, "{count} commands were run");
}

/// What is found on a page, and what is not.
#[test]
fn commands_are_found_wherever_they_stand() {
    let page = "Say `coreshard topo --json`, not `coreshard`; `perf c2c` is a name.\n\n    cargo test -p x \\\n      -- y   # z\n    not one\n\n\
                ```sh\n$ coreshard topo  # here\n# nothing\ncurl x\n```\n\n```toml\ncoreshard = \"1\"\n```\n\nA `coreshard = \"…\"` and `A=1 cargo test x`.";
    let found = commands(page);
    let expected = [
        "cargo test -p x -- y",
        "coreshard topo",
        "curl x",
        "coreshard topo --json",
        "A=1 cargo test x",
    ];
    assert_eq!(found, expected);
    assert_eq!(of_any_count("lab/count.py A 300 b4"), "lab/count.py A N b4");
}
