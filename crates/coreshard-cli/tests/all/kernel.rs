//! `coreshard kernel`: unusable input, and a kernel that is booted and recorded where one is to be had.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use coreshard_platform::ends_with_parent;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testing::{Lack, skip, wait_until};

/// Names the image to boot.
const IMAGE: &str = "CORESHARD_KERNEL_IMAGE";

fn coreshard(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("coreshard"));
    ends_with_parent(in_folder(&mut command, folder)).args(arguments).output().unwrap()
}

fn in_folder<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    command.current_dir(folder)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The image, if this machine can boot it.
fn image() -> Option<PathBuf> {
    let starts = |program: &str| Command::new(program).arg("--version").output().is_ok();
    match std::env::var_os(IMAGE) {
        None => skip(Lack::Kernel, format!("{IMAGE} names no kernel image")),
        Some(_) if !starts("qemu-system-x86_64") => {
            skip(Lack::Kernel, "qemu-system-x86_64 does not start");
        }
        Some(image) => return Some(PathBuf::from(image)),
    }
    None
}

/// The part of an image for x86-64 that is looked at.
fn image_head() -> Vec<u8> {
    let mut head = vec![0; 0x400];
    head[0x202..0x206].copy_from_slice(b"HdrS");
    head[0x236] = 1;
    head
}

#[test]
fn unusable_input_is_refused_with_what_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text"), "no kernel").unwrap();
    std::fs::write(folder.path().join("image"), image_head()).unwrap();
    let machine = ["--machine", "pack:1 l3:1 core:2 pu:1"];
    let with = |image: &'static str, more: &[&'static str]| {
        let first = ["kernel", "run", "--image", image];
        [&first[..], &machine, more].concat()
    };
    for (arguments, expected) in [
        (with("text", &["true"]), "no kernel image: expected a file such as /boot/vmlinuz-VERSION"),
        (with("absent", &["true"]), "absent"),
        (vec!["kernel", "run", "--image", "image", "true"], "expected --machine"),
        (
            vec!["kernel", "run", "--image", "image", "--machine", "xeon-hcc-2s", "true"],
            "has 480 CPUs; an emulated machine has at most 255",
        ),
        (with("image", &["--module", "null_blk", "true"]), "--modules"),
        (with("image", &["--module", "./text.ko", "true"]), "text.ko"),
        (with("image", &["./absent-program"]), "absent-program"),
    ] {
        let output = coreshard(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn a_file_without_debug_information_is_refused_before_the_boot() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text"), "int x;").unwrap();
    std::fs::write(folder.path().join("image"), image_head()).unwrap();
    for (file, expected) in [
        ("text", "coreshard: text: expected an ELF file with debug information, such as vmlinux\n"),
        ("nosuch", "coreshard: cannot read nosuch: No such file or directory (os error 2)\n"),
    ] {
        let machine = "pack:1 l3:1 core:2 pu:1";
        let arguments = ["kernel", "record", "--image", "image", "--machine", machine];
        let output =
            coreshard(folder.path(), &[&arguments[..], &["--debug-file", file, "true"]].concat());
        assert_eq!((output.status.code(), said(&output)), (Some(2), expected.to_owned()));
    }
}

/// An emulator that boots nothing: it says which process it is, and ignores SIGTERM.
const IDLE_EMULATOR: &str = "\
#!/bin/sh
case $1 in --version) echo 'QEMU emulator version 7.2.0'; exit;; --help) echo -plugin; exit;; esac
trap '' TERM INT
echo $$ >pid.new; mv pid.new pid
while :; do sleep 0.1; done
";

/// Starts a guest in an emulator that never ends; returns the command and the emulator's process.
fn endless_guest(folder: &Path, how: &str) -> (Child, PathBuf) {
    let emulator = folder.join("qemu-system-x86_64");
    std::fs::write(&emulator, IDLE_EMULATOR).unwrap();
    std::fs::set_permissions(&emulator, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.join("image"), image_head()).unwrap();
    std::fs::copy(assert_cmd::cargo::cargo_bin("coreshard"), folder.join("program")).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("coreshard"));
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let command = in_folder(&mut command, folder).env("PATH", path).stderr(Stdio::piped());
    let machine = ["--image", "image", "--machine", "pack:1 l3:1 core:2 pu:1", "./program"];
    let child = ends_with_parent(command.args(["kernel", how]).args(machine)).spawn().unwrap();
    let pid = folder.join("pid");
    wait_until("the emulator starts", || pid.exists());
    let pid = std::fs::read_to_string(pid).unwrap();
    (child, Path::new("/proc").join(pid.trim()).join("status"))
}

