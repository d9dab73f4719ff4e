//! A program that runs until the test has seen enough of it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use testing::{NEVER, within};

/// A server of this crate. It is killed if the test fails.
pub(crate) struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts it on any port.
    pub(crate) fn start<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Self {
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0"]).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("listens on ").expect("it prints its address").parse();
        Self { child, output, address: address.unwrap() }
    }

    pub(crate) fn terminate(&self) {
        let id = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -TERM \"$0\"", &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Its exit status and its output.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let started = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(started.elapsed() < NEVER, "the program does not end"),
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        (status, said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program with this on its standard input, to its end.
pub(crate) fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A], input: &str) -> Output {
    let mut command = Command::new(program);
    let command = command.args(arguments).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    within(NEVER, move || {
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        output
    })
}

/// Its standard output, if it has ended well.
pub(crate) fn said(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}
