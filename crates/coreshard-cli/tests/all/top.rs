//! `coreshard top` as scripts call it.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use assert_cmd::Command;
use coreshard::insight::InsightServer;
use coreshard::{CpuSet, Runtime, Sampling, Scope, Topology, Workqueue};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use testing::{Lack, NEVER, skip};

use crate::common::wait_until;
use crate::terminal::Terminal;

fn top(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("coreshard").unwrap();
    command.arg("top").args(args);
    command
}

/// A process that serves, which is this one.
struct Served {
    folder: tempfile::TempDir,
    queue: Workqueue,
    _server: InsightServer,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1").unwrap();
        let usable: CpuSet = coreshard::runtime().unwrap().usable().clone();
        let runtime = Runtime::builder(topology).laid_over(usable).build().unwrap();
        let builder = runtime.workqueue().name("requests").scope(Scope::Cache);
        let queue = builder.times(Sampling::EVERY_ITEM).build().unwrap();
        for _ in 0..3 {
            queue.submit(|| ()).unwrap().join().unwrap();
        }
        queue.drain().unwrap();
        let server = InsightServer::bind_at(&runtime, folder.path().join("it.sock")).unwrap();
        Self { folder, queue, _server: server }
    }

    fn socket(&self) -> String {
        self.folder.path().join("it.sock").display().to_string()
    }
}

#[test]
fn a_script_gets_json() {
    let served = Served::new();
    let output = top(&["--socket", &served.socket(), "--once", "--json"]).assert().success();
    let json: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    assert_eq!(json["pid"], std::process::id());
    assert_eq!(json["queues"][0]["name"], "requests");
    assert_eq!(json["queues"][0]["run"], 3);
    assert_eq!(json["queues"][0]["times"]["delay"]["samples"], 3);
    assert_eq!(json["pools"].as_array().unwrap().len(), 2);
}

#[test]
fn a_person_gets_tables() {
    let served = Served::new();
    top(&["--socket", &served.socket(), "--once", "--sort", "run-p99"])
        .assert()
        .success()
        .stdout(contains("1 queue, 2 pools"))
        .stdout(contains("QUEUE ").and(contains("requests")).and(contains("POOL ")))
        // They need two looks.
        .stdout(contains("RATE/S").not());
}

/// The rate of items that the screen shows, if it is known already.
fn shown_rate(terminal: &mut Terminal) -> Option<String> {
    let screen = terminal.screen();
    let (rate, _) = screen.lines().find_map(|line| line.split_once(" items/s, "))?;
    (rate != "-").then(|| rate.to_owned())
}

/// As a person uses it: a look now and then at a program that runs for a while.
#[test]
fn it_is_opened_three_times_in_a_terminal_and_its_rates_change() {
    let served = Served::new();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let busy = scope.spawn(|| {
            for items in 1.. {
                if is_over.load(SeqCst) {
                    break;
                }
                for _ in 0..items * 10 {
                    served.queue.queue(|| ()).unwrap();
                }
                thread::sleep(Duration::from_millis(100));
            }
        });
        let looks = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..3 {
                // Longer than a client is granted.
                thread::sleep(Duration::from_millis(1_100));
                let mut terminal = Terminal::of(24, 80, &["top", "--socket", &served.socket()]);
                let first = wait_until("it shows a rate", NEVER, || shown_rate(&mut terminal));
                wait_until("the rate changes", NEVER, || {
                    shown_rate(&mut terminal).filter(|rate| *rate != first)
                });
                let screen = terminal.screen();
                assert!(screen.contains("requests") && screen.contains("Pools"), "{screen}");
                let last = screen.lines().nth(23).unwrap_or_default();
                assert!(last.contains("quit") && last.contains("columns"), "{screen}");
                terminal.press("q");
                assert_eq!(terminal.exit_code(), Some(0), "{}", terminal.screen());
            }
        }));
        is_over.store(true, SeqCst);
        busy.join().unwrap();
        looks.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let served = Served::new();
    top(&["--socket", &served.socket()])
        .assert()
        .code(2)
        .stderr(contains("--once --json in scripts"));
}