/// Whether the process with this status has ended, even if its new parent has not noticed.
fn has_ended(status: &Path) -> bool {
    std::fs::read_to_string(status).map_or(true, |text| text.contains("State:\tZ"))
}

#[test]
fn the_emulator_ends_with_the_command_whatever_ends_it() {
    for (how, signals, status) in [
        ("run", &[Signal::INT][..], Some(130)),
        ("record", &[Signal::TERM], Some(143)),
        ("run", &[Signal::TERM, Signal::TERM], Some(143)),
        ("record", &[Signal::KILL], None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, emulator) = endless_guest(folder.path(), how);
        for signal in signals {
            // It may have ended after the first.
            let _ = kill_process(Pid::from_child(&child), *signal);
        }
        assert_eq!(child.wait().unwrap().code(), status, "{how} {signals:?}");
        wait_until("the emulator ends", || has_ended(&emulator));
    }
}

#[test]
fn a_booted_kernel_runs_a_command_and_its_status_is_the_commands() {
    let Some(image) = image() else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = image.to_str().unwrap();
    let machine = "pack:2 numa:1 l3:1 core:2 pu:1";
    let program = "nproc; cat /sys/devices/system/node/node1/cpulist; exit 7";
    let arguments =
        ["kernel", "run", "--image", image, "--machine", machine, "--", "sh", "-c", program];
    let output = coreshard(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    let console = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(console.contains("4\n2-3\n"), "{console}");
    // A boot took more than 30 s on a machine with four times as much work as CPUs.
    let endless = ["--time-limit", "90", "--", "sleep", "1000"];
    let output = coreshard(folder.path(), &[&arguments[..6], &endless].concat());
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("did not end within 90 s"), "{}", said(&output));
}

