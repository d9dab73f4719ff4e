//! What several tests of the command need.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testing::NEVER;

/// Polls `condition` until it returns a value.
///
/// # Panics
/// If there is no value after `patience`. The message contains `what`.
pub(crate) fn wait_until<T>(
    what: &str,
    patience: Duration,
    mut condition: impl FnMut() -> Option<T>,
) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = condition() {
            return answer;
        }
        assert!(begun.elapsed() < patience, "waited for {patience:?} until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// CPU time of a process, user and system, in ticks of a hundredth of a second.
fn cpu_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// A process that is over at the latest when this is dropped.
pub(crate) struct Ending(pub(crate) Child);

impl Ending {
    /// The command with these arguments, in a folder, when it has computed for 0.3 s, which is before its end.
    pub(crate) fn command_that_computes(folder: &Path, arguments: &[&str]) -> Self {
        let child = Command::new(assert_cmd::cargo::cargo_bin("coreshard"))
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Self(child);
        wait_until("it computes", NEVER, || {
            assert!(child.0.try_wait().unwrap().is_none(), "it ended early");
            (cpu_ticks(child.0.id()) >= 30).then_some(())
        });
        child
    }

    /// As Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.signal("INT");
    }

    pub(crate) fn signal(&self, name: &str) {
        // A shell has it in itself; the program is missing on small machines.
        let kill = format!("kill -{name} \"$0\"");
        let id = self.0.id().to_string();
        let sent = Command::new("sh").args(["-c", &kill, &id]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // It may be over already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
