//! Checks the statements in `docs/CONTRIBUTING.md`: its files exist, and its walk-through works.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use predicates::str::contains;

const GUIDE: &str = include_str!("../../../../docs/CONTRIBUTING.md");
const GLOSSARY: &str = include_str!("../../../../docs/GLOSSARY.md");

/// What stands in backticks, line by line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn text_of(path: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(path);
    if path.is_dir() { Some(String::new()) } else { fs::read_to_string(path).ok() }
}

#[test]
fn every_answer_leads_to_a_file_that_has_it() {
    let (_, table) = GUIDE.split_once("## Where things are").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let mut answers = 0;
    for line in table.lines().filter(|line| line.starts_with("| ")) {
        let words: Vec<_> = line.split('|').skip(2).flat_map(quoted).collect();
        let [path, anchors @ ..] = &words[..] else { continue };
        let text = text_of(path).unwrap_or_else(|| panic!("there is no {path}"));
        for anchor in anchors {
            assert!(text.contains(anchor), "{path} has no {anchor}");
            answers += 1;
        }
    }
    assert!(answers >= 20, "{answers} answers were read");
}

/// A path in the glossary is one in a crate that its row or the heading of its part names.
#[test]
fn every_file_of_the_glossary_is_there() {
    let (mut named, mut paths) = (Vec::new(), 0);
    for line in GLOSSARY.lines() {
        if line.starts_with("## ") {
            named = quoted(line).collect();
        }
        let Some((_, places)) = line.trim_end_matches(" |").rsplit_once(" | ") else { continue };
        let places: Vec<_> = quoted(places).collect();
        let crates = || named.iter().chain(&places).filter(|it| it.starts_with("coreshard"));
        for path in places.iter().filter(|it| it.ends_with(".rs") || it.ends_with('/')) {
            let whole = text_of(path).is_some_and(|_| path.starts_with("crates/"));
            let there = |name: &&str| text_of(&format!("crates/{name}/src/{path}")).is_some();
            assert!(whole || crates().any(there), "no crate of this row has {path}: {line}");
            paths += 1;
        }
    }
    assert!(paths >= 40, "{paths} paths were read");
}

#[test]
fn every_file_of_a_walk_through_is_there() {
    let (_, ways) = GUIDE.split_once("## How to add").unwrap();
    let folders = ["crates/", "peers/", "docs/"];
    let is_path = |word: &&str| folders.iter().any(|folder| word.starts_with(folder));
    let paths: Vec<_> = ways
        .lines()
        .flat_map(quoted)
        .filter(is_path)
        .filter(|path| !path.contains("NAME"))
        .collect();
    assert!(paths.len() >= 15, "{paths:?}");
    for path in paths {
        assert!(text_of(path).is_some(), "there is no {path}");
    }
    for (path, names) in [
        ("crates/coreshard-topology/src/preset.rs", ["FILES", "EXPECTED"]),
        ("crates/coreshard-topology/src/scope.rs", ["FromStr for Scope", "fn name"]),
        ("crates/coreshard-workqueue/src/base/variants.rs", ["enum Wake", "const ALL"]),
        ("crates/coreshard-workqueue/src/pool/pool.rs", ["fn unlock_and_kick", "Wake::UnderLock"]),
        ("crates/coreshard-workqueue/src/pool/idle_workers.rs", ["fn choose", "is_coalesced"]),
        ("crates/coreshard-sim/src/machine/costs.rs", ["costs! {", "= Never"]),
        ("crates/coreshard-sim/src/engine/calls.rs", ["thread_create", "enter_kernel"]),
        ("peers/src/peer/mod.rs", ["PEERS", "macro_rules! for_spawning"]),
        ("peers/src/foreign.rs", ["onetbb", "go"]),
    ] {
        let text = text_of(path).unwrap();
        names.iter().for_each(|name| assert!(text.contains(name), "{path} has no {name}"));
    }
}

/// The first half of "a machine preset", word for word: the file of the page, shown and simulated. (The second
/// half, that it is a preset, is a test beside the presets.)
#[test]
fn the_machine_of_the_walk_through_is_known_to_the_command() {
    let (_, rest) = GUIDE.split_once("```toml\n").unwrap();
    let (file, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("example.toml"), file).unwrap();
    let coreshard = |arguments: &str| {
        let mut command = Command::cargo_bin("coreshard").unwrap();
        command.current_dir(folder.path()).args(arguments.split(' '));
        command.assert().success()
    };
    coreshard("topo --machine example.toml").stdout(contains("8-15"));
    let bench =
        "bench queue --sim --machine example.toml --items 2 --runs 1 --scopes cache --json -";
    coreshard(bench).stdout(contains("\"threads\": 16"));
}
