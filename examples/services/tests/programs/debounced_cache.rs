use std::fmt::Write;
use std::fs;

use crate::child::{run, said};

const PROGRAM: &str = env!("CARGO_BIN_EXE_debounced-cache");

#[test]
fn many_changes_are_one_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words.tsv");
    let file = path.to_str().unwrap();
    let mut input = String::new();
    for number in 0..1_000 {
        let _ = writeln!(input, "set key{} value{number}", number % 10);
    }
    input += "get key3\nget none\n";
    // It never stays unchanged for this long.
    let output =
        run(PROGRAM, &["--file", file, "--quiet-ms", "3600000", "--at-most-ms", "3600000"], &input);
    assert_eq!(said(&output), "value993\n\n1000 changes, 1 writes\n");
    let lines: String = (0..10).map(|key| format!("key{key}\tvalue{}\n", 990 + key)).collect();
    assert_eq!(fs::read_to_string(&path).unwrap(), lines);
    // The next run finds it. Without changes, it is not written.
    let output = run(PROGRAM, &["--file", file], "get key7\n");
    assert_eq!(said(&output), "value997\n0 changes, 0 writes\n");
}

/// The file is also written while changes continue.
#[test]
fn no_change_waits_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words.tsv");
    let queue = coreshard::workqueue().unwrap().name("cache").build().unwrap();
    let (quiet, at_most) =
        (std::time::Duration::from_secs(3600), std::time::Duration::from_millis(20));
    let cache = services::DebouncedCache::open(path.clone(), queue, quiet, at_most).unwrap();
    let mut number = 0;
    testing::wait_until("it is written", || {
        number += 1;
        cache.set("key".to_owned(), number.to_string()).unwrap();
        path.exists()
    });
    cache.close().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("key\t{number}\n"));
}
