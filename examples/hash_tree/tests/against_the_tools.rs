//! Compares the program with the tools whose output it prints, and tests it on awkward trees.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::assert::OutputAssertExt;
use tempfile::TempDir;
use testing::{Lack, skip};

testing::watch!();

const PROGRAM: &str = env!("CARGO_BIN_EXE_hash_tree");

fn hash_tree(folder: &Path, options: &[&str]) -> Output {
    Command::new(PROGRAM).args(options).arg(folder).output().unwrap()
}

fn write(root: &Path, name: impl AsRef<OsStr>, content: impl AsRef<[u8]>) {
    let path = root.join(Path::new(name.as_ref()));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Returns the output of `tool` for the regular files that `find` lists, sorted by path. Reports a skip and
/// returns `None` if it is not installed.
fn by_the_tool(tool: &str, folder: &Path) -> Option<Vec<u8>> {
    if let Err(error) = Command::new(tool).arg("--version").output() {
        skip(Lack::HashTools, format!("{tool}: {error}"));
        return None;
    }
    let output = Command::new("sh")
        .args(["-c", r#"find "$1" -type f -print0 | LC_ALL=C sort -z | xargs -0 -r "$0""#, tool])
        .arg(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(output.stdout)
}

/// Fails with the first line that differs.
fn assert_same_lines(ours: &[u8], theirs: &[u8]) {
    let lines = |text: &[u8]| -> Vec<String> {
        text.split_inclusive(|byte| *byte == b'\n')
            .map(|line| line.escape_ascii().to_string())
            .collect()
    };
    let (ours, theirs) = (lines(ours), lines(theirs));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
}

/// A tree with names and sizes that programs often handle wrongly.
fn awkward_tree() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let names: [&[u8]; 14] = [
        b"plain",
        b"with space",
        b" leading",
        b"new\nline",
        b"back\\slash",
        b"\\\n",
        b"tab\there",
        b"-n",
        b"*",
        b"a/x",
        b"a-b",
        b"a.c/x",
        b"not utf8 \xff\xfe",
        "ümläut/日本".as_bytes(),
    ];
    for (index, name) in names.iter().enumerate() {
        write(root.path(), OsStr::from_bytes(name), vec![index as u8; index]);
    }
    write(root.path(), "deep/1/2/3/4/5/6/7/8/9/file", "deep");
    write(root.path(), "empty", "");
    for size in [63, 64, 65, 1024, 65_535, 65_536, 65_537, 3_000_000] {
        let content: Vec<u8> = (0..size).map(|index| (index * 31 % 253) as u8).collect();
        write(root.path(), format!("sizes/{size}"), content);
    }
    fs::create_dir(root.path().join("empty folder")).unwrap();
    symlink("plain", root.path().join("link")).unwrap();
    symlink("nowhere", root.path().join("dangling")).unwrap();
    symlink("..", root.path().join("deep/loop")).unwrap();
    UnixListener::bind(root.path().join("socket")).unwrap();
    assert!(Command::new("mkfifo").arg(root.path().join("pipe")).status().unwrap().success());
    root
}

#[test]
fn sha256_is_what_sha256sum_prints() {
    let root = awkward_tree();
    let output = hash_tree(root.path(), &["--algorithm", "sha256"]).assert().success();
    let output = output.stderr("").get_output().stdout.clone();
    assert_eq!(output.split_inclusive(|byte| *byte == b'\n').count(), 24);
    if let Some(theirs) = by_the_tool("sha256sum", root.path()) {
        assert_same_lines(&output, &theirs);
    }
}

#[test]
fn blake3_is_what_b3sum_prints() {
    let root = awkward_tree();
    let output =
        hash_tree(root.path(), &[]).assert().success().stderr("").get_output().stdout.clone();
    assert_eq!(output.split_inclusive(|byte| *byte == b'\n').count(), 24);
    if let Some(theirs) = by_the_tool("b3sum", root.path()) {
        assert_same_lines(&output, &theirs);
    }
}

#[test]
fn paths_begin_as_the_folder_was_given() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "folder/file", "");
    for given in [".", "folder", "folder/", "./folder", "folder/file"] {
        let output = Command::new(PROGRAM).arg(given).current_dir(root.path()).output().unwrap();
        let mut find = Command::new("find");
        let found = find.args([given, "-type", "f"]).current_dir(root.path()).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        let line = String::from_utf8(output.stdout).unwrap();
        assert_eq!(line.split_once("  ").unwrap().1, found, "{given}");
    }
}

#[test]
fn more_files_than_are_in_flight_come_out_in_order() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..9_000 {
        write(root.path(), format!("{}/{number}", number % 7), number.to_string());
    }
    // The first one takes longer than the others.
    write(root.path(), "0/0", vec![7; 20_000_000]);
    let output = hash_tree(root.path(), &["-a", "sha256"]).assert().success();
    let ours = &output.get_output().stdout;
    assert_eq!(ours.iter().filter(|byte| **byte == b'\n').count(), 9_000);
    if let Some(theirs) = by_the_tool("sha256sum", root.path()) {
        assert_same_lines(ours, &theirs);
    }
    let unsorted = hash_tree(root.path(), &["-a", "sha256", "--unsorted"]).stdout;
    let sorted = |text: &[u8]| {
        let mut lines: Vec<Vec<u8>> =
            text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    assert!(sorted(&unsorted) == sorted(ours), "the same lines in another order");
}

#[test]
fn an_empty_tree_is_no_output_and_no_error() {
    let root = tempfile::tempdir().unwrap();
    hash_tree(root.path(), &[]).assert().success().stdout("").stderr("");
}

#[test]
fn what_cannot_be_read_is_told_at_the_end_and_by_the_status() {
    // A file of /proc that opens and then fails to be read, even by root.
    let output = hash_tree(Path::new("/proc/self/mem"), &[]).assert().code(1).stdout("");
    let told = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(told.starts_with("hash_tree: \"/proc/self/mem\": Input/output error"), "{told}");
    assert!(told.ends_with("hash_tree: 1 file or folder could not be read\n"), "{told}");
}

#[test]
fn files_beside_an_unreadable_one_are_hashed() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a", "");
    write(root.path(), "b secret", "");
    write(root.path(), "c secret/file", "");
    write(root.path(), "d\u{1b}[31m", "");
    write(root.path(), "e", "");
    for name in ["b secret", "c secret", "d\u{1b}[31m"] {
        let none = fs::Permissions::from_mode(0o000);
        fs::set_permissions(root.path().join(name), none).unwrap();
    }
    // Root may read everything, so it hands the program to a user who may not; that user must reach both
    // the tree and the program.
    let program = root.path().join("e.hash_tree");
    fs::copy(PROGRAM, &program).unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.args(["-a", "sha256"]).arg(root.path());
    if fs::metadata(root.path()).unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    fs::set_permissions(root.path().join("c secret"), fs::Permissions::from_mode(0o755)).unwrap();

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = lines.lines().map(|line| line.rsplit_once('/').unwrap().1).collect();
    assert_eq!(names, ["a", "e", "e.hash_tree"]);
    let told = String::from_utf8(output.stderr).unwrap();
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(told.len(), 4, "{told:?}");
    for (line, name) in told.iter().zip(["b secret", "c secret", "d\\u{1b}[31m"]) {
        assert!(line.contains(name) && line.contains("Permission denied"), "{line}");
    }
    assert_eq!(told[3], "hash_tree: 3 files or folders could not be read");
}

#[test]
fn bad_usage_is_status_2() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("missing");
    let output = hash_tree(&missing, &[]).assert().code(2).stdout("");
    let told = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(told.contains("missing") && told.contains("No such file"), "{told}");
    let output = hash_tree(Path::new("/dev/null"), &[]).assert().code(2).stdout("");
    let told = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(told.contains("neither a folder nor a regular file"), "{told}");
    hash_tree(root.path(), &["--algorithm", "md5"]).assert().code(2).stdout("");
    Command::new(PROGRAM).output().unwrap().assert().code(2).stdout("");
}

#[test]
fn output_that_cannot_be_written_is_status_2() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "file", "");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(PROGRAM).arg(root.path()).stdout(full).output().unwrap();
    let output = output.assert().code(2);
    let told = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(told.contains("standard output cannot be written: No space left"), "{told}");
}

#[test]
fn a_reader_that_leaves_ends_the_program_quietly() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..9_000 {
        write(root.path(), number.to_string(), "");
    }
    let mut child = Command::new(PROGRAM)
        .arg(root.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(told, "");
    assert_eq!(child.wait().unwrap().code(), Some(2));
}