#[test]
fn a_recorded_kernel_has_names_and_the_same_report_twice() {
    let Some(image) = image() else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = image.to_str().unwrap();
    let machine = ["--machine", "pack:1 l3:1 core:4 pu:1"];
    let program = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 0.1 & done; wait"];
    let record = ["kernel", "record", "-o", "k.trace", "--image", image];
    let output = coreshard(folder.path(), &[&record[..], &machine, &["--"], &program].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let replay = || {
        let machine = ["--machine", "epyc-9654-2s", "--lines", "60"];
        let arguments = [&["replay", "k.trace"][..], &machine, &["--json", "-"]].concat();
        let output = coreshard(folder.path(), &arguments);
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let report = replay();
    let objects: Vec<_> =
        report["lines"].as_array().unwrap().iter().map(|it| &it["object"]).collect();
    let is_unnamed =
        |object: &&&Value| object.as_str().is_some_and(|it| it.contains("unknown origin"));
    assert!(objects.len() >= 10, "{objects:?}");
    assert!(objects.iter().filter(is_unnamed).count() * 10 <= objects.len() * 3, "{objects:?}");
    assert!(objects.iter().any(|object| **object == "runqueues"), "{objects:?}");
    assert_eq!(report, replay());
}

/// Gives a queue the narrowest scope that is larger than a core, and makes it strict, so that each pool's workers may run on
/// its own CPUs alone. Prints the scope and those CPUs, and what `coreshard` reads in the guest.
const ASK: &str = r#"
cd /sys/devices/virtual/workqueue/writeback
scope=numa
for its in cache_shard cache; do
  [ -e affinity_scope ] || break
  echo $its > affinity_scope
  if [ "$(cat affinity_scope)" = $its ]; then scope=$its; break; fi
done 2>/dev/null
[ ! -e affinity_strict ] || echo 1 > affinity_strict
sleep 1
echo "scope $scope"
for task in /proc/[0-9]*; do
  case "$(cat $task/comm)" in kworker/u*) echo "pool $(grep Cpus_allowed_list $task/status)";; esac
done
echo "default $(cat /sys/module/workqueue/parameters/default_affinity_scope 2>/dev/null)"
coreshard topo --json /tmp/topo && echo "topo $(tr -d '\n' < /tmp/topo)"
coreshard advise --no-check --json /tmp/advise && echo "advise $(tr -d '\n' < /tmp/advise)"
"#;

/// Boots each machine, and compares the kernel's own pools and what `coreshard` reads in the guest with the description.
fn pools_are_those_of_topo(machines: &[&str]) {
    let Some(image) = image() else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = image.to_str().unwrap();
    let coreshard_here = assert_cmd::cargo::cargo_bin("coreshard");
    let program = ["--program", coreshard_here.to_str().unwrap(), "--", "sh", "-c", ASK];
    for machine in machines {
        let guest = ["kernel", "run", "--image", image, "--machine", machine];
        let output = coreshard(folder.path(), &[&guest[..], &program].concat());
        let console = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{machine}: {console}{}", said(&output));
        let told = |word: &str| {
            let lines = console.lines().filter_map(|line| line.strip_prefix(word));
            lines.map(|rest| rest.trim().to_owned()).collect::<Vec<_>>()
        };
        let json = |word: &str| serde_json::from_str::<Value>(&told(word)[0]).unwrap();
        let whole = coreshard(folder.path(), &["topo", "--machine", machine, "--json", "-"]);
        let whole: Value = serde_json::from_slice(&whole.stdout).unwrap();
        let booted = json("topo ");
        assert_eq!(
            booted["scopes"], whole["scopes"],
            "{machine}: the booted machine is another one"
        );
        let scope = &told("scope ")[0];
        let pods = whole["scopes"][scope]["pods"].as_array().unwrap();
        let ours: BTreeSet<_> =
            pods.iter().map(|pod| pod["cpus"].as_str().unwrap().to_owned()).collect();
        let pools = told("pool ").into_iter();
        let mut kernels: BTreeSet<_> =
            pools.map(|line| line.rsplit(char::is_whitespace).next().unwrap().to_owned()).collect();
        // Queues that are not strict.
        let all = whole["scopes"]["system"]["pods"][0]["cpus"].as_str().unwrap();
        if ours.len() > 1 {
            kernels.remove(all);
        }
        assert_eq!(kernels, ours, "{machine}: the pods of {scope}");
        let advice = json("advise ");
        let default = &told("default ")[0];
        assert!(
            default.is_empty() || advice.to_string().contains(default.as_str()),
            "{machine}: the default scope is {default}, and the advice says {advice}"
        );
        assert_eq!(advice["machine"]["cpus"], whole["cpus"], "{machine}: {advice}");
        assert_eq!(advice["machine"]["llcs"], whole["llcs"], "{machine}: {advice}");
    }
}

#[test]
fn sixteen_and_eleven_cores_have_the_kernels_pools() {
    pools_are_those_of_topo(&["pack:1 l3:1 core:16 pu:1", "pack:1 l3:1 core:11 pu:1"]);
}

#[test]
fn seventy_two_cores_have_the_kernels_pools() {
    pools_are_those_of_topo(&["pack:1 l3:1 core:72 pu:1"]);
}

#[test]
fn twelve_and_thirty_six_cores_have_the_kernels_pools() {
    pools_are_those_of_topo(&["pack:1 l3:1 core:12 pu:1", "pack:1 l3:1 core:36 pu:1"]);
}

#[test]
fn cores_with_two_threads_have_the_kernels_pools() {
    pools_are_those_of_topo(&["pack:1 l3:1 core:1 pu:2", "pack:1 l3:1 core:20 pu:2"]);
}

#[test]
fn several_caches_have_the_kernels_pools() {
    pools_are_those_of_topo(&["pack:1 l3:4 core:4 pu:1", "pack:1 l3:2 core:13 pu:2"]);
}

#[test]
fn two_packages_have_the_kernels_pools() {
    pools_are_those_of_topo(&["pack:2 numa:1 l3:1 core:8 pu:1", "pack:2 numa:1 l3:2 core:6 pu:1"]);
}

#[test]
fn two_packages_with_threads_have_the_kernels_pools() {
    pools_are_those_of_topo(&["pack:2 numa:1 l3:1 core:14 pu:2"]);
}
