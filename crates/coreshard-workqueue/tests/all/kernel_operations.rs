//! The table of kernel operations names only tests that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_test_that_the_table_of_the_kernels_operations_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = fs::read_to_string(root.join("docs/KERNEL-OPERATIONS.md")).unwrap();
    let sources = |folder: String| {
        let files = fs::read_dir(root.join("crates").join(folder)).unwrap();
        files.filter_map(|file| fs::read_to_string(file.unwrap().path()).ok()).collect::<String>()
    };
    let folders = ["coreshard-workqueue/tests/all", "coreshard-cli/tests/all"];
    let models =
        ["work", "queue", "queue/link"].map(|folder| format!("coreshard-workqueue/src/{folder}"));
    let all: String = folders.map(str::to_owned).into_iter().chain(models).map(sources).collect();
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| kernel"));
    let mut named = BTreeSet::new();
    for row in rows.clone() {
        let cells: Vec<_> = row.split(" | ").collect();
        let tests = cells.last().unwrap();
        let words = tests.split('`').skip(1).step_by(2);
        named.extend(words.map(|word| word.rsplit("::").next().unwrap()));
    }
    assert!(named.len() > 50 && rows.count() > 60, "the table was found: {}", named.len());
    let absent: Vec<_> =
        named.into_iter().filter(|name| !all.contains(&format!("fn {name}("))).collect();
    assert!(absent.is_empty(), "docs/KERNEL-OPERATIONS.md names missing tests: {absent:?}");
}