#[test]
fn wrong_use_exits_with_2() {
    for (args, said) in [
        (&["--once"][..], "<PID|--socket <PATH>>"),
        (&["0", "--once"], "expected a process ID from 1"),
        (&["self", "--once"], "invalid value 'self'"),
        (&["1", "--json"], "--once"),
        (&["1", "--socket", "x"], "cannot be used with"),
        (&["1", "--interval", "0"], "0.1 to 3600 seconds"),
        (&["1", "--interval", "soon"], "expected a number of seconds"),
        (&["1", "--sort", "moon"], "expected one of"),
    ] {
        let assert = top(args).assert().code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(!text.is_empty(), "{args:?}");
        if said.starts_with('<') {
            assert!(text.contains("PID"), "{args:?}: {text}");
        } else {
            assert!(text.contains(said), "{args:?}: {text}");
        }
    }
}

/// One sentence, which says what to do, and status 1.
fn fails(args: &[&str], said: &str, remedy: &str) {
    top(args)
        .arg("--once")
        .assert()
        .code(1)
        .stdout("")
        .stderr(contains("coreshard: ").and(contains(said)).and(contains(remedy)));
}

#[test]
fn an_unknown_socket_and_a_stale_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.sock");
    let text = path.display().to_string();
    fails(&["--socket", &text], "there is no socket", "does not call coreshard::serve_insight()");
    drop(UnixListener::bind(&path).unwrap());
    fails(&["--socket", &text], "no process listens", "the file may be removed");
    let file = folder.path().join("a precious file");
    std::fs::write(&file, "precious").unwrap();
    let text = file.display().to_string();
    fails(&["--socket", &text], "invalid socket", "the file is not a socket");
}

#[test]
fn a_process_that_is_not_there_and_one_that_serves_nothing() {
    fails(&["4294967295"], "there is no process", "4294967295");
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    fails(&[&child.id().to_string()], "serves no insight", "call coreshard::serve_insight()");
    child.kill().unwrap();
    child.wait().unwrap();
}

fn answers(path: PathBuf, bytes: &'static [u8]) -> thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(bytes).unwrap();
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    })
}

#[test]
fn a_process_that_is_no_coreshard_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.sock");
    let other = answers(path.clone(), b"220 mail.example ESMTP ready\r\n");
    fails(&["--socket", &path.display().to_string()], "not a Coreshard process", "use the socket");
    other.join().unwrap();
}

#[test]
fn another_releases_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.sock");
    let other = answers(path.clone(), b"COSH\x63\0\0\0\x02\0\0\0{}");
    let socket = path.display().to_string();
    fails(&["--socket", &socket], "version 99 of the protocol", "use the command `coreshard` of");
    other.join().unwrap();
}

/// Needs another user, so it needs root; and a folder that the other may enter.
#[test]
fn another_user_sees_nothing() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let served = Served::new();
    if fs::metadata(served.folder.path()).unwrap().uid() != 0 {
        return skip(Lack::Root, "only root can run a program as another user");
    }
    fs::set_permissions(served.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = served.folder.path().join("coreshard");
    fs::copy(assert_cmd::cargo::cargo_bin("coreshard"), &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    // The file's mode fails the first check. If the file is opened anyway, the kernel's credentials fail the second
    // one.
    for (mode, said) in [(0o600, "cannot open the socket"), (0o666, "served by user 0")] {
        fs::set_permissions(served.socket(), fs::Permissions::from_mode(mode)).unwrap();
        let output = std::process::Command::new(&binary)
            .args(["top", "--socket", &served.socket(), "--once", "--json"])
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(output.stdout.is_empty() && text.contains(said), "{text}");
    }
}
