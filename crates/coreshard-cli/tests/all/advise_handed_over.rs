//! What `coreshard advise --emit` prints is handed to whom it is for: tuned applies its profile to a recorded tree and takes it
//! back, and udev matches its rules with devices of this machine and finds the files that they write. Both in mount namespaces where
//! this machine's own files are read-only.
#![allow(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use coreshard_topology::Topology;
use testing::{Lack, skip};

#[allow(unreachable_pub, reason = "it is a module of other test programs, too")]
use crate::recordings::Recording;

/// What both kinds of lines are about: a scope, a parameter of the kernel's command line, a queue, and a device.
fn recording(device: &str) -> Recording {
    let machine = Topology::from_synthetic("pack:1 numa:1 l3:2 core:16 pu:1").unwrap();
    let recording = Recording::of(&machine);
    recording.kernel("7.1.3", "cache");
    recording
        .file("sys/module/workqueue/parameters/power_efficient", "Y")
        .file("sys/devices/virtual/workqueue/writeback/affinity_scope", "system")
        .file(&format!("sys/block/{device}/queue/rq_affinity"), "0")
        .file(&format!("sys/block/{device}/queue/rotational"), "0");
    // As where it is mounted, for whoever looks for these first.
    recording.file("sys/devices/system/cpu/possible", "0-31");
    recording
}

/// What is emitted, with what stands there as a comment to be considered as if it had been decided for.
fn emitted(recording: &Recording, form: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_coreshard"))
        .args(["advise", "--no-check", "--emit", form, "--machine"])
        .arg(recording.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("# consider: "), "{text}");
    text.replace("# consider: ", "")
}

fn is_there(program: &str) -> Option<PathBuf> {
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    places.iter().map(|place| Path::new(place).join(program)).find(|path| path.exists())
}

/// A shell of root's in a mount namespace of its own, in which nothing of this machine can be written: `$1` is a folder for
/// what the script makes.
fn in_a_namespace(script: &str, folder: &Path) -> Option<Output> {
    let covered = "set -e; for place in /run /etc/udev /etc/tuned /var/lib/tuned /boot; do \
                   if [ -d $place ]; then mount -t tmpfs none $place; fi; done; \
                   mount --bind /dev /dev; mount -o remount,ro,bind /dev; \
                   mount --bind \"$1\" \"$1\"; mount -o remount,ro,bind /; echo covered; ";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &format!("{covered}{script}"), "sh"])
        .arg(folder)
        .output();
    output.ok().filter(|output| output.stdout.starts_with(b"covered\n"))
}

#[test]
fn tuned_applies_its_profile_and_takes_it_back() {
    let Some(tuned) = is_there("tuned").filter(|_| Path::new("/etc/tuned").is_dir()) else {
        skip(Lack::Tuned, "a profile for tuned: /usr/sbin/tuned is not there (Debian: tuned)");
        return;
    };
    let recording = recording("vdz");
    let profile = emitted(&recording, "tuned");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tuned.conf"), &profile).unwrap();
    // tuned is given the recorded tree as /sys. It is asked to end when it has applied the profile, and takes it back then.
    let scope = "/sys/module/workqueue/parameters/default_affinity_scope";
    let script = format!(
        "cp -r {sys} \"$1/sys\"; cd \"$1\"; \
         mkdir -p /etc/tuned/coreshard; cp tuned.conf /etc/tuned/coreshard/; \
         echo 'daemon = 1' >/etc/tuned/tuned-main.conf; : >/etc/tuned/bootcmdline; \
         mkdir /run/tuned; mount --bind sys /sys; \
         show() {{ for file in {scope} /sys/devices/virtual/workqueue/writeback/affinity_scope \
           /sys/block/vdz/queue/rq_affinity; do cat $file; echo; done; cat /etc/tuned/bootcmdline; }}; \
         {tuned} --no-dbus --no-socket --profile coreshard --log=\"$1/log\" --pid=\"$1/pid\" >&2 & tuned=$!; \
         for turn in $(seq 300); do if grep -q 'static tuning.*applied' log 2>/dev/null; then break; fi; sleep 0.1; done; \
         show; kill -TERM $tuned; wait $tuned || true; echo and back; show; cat log >&2",
        sys = recording.path().join("sys").display(),
        tuned = tuned.display(),
    );
    let Some(output) = in_a_namespace(&script, folder.path()) else {
        skip(Lack::Root, "a profile for tuned: a mount namespace cannot be had");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let shown = String::from_utf8_lossy(&output.stdout);
    let (applied, back) =
        shown.split_once("and back\n").unwrap_or_else(|| panic!("{shown}\n{said}"));
    let words =
        |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let applied = words(applied);
    assert!(applied.starts_with("covered cache_shard default 1 "), "{applied}\n{profile}\n{said}");
    assert!(
        applied.contains("TUNED_BOOT_CMDLINE=\"workqueue.power_efficient=0\""),
        "{applied}\n{profile}\n{said}"
    );
    assert!(words(back).starts_with("cache system 0"), "{back}\n{said}");
    assert!(!said.contains("ERROR") && !said.contains("WARNING"), "{said}");
}

#[test]
fn udev_matches_its_rules_with_devices_and_finds_the_files() {
    let Some(udevadm) = is_there("udevadm") else {
        skip(Lack::Udev, "rules for udev: udevadm is not there (Debian: udev)");
        return;
    };
    // A device of this machine's, if there is one that the advice may be about.
    let names = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let made = ["loop", "ram", "zram", "dm-", "md", "nbd", "sr", "fd"];
    let device = names
        .filter(|name| !made.iter().any(|made| name.starts_with(made)))
        .find(|name| Path::new("/sys/block").join(name).join("queue/rq_affinity").exists());
    let recording = recording(device.as_deref().unwrap_or("vdz"));
    let rules = emitted(&recording, "udev");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("60-coreshard.rules"), &rules).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let test = |place: &str| {
        let script = format!(
            "mount --bind /sys /sys; mount -o remount,ro,bind /sys; mkdir -p /run/udev/rules.d; \
             cp \"$1/60-coreshard.rules\" /run/udev/rules.d/; \
             if {udevadm} verify --help >/dev/null 2>&1; then {udevadm} verify \"$1/60-coreshard.rules\"; fi; \
             {udevadm} test --action=add {place} 2>&1",
            udevadm = udevadm.display()
        );
        in_a_namespace(&script, folder.path())
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let queue = "/sys/devices/virtual/workqueue/writeback";
    let Some(said) = test(queue) else {
        skip(Lack::Root, "rules for udev: a mount namespace cannot be had");
        return;
    };
    // It says what it writes, and then that it may not.
    let writes = |said: &str, file: &str, value: &str| {
        said.lines().any(|line| {
            line.contains("60-coreshard.rules") && line.contains(file) && line.contains(value)
        })
    };
    assert!(writes(&said, "writeback/affinity_scope", "writing 'default'"), "{rules}\n{said}");
    assert!(!said.contains("60-coreshard.rules:1 Invalid"), "{rules}\n{said}");
    if let Some(device) = device {
        let said = test(&format!("/sys/block/{device}")).unwrap();
        let file = format!("{device}/queue/rq_affinity");
        assert!(writes(&said, &file, "writing '1'"), "{rules}\n{said}");
    } else {
        skip(Lack::Udev, "rules for udev: this machine has no block device of its own");
    }
}
