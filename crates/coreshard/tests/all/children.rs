//! Processes that items start.

use std::process::Command;

use coreshard::{ChildCommand, Priority, Scope};
use testing::{Lack, skip};

/// The CPUs that `command`, which prints its own status, may use.
fn cpus_of(command: &mut Command) -> String {
    let output = command.arg("/proc/self/status").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let cpus = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cpus.unwrap().trim().to_owned()
}

/// The nice value of a child of `command`, a shell.
fn nice_of(command: &mut Command) -> String {
    let output = command.args(["-c", "nice"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_child_of_an_item_in_a_strict_queue_may_use_the_process_s_cpus() {
    let queue = coreshard::workqueue().unwrap().scope(Scope::Cpu).strict(true).build().unwrap();
    let item = || {
        let worker = coreshard_platform::affinity().unwrap();
        let plain = cpus_of(&mut Command::new("cat"));
        (worker, plain, cpus_of(Command::new("cat").inherit_from_process()))
    };
    let (worker, plain, restored) = queue.submit(item).unwrap().join().unwrap();
    assert_eq!((worker.len(), plain), (1, worker.to_string()));
    assert_eq!(restored, coreshard_platform::affinity().unwrap().to_string());
}

#[test]
fn a_child_of_an_item_of_high_priority_has_the_process_s_nice_value() {
    let queue = coreshard::workqueue().unwrap().priority(Priority::High).build().unwrap();
    let item = || {
        let plain = nice_of(&mut Command::new("sh"));
        (plain, nice_of(Command::new("sh").inherit_from_process()))
    };
    let (plain, restored) = queue.submit(item).unwrap().join().unwrap();
    if plain != "-20" {
        return skip(Lack::Root, "a worker may not have nice -20");
    }
    assert_eq!(restored, nice_of(&mut Command::new("sh")));
}
