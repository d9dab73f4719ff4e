//! What several tests of the command need.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::process::Child;
use std::time::{Duration, Instant};

/// Asks `condition` again and again until it has an answer.
///
/// # Panics
/// Where it has none after `patience`; `what` says in the message what was waited for.
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
pub(crate) fn cpu_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// A process that is over at the latest when this is dropped.
pub(crate) struct Ending(pub(crate) Child);

impl Ending {
    /// As Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.signal("INT");
    }

    pub(crate) fn signal(&self, name: &str) {
        // A shell has it in itself; the program is missing on small machines.
        let kill = format!("kill -{name} \"$0\"");
        let id = self.0.id().to_string();
        let sent = std::process::Command::new("sh").args(["-c", &kill, &id]).status();
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
