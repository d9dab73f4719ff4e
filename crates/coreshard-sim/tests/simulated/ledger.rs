//! The simulator's predictions of published tables are no worse than recorded (`lab/predictions/`,
//! `lab/score.tsv`).
//!
//! These are the tables of small machines; `lab/validate.py --score lab/score.tsv` checks all of them at
//! night.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coreshard_sim::{Machine, Simulation};
use toml::de::{DeTable, DeValue};

use crate::programs::{Load, Program};

/// A ratio within a quarter is close. Rows whose published figures differ by less than a tenth have no order.
const CLOSE: f64 = 0.25;
const TOGETHER: f64 = 0.10;

/// Prefixes of tables of few threads, and of two Arm machines.
const SMALL: [&str; 5] =
    ["skylake-", "icelake-", "ryzen-5825u-", "graviton2-atomic-add", "graviton2-compare-exchange"];

/// A figure is the median of this many runs, as in `lab/validate.py`.
const SEEDS: u64 = 5;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The scores that need only the predicted figures.
#[derive(Debug, PartialEq, Eq)]
struct Score {
    pairs: usize,
    close: usize,
}

/// Returns each table's name, its use, and its score: one per line, after a line of headings.
fn held() -> BTreeMap<String, (String, Score)> {
    let text = std::fs::read_to_string(root().join("lab/score.tsv")).unwrap();
    let line = |line: &str| {
        let cells: Vec<_> = line.split('\t').collect();
        let [name, used, pairs, _, close, ..] = cells[..] else { panic!("a score of {cells:?}") };
        let score = Score { pairs: pairs.parse().unwrap(), close: close.parse().unwrap() };
        (name.to_owned(), (used.to_owned(), score))
    };
    text.lines().skip(1).map(line).collect()
}

fn text<'a>(table: &'a DeTable<'_>, key: &str) -> &'a str {
    let value = table.get(key).unwrap_or_else(|| panic!("there is no {key}"));
    value.get_ref().as_str().unwrap_or_else(|| panic!("{key} is not a text"))
}

fn number(value: &DeValue<'_>) -> f64 {
    let written = match value {
        DeValue::Integer(whole) => whole.to_string(),
        DeValue::Float(float) => float.to_string(),
        other => panic!("{other:?} is not a number"),
    };
    written.parse().unwrap()
}

/// Reads a table's file.
fn read(name: &str, then: impl FnOnce(&DeTable<'_>)) {
    let path = root().join("lab/predictions").join(format!("{name}.toml"));
    let file = std::fs::read_to_string(path).unwrap();
    then(DeTable::parse(&file).unwrap().get_ref());
}

fn score(table: &DeTable<'_>) -> Score {
    let machine = Machine::from_file(&root().join(text(table, "machine"))).unwrap();
    let program = Program::named(text(table, "operation")).unwrap();
    let rows = table.get("row").unwrap().get_ref().as_array().unwrap();
    let rows: Vec<_> = rows.iter().map(|row| row.get_ref().as_table().unwrap()).collect();
    let published: Vec<f64> =
        rows.iter().map(|row| number(row.get("published").unwrap().get_ref())).collect();
    let predict = |row: &&DeTable<'_>| {
        let threads = text(row, "at").parse().unwrap();
        let by_seed = |seed| {
            let simulation = Simulation::new(&machine).seed(seed);
            simulation.run(|| program.ns(Load::of(threads))).unwrap().value
        };
        let mut runs: Vec<f64> = (1..=SEEDS).map(by_seed).collect();
        runs.sort_unstable_by(f64::total_cmp);
        runs[runs.len() / 2]
    };
    let predicted: Vec<f64> = rows.iter().map(predict).collect();
    let is_right = |one: usize, two: usize| {
        let (most, least) =
            (published[one].max(published[two]), published[one].min(published[two]));
        let is_apart = most > (1.0 + TOGETHER) * least;
        is_apart && (predicted[one] - predicted[two]) * (published[one] - published[two]) > 0.0
    };
    let pairs = (0..rows.len()).flat_map(|one| (0..one).map(move |two| (one, two)));
    Score {
        pairs: pairs.filter(|(one, two)| is_right(*one, *two)).count(),
        close: (0..rows.len())
            .filter(|row| (predicted[*row] / published[*row] - 1.0).abs() <= CLOSE)
            .count(),
    }
}

#[test]
fn published_tables_are_predicted_no_worse_than_before() {
    let held = held();
    let mut worse = Vec::new();
    for (name, (_, before)) in
        held.iter().filter(|(name, _)| SMALL.iter().any(|small| name.starts_with(small)))
    {
        read(name, |table| {
            let now = score(table);
            if now.pairs < before.pairs || now.close < before.close {
                worse.push(format!("{name}: {now:?}, before {before:?}"));
            }
        });
    }
    assert!(
        worse.is_empty(),
        "{worse:#?}; to record a change that improves most tables, run lab/validate.py"
    );
}

/// Each table itself states its value as a test of the model.
#[test]
fn each_table_has_a_score_and_says_how_it_was_used() {
    let held = held();
    let folder = std::fs::read_dir(root().join("lab/predictions")).unwrap();
    let mut names: Vec<String> = Vec::new();
    for entry in folder {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        read(&name, |table| {
            let (used, _) = held.get(&name).unwrap_or_else(|| panic!("{name} has no score"));
            assert!(["fitted", "in view", "unseen"].contains(&used.as_str()), "{name}");
            assert_eq!(used, text(table, "used"), "{name}");
            assert!(!text(table, "source").is_empty(), "{name}");
        });
        names.push(name);
    }
    assert_eq!(names.len(), held.len(), "lab/score.tsv has tables that do not exist");
    let unseen = held.values().filter(|(used, _)| used == "unseen").count();
    assert!(unseen >= 12, "{unseen} tables were never used for calibration");
}
