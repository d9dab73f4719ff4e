//! Every command shown on the site and in the README is run at night (`ci/commands.sh`). `site/commands.toml` lists
//! commands that are not run as shown, with reasons. The list is complete and has no stale entries. With each change
//! every command is resolved: see `shown.rs`.
#![allow(clippy::print_stdout, reason = "how long a command took at night")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;
use std::{env, fs, thread};

use serde::Deserialize;

use crate::shown::{
    commands, everywhere, markdown, named_scripts, pages, programs, read, resolve, root,
};

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

/// The treatment of a command that is not run as shown.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    shown: String,
    /// A replacement, if the command has placeholders or would take hours.
    run: Option<String>,
    /// The reason to run it only at night.
    night: Option<String>,
    /// The script that runs it.
    step: Option<String>,
    /// The command that contains it and is run by a script: `cargo test` of fewer tests.
    part: Option<String>,
    /// Why it is not run.
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
        assert!(reason.is_none_or(|it| it.len() > 10), "{shown}: {reason:?} is not a reason");
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
            panic!("{shown} is not a part of {whole}");
        };
        let folder = ["crates", ""].map(|above| root().join(above).join(package));
        let folder = folder.iter().find(|it| it.join("Cargo.toml").is_file());
        let folder = folder.unwrap_or_else(|| panic!("{shown}: missing package {package}"));
        match rest {
            [] | ["--doc"] => {}
            ["--test", test, filter @ ..] => {
                let (file, parts) = (format!("tests/{test}.rs"), folder.join("tests").join(test));
                let text = match fs::read_dir(&parts) {
                    Ok(parts) => {
                        let parts = parts.map(|part| part.unwrap().path());
                        parts.filter(|part| part.is_file()).map(|part| read(&part)).collect()
                    }
                    Err(_) => read(&folder.join(file)),
                };
                // A module's name, or a part of a test's name.
                let is_there = |it: &str| match it.strip_suffix("::") {
                    Some(module) => parts.join(format!("{module}.rs")).is_file(),
                    None => text.contains(it),
                };
                assert!(filter.iter().all(|it| is_there(it)), "{shown}: no test is called so");
            }
            _ => panic!("{shown}: {rest:?} is not read here"),
        }
    }
    let left = list.values().filter(|entry| entry.left.is_some()).count();
    assert!(left * 4 < shown.len(), "{left} of {} commands are not run", shown.len());
}

/// Runs the commands of a page. The test `site` runs the lessons' experiments and checks their output.
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

/// Runs it in the repository if it is about the repository, otherwise in a folder of the page.
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
    // Remove variables for colours and of the test run.
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
            // A command that writes a file may print nothing.
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
    // Measurements at night run alone, and only once, even if they are on several pages.
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
#[ignore = "at night: runs a hundred commands"]
fn every_quick_command_of_the_site_runs_at_night() {
    let count = run_all(false);
    assert!(count > 20, "{count} commands were run");
}

#[test]
#[ignore = "hours: ci/commands.sh runs it at night"]
fn every_slow_command_of_the_site_runs() {
    let count = run_all(true);
    assert!(count > 20, "{count} commands were run");
}

#[test]
fn every_command_that_a_page_shows_can_be_resolved() {
    let list = list();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (page, shown) in everywhere() {
        // In the reader's own program, or with another program's sources.
        if entry_of(&list, &shown).is_some_and(|it| it.left.is_some()) {
            continue;
        }
        let run = entry_of(&list, &shown).and_then(|it| it.run.clone()).unwrap_or(shown);
        for words in programs(&run) {
            count += 1;
            if let Err(what) = resolve(&words) {
                wrong.push(format!("{}: {run}: {what}", page.display()));
            }
        }
    }
    for page in markdown() {
        for script in named_scripts(&read(&page)) {
            count += 1;
            if !root().join(&script).exists() {
                wrong.push(format!("{}: there is no {script}", page.display()));
            }
        }
    }
    assert!(count > 150, "{count} programs and scripts are named");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_broken_command_is_caught() {
    for (command, what) in [
        ("cargo run --release --manifest-path peers/Cargo.tomls -- x", "no peers/Cargo.tomls"),
        ("cargo test -p coreshard-queue", "no package coreshard-queue"),
        ("cargo test -p coreshard-rt --test executors", "the test executors"),
        ("A=1 cargo run -p coreshard-sim --example spoons grace", "the example spoons"),
        ("cargo test -p coreshard --features testings", "the feature testings"),
        ("cargo run -p services", "no default-run"),
        ("true; lab/compare.py A B", "no lab/compare.py"),
        ("ls | python3 'lab/compare.py' A", "no lab/compare.py"),
        ("lab/score.tsv", "cannot be executed"),
        ("bindings/c/builds.sh --debug", "no bindings/c/builds.sh"),
        ("timeout 10 nice -n 5 ./ci/quik HEAD", "no ./ci/quik"),
        ("python3 -u lab/compare.py", "no lab/compare.py"),
        ("CORE2=1 cargo +nightly -q test -p nosuch", "no package nosuch"),
        ("cargo tset", "no command tset"),
        ("adapters/rayon-core/checks.sh", "no adapters/rayon-core/checks.sh"),
    ] {
        let outcome: Result<(), String> = programs(command).iter().try_for_each(|it| resolve(it));
        let told = outcome.expect_err(command);
        assert!(told.contains(what), "{command}: {told}");
    }
    let right =
        "A=1 chrt -r 1 cargo test -p coreshard-rt --test host executor:: > file && ci/fmt.sh";
    programs(right).iter().for_each(|words| resolve(words).unwrap());
    let text =
        "Run `ci/quik`, not; `ci/fmt.sh` and `lab/nosuch.py`; `x.sh` and `ci/fmt.sh x` are none.";
    assert_eq!(named_scripts(text), ["ci/quik", "ci/fmt.sh", "lab/nosuch.py"]);
    assert_eq!(of_any_count("lab/count.py A 300 b4"), "lab/count.py A N b4");
}

/// Commands that are found on a page, and others that are not.
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
}

/// JSON takes the place of the text, or goes to a file beside it; and the command knows its own file again.
#[test]
fn json_goes_to_standard_output_or_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let run = |command: &str, json: &[&str]| {
        let mut words = assert_cmd::Command::cargo_bin("coreshard").unwrap();
        let output =
            words.current_dir(&folder).args(command.split(' ')).args(json).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    for command in [
        "topo --machine pocket",
        "tune --machine pocket --seeds 1 --items 5",
        "advise --machine grace --kernel 6.12 --no-check",
        "c2c --machine pocket --items 2",
        "bench queue --sim --machine pocket --items 2 --runs 1 --scopes cache",
        "bench rt index --machine pocket --rounds 2 --seeds 1",
        "bench block --ioengine memory --size 64k --number_ios 2",
    ] {
        for json in [&["--json"][..], &["--json", "-"], &["--json=-"]] {
            assert!(is_json(&run(command, json)), "{command} {json:?}");
        }
        for _ in 0..2 {
            let text = run(command, &["--json", "it.json"]);
            assert!(!text.is_empty() && !is_json(&text), "{command}: {text}");
            assert!(is_json(&std::fs::read_to_string(folder.path().join("it.json")).unwrap()));
        }
    }
}
