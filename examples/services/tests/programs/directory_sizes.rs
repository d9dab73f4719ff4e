use std::fs;
use std::os::unix::fs::symlink;

use crate::child::{run, said};

const PROGRAM: &str = env!("CARGO_BIN_EXE_directory-sizes");

#[test]
fn files_are_added_up_by_extension() {
    let folder = tempfile::tempdir().unwrap();
    let mut deep = folder.path().to_owned();
    for depth in 0..20 {
        for side in 0..3 {
            let sibling = deep.join(format!("side{side}"));
            fs::create_dir(&sibling).unwrap();
            fs::write(sibling.join("a.txt"), vec![0; depth]).unwrap();
        }
        fs::write(deep.join("b.rs"), [0; 10]).unwrap();
        deep = deep.join("deeper");
        fs::create_dir(&deep).unwrap();
    }
    fs::write(deep.join("none"), "x").unwrap();
    // A circle, if it were followed.
    symlink(folder.path(), deep.join("link.rs")).unwrap();
    let output = run(PROGRAM, &[folder.path()], "");
    let lines: Vec<Vec<_>> =
        said(&output).lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines, [vec!["1", "1"], vec!["20", "200", "rs"], vec!["60", "570", "txt"]]);
}

#[test]
fn what_cannot_be_read_is_told() {
    let output = run(PROGRAM, &["not/there"], "");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("not/there: "), "{output:?}");
}
