//! The site's pages: each is in the table of contents, links lead somewhere, generated pages are current, and the
//! lessons' outputs are right. `site/build.sh` builds the site, and checks it at night.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use coreshard_topology::{Pods, Preset, Scope, ShardSize, Topology};

use crate::shown::{pages_below, read, root};

/// A page without its programs, and those by themselves: each with the word after the fence.
fn parted(text: &str) -> (String, Vec<(&str, String)>) {
    let (mut prose, mut programs) = (String::new(), Vec::new());
    let mut program: Option<(&str, String)> = None;
    for line in text.lines() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut program, fence) {
            (Some(_), Some(_)) => programs.extend(program.take()),
            (Some((_, text)), None) => text.extend([line, "\n"]),
            (None, Some(word)) => program = Some((word, String::new())),
            (None, None) => prose.extend([line, "\n"]),
        }
    }
    assert!(program.is_none(), "a program without an end");
    (prose, programs)
}

/// Returns the targets of inline links, except in code.
fn links(prose: &str) -> Vec<String> {
    let plain: String = prose.split('`').step_by(2).collect();
    let inline = plain.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    inline.map(|(target, _)| target.to_owned()).collect()
}

/// Returns the anchors of a page's headings, as GitHub and mdBook derive them.
fn anchors(prose: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for line in prose.lines().filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let is_kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        let anchor: String = heading.chars().filter(is_kept).collect();
        let anchor = anchor.replace(' ', "-");
        let count = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// The pages of the table of contents.
fn contents() -> BTreeSet<PathBuf> {
    let docs = root().join("docs");
    let targets = links(&read(&docs.join("SUMMARY.md")));
    targets
        .iter()
        .map(|target| {
            fs::canonicalize(docs.join(target))
                .unwrap_or_else(|_| panic!("docs/SUMMARY.md: there is no {target}"))
        })
        .collect()
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let mut pages = BTreeSet::new();
    pages_below(&root().join("docs"), &mut pages);
    pages.remove(&root().join("docs/SUMMARY.md"));
    assert!(pages.len() > 30, "{pages:#?}");
    // Files beside the code are pages as well.
    for folder in ["adapters", "bindings", "crates", "fuzz", "judges", "lab", "peers", "recorders"]
    {
        let mut beside = BTreeSet::new();
        pages_below(&root().join(folder), &mut beside);
        pages.extend(beside.into_iter().filter(|page| page.ends_with("README.md")));
    }
    let contents = contents();
    let lost: Vec<_> = pages.difference(&contents).collect();
    assert!(lost.is_empty(), "docs/SUMMARY.md does not name {lost:?}");
}

#[test]
fn every_link_leads_to_a_place_that_is_there() {
    let mut pages = contents();
    pages.extend(["README.md", "docs/SUMMARY.md"].map(|page| root().join(page)));
    let mut checked = 0;
    let mut wrong = Vec::new();
    for page in &pages {
        let text = read(page);
        let (prose, _) = parted(&text);
        for target in links(&prose) {
            // The machine page is made with the site.
            if target.contains(':') || target == "machine/index.html" {
                continue;
            }
            checked += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let found =
                if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            let is_page = found.extension().is_some_and(|it| it == "md");
            if !found.exists() {
                wrong.push(format!("{}: there is no {target}", page.display()));
            } else if !anchor.is_empty()
                && is_page
                && !anchors(&parted(&read(&found)).0).contains(anchor)
            {
                wrong.push(format!("{}: {target} is not a heading", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 200, "{checked} links were read");
}

/// Counts the cells of a table row. Bars in backticks also separate cells, unless escaped with a backslash.
fn cells(row: &str) -> usize {
    let row = row.trim().replace("\\|", "");
    row.trim_start_matches('|').trim_end_matches('|').matches('|').count() + 1
}

/// Returns the problems of a page's tables, each with its row.
fn torn_rows(prose: &str) -> Vec<&str> {
    let lines: Vec<&str> = prose.lines().collect();
    let mut heading = None;
    let mut torn = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if !line.starts_with('|') {
            heading = None;
            continue;
        }
        let is_ruled = || {
            let rule = lines.get(index + 1).unwrap_or(&"");
            rule.starts_with('|') && rule.chars().all(|it| "|:- ".contains(it))
        };
        match heading {
            None if is_ruled() => heading = Some(cells(line)),
            Some(count) if count == cells(line) => {}
            _ => torn.push(*line),
        }
    }
    torn
}

#[test]
fn every_table_has_a_heading_and_whole_rows() {
    let whole = "| a | b |\n|---|:-:|\n| `x \\| y` | 2 |\n\n";
    assert_eq!(torn_rows(whole), [""; 0]);
    let torn = format!("{whole}| 3 | 4 |\n");
    assert_eq!(torn_rows(&torn), ["| 3 | 4 |"], "a blank line ends a table");
    let torn = whole.replace(" | 2", "");
    assert_eq!(torn_rows(&torn), ["| `x \\| y` |"]);

    let mut rows = 0;
    let mut wrong = Vec::new();
    for page in contents() {
        let (prose, _) = parted(&read(&page));
        rows += prose.lines().filter(|line| line.starts_with('|')).count();
        let torn = torn_rows(&prose);
        wrong.extend(torn.iter().map(|row| format!("{}: {row}", page.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(rows > 1_000, "{rows} rows were read");
}

fn coreshard(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coreshard"));
    command.args(arguments).current_dir(folder).output().unwrap()
}

#[test]
fn the_reference_of_commands_is_fresh() {
    let output = coreshard(&["generate", "reference"], &root());
    let now = String::from_utf8(output.stdout).unwrap();
    let kept = read(&root().join("docs/reference/commands.md"));
    let differs = now.lines().zip(kept.lines()).find(|(now, kept)| now != kept);
    assert!(
        now == kept,
        "coreshard generate reference > docs/reference/commands.md; the first line that differs: {differs:?}"
    );
}

#[test]
fn completions_and_manual_pages_are_made_of_the_same_options() {
    let folder = root();
    for shell in ["bash", "elvish", "fish", "power-shell", "zsh"] {
        let script = coreshard(&["generate", "completions", shell], &folder);
        let script = String::from_utf8(script.stdout).unwrap();
        assert!(script.contains("no-check") && script.contains("outstanding"), "{shell}: {script}");
    }
    let pages = coreshard(&["generate", "man-pages"], &folder);
    let pages = String::from_utf8(pages.stdout).unwrap();
    assert!(pages.lines().count() > 12, "{pages}");
    for line in pages.lines() {
        let (name, words) = line.split_once('\t').unwrap();
        let words: Vec<_> =
            ["generate", "man"].into_iter().chain(words.split_whitespace()).collect();
        let output = coreshard(&words, &folder);
        let page = String::from_utf8(output.stdout).unwrap();
        assert!(
            page.contains(&format!(".TH {name} 1")) && page.contains(".SH OPTIONS"),
            "{name}: {page}"
        );
    }
    let output = coreshard(&["generate", "man", "bunch"], &folder);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("\"bunch\""));
}

/// A lesson: its picture moves, and stands still for who asks for that; its figures have their source; its command does what it says.
#[test]
fn each_lesson_has_a_moving_picture_an_experiment_and_a_source() {
    let learn = root().join("docs/learn");
    let lessons = [
        ("shards", "cache_shard"),
        ("waking", "after-unlock"),
        ("false-sharing", "node-local"),
        ("priority-index", "per-llc"),
    ];
    let mut experiments = Vec::new();
    for (name, variant) in lessons {
        let text = read(&learn.join(format!("{name}.md")));
        let (prose, programs) = parted(&text);
        assert!(
            prose.contains(&format!("]({name}.svg)")) && prose.contains("## What was published"),
            "{name}"
        );
        assert!(prose.contains("\nSource: "), "{name} has no source");
        let picture = read(&learn.join(format!("{name}.svg")));
        for part in [
            "@keyframes",
            "prefers-reduced-motion",
            "prefers-color-scheme: dark",
            "<title",
            "viewBox",
        ] {
            assert!(picture.contains(part), "{name}.svg has no {part}");
        }
        let [("sh", command)] = &programs[..] else { panic!("{name}: {programs:?}") };
        let words = words(command.trim().strip_prefix("coreshard ").unwrap());
        experiments.push(thread::spawn(move || {
            let folder = tempfile::tempdir().unwrap();
            let arguments: Vec<_> = words.iter().map(String::as_str).collect();
            let output = coreshard(&arguments, folder.path());
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                output.status.success(),
                "{arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(said.contains(variant), "{arguments:?} says nothing of {variant}: {said}");
        }));
    }
    experiments.into_iter().for_each(|experiment| experiment.join().unwrap());
}

/// The words of a command, as a shell would part them.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in command.split('"').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Pages for newcomers are at most two links from the start.
#[test]
fn what_people_look_for_is_two_clicks_away() {
    let docs = root().join("docs");
    let reached = |from: &Path| -> BTreeSet<PathBuf> {
        let text = read(from);
        let (prose, _) = parted(&text);
        let targets = links(&prose).into_iter().filter(|target| !target.contains(':'));
        let paths =
            targets.map(|target| from.parent().unwrap().join(target.split('#').next().unwrap()));
        paths
            .filter(|path| path.extension().is_some_and(|it| it == "md"))
            .filter_map(|path| fs::canonicalize(path).ok())
            .collect()
    };
    let once = reached(&docs.join("index.md"));
    let twice: BTreeSet<PathBuf> =
        once.iter().flat_map(|page| reached(page)).chain(once.clone()).collect();
    for (page, words) in [
        ("learn/shards.md", "A **cache shard** is"),
        ("learn/shards.md", "coreshard bench kernel workqueue --machine grace"),
        ("ASYNC.md", "tokio"),
        ("results/README.md", "A figure without its range is not a result"),
    ] {
        assert!(twice.contains(&docs.join(page)), "{page} is further than two clicks away");
        assert!(read(&docs.join(page)).contains(words), "{page} does not say: {words}");
    }
}

/// The simulated figures of the machine page are of this release, of all presets, and of the layouts that these have now.
/// Whether the simulator would still give them, `site/sweep.py --check` says at night.
#[test]
fn the_simulated_figures_of_the_machine_page_are_of_the_presets() {
    let sweeps: serde_json::Value =
        serde_json::from_str(&read(&root().join("site/machine/sweeps.json"))).unwrap();
    let remedy = "target/release/coreshard is built, then: site/sweep.py";
    assert_eq!(sweeps["format"], 1, "{remedy}");
    assert!(read(&root().join("site/sweep.py")).contains("\nFORMAT = 1\n"));
    assert_eq!(sweeps["version"], env!("CARGO_PKG_VERSION"), "{remedy}");
    let machines = sweeps["machines"].as_object().unwrap();
    let names: BTreeSet<&str> = machines.keys().map(String::as_str).collect();
    assert_eq!(names, Preset::names().collect(), "{remedy}");
    for (name, rows) in machines {
        let topology = Topology::parse_machine(name).unwrap();
        let rows = rows.as_array().unwrap();
        assert!(rows.len() > 2, "{name}: {rows:?}");
        for row in rows {
            let scope: Scope = row["scope"].as_str().unwrap().parse().unwrap();
            let shard = row["shard"].as_u64().map_or(ShardSize::DEFAULT, |cores| {
                ShardSize::new(usize::try_from(cores).unwrap())
            });
            let pods = Pods::new(&topology, topology.online(), scope, shard).unwrap();
            assert_eq!(row["pods"], pods.len(), "{name}, {scope}: {remedy}");
            let rates = [&row["even"], &row["bursts"]].map(|rate| rate.as_u64().unwrap());
            assert!(rates.iter().all(|rate| *rate > 0), "{name}, {scope}: {rates:?}");
        }
    }
}
