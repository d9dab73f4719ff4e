//! A terminal that a person would sit at: the command runs in it, keys are pressed, and its screen is read.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::common::Ending;

/// A pseudo-terminal that runs the command.
pub(crate) struct Terminal {
    keys: File,
    screen: Arc<Mutex<vt100::Parser>>,
    /// Ends when no program has the terminal open any more.
    reader: Option<thread::JoinHandle<()>>,
    command: Ending,
}

impl Terminal {
    /// Starts the command with `arguments` in a terminal with this many rows and columns.
    pub(crate) fn of(rows: u16, columns: u16, arguments: &[&str]) -> Self {
        let keys: OwnedFd =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keys, size).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let name = std::ffi::OsStr::from_bytes(name.as_bytes());
        let open = || OpenOptions::new().read(true).write(true).open(name).unwrap();
        // setsid makes it the controlling terminal of a new session, independent of the test's session.
        let command = Command::new("setsid")
            .args(["--ctty", "--wait"])
            .arg(assert_cmd::cargo::cargo_bin("coreshard"))
            .args(arguments)
            .env("TERM", "xterm")
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        let keys = File::from(keys);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (mut shown, parser) = (keys.try_clone().unwrap(), Arc::clone(&screen));
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4 << 10];
            while let Ok(bytes @ 1..) = shown.read(&mut buffer) {
                parser.lock().unwrap().process(&buffer[..bytes]);
            }
        });
        Self { keys, screen, reader: Some(reader), command: Ending(command) }
    }

    /// The lines of the screen. Panics if the command has failed.
    pub(crate) fn screen(&mut self) -> String {
        let text = self.screen.lock().unwrap().screen().contents();
        if let Some(status) = self.command.0.try_wait().unwrap() {
            assert!(status.success(), "{status}: {text}");
        }
        text
    }

    /// The lines that were too long for the terminal, of a command that has ended.
    pub(crate) fn wrapped(&mut self) -> Vec<String> {
        self.reader.take().unwrap().join().unwrap();
        let parser = self.screen.lock().unwrap();
        let screen = parser.screen();
        let rows = screen.rows(0, screen.size().1).enumerate();
        rows.filter(|(row, _)| screen.row_wrapped(*row as u16)).map(|(_, text)| text).collect()
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the command's end.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.command.0.wait().unwrap().code()
    }
}
